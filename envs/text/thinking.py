"""What of a language model's text is said. What it thought before it spoke is nobody else's.

    <think>maybe a cat</think> Is it a cat?     said is what follows the last closing tag
    maybe a cat</think> Is it a cat?            the chat template had opened it
    <think>maybe a cat, or                      cut off while it thought: nothing is said
    Is it a cat? <think>then I could            what comes before an opening tag is said

No tag is left, so what is said is the same when it is asked for again. A text without tags is said as it is.
"""

from __future__ import annotations

import re

TAG = re.compile(r"(?i:< {0,2}(?P<end>/?) {0,2}think(?:ing)? {0,2}>)|\[(?P<End>/?)THINK\]")


def spoken(text: str) -> str:
    if "<" not in text and "[" not in text:
        return text
    tags = list(TAG.finditer(text))
    if not tags:
        return text
    closing = [place for place, tag in enumerate(tags) if _closes(tag)]
    after = closing[-1] + 1 if closing else 0
    start = tags[after - 1].end() if closing else 0
    end = tags[after].start() if after < len(tags) else len(text)
    return text[start:end].strip() or ("" if _closes(tags[0]) else text[: tags[0].start()].strip())


def _closes(tag: re.Match) -> bool:
    return bool(tag["end"] or tag["End"])
