"""An episode that is being played, and what may become of it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from actors.play.players import EndpointSeat, PolicySeat
from envs.episode import Episode, Ticket, Turn
from envs.game import Game, Player, hook, money_of
from envs.well_formed import good_texts, told

log = logging.getLogger("parley.play")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a ticket gave no episode: a short name that metrics count by."""

    reason: str
    tokens: int = field(default=0, compare=False)  # that the policy had sampled for it
    what: str = field(default="", compare=False)  # was raised, and where, for people to read


class Ending(NamedTuple):
    """How a game ended, beside its outcome."""

    terminated: bool
    closing: dict[str, str]  # what each seat would see next
    facts: dict[str, str]
    money: dict[str, float]
    answers: dict[str, str] = {}  # what each seat would have said, had it known


class Returned(NamedTuple):
    """What became of a ticket."""

    ticket: Ticket
    result: Episode | Failure
    wasted: int = 0  # tokens of a snapshot that the episode could not go on from


class EpisodeFailed(Exception):
    def __init__(self, reason: str, what: BaseException | str = ""):
        super().__init__(reason)
        self.reason, self.what = reason, what if isinstance(what, str) else told(what)

    def result(self, tokens: int = 0) -> Failure:
        return Failure(self.reason, tokens, self.what)


class FailingAs:
    """Whatever a game or a player raises becomes the episode's failure; the log keeps the traceback."""

    __slots__ = ("bare", "reason", "ticket")

    def __init__(self, reason: str, ticket: Ticket, bare: bool = False):
        self.reason, self.ticket, self.bare = reason, ticket, bare

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception | SystemExit):  # a game's exit is the game's end, not the worker's
            ticket = self.ticket
            log.exception("episode %d (%s, seed %d) failed", ticket.number, ticket.game, ticket.seed)
            raise EpisodeFailed(self.reason if self.bare else f"{self.reason}:{kind.__name__}", error) from error


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
    scored: dict[str, Turn] = field(default_factory=dict)  # of a game that is over: request -> the turn it is about
    episode: Episode | None = None  # once the game is over
    kept: int = 0  # turns in its newest snapshot
    kept_at: float = field(default_factory=time.monotonic)
    wasted: int = 0  # tokens of a snapshot that it could not go on from

    @property
    def seconds(self) -> float:
        """That it has taken so far."""
        return time.monotonic() - self.started


def ending_of(game: Game, terminated: bool, answers: bool) -> Ending:
    """Of a game that is over."""
    found = dict(hook(game, "answers")()) if answers else {}
    for seat, answer in found.items():
        if seat not in game.seats or not isinstance(answer, str):
            raise ValueError(f"game {game.name!r}: answers has {seat!r}: {answer!r}, not a seat and what it would say")
    return Ending(terminated, good_texts(game, "closing"), good_texts(game, "facts"), money_of(game), found)


def closing_ids(live: Live, closing: dict[str, str]) -> dict[str, np.ndarray]:
    """Of policy seats. A value is read after these if the game was cut off."""
    seats = {name: live.seats[name] for name in closing if isinstance(live.seats[name], PolicySeat)}
    return {name: np.asarray(seat.would_see(closing[name]), np.int32) for name, seat in seats.items() if seat.prompt}


def experts_of(live: Live) -> dict[str, np.ndarray]:
    """Of policy seats whose engine records them."""
    seats = {name: seat for name, seat in live.seats.items() if isinstance(seat, PolicySeat)}
    return {name: np.concatenate(seat.recorded) for name, seat in seats.items() if seat.recorded}
