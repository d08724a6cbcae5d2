"""What games of other libraries have in common.

Their episodes cannot be written down as JSON, but they can be played again: a saved episode
is its seed and what was said, and `restore` says it once more. That holds only if the other
library is deterministic, so a checksum of everything that was seen goes with it, and an
episode that comes out differently is refused instead of being continued as another one.

    trace(t) = crc32(what turn t showed, trace(t-1))      restored trace = saved trace

A subclass says how an episode begins and what an utterance does; turns, horizon, saving and
the vocabulary are here. Utterances are cut to `longest` characters before anything else. One that asks a server
has `reset` and `step` of its own, which are coroutines made of the same parts.
"""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

from envs.coroutines import finish
from envs.doors.inward.players import Curious, Mediocre, Random
from envs.game import OVER, Game, Player, Step
from envs.options import whole_number
from envs.outside import OutsideError
from envs.practice import PRACTICE_GAMES


def library(module: str, game: str) -> ModuleType:
    """Import what a game needs, or say in one line how to get it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        raise ValueError(
            f"game {game!r} needs the package {missing.name!r}, which is not installed: "
            "pip install -e '.[doors]' in Parley's folder"
        ) from None


class WorldError(OutsideError):
    """A world of another library failed in an episode, which is over; no other episode knows of it."""


@contextmanager
def world(what: str) -> Iterator[None]:
    """Whatever a world raises is one line that names it."""
    try:
        yield
    except (OutsideError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise WorldError(f"{what} failed: {reason}") from error


def paid_by(what: str, reward: Any) -> float:
    """A reward as a finite number."""
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise WorldError(f"{what} paid {reward!r}, and a reward has to be a finite number: mend the world, or wrap it")
    return number


def settings_of(option: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"game option {option}={value!r} must be a mapping from names to values")
    return dict(value)


def returns_of(returns: Any) -> tuple[float, float]:
    try:
        worst, best = map(float, returns)
    except (TypeError, ValueError):
        worst = best = 0.0
    if not -math.inf < worst < best < math.inf:
        raise ValueError(f"game option returns={returns!r} must be two numbers, the worst and the best sum of rewards")
    return worst, best


def share_of(total: float, returns: tuple[float, float]) -> float:
    """Where a sum of rewards lies between the worst and the best, in [0, 1]."""
    worst, best = returns
    return min(1.0, max(0.0, (total - worst) / (best - worst)))


class ImportedGame(Game):
    longest: ClassVar[int] = 1000  # characters of one utterance

    def __init__(self, turns: int):
        self.horizon = whole_number("turns", turns, 1, 10_000)
        self._seed: int | None = None
        self._said: list[str] = []
        self._trace = 0

    def _begin(self, seed: int) -> None:
        """Start an episode, whatever was going on before."""
        raise NotImplementedError

    @abstractmethod
    def _acting(self) -> str | None:
        """Who acts in the episode that was begun; None once the other library calls it over."""

    def _say(self, utterance: str) -> Step:
        """Take one utterance of the acting seat."""
        raise NotImplementedError

    @abstractmethod
    def outcome(self) -> dict[str, float]: ...

    def reset(self, seed: int) -> None:
        self._seed = None  # no seat may act if the beginning fails
        self._begin(seed)
        self._begun(seed)

    def _begun(self, seed: int) -> None:
        self._seed, self._said = seed, []
        self._trace = self._seen("", 0)

    @property
    def seat(self) -> str | None:
        if self._seed is None or len(self._said) >= self.horizon:
            return None
        return self._acting()

    def step(self, utterance: str) -> Step:
        said = self._heard(utterance)
        return self._written(said, self._say(said))

    def _heard(self, utterance: str) -> str:
        if self.seat is None:
            raise RuntimeError(OVER)
        return utterance[: self.longest].encode("utf-8", "replace").decode()

    def _written(self, said: str, step: Step) -> Step:
        self._said.append(said)
        if self._acting() is not None and len(self._said) >= self.horizon:
            step = replace(step, truncated=True)
        self._trace = self._seen(step.caption, self._trace)
        return step

    def _seen(self, caption: str, before: int) -> int:
        shown = f"{self.seat}\n{self.observe()}\n{caption}" if self.seat is not None else caption
        return zlib.crc32(shown.encode("utf-8", "replace"), before)

    def save(self) -> dict[str, Any]:
        return {"seed": self._seed, "said": list(self._said), "trace": self._trace}

    def restore(self, saved: dict[str, Any]) -> None:
        if saved["seed"] is None:
            self._seed, self._said, self._trace = None, [], 0
            return
        finish(self.reset(saved["seed"]))
        for said in saved["said"]:
            if self.seat is None:
                break
            finish(self.step(said))
        if self._trace != saved["trace"] or len(self._said) != len(saved["said"]):
            self._seed = None
            raise ValueError(
                f"game {self.name!r}: played again from seed {saved['seed']} the episode went another way; "
                "an environment that is not deterministic cannot be restored"
            )

    def language(self) -> Iterable[str]:
        """What is known of the words, without capitals, so that they mean no more words."""
        return (text.lower() for text in self._texts())

    def _texts(self) -> Iterator[str]:
        """The texts of practice games: other libraries do not list theirs."""
        for number in range(PRACTICE_GAMES):
            player = self.players()["mediocre" if number % 2 else "random"](**self._options())
            player.reset(number)
            finish(self.reset(-1 - number))
            while self.seat is not None:
                seen, listed = self.observe(), self.actions()
                said = player.reply(seen, listed)
                yield from (seen, said, *listed)
                finish(self.step(said))
            yield from (*self.closing().values(), *self.facts().values())

    def _options(self) -> dict[str, Any]:
        return {}

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"curious": Curious, "mediocre": Mediocre, "random": Random}
