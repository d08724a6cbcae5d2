"""Rendered conversations back into messages, by the markers of the usual chat templates.

    "<|im_start|>user\nhow many legs?<|im_end|>\n<|im_start|>assistant\nfour<|im_end|>"
    -> [("user", "how many legs?"), ("assistant", "four")]

Where the special tokens were left out in decoding, the role stands on a line of its own
(`role_lines`). That is text that anybody may write, so it is only asked for where a framework says
that there are several turns. Of harmony's channels only `final` is said.
"""

from __future__ import annotations

import re

from reward_service.service.http.dialogue import ASSISTANT, USER, Message

HARMONY = re.compile(r"<\|start\|>(\w+)(?:(?<!assistant)[^<]*(?:<\|channel\|>[^<]*)?)?(?:<\|message\|>)?")  # gpt-oss
HEADS = [  # each begins a message and names its role
    re.compile(r"<\|im_start\|>(\w+)\n"),  # ChatML
    re.compile(r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\n*"),  # Llama 3
    re.compile(r"<start_of_turn>(\w+)\n"),  # Gemma
    re.compile(r"<\|(system|user|assistant)\|>\n?"),  # Phi, Zephyr
    re.compile(r"<\uff5c(User|Assistant)\uff5c>"),  # DeepSeek
    re.compile(r"\[(/?INST)\]"),  # Mistral, Llama 2
    re.compile(r"<\|start_of_role\|>(\w+)[^<]*<\|end_of_role\|>"),  # Granite
    HARMONY,
]
FINAL = re.compile(r"<\|channel\|>final\b[^\n]*?<\|message\|>")
END = re.compile(
    r"<\|im_end\|>|<\|eot_id\|>|<end_of_turn>|<\|end\|>|<\|endoftext\|>|<\|end_of_text\|>"
    r"|<\uff5cend\u2581of\u2581sentence\uff5c>|</s>|<eos>|<\|eos\|>|<\|return\|>|<\|call\|>"
)
ROLES = {"inst": USER, "/inst": ASSISTANT, "model": ASSISTANT, "human": USER, "gpt": ASSISTANT, "developer": "system"}
LINE = re.compile(r"^(user|assistant|model|tool|system)$\n?", re.MULTILINE)


def said(text: str, head: re.Pattern | None = None) -> str:
    """Up to the marker that ends it."""
    if head is HARMONY and "<|channel|>" in text:
        text = FINAL.split(text, maxsplit=1)[1] if FINAL.search(text) else ""
    return END.split(text, maxsplit=1)[0].strip()


def head_of(text: str) -> re.Pattern | None:
    """What messages begin with."""
    found = [head for head in HEADS if head.search(text)]
    return min(found, key=lambda each: each.search(text).start(), default=None)


def messages_of(text: str) -> list[Message]:
    """Empty if there are no markers. An opened answer, to be given yet, is not a message, nor are thoughts alone."""
    head = head_of(text)
    if head is None:
        return []
    messages = _cut(head, text)
    if head is HARMONY:
        return [message for message in messages if message != (ASSISTANT, "")]
    return messages[:-1] if messages[-1] == (ASSISTANT, "") else messages


def role_lines(text: str) -> list[Message]:
    """What an assistant said, answered by others under their roles, and so on."""
    return _cut(LINE, f"{ASSISTANT}\n{text}")


def _cut(head: re.Pattern, text: str) -> list[Message]:
    heads = list(head.finditer(text))
    ends = [each.start() for each in heads[1:]] + [len(text)]
    return [
        (ROLES.get(one.group(1).lower(), one.group(1).lower()), said(text[one.end() : end], head))
        for one, end in zip(heads, ends, strict=True)
    ]
