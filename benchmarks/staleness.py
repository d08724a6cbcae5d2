"""What does staleness cost in learning, and which correction bears it best?

    python -m benchmarks.staleness                  everything; goes on where it was stopped
    python -m benchmarks.staleness --processes 2
    python -m benchmarks.staleness --tables         only what has been recorded

Written before any run was made. QUESTION: with max_staleness 1, 2, 4 and 8, how far below the synchronous run do equal
numbers of episodes end? METHOD: plays and learns in one process (benchmarks/lab); every batch is as many updates
old as the bound allows, the worst that may happen in a real run. CORRECTIONS: `none` (the likelihood loss, weighed by
advantages alone), `truncated` (the default: importance weights up to 2), `token mask` and `sequence mask` (the same
loss, and tokens outside [0.5, 2], games outside [0.8, 1.25] dropped), and `decoupled` PPO with two epochs of two
minibatches. GAMES: the demo's and bargaining, each recipe's own step size. SEEDS: 200 to 207 over the warm starts 0 to
3, two of each; nothing is chosen on them. BUDGET: 30 updates, 400 held-out games at the end. STATISTICS: pairs of equal
seeds against the same loss at staleness 0; games are strata; 95 % intervals, not corrected for the number of cells.
RULE: a depth is *borne* by a correction if the interval's lower end is above -5 points. The default of max_staleness is
the deepest that the default correction bears, if benchmarks/waiting.py says that it is faster; the default correction
is changed if another one is better at that depth by an interval above 0.

32 runs of seed 200 were once made with policies that had been cloned otherwise. They were thrown away, and all are run
with the present ones; nothing was changed after they were seen.

After the runs the column `beside truncated` was added, which the second half of the rule needs. It names `decoupled`,
which takes four steps of the optimiser where `truncated` takes one, and has a guard on the KL. So CONTROLS were added
at staleness 1: the default loss with four steps, with four and the guard, and with one step of twice and four times the
size. They were written before any of them was run, and take fresh seeds, 208 to 215, as do both that they are compared
with: facts of the demo's game had been mended since the other runs. Their RULE: the default correction is changed if
decoupled is better than each of them by an interval above 0; else its gain is that of more or larger steps, which every
loss can take.

After they had been seen a row was added: decoupled without its guard, which keeps a copy of the weights.

Records: benchmarks/records/staleness.json.xz.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.games import ONE_STEP
from benchmarks.lab.pages import table
from benchmarks.lab.store import Store
from benchmarks.lab.strata import half_width, stratified
from benchmarks.lab.trainee import Trainee
from benchmarks.lab.trial import Record, warm_start
from benchmarks.report import quiet
from cluster.commands.command import positive
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from envs.settings import GameSettings
from learners.settings import EmbeddedSettings

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records" / "staleness.jsonl"
GAMES = {"demo": "recipes/demo.yaml", "bargaining": "recipes/games/bargaining.yaml"}
DEPTHS, SEEDS, WARM_STARTS = (0, 1, 2, 4, 8), range(200, 208), 4
FOUR_STEPS = ("learner.epochs=2", "learner.minibatches=2")
CORRECTIONS = {
    "none": ("learner.loss=likelihood",),
    "truncated": ("learner.loss=policy_gradient",),
    "token mask": ("learner.loss=policy_gradient", "learner.loss.token_mask=[0.5, 2.0]"),
    "sequence mask": ("learner.loss=policy_gradient", "learner.loss.sequence_mask=[0.8, 1.25]"),
    "decoupled": ("learner.loss=decoupled", "learner.loss.kl_guard=0.02", *FOUR_STEPS),
}
DEFAULT, DECOUPLED, BORNE = "truncated", "decoupled", -0.05
CONTROLS = {  # of what decoupled gains by: settings over the default loss, and by how much its step size is multiplied
    "twice the step size": ((), 2.0),
    "four times the step size": ((), 4.0),
    "four steps": (FOUR_STEPS, 1.0),
    "four steps, guard": ((*FOUR_STEPS, "learner.loss.kl_guard=0.02"), 1.0),
}
ALONE = {"decoupled, no guard": (("learner.loss=decoupled", *FOUR_STEPS), 1.0)}
CONTROLLED, CONTROL_SEEDS = 1, range(208, 216)  # depth


@dataclass(frozen=True)
class Trial:
    game: str
    correction: str
    depth: int
    seed: int
    updates: int = 30
    held_out: int = 400

    @property
    def name(self) -> str:
        return f"{self.game}, {self.correction}, staleness {self.depth}, seed {self.seed}"

    @property
    def config(self) -> RunConfig:
        lab = ["rollout.engine.kind=transformers", "rollout.episode_seconds=1e6", "learner.zero=0", "learner.ranks=1"]
        own = [f"seed={self.seed}", f"model.embedded.seed={self.seed % WARM_STARTS}", f"max_staleness={self.depth}"]
        settings, larger = (CONTROLS | ALONE).get(self.correction) or (CORRECTIONS[self.correction], 1.0)
        config = load_recipe(ROOT / GAMES[self.game], [*ONE_STEP, *settings, *lab, *own])
        learner = config.learner.model_copy(update={"learning_rate": larger * config.learner.learning_rate})
        return config.model_copy(update={"learner": learner})

    @property
    def cloning(self) -> tuple[GameSettings, EmbeddedSettings]:
        return self.config.game, self.config.model.embedded


def trials() -> list[Trial]:
    """Seed by seed, so that a stopped contest has all cells. At staleness 0 a loss of one step corrects nothing."""
    names = (DEFAULT, DECOUPLED, *CONTROLS, *ALONE)
    controls = [Trial(game, name, CONTROLLED, seed) for seed in CONTROL_SEEDS for game in GAMES for name in names]
    return controls + [
        Trial(game, correction, depth, seed)
        for seed in SEEDS
        for game in GAMES
        for depth in DEPTHS
        for correction in CORRECTIONS
        if depth or correction in (DEFAULT, DECOUPLED)
    ]


def synchronous(trial: Trial) -> Trial:
    """What it is compared with."""
    return replace(trial, correction=DECOUPLED if trial.correction == DECOUPLED else DEFAULT, depth=0)


def run(trial: Trial) -> Record:
    config, record = trial.config, Record(asdict(trial))
    trainee = Trainee(config, warm_start(trial), config.group_size, staleness=trial.depth)
    try:
        for _ in range(trial.updates):
            figures = trainee.update()
            record.steps.append(int(figures["turns"]))
            record.outcomes.append(figures["score"])
        record.final = trainee.held_out(trial.held_out)
    except FloatingPointError as error:  # such a policy wins nothing
        record.failure, record.final = str(error), 0.0
    record.seconds = {stage: spent / trial.updates for stage, spent in trainee.clock.seconds.items()}
    return record


def told(record: Record) -> str:
    return f"{record.final:.3f} held out"


def compared(
    store: Store, correction: str, depth: int, other: Callable[[Trial], Trial], seeds: Sequence[int] = SEEDS
) -> list[list[float]]:
    """Of each game, how much better than others of the same seeds these runs end."""
    found = []
    for game in GAMES:
        cells = [Trial(game, correction, depth, seed) for seed in seeds]
        pairs = [(store.get(trial), store.get(other(trial))) for trial in cells]
        found.append([one.final - two.final for one, two in pairs if one and two])
    return found


def by_default(trial: Trial) -> Trial:
    return replace(trial, correction=DEFAULT)


def controls(store: Store) -> str:
    """How much better than each of them decoupled ends, and they than the default."""

    def beside(name: str, other: str) -> str:
        at = name, CONTROLLED, partial(replace, correction=other), CONTROL_SEEDS
        return interval(compared(store, *at))[0] if name != other else ""

    rows = []
    for name in (DEFAULT, *CONTROLS, DECOUPLED, *ALONE):
        ends = [_ends(store, game, name, CONTROLLED, CONTROL_SEEDS) for game in GAMES]
        if all(ends):
            means = (f"{100 * np.mean(each):.1f}" for each in ends)
            took = " and ".join(f"{_seconds(store, game, name):.2f}" for game in GAMES)
            rows.append([name, *means, len(ends[0]), beside(name, DEFAULT), beside(DECOUPLED, name), took])
    heading = ["", *GAMES, "seeds", f"beside {DEFAULT}", f"{DECOUPLED} beside it", "CPU seconds an update"]
    return table(heading, rows)


def _of(store: Store, game: str, correction: str, depth: int, seeds: Sequence[int]) -> list[Record]:
    return [record for seed in seeds if (record := store.get(Trial(game, correction, depth, seed)))]


def _ends(store: Store, game: str, correction: str, depth: int, seeds: Sequence[int] = SEEDS) -> list[float]:
    return [record.final for record in _of(store, game, correction, depth, seeds)]


def _seconds(store: Store, game: str, control: str) -> float:
    return float(np.mean([sum(each.seconds.values()) for each in _of(store, game, control, CONTROLLED, CONTROL_SEEDS)]))


def page(store: Store) -> str:
    rows = []
    for correction in CORRECTIONS:
        for depth in DEPTHS:
            ends = [_ends(store, game, correction, depth) for game in GAMES]
            if not all(ends):
                continue
            changed, lowest = interval(compared(store, correction, depth, synchronous)) if depth else ("", 0.0)
            borne = "**not borne**" if lowest < BORNE else ""
            beside = "" if correction == DEFAULT else interval(compared(store, correction, depth, by_default))[0]
            means = (f"{100 * np.mean(each):.1f}" for each in ends)
            rows.append([correction, depth, *means, len(ends[0]), changed, borne, beside])
    heading = ["correction", "staleness", *GAMES, "seeds", "against staleness 0", "", f"beside {DEFAULT}"]
    return f"{table(heading, rows)}\n\nFirst batches, of the cloned policies: {', '.join(first_batches(store))}."


def first_batches(store: Store) -> Iterator[str]:
    """What the cloned policies score, by the batch that nobody had learned from."""
    for game in GAMES:
        records = [record for seed in SEEDS if (record := store.get(Trial(game, DEFAULT, 0, seed)))]
        if found := [record.outcomes[0] for record in records if record.outcomes]:
            yield f"{game} {100 * np.mean(found):.1f}"


def interval(differences: list[list[float]]) -> tuple[str, float]:
    """In points, and its lower end."""
    if not all(len(each) > 1 for each in differences):
        return "", 0.0
    mean, half = stratified(differences)[0], half_width(differences)
    return f"{100 * mean:+.1f} ± {100 * half:.1f}", mean - half


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.staleness", description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=positive, default=1, help="runs at once, a thread each")
    parser.add_argument("--tables", action="store_true", help="run nothing, show what has been recorded")
    asked = parser.parse_args()
    quiet()
    store = Store(RECORDS, run, told)
    if not asked.tables:
        store.complete(trials(), asked.processes, lambda text: print(text, flush=True))
    print(page(store), controls(store), sep="\n\n")


if __name__ == "__main__":
    main()
