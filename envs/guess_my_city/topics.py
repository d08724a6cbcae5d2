"""What can be asked about a city, and the sentences that answer. Read from `speech.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

SPEECH = Path(__file__).parent / "speech.toml"


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that can be asked; `speech.toml` says what each field is for."""

    name: str
    kind: str  # "list", "flag" or "number"
    yes: str
    no: str
    ask: str
    cues: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    presets: dict[str, str] = field(default_factory=dict)
    open: str = ""
    none: str = ""
    some: str = ""
    without: str = ""
    has: str = ""
    exists: bool = False  # "has it a nickname?" asks which one
    which: str = ""
    bands: tuple[tuple[float, str], ...] = ()  # (below this value, words for it), ascending
    thresholds: tuple[int, ...] = ()
    more: str = ""
    less: str = ""
    within: str = ""
    beyond: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an utterance asks. An open question has neither value nor bounds; a flag's value is
    "yes" or "no", and so is a list's in "has it any?"; bounds are exclusive. The topics "guess"
    (value: the key of the city) and "name" (a question about the name) are not in `speech.toml`."""

    topic: str
    value: str | None = None
    low: float | None = None
    high: float | None = None
    loose: bool = False  # asked in other words than the players': what people would say counts, not the tables alone

    @property
    def open(self) -> bool:
        return self.value is None and self.low is None and self.high is None

    def __str__(self) -> str:
        if self.value is not None:
            return f"{self.topic}={self.value}"
        if self.low is not None and self.high is not None:
            return f"{self.topic}:{self.low:.0f}-{self.high:.0f}"
        if self.low is not None:
            return f"{self.topic}>{self.low:.0f}"
        if self.high is not None:
            return f"{self.topic}<{self.high:.0f}"
        return self.topic if self.topic == "name" else f"{self.topic}?"


def preset_meaning(topic: str, ask: str) -> Meaning:
    """ ">3000000" and "<500" are bounds, anything else is a value."""
    if ask[0] == ">":
        return Meaning(topic, low=float(ask[1:]))
    if ask[0] == "<":
        return Meaning(topic, high=float(ask[1:]))
    return Meaning(topic, value=ask)


@lru_cache(maxsize=1)
def topics() -> dict[str, Topic]:
    """All topics by name, in the order of the file: where two fit a question equally, the first is meant."""
    read = {}
    for name, entry in tomllib.loads(SPEECH.read_text(encoding="utf-8")).items():
        listed = {key: tuple(map(tuple, value)) if key == "bands" else value for key, value in entry.items()}
        read[name] = Topic(
            name, **{key: tuple(value) if isinstance(value, list) else value for key, value in listed.items()}
        )
    return read
