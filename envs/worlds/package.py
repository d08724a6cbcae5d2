"""The package of a world: imported when a game is made, or one line that says how to get it.

    spiel = package("pyspiel", "open_spiel")

What a world answers is made fit for an episode here too: text is text, and a number is finite. A world that answers
anything else has failed, and so has its episode: a counted reason, not a score.
"""

from __future__ import annotations

import math
import re
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from types import ModuleType
from typing import Any

WAYS = "make setup WORLDS=1, or pip install -e '.[worlds]' in Parley's folder"
LONGEST = 8000  # characters of one answer of a world
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class MissingPackage(ValueError):
    """A world's package is not installed, or cannot be imported."""


def package(module: str, name: str = "") -> ModuleType:
    """`name`: of what is to be installed, where it is not the module's."""
    top = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:  # the package, or one that it needs itself
        lacking = (missing.name or top).partition(".")[0]
        raise MissingPackage(f"{name or top if lacking == top else lacking} is not installed: {WAYS}") from None
    except (ImportError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise MissingPackage(f"{name or top} cannot be imported: {type(error).__name__}: {reason}") from error


def present(module: str, ways: str = WAYS) -> None:
    """The same without importing it: for what only a process of its own imports. `ways`: to get it."""
    if find_spec(module) is None:
        raise MissingPackage(f"{module} is not installed: {ways}")


def text_of(answer: Any, longest: int = LONGEST) -> str:
    """Lines without control characters, cut where they are too long."""
    if not isinstance(answer, str):
        raise TypeError(f"a world answered with {type(answer).__name__}, not with text: {str(answer)[:80]!r}")
    text = _CONTROL.sub("\ufffd", answer.replace("\r\n", "\n").replace("\r", "\n"))
    return text if len(text) <= longest else f"{text[:longest]} ... (cut)"


def number_of(answer: Any) -> float:
    if isinstance(answer, bool) or not isinstance(answer, Real) or not math.isfinite(answer):
        raise ValueError(f"a world paid {answer!r}, which is no finite number")
    return float(answer)
