"""The contract of a game: plain Python, no arrays, no actors.

    game.reset(seed)                      # fixes everything that follows
    while game.seat is not None:          # whose turn it is
        seen = game.observe()             # what is new to that seat since it last spoke
        step = game.step(utterance)       # any text at all; never raises
    game.outcome()                        # per seat, in [0, 1]

A turn-based game for one or many seats, with or without listed actions, with private
observations: `observe` speaks to the acting seat only. A horizon reached is
`truncated`, not `terminated`: the learner bootstraps it.

An utterance may be all that a language model wrote. What it thought before it spoke
(`envs.text.thinking`) stays with it: `step` of a subclass is given the rest, whoever calls
it, so no game reads thoughts and no other seat is shown them (but see `hears_thoughts`).

`Game` is a base class. A subclass has to say `seats`, `reset`, `observe` and `step`; everything else
has a default. A class that does not derive from it is a game too, if it has all members above the
line "optional hooks"; nothing checks by isinstance, and `hook` supplies the hooks that it lacks. It is
given utterances as they are, thoughts included.

A game class takes its options as keyword arguments, and refuses bad ones with one line
(ValueError: "game option turns=0 must be ...").
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Any, Protocol

from envs.coroutines import finish
from envs.practice import AnyAction, texts_of_practice
from envs.step import Step, good_rewards
from envs.text.thinking import spoken

OVER = "the game is over (or was never reset): no seat may act"


@dataclass(frozen=True, slots=True)
class Trial:
    """One line of a game's evaluation: so many episodes with these options and players.
    Seats that `players` leaves out are played by whoever is evaluated."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    players: dict[str, str] = field(default_factory=dict)  # seat -> e.g. "scripted:random"
    episodes: int = 200


class Player(Protocol):
    """A scripted player: it sees what its seat sees, and nothing else. It is made with the
    game's own options as keyword arguments."""

    def reset(self, seed: int) -> None: ...

    def reply(self, observation: str, actions: tuple[str, ...]) -> str: ...


@dataclass(slots=True)
class Record:
    """What the defaults of `Game` know of the episode."""

    seed: int | None = None  # None: never reset
    said: list[str] = field(default_factory=list)
    paid: dict[str, float] = field(default_factory=dict)  # in all, by seat
    over: bool = False
    inside: bool = False  # within `reset` or `step` of the subclass; a call of super() counts no turn


class NameOfClass:
    """HotCold -> "hot_cold"."""

    def __get__(self, game: Game | None, made_by: type[Game]) -> str:
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", made_by.__name__).lower()


