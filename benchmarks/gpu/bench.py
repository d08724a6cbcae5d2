"""What a check is, and what it says while it runs. Needs Python alone.

A check is a function `check(bench)` of the module `benchmarks.gpu.NAME`. It runs in a process of
its own and says one line at a time, which is in the report from that moment on, whatever becomes of
the process:

    ok            something that was looked at, and holds
    FAIL          something that was looked at, and does not
    figure        a number that nothing is asked of
    not checked   what could not be looked at here, and why
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

OK, FAIL, FIGURE, NOT_CHECKED = "ok", "FAIL", "figure", "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """`seconds` is the longest it may take. With `card` there is nothing of it to be checked on a CPU."""

    name: str
    proves: str
    packages: tuple[str, ...]  # as they are imported
    seconds: float
    card: bool = False
    function: str = ""  # module:function, if it is another than that of its name

    @property
    def where(self) -> str:
        return self.function or f"benchmarks.gpu.{self.name}:check"


@dataclass(frozen=True, slots=True)
class Line:
    status: str
    what: str
    found: str = ""


class NotHere(Exception):
    """A part of a check cannot be made on this machine; the message says why."""


class Bench:
    """Given to a check: the device to look at, and how to say what was found. On a CPU sizes are
    small: there the checks themselves are tried, not the machine."""

    def __init__(self, device: str, lines: Path):
        self.device, self.lines = device, lines

    @property
    def folder(self) -> Path:
        """For what the check writes; it goes with the check."""
        return self.lines.parent

    @property
    def on_card(self) -> bool:
        return self.device == "cuda"

    def say(self, status: str, what: str, found: str = "") -> None:
        with self.lines.open("a") as file:
            file.write(json.dumps(asdict(Line(status, what, found))) + "\n")

    def judge(self, holds: Any, what: str, found: str = "") -> None:
        self.say(OK if holds else FAIL, what, found)

    def within(self, what: str, found: float, limit: float, least: bool = False) -> None:
        """`found` is at most `limit`, or at least with `least`. What is not a number never is."""
        self.all_within(what, {"": (found, limit)}, least)

    def all_within(self, what: str, found: dict[str, tuple[float, float]], least: bool = False) -> None:
        """Several figures of one thing, each with its limit."""
        holds = all(value >= limit if least else value <= limit for value, limit in found.values())
        word = "least" if least else "limit"
        parts = (f"{name} {value:.3g} ({word} {limit:g})".strip() for name, (value, limit) in found.items())
        self.judge(holds, what, ", ".join(parts))

    def figure(self, what: str, found: str) -> None:
        self.say(FIGURE, what, found)

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """If it breaks, that is a line, and the check goes on with its next part."""
        try:
            yield
        except NotHere as reason:
            self.say(NOT_CHECKED, what, str(reason))
        except Exception as error:
            traceback.print_exc()  # for the log of the check
            first = (str(error).strip().splitlines() or [""])[0]
            self.say(FAIL, what, f"{type(error).__name__}: {first}"[:400])


def read(lines: Path) -> list[Line]:
    """What has been said so far; a last line that was cut short is left out."""
    if not lines.is_file():
        return []
    return [Line(**json.loads(line)) for line in lines.read_text().splitlines(keepends=True) if line.endswith("\n")]
