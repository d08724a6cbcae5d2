"""Does it help in half precision to correct on-policy tokens for what engine and trainer compute differently?

    python -m benchmarks.half             everything; goes on where it was stopped
    python -m benchmarks.half --tables    only what has been recorded

Written before any run was made. HYPOTHESIS: with learner and engine in bfloat16, `learner.loss.correct_on_policy=true`
(truncated importance sampling of on-policy tokens, too) ends with a higher outcome on held-out games than without it.
METHOD: whole runs on vLLM and DeepSpeed by `parley train`, with it and without it, and beside them float32 without
it, which says how much there is to be won back. Two games: the demo's, with one step of the policy gradient an update,
and bargaining with the layer grpo, which clips. SEEDS: 100 to 107 over the warm starts 0 to 3, two of each; nothing is
chosen on them. BUDGET: 30 updates each, 400 held-out games at the end. STATISTICS: runs are paired by game and seed;
games are strata (the mean over games of the mean difference, with its standard error). RULE: half precision gets it by
default if the 95 % interval of the difference lies above 0.

Records: benchmarks/records/half.json.xz, one line a run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.games import ONE_STEP
from benchmarks.lab.pages import table
from benchmarks.lab.store import Store
from benchmarks.lab.strata import half_width, stratified
from benchmarks.lab.trial import Record
from benchmarks.report import quiet
from cluster.commands.command import positive
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from envs.settings import GameSettings
from learners.settings import EmbeddedSettings

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records" / "half.jsonl"
GAMES = {
    "demo": ["recipes/demo.yaml", *ONE_STEP],
    "bargaining": ["recipes/games/bargaining.yaml", "recipes/credit/grpo.yaml"],
}
HALF = ("rollout.engine.dtype=bfloat16", "learner.dtype=bfloat16")
ARMS = {
    "float32": ("rollout.engine.dtype=float32", "learner.dtype=float32"),
    "bfloat16": HALF,
    "bfloat16, corrected": (*HALF, "learner.loss.correct_on_policy=true"),
}
SEEDS, WARM_STARTS, UPDATES = range(100, 108), 4, 30
TIME_LIMIT_SECONDS = 1200


@dataclass(frozen=True)
class Trial:
    game: str
    arm: str
    seed: int
    updates: int = UPDATES

    @property
    def name(self) -> str:
        return f"{self.game}, {self.arm}, seed {self.seed}"

    @property
    def settings(self) -> list[str]:
        own = [f"updates={self.updates}", f"seed={self.seed}", f"model.embedded.seed={self.seed % WARM_STARTS}"]
        own.append("rollout.engine.kind=vllm")
        return [*GAMES[self.game][1:], *ARMS[self.arm], *own]

    @property
    def config(self) -> RunConfig:
        return load_recipe(ROOT / GAMES[self.game][0], self.settings)

    @property
    def cloning(self) -> tuple[GameSettings, EmbeddedSettings]:
        return self.config.game, self.config.model.embedded


def run(trial: Trial) -> Record:
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder:
        command = [sys.executable, "-m", "cluster", "train", GAMES[trial.game][0], *trial.settings, f"output={folder}"]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS)
        if ended.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr.strip()[-300:]}")
        (summary,) = Path(folder).glob("*/summary.json")
        found = json.loads(summary.read_text())
        lines = [json.loads(line) for line in summary.with_name("metrics.jsonl").read_text().splitlines()]
    learned = [line for line in lines if line["update"] > 0]
    record = Record(asdict(trial), final=found["outcome_after"], untrained={"score": found["outcome_before"]})
    record.outcomes = [line["rollout/outcome"] for line in learned]
    record.figures = {
        name: float(np.mean([line[f"learner/{name}"] for line in learned if f"learner/{name}" in line]))
        for name in ("logprob_gap_mean", "mismatch_kl")
    }
    return record


def told(record: Record) -> str:
    return f"{record.untrained['score']:.3f} -> {record.final:.3f}"


def gained(store: Store, arm: str, against: str) -> list[list[float]]:
    """Of each game, the differences of its pairs of runs that are both there."""
    pairs = [
        [(store.get(Trial(game, arm, seed)), store.get(Trial(game, against, seed))) for seed in SEEDS] for game in GAMES
    ]
    return [[one.final - other.final for one, other in each if one and other] for each in pairs]


def page(store: Store) -> str:
    rows = []
    for game in GAMES:
        for arm in ARMS:
            found = [record for seed in SEEDS if (record := store.get(Trial(game, arm, seed)))]
            if found:
                ends = [100 * record.final for record in found]
                gap = np.mean([record.figures["logprob_gap_mean"] for record in found])
                start = 100 * np.mean([record.untrained["score"] for record in found])
                spread = f"{np.mean(ends):.1f} ± {half_width([ends]):.1f}" if len(ends) > 1 else ""
                rows.append([game, arm, len(found), f"{start:.1f}", spread, f"{gap:.2g}"])
    told_apart = []
    for arm, against in (("bfloat16, corrected", "bfloat16"), ("bfloat16", "float32")):
        differences = gained(store, arm, against)
        if all(len(each) > 1 for each in differences):
            mean, half = stratified(differences)[0], half_width(differences)
            told_apart.append(f"{arm} against {against}: {100 * mean:+.1f} ± {100 * half:.1f} points")
    return "\n\n".join([table(["game", "", "runs", "start", "end", "mean gap"], rows), *told_apart])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.half", description=__doc__.splitlines()[0])
    parser.add_argument("--tables", action="store_true", help="run nothing, show what has been recorded")
    parser.add_argument("--processes", type=positive, default=1, help="runs at once")
    asked = parser.parse_args()
    quiet()
    store = Store(RECORDS, run, told)
    if not asked.tables:
        trials = [Trial(game, arm, seed) for seed in SEEDS for game in GAMES for arm in ARMS]
        store.complete(trials, asked.processes, lambda text: print(text, flush=True))
    print(page(store))


if __name__ == "__main__":
    main()
