"""Does any recipe, with any layer over it, unlearn its game? Every shipped combination, a few updates, three seeds.

    python -m benchmarks.safety                      everything; goes on where it was stopped
    python -m benchmarks.safety --only demo parrot   combinations whose name has one of these in it
    python -m benchmarks.safety --alone              recipes without layers
    python -m benchmarks.safety --tables             only what has been recorded
    python -m benchmarks.safety --only "demo + rloo" --first-seed 90 --updates 30 --set batch_episodes=64
                                                     seeds that are never reported, and other settings

A combination is the demo or the recipe of a game, alone and with each layer of recipes/credit and recipes/shapers that
the config takes with it. Each run plays and learns in one process (benchmarks/lab), every batch as many updates old as
the recipe's max_staleness allows: the worst that may happen in a real run. Batches of the two long games, where a run
would take a quarter of an hour, have 16 games instead of 64, and half as many are held out: a smaller batch is noisier,
so this test is the harder one.

Held-out games are played before and after, the same tasks, by sampling. RULE, fixed before anything was run: a
combination ends below its start if the 95 % interval of (end - start) lies wholly below 0: of the three seeds
together, or of any one of them. Of runs that change nothing one in forty is below by chance.

Records: benchmarks/records/safety.json.xz. One answers for the very settings it was run with; not for
other defaults.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path

import numpy as np

from benchmarks.lab.pages import table
from benchmarks.lab.store import Store
from benchmarks.lab.trainee import Trainee
from benchmarks.lab.trial import TUNING, Record, warm_start
from benchmarks.report import quiet
from cluster.commands.command import positive
from cluster.errors import ConfigError
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from envs.settings import GameSettings
from learners.settings import EmbeddedSettings

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records" / "safety.jsonl"
UPDATES, SEEDS, GAMES = 15, 3, 256
LONG_BATCH, LONG_GAMES = 16, 128
LONG = ("games/virtualhome", "games/overcooked")
RECIPES = (  # the cheap ones first
    "demo",
    "games/parrot",
    "games/case_study",
    "games/bargaining",
    "games/negotiation",
    "games/guess_my_city",
    "games/twenty_questions_full",
    "games/data_science",
    *LONG,
)
LAYERS = {path.stem: path for kind in ("credit", "shapers") for path in sorted(ROOT.glob(f"recipes/{kind}/*.yaml"))}
TOLD_APART = 1.96  # standard errors
UNTRAINED: dict[str, np.ndarray] = {}  # of this process: outcomes of warm starts


@dataclass(frozen=True)
class Combination:
    recipe: str
    layer: str | None
    seed: int
    settings: str  # digest of the whole resolved config
    updates: int = UPDATES
    games: int = GAMES
    changed: tuple[str, ...] = ()  # KEY=VALUE, over all else

    @property
    def name(self) -> str:
        return f"{shown(self.recipe, self.layer)}, seed {self.seed}"

    @property
    def config(self) -> RunConfig:
        return resolved(self.recipe, self.layer, self.seed, self.changed)

    @property
    def cloning(self) -> tuple[GameSettings, EmbeddedSettings]:
        return self.config.game, self.config.model.embedded


def shown(recipe: str, layer: str | None) -> str:
    return recipe if layer is None else f"{recipe} + {layer}"


def resolved(recipe: str, layer: str | None, seed: int, changed: Sequence[str] = ()) -> RunConfig:
    over = [] if layer is None else [str(LAYERS[layer])]
    here = ["rollout.engine.kind=transformers", "rollout.episode_seconds=1e6", "learner.zero=0", "learner.ranks=1"]
    if recipe in LONG:
        here.append(f"batch_episodes={LONG_BATCH}")
    return load_recipe(ROOT / "recipes" / f"{recipe}.yaml", [*over, *here, f"seed={seed}", *changed])


def combinations(
    seeds: Sequence[int],
    only: Sequence[str] = ("",),
    updates: int = UPDATES,
    changed: Sequence[str] = (),
    layers: Sequence[str | None] = (None, *LAYERS),
) -> list[list[Combination]]:
    """The seeds of each that the config takes: every recipe alone, then with every layer. `only`: that have one of
    these in their name. Which layers a recipe takes is asked of the recipe as it is: a change that it does not take is
    an error."""
    found = []
    for recipe, layer in [(recipe, layer) for recipe in RECIPES for layer in layers]:
        if not any(part in shown(recipe, layer) for part in only):
            continue
        try:
            config = resolved(recipe, layer, 0)
        except ConfigError:
            continue
        if changed:
            config = resolved(recipe, layer, 0, changed)
        games = LONG_GAMES if recipe in LONG else GAMES
        made = [(seed, digest(config.model_copy(update={"seed": seed}))) for seed in seeds]
        found.append([Combination(recipe, layer, *each, updates, games, tuple(changed)) for each in made])
    return found


def digest(config: RunConfig) -> str:
    """Of all that is set."""
    told = json.dumps(config.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def run(trial: Combination) -> Record:
    config, record = trial.config, Record(asdict(trial))
    trainee = Trainee(config, warm_start(trial), config.group_size, staleness=config.max_staleness)
    before = untrained(trainee, trial)
    try:
        for _ in range(trial.updates):
            figures = trainee.update()
            record.steps.append(int(figures["turns"]))
            record.outcomes.append(figures["score"])
        after = trainee.outcomes(trial.games)
    except FloatingPointError as error:  # such a policy wins nothing
        record.failure, after = str(error), np.zeros_like(before)
    change = after - before
    record.untrained, record.final = {"score": float(before.mean())}, float(after.mean())
    record.figures = {"change": float(change.mean()), "error": float(change.std(ddof=1) / sqrt(len(change)))}
    record.seconds = {stage: spent / trial.updates for stage, spent in trainee.clock.seconds.items()}
    return record


def untrained(trainee: Trainee, trial: Combination) -> np.ndarray:
    """Of the warm start. Games that are played alike are played once: sampling depends on the task's seed alone."""
    config = trial.config
    played = str((trial.cloning, trial.games, config.rollout, config.game, trainee.players))
    if played not in UNTRAINED:
        UNTRAINED[played] = trainee.outcomes(trial.games)
    return UNTRAINED[played]


