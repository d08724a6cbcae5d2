"""One run of one method: the same warm start, the same number of episodes, one seed.

A method is a name and the settings that make it; a contest is a set of games, methods and
sizes. What is recorded is the score of every batch it trained on, and of held-out games at the
end: both by sampling, as it was trained.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.games import ONE_STEP
from benchmarks.lab.known import KnownCredit
from benchmarks.lab.trainee import Trainee
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from envs.settings import GameSettings
from learners.embedded.build import build_policy
from learners.settings import EmbeddedSettings

RECIPES = Path(__file__).parents[2] / "recipes" / "games"
ELSEWHERE = 16  # games of each task that was not trained
SHAPERS = {"reward.shaper=aria", "reward.shaper=aria_rm"}
AS_MEASURED = ("reward.shaper.intentions.space.granularity=split",)  # in the contests that are recorded
HALF_AS_GOOD = "it scores less than half of what it did"  # why a tuning run was stopped
TUNING = range(90, 100)  # seeds that are never reported: a step size is chosen by their curves alone


@dataclass(frozen=True)
class Method:
    name: str
    settings: tuple[str, ...] = ()  # key=value, over the game's recipe
    group_size: int = 1
    more_games: int | None = None  # from each situation, which tell what its turn is worth; None: credit is estimated


@dataclass(frozen=True)
class Sizes:
    updates: int  # at most
    batch: int  # episodes
    held_out: int  # games at the end
    cloning_steps: int | None = None  # of the warm start; None: the recipe's
    steps: int | None = None  # turns of the policy: the batch that reaches it is the last one; None: no limit


@dataclass(frozen=True)
class Game:
    name: str  # in tables
    recipe: str  # of recipes/games
    settings: tuple[str, ...] = ()  # key=value, over the recipe
    sizes: Sizes | None = None  # None: the contest's
    discount: float | None = None  # what counts is what the game paid, so discounted; None: the outcome
    transfer: tuple[str, ...] = ()  # key=value of the game, each another one to play with what was learned
    cloned: tuple[str, ...] = ()  # key=value of the game that the warm start is made of; none: the one that is played


@dataclass(frozen=True)
class Trial:
    game: Game
    method: Method
    rate: float  # learner.learning_rate
    seed: int
    warm_start: int  # model.embedded.seed
    sizes: Sizes

    @property
    def name(self) -> str:
        return f"{self.game.name}, {self.method.name} at {self.rate:g}, seed {self.seed}"

    @property
    def config(self) -> RunConfig:
        return self.config_with()

    def config_with(self, *more: str) -> RunConfig:
        return load_recipe(RECIPES / f"{self.game.recipe}.yaml", [*self.overrides, *more])

    @property
    def cloning(self) -> tuple[GameSettings, EmbeddedSettings]:
        config = self.config_with(*self.game.cloned)
        return config.game, config.model.embedded

    @property
    def overrides(self) -> list[str]:
        cloning = [] if self.sizes.cloning_steps is None else [f"model.embedded.steps={self.sizes.cloning_steps}"]
        return [
            "rollout.engine.kind=transformers",
            "rollout.episode_seconds=1e6",  # the machine may be put to sleep meanwhile
            "learner.zero=0",
            "learner.ranks=1",
            f"batch_episodes={self.sizes.batch}",
            f"seed={self.seed}",
            f"model.embedded.seed={self.warm_start}",
            f"learner.learning_rate={self.rate!r}",
            *ONE_STEP,
            *cloning,
            *(AS_MEASURED if SHAPERS & {*self.method.settings} else ()),
            *self.game.settings,
            *self.method.settings,
        ]


@dataclass
class Record:
    trial: dict[str, Any]
    outcomes: list[float] = field(default_factory=list)  # of each batch, before it was learned from
    steps: list[int] = field(default_factory=list)  # turns of the policy in each batch
    final: float | None = 0.0  # of held-out games, after the last update; None: tuning, for which none are played
    transfer: dict[str, float] = field(default_factory=dict)  # of games that were not trained
    untrained: dict[str, float] = field(default_factory=dict)  # the same of the warm start
    seconds: dict[str, float] = field(default_factory=dict)  # CPU time of an update, by stage
    figures: dict[str, float] = field(default_factory=dict)  # of the last update
    failure: str = ""

    @property
    def mean(self) -> float:
        """The area under the learning curve: over episodes, or over steps where these are what is equal. A policy
        whose numbers are not finite has nothing to show from there on."""
        if self.failure not in ("", HALF_AS_GOOD):
            return sum(self.outcomes) / self.trial["sizes"]["updates"]
        if (limit := self.trial["sizes"].get("steps")) is None:
            return float(np.mean(self.outcomes))
        played = np.minimum(np.cumsum(self.steps), limit)
        return float(np.average(self.outcomes, weights=np.diff(played, prepend=0)))

    @property
    def late(self) -> float:
        """The mean score of the batches that end in the second half of the steps."""
        played = np.cumsum(self.steps)
        return float(np.mean(np.array(self.outcomes)[2 * played > played[-1]]))


class Destroyed(RuntimeError):
    """The policy, by its step size."""


class Started(Protocol):
    """Something to run from a policy that is cloned for it: `cloning` says what is cloned."""

    @property
    def name(self) -> str: ...

    @property
    def cloning(self) -> tuple[GameSettings, EmbeddedSettings]: ...


def warm_start(trial: Started) -> Path:
    """Made once, whoever asks first; deterministic."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    return build_policy(*trial.cloning)


def destroyed(outcomes: Sequence[float], batches: int = 3) -> bool:
    """The last batches score less than half of the first ones."""
    first, last = outcomes[:batches], outcomes[batches:][-batches:]
    return len(last) == batches and sum(last) < sum(first) / 2 and sum(first) > 0


def elsewhere(trial: Trial, trainee: Trainee) -> dict[str, float]:
    return {other: trainee.held_out(ELSEWHERE, trial.config_with(other)) for other in trial.game.transfer}


def trainee_of(trial: Trial) -> Trainee:
    given = trial.config, warm_start(trial), trial.method.group_size, trial.game.discount
    more_games = trial.method.more_games
    return Trainee(*given) if more_games is None else KnownCredit(*given, more_games=more_games)


def run(trial: Trial, to_the_end: bool = False) -> Record:
    """A tuning run whose policy is destroyed stops, unless it is to go `to_the_end`."""
    record, tuning = Record(asdict(trial)), trial.seed in TUNING
    trainee = trainee_of(trial)
    try:
        if not tuning:
            record.untrained = elsewhere(trial, trainee)
        for _ in range(trial.sizes.updates):
            figures = trainee.update()
            record.steps.append(int(figures["turns"]))
            record.outcomes.append(figures["score"])
            if trial.sizes.steps is not None and sum(record.steps) >= trial.sizes.steps:
                break
            if tuning and not to_the_end and destroyed(record.outcomes):  # it would babble on and win nothing
                raise Destroyed(HALF_AS_GOOD)
        record.final = None if tuning else trainee.held_out(trial.sizes.held_out)
        if not tuning:
            record.transfer = elsewhere(trial, trainee)
    except (FloatingPointError, Destroyed) as error:  # of a step size it is a result
        record.failure = str(error)
    record.seconds = {stage: spent / max(len(record.outcomes), 1) for stage, spent in trainee.clock.seconds.items()}
    return record


def told(record: Record) -> str:
    held_out = "" if record.final is None else f", {record.final:.3f} held out"
    return record.failure or f"{record.mean:.3f} while learning{held_out}"
