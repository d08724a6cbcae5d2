"""Rendered conversations back into messages, by the markers of the usual chat templates.

    "<|im_start|>user\nhow many legs?<|im_end|>\n<|im_start|>assistant\nfour<|im_end|>"
    -> [("user", "how many legs?"), ("assistant", "four")]

Where the special tokens were left out in decoding, the role stands on a line of its own
(`role_lines`). That is text that anybody may write, so it is only asked for where a framework says
that there are several turns.
"""

from __future__ import annotations

import re

from reward_service.service.http.dialogue import ASSISTANT, USER, Message

HEADS = [  # each begins a message and names its role
    re.compile(r"<\|im_start\|>(\w+)\n"),  # ChatML
    re.compile(r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\n*"),  # Llama 3
    re.compile(r"<start_of_turn>(\w+)\n"),  # Gemma
    re.compile(r"<\|(system|user|assistant)\|>\n?"),  # Phi, Zephyr
    re.compile(r"<\uff5c(User|Assistant)\uff5c>"),  # DeepSeek
    re.compile(r"\[(/?INST)\]"),  # Mistral, Llama 2
]
END = re.compile(
    r"<\|im_end\|>|<\|eot_id\|>|<end_of_turn>|<\|end\|>|<\|endoftext\|>|<\|end_of_text\|>"
    r"|<\uff5cend\u2581of\u2581sentence\uff5c>|</s>|<eos>|<\|eos\|>"
)
ROLES = {"inst": USER, "/inst": ASSISTANT, "model": ASSISTANT, "human": USER, "gpt": ASSISTANT}
LINE = re.compile(r"^(user|assistant|tool|system)$\n?", re.MULTILINE)


def said(text: str) -> str:
    """Up to the marker that ends it."""
    return END.split(text, maxsplit=1)[0].strip()


def messages_of(text: str) -> list[Message]:
    """Empty if there are no markers. An opened answer, to be given yet, is not a message."""
    found = [head for head in HEADS if head.search(text)]
    if not found:
        return []
    head = min(found, key=lambda each: each.search(text).start())
    messages = _cut(head, text)
    return messages[:-1] if messages[-1] == (ASSISTANT, "") else messages


def role_lines(text: str) -> list[Message]:
    """What an assistant said, answered by others under their roles, and so on."""
    return _cut(LINE, f"{ASSISTANT}\n{text}")


def _cut(head: re.Pattern, text: str) -> list[Message]:
    heads = list(head.finditer(text))
    ends = [each.start() for each in heads[1:]] + [len(text)]
    return [
        (ROLES.get(one.group(1).lower(), one.group(1).lower()), said(text[one.end() : end]))
        for one, end in zip(heads, ends, strict=True)
    ]
