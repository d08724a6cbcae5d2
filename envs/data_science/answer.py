"""What an utterance says: the code of `build_model`, or why it is none.

Nothing runs here. Code that is no Python, or that does not define `build_model` at its top
level, is turned away without starting a sandbox.
"""

from __future__ import annotations

import ast
import re
import threading

LONGEST = 4000  # characters; 128 tokens of code are about 500
LONGEST_ERROR = 200

_FENCED = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_ENTRY = "build_model"
_PARSING = threading.Lock()  # until 3.11.8 Python adds up how deep the trees of all threads are, and then finds fault


class NoCode(Exception):
    """The message is what the coder is told."""


def code_of(utterance: str) -> str:
    """The code: that of the first fenced block which speaks of build_model, else the whole utterance."""
    if len(utterance) > LONGEST:
        raise NoCode(f"the reply is longer than {LONGEST} characters")
    blocks = [block for block in _FENCED.findall(utterance) if _ENTRY in block]
    code = (blocks[0] if blocks else utterance).strip()
    if not code:
        raise NoCode("the reply is empty")
    try:
        with _PARSING:
            tree = ast.parse(code)
    except SyntaxError as error:
        raise NoCode(f"{type(error).__name__}: {tidy(error.msg)} (line {error.lineno or 1})") from None
    except (ValueError, MemoryError, RecursionError):  # null bytes, lone surrogates; nested too deeply
        raise NoCode("SyntaxError: this cannot be read as Python") from None
    if not any(isinstance(node, ast.FunctionDef) and node.name == _ENTRY for node in tree.body):
        raise NoCode(f"the reply does not define {_ENTRY}(x_train, y_train)")
    return code


def tidy(text: str) -> str:
    """Error text as it is fed back: one short printable line, without this machine's paths and addresses."""
    text = re.sub(r" \((?:/[^()]*|unknown location)\)", "", text)
    text = re.sub(r"(?:/[^\s/'\"(),:]+)+/", "", text)
    text = re.sub(r"0x[0-9a-fA-F]{6,}", "0x", text)
    text = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 3] + "..."
