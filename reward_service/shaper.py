"""The contract of a reward shaper: finished episodes in, per-turn rewards out.

A shaper may keep state (intention spaces, reward models); it is saved and restored
with the run. Each answer names the version of the state that made it, so that a reward
can always be traced to the space it came from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np

from envs.episode import Episode
from envs.kinds import Kinds
from envs.settings import GameSettings, Settings


@dataclass(slots=True)
class ShapedRewards:
    """Per-turn values of one seat in one episode, one entry per turn of that seat."""

    number: int  # the episode's ticket number
    seat: str
    rewards: np.ndarray  # float32 [turns]
    version: int  # of the shaper's state
    kind: str = "reward"  # "reward": credit makes advantages of it; "advantage": it is one
    anchors: np.ndarray | None = None  # int64 [turns]: turns of one answer in the same state share a number
    # float32 [turns]: what turns like these gained in the past; goes on top of the advantages credit makes of rewards
    expected_advantages: np.ndarray | None = None
    labels: np.ndarray | None = (
        None  # int64 [turns]: the intention of each utterance, where the shaper knows intentions
    )


class Shaper(Protocol):
    """Made by its settings (`ShaperSettings.make`). Driven by reward_service.desk:

    prepare     as each episode arrives, in any order: work that can be done ahead, such as
                embedding. It may fill caches; no answer depends on it.
    shape       a whole batch, in ticket order: adds the episodes to the state and answers.
    refit       after a batch: work on a copy of the state that may take long (a new intention
                space, a reward model), or None. It is run in a thread, beside everything else,
    publish     and its result is handed in here, between two batches.

    A result may be written down before it is published, and published again by a shaper that was
    restored and has shaped the same batches since: publish(result_of(saved(result))).

    A shaper whose state is large has `frozen() -> Callable[[], dict]` as well: the state as of now, that
    is made when it is called for, in any thread. See `frozen`.
    """

    def prepare(self, episode: Episode) -> None: ...

    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]: ...

    def refit(self) -> Callable[[], Any] | None: ...

    def publish(self, result: Any) -> None: ...

    def saved(self, result: Any) -> dict:
        """Plain values and numpy arrays. Called between the refit and `publish`, in any thread."""

    def result_of(self, saved: dict) -> Any:
        """For `publish`, before anything else is shaped."""

    def metrics(self) -> dict[str, float]: ...

    def state(self) -> dict:
        """Plain values and numpy arrays. A fresh shaper that restores it answers as this one would."""

    def restore(self, state: dict) -> None: ...


def frozen(shaper: Shaper) -> Callable[[], dict]:
    """The shaper's state as of now: in the time that it takes to copy references, if the shaper can."""
    if hasattr(shaper, "frozen"):
        return shaper.frozen()
    state = shaper.state()
    return lambda: state


class ShaperSettings(Settings, ABC):
    """A kind of shaper: its settings, and how one is made of them. A shaper of your own derives from it."""

    @abstractmethod
    def make(self, game: GameSettings) -> Shaper: ...

    @property
    def gives_advantages(self) -> bool:
        """Credit has nothing left to make of its answers."""
        return False

    @property
    def reads_answers(self) -> bool:
        """It asks how likely the policy found what would have been right to say (`Turn.answer_logprob`)."""
        return False

    @property
    def gives_labels(self) -> bool:
        """Its answers say which turns have equal label histories."""
        return False


class RewardFunction(ShaperSettings):
    """A shaper that remembers nothing: an episode alone says what its turns are worth."""

    @abstractmethod
    def rewards(self, episode: Episode, seat: str) -> Sequence[float]:
        """One for each turn of the seat, which has one at least."""

    def make(self, game: GameSettings) -> Stateless:
        return Stateless(self)


class Stateless:
    """The shaper of a reward function: version 0 for ever."""

    def __init__(self, function: RewardFunction):
        self.function = function

    def prepare(self, episode: Episode) -> None:
        pass

    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]:
        return [
            ShapedRewards(episode.ticket.number, seat, np.asarray(self.function.rewards(episode, seat), np.float32), 0)
            for episode in episodes
            for seat in episode.policy_seats()
            if episode.turns_of(seat)
        ]

    def refit(self) -> None:
        return None

    def publish(self, result: Any) -> None:
        raise RuntimeError(f"{type(self.function).__name__} is never refitted")

    saved = result_of = publish

    def metrics(self) -> dict[str, float]:
        return {}

    def state(self) -> dict:
        return {}

    def restore(self, state: dict) -> None:
        if state:
            raise ValueError(f"{type(self.function).__name__} keeps no state, but was given {sorted(state)}")


SHAPERS = Kinds("reward shaper", "kind", "outcome", "reward_service.shapers", ShaperSettings)
AnyShaper = Annotated[ShaperSettings, SHAPERS]
