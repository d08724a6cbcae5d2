"""What an engine says about the weights it was sent. Light: the driver reads it too."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fault:
    """`tensor`, as its checkpoint names it, is not held as it arrived."""

    tensor: str
    what: str


@dataclass(slots=True)
class Receipt:
    version: int = -1
    arrived: dict[str, int] = field(default_factory=dict)  # name -> digest of the bytes that came
    faults: list[Fault] = field(default_factory=list)