def below(change: float, error: float) -> bool:
    return change + TOLD_APART * error < 0


def told(record: Record) -> str:
    found = record.figures
    mark = " BELOW" if below(found["change"], found["error"]) else ""
    return f"{record.untrained['score']:.3f} -> {record.final:.3f}{mark}"


def pooled(records: Sequence[Record]) -> tuple[float, float]:
    """The mean change, and its standard error: of the games' luck alone, as of one seed."""
    changes, errors = ([record.figures[name] for record in records] for name in ("change", "error"))
    return float(np.mean(changes)), sqrt(sum(error**2 for error in errors)) / len(errors)


def page(store: Store, every: Sequence[Sequence[Combination]]) -> str:
    rows, not_run = [], []
    for trials in every:
        records = [record for trial in trials if (record := store.get(trial))]
        name = shown(trials[0].recipe, trials[0].layer)
        if not records:
            not_run.append(name)
            continue
        change, error = pooled(records)
        start = np.mean([record.untrained["score"] for record in records])
        low = below(change, error) or any(below(r.figures["change"], r.figures["error"]) for r in records)
        ends = ", ".join(f"{100 * record.final:.0f}" for record in records)
        gained = f"{100 * change:+.1f} ± {100 * TOLD_APART * error:.1f}"
        rows.append([name, f"{100 * start:.0f}", ends, gained, "**below**" if low else ""])
    ran = table(["recipe + layer", "start", "end, by seed", "change", ""], rows)
    return f"{ran}\n\nnot run: {', '.join(not_run) or 'none'}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.safety", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=positive, default=SEEDS)
    parser.add_argument("--first-seed", type=int, default=0, help=f"from {TUNING[0]} on: never reported")
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="over the recipe and the layer")
    parser.add_argument("--processes", type=positive, default=1, help="runs at once, a thread each")
    parser.add_argument("--only", nargs="*", default=[""], help="combinations whose name has one of these in it")
    parser.add_argument("--alone", action="store_true", help="recipes without layers")
    parser.add_argument("--tables", action="store_true", help="run nothing, show what has been recorded")
    asked = parser.parse_args()
    quiet()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    store, failed = Store(RECORDS, run, told), []
    try:
        layers = (None,) if asked.alone else (None, *LAYERS)
        every = combinations(seeds, asked.only, asked.updates, asked.set, layers)
    except ConfigError as error:
        raise SystemExit(f"benchmarks.safety: {error}") from None
    if not asked.tables:
        for recipe in dict.fromkeys(trials[0].recipe for trials in every):  # each has a warm start to be made
            here = [trials for trials in every if trials[0].recipe == recipe]
            wanted = [trial for seed in zip(*here, strict=True) for trial in seed]
            try:
                store.complete(wanted, asked.processes, lambda text: print(text, flush=True))
            except RuntimeError as error:  # the other recipes' runs are still of use
                failed.append(f"{recipe}: {error}")
    print(page(store, every))
    if failed:
        raise SystemExit(f"benchmarks.safety: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
