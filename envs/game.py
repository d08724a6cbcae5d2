"""The contract of a game: plain Python, no arrays, no actors.

    game.reset(seed)                      # fixes everything that follows
    while game.seat is not None:          # whose turn it is
        seen = game.observe()             # what is new to that seat since it last spoke
        step = game.step(utterance)       # any text at all; never raises
    game.outcome()                        # per seat, in [0, 1]

A turn-based game for one or many seats, with or without listed actions, with private
observations: `observe` speaks to the acting seat only. A horizon reached is
`truncated`, not `terminated`: the learner bootstraps it.

A game class takes its options as keyword arguments, refuses bad ones with one line
(ValueError: "game option turns=0 must be ..."), and has class methods

    players() -> dict[str, type[Player]]   # scripted players by name, each fit for every seat;
                                           # "mediocre" is the one that a policy is cloned from
    trials() -> list[Trial]                # how it is evaluated; optional, see `envs.registry`

A class with `slow = True` (its `step` runs code or asks a server) is stepped in a thread,
so that other games go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(slots=True)
class Step:
    """What an utterance did."""

    rewards: dict[str, float] = field(default_factory=dict)  # seats left out get 0
    executable: bool = True  # False: the game could not make sense of it
    terminated: bool = False  # the game reached its own end
    truncated: bool = False  # it was cut off by the horizon
    caption: str = ""  # what just happened, in words


@dataclass(frozen=True, slots=True)
class Trial:
    """One line of a game's evaluation: so many episodes with these options and players.
    Seats that `players` leaves out are played by whoever is evaluated."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    players: dict[str, str] = field(default_factory=dict)  # seat -> e.g. "scripted:random"
    episodes: int = 200


@runtime_checkable
class Game(Protocol):
    name: str
    seats: tuple[str, ...]
    horizon: int  # most turns in one episode, all seats together

    def reset(self, seed: int) -> None: ...

    @property
    def seat(self) -> str | None:
        """Who acts now; None once the game is over."""

    def briefing(self, seat: str) -> str:
        """The rules as this seat is told them; becomes its system prompt. May be empty."""

    def observe(self) -> str:
        """What is new to the acting seat since its last turn."""

    def actions(self) -> tuple[str, ...]:
        """The actions listed for the acting seat now; empty where speech is free."""

    def step(self, utterance: str) -> Step: ...

    def outcome(self) -> dict[str, float]:
        """Result per seat in [0, 1]; 0 for all until the game is over."""

    def closing(self) -> dict[str, str]:
        """After the end: what each seat would have seen next (may be empty)."""

    def facts(self) -> dict[str, str]:
        """After the end: what may now be revealed, e.g. the secret object. A fact called
        `money_SEAT` is a number, what that seat earned."""

    def save(self) -> dict[str, Any]:
        """The episode as it stands, as plain JSON values: text, numbers, lists, dicts with
        text keys. Nothing that all episodes share, such as tables, is in it."""

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from `save()` of a game with the same options, exactly as that one would."""

    def language(self) -> Iterable[str]:
        """Sentences that together hold every word this game's texts can contain.
        The embedded policy makes its tokenizer of them."""


class Player(Protocol):
    """A scripted player: it sees what its seat sees, and nothing else. It is made with the
    game's own options as keyword arguments."""

    def reset(self, seed: int) -> None: ...

    def reply(self, observation: str, actions: tuple[str, ...]) -> str: ...