class Game(ABC):
    """The base class of games. The defaults of `seat`, `outcome`, `save` and `restore` work on a record of the
    episode: `reset` and `step` of a subclass that uses any of them are wrapped so that they write it."""

    name: str = NameOfClass()  # under which it is registered
    seats: tuple[str, ...]
    horizon: int = 100  # most turns in one episode, all seats together

    __record = Record()
    __made_with: tuple[tuple, dict[str, Any]] = ((), {})

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if any(getattr(cls, each) is getattr(Game, each) for each in ("seat", "outcome", "save", "restore")):
            cls.__wrap("reset", Game.__recorded_reset)
            cls.__wrap("step", Game.__recorded_step)
        if cls.language is Game.language:
            cls.__wrap("__init__", Game.__recorded_options)
        cls.__wrap("step", Game.__spoken_step, "hears_what_is_spoken")

    @classmethod
    def __wrap(cls, method: str, wrapper: Callable, mark: str = "records_game") -> None:
        plain = getattr(cls, method)
        if not (hasattr(plain, mark) or hasattr(plain, "__isabstractmethod__") or plain is object.__init__):
            wrapped = wraps(plain)(wrapper(plain))
            setattr(wrapped, mark, True)
            setattr(cls, method, wrapped)

    @staticmethod
    def __spoken_step(plain: Callable) -> Callable:
        def step(self: Game, utterance: str) -> Step:
            return plain(self, utterance if self.hears_thoughts else spoken(utterance))

        async def step_coroutine(self: Game, utterance: str) -> Step:
            return await plain(self, utterance if self.hears_thoughts else spoken(utterance))

        return step_coroutine if iscoroutinefunction(plain) else step

    @staticmethod
    def __recorded_options(plain: Callable) -> Callable:
        def init(self: Game, *given: Any, **options: Any) -> None:
            if "_Game__made_with" not in vars(self):  # else a call of super()
                self.__made_with = given, options
            plain(self, *given, **options)

        return init

    @staticmethod
    def __recorded_reset(plain: Callable) -> Callable:
        @contextmanager
        def beginning(self: Game, seed: int) -> Iterator[None]:
            self.__record = Record(seed, inside=True)
            try:
                yield
            except BaseException:
                self.__record = Record()  # no seat may act if the beginning fails
                raise
            self.__record.inside = False

        def reset(self: Game, seed: int) -> None:
            if self.__record.inside:
                plain(self, seed)
                return
            with beginning(self, seed):
                plain(self, seed)

        async def reset_coroutine(self: Game, seed: int) -> None:
            if self.__record.inside:
                await plain(self, seed)
                return
            with beginning(self, seed):
                await plain(self, seed)

        return reset_coroutine if iscoroutinefunction(plain) else reset

    @staticmethod
    def __recorded_step(plain: Callable) -> Callable:
        def step(self: Game, utterance: str) -> Step:
            if self.__record.inside:
                return plain(self, utterance)
            record = self.__acting()
            try:
                found = plain(self, utterance)
            finally:
                record.inside = False
            return self.__written(record, utterance, found)

        async def step_coroutine(self: Game, utterance: str) -> Step:
            if self.__record.inside:
                return await plain(self, utterance)
            record = self.__acting()
            try:
                found = await plain(self, utterance)
            finally:
                record.inside = False
            return self.__written(record, utterance, found)

        return step_coroutine if iscoroutinefunction(plain) else step

    def __acting(self) -> Record:
        record = self.__record
        if record.seed is None or self.seat is None:
            raise RuntimeError(OVER)
        record.inside = True
        return record

    def __written(self, record: Record, utterance: str, found: Step) -> Step:
        if not isinstance(found, Step):
            raise TypeError(f"{type(self).__name__}.step has to return a Step, not {found!r}")
        good_rewards(type(self).__name__, self.seats, found.rewards)
        record.said.append(utterance)
        for seat, reward in found.rewards.items():
            record.paid[seat] = record.paid.get(seat, 0.0) + reward
        if type(self).seat is Game.seat and len(record.said) >= self.horizon and not found.terminated:
            found = replace(found, truncated=True)  # what was returned may be a constant of the game's
        record.over = found.terminated or found.truncated
        return found

    # what a game has to say

    @abstractmethod
    def reset(self, seed: int) -> None:
        """Begin the episode that this seed fixes, whatever was going on before."""

    @abstractmethod
    def observe(self) -> str:
        """What is new to the acting seat since its last turn. Asking changes nothing."""

    @abstractmethod
    def step(self, utterance: str) -> Step:
        """Take what the acting seat says: any text at all, without what a model thought before."""

    # what it may say

    @property
    def seat(self) -> str | None:
        """Who acts now; None once the game is over. By default the seats take turns until a Step is terminated or
        truncated, and the turn that reaches the horizon is truncated. A game that keeps it as an attribute of its own
        declares `seat = None` in its class."""
        record = self.__record
        return None if record.seed is None or record.over else self.seats[len(record.said) % len(self.seats)]

    def briefing(self, seat: str) -> str:
        """The rules as this seat is told them; becomes its system prompt. May be empty."""
        return ""

    def actions(self) -> tuple[str, ...]:
        """The actions listed for the acting seat now; empty where speech is free."""
        return ()

    def outcome(self) -> dict[str, float]:
        """Result per seat in [0, 1]; 0 for all until the game is over. By default all that a seat was paid,
        clipped."""
        paid = self.__record.paid if self.seat is None else {}
        return {seat: float(min(1.0, max(0.0, paid.get(seat, 0.0)))) for seat in self.seats}

    def closing(self) -> dict[str, str]:
        """After the end: what each seat would have seen next (may be empty)."""
        return {}

    def facts(self) -> dict[str, str]:
        """After the end: what may now be revealed, e.g. the secret object."""
        return {}

    def save(self) -> dict[str, Any]:
        """The episode as it stands, as plain JSON values: text, numbers, lists, dicts with
        text keys. Nothing that all episodes share, such as tables, is in it. By default the seed and the
        utterances so far, for a seed fixes everything."""
        return {"seed": self.__record.seed, "said": list(self.__record.said)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from `save()` of a game with the same options, exactly as that one would. By default the episode
        is played again."""
        self.__record = Record()
        if saved["seed"] is not None:
            finish(self.reset(saved["seed"]))
            for utterance in saved["said"]:
                finish(self.step(utterance))

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        """Scripted players by name, each fit for every seat; "mediocre" is the one that a policy is cloned from.
        By default any listed action, and no player in a game that lists none."""
        return {} if cls.actions is Game.actions else {"mediocre": AnyAction, "random": AnyAction}

    def language(self) -> Iterable[str]:
        """Sentences that together hold every word this game's texts can contain. The embedded policy makes its
        tokenizer of them. By default what is seen and said in scripted games, whose seeds are below zero."""
        given, named = self.__made_with
        options = {**dict(zip(signature(type(self)).parameters, given, strict=False)), **named}
        return texts_of_practice(type(self), options)

    # optional hooks

    slow: bool = False
    """Whether `step` runs code or asks a server. A slow game works in a thread, so that other games go on; where
    `step` or `reset` is a coroutine (`async def`), it waits without one, and so do thousands of its kind."""

    at_once: int | None = None
    """How many episodes of it one worker can play at the same time; further ones wait. None: any number."""

    hears_thoughts: bool = False
    """Whether `step` is given what a model thought before it spoke, too. No other seat may be shown it."""

    open_vocabulary: bool = False
    """Whether what is seen may hold words that `language` does not list. The embedded policy reads them as one unknown
    word, and is not taught what a scripted player says with one of them."""

    observations: str = "text"
    """What intentions are made of what a seat hears: "text", "labels" (yes, no or neither), or "none"."""

    helpful: Callable[[str], float] | None = None
    """`helpful(caption)`, the game's own annotator for `reward.shaper=oni`: from 0 to 1, how far what a
    `Step.caption` tells brings whoever did it nearer to the goal. It may use the game's options and nothing of the
    episode. None: a language model has to be asked."""

    def answers(self) -> dict[str, str]:
        """After the end: what each seat that had something to find out would have said at once, had it known."""
        return {}

    def money(self, seat: str) -> float | None:
        """After the end: what this seat earned, in a game about money; else None."""
        return None

    @classmethod
    def gist(cls, utterance: str) -> str:
        """The part of an utterance that is embedded, e.g. an offer reduced to "message + offer"."""
        return utterance

    @classmethod
    def amounts(cls, utterance: str) -> dict[str, float]:
        """The quantities that an utterance names, scaled to about [-1, 1], e.g. the share that one claims."""
        return {}

    @classmethod
    def trials(cls) -> list[Trial]:
        """How the game is evaluated by `parley evaluate RUN --trials`; by default 200 episodes with its defaults."""
        return [Trial(cls.name)]


def hook(game: Any, name: str) -> Any:
    """An optional hook of a game, or of a game class: its own, or else the default that `Game` has."""
    if hasattr(game, name):
        return getattr(game, name)
    default, of_class = vars(Game)[name], isinstance(game, type)
    bind = getattr(type(default), "__get__", None)
    return bind(default, None if of_class else game, game if of_class else type(game)) if bind else default


def money_of(game: Any) -> dict[str, float]:
    """What each seat of a game that is over earned; nothing where it is not about money."""
    found = {seat: hook(game, "money")(seat) for seat in game.seats}
    return {seat: float(amount) for seat, amount in found.items() if amount is not None}


def at_once_of(game: Any) -> int | None:
    """How many episodes of it one worker may play at the same time."""
    most = hook(game, "at_once")
    if most is not None and most < 1:
        raise ValueError(f"game {game.name!r}: at_once is {most}: at least 1, or None for any number")
    return most
