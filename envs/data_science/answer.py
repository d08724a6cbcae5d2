"""What an utterance says: the code of `build_model`, or why it is none.

Nothing runs here. Code that is no Python, or that does not define `build_model` at its top
level, is turned away without starting a sandbox.
"""

from __future__ import annotations

import ast
import re
import threading

LONGEST = 4000  # characters; 128 tokens of code are about 500

_FENCED = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_TAGGED = re.compile(r"<(answer|code|python)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_ENTRY = "build_model"
_PARSING = threading.Lock()  # until 3.11.8 Python adds up how deep the trees of all threads are, and then finds fault


class NoCode(Exception):
    """The message is what the coder is told."""


def code_of(utterance: str) -> str:
    """The code: that of the first block, fenced or between tags, which speaks of build_model, else the utterance."""
    if len(utterance) > LONGEST:
        raise NoCode(f"the reply is longer than {LONGEST} characters")
    found = [*_FENCED.findall(utterance), *(code for _, code in _TAGGED.findall(utterance))]
    blocks = [block for block in found if _ENTRY in block]
    code = (blocks[0] if blocks else utterance).strip()
    if not code:
        raise NoCode("the reply is empty")
    try:
        with _PARSING:
            tree = ast.parse(code)
    except SyntaxError as error:
        raise NoCode(_said(error)) from None
    except (ValueError, MemoryError, RecursionError):  # null bytes, lone surrogates; nested too deeply
        raise NoCode("SyntaxError: this cannot be read as Python") from None
    if not any(isinstance(node, ast.FunctionDef) and node.name == _ENTRY for node in tree.body):
        raise NoCode(f"the reply does not define {_ENTRY}(x_train, y_train)")
    return code


def _said(error: SyntaxError) -> str:
    """What the parser says, unless it quotes a word or an odd character of the program."""
    message = error.msg if error.msg.isascii() and not re.search(r"'[^']*\w[^']*'", error.msg) else ""
    return f"{type(error).__name__}{': ' if message else ''}{message} (line {error.lineno or 1})"
