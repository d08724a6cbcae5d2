"""An episode that is being played, and what may become of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

from actors.play.players import EndpointSeat, PolicySeat
from envs.episode import Episode, Ticket, Turn
from envs.game import Game, Player


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a ticket gave no episode: a short name that metrics count by."""

    reason: str
    tokens: int = field(default=0, compare=False)  # that the policy had sampled for it


class Ending(NamedTuple):
    """How a game ended, beside its outcome."""

    terminated: bool
    closing: dict[str, str]  # what each seat would see next
    facts: dict[str, str]
    money: dict[str, float]


class Returned(NamedTuple):
    """What became of a ticket."""

    ticket: Ticket
    result: Episode | Failure
    wasted: int = 0  # tokens of a snapshot that the episode could not go on from


class EpisodeFailed(Exception):
    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Live:
    serial: int  # of the admission; names the episode's requests
    ticket: Ticket
    game: Game
    players: dict[str, str]
    seats: dict[str, PolicySeat | EndpointSeat | Player]
    temperature: float
    started: float
    turns: list[Turn] = field(default_factory=list)
    latest: dict[str, Turn] = field(default_factory=dict)  # each seat's newest turn
    owed: dict[str, float] = field(default_factory=dict)  # rewards of seats that have not spoken yet
    spoken: dict[str, int] = field(default_factory=dict)  # turns of each seat
    observation: str = ""  # what the acting seat was just shown
    actions: tuple[str, ...] = ()
    asked: float = 0.0  # seconds from its start, as in Turn.times
    answered: float = 0.0
    tokens: int = 0  # sampled by the policy that is trained
    request: str | None = None  # the engine request it waits for; else it waits for work outside the engines
    kept: int = 0  # turns in its newest snapshot
    kept_at: float = field(default_factory=time.monotonic)
    wasted: int = 0  # tokens of a snapshot that it could not go on from

    @property
    def seconds(self) -> float:
        """That it has taken so far."""
        return time.monotonic() - self.started
