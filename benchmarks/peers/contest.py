"""Parley, TRL and RLlib on the same game: the same policy, games an update, epochs and minibatches.

    TRL       GRPOTrainer, its rollout function, batched generation (trl_games.py)
    Parley    `parley train` with recipes/credit/grpo.yaml, on each engine; with max_staleness 0, as TRL works,
              and with 1, as the recipe has it
    RLlib     PPO on tokens (rllib_games.py), the smallest policy alone, one seed, a few updates

Each may use all cores, in its own way: TRL and RLlib by threads, Parley by a process for play and one for learning.
Tasks are others of the same game. Seconds of an update are means over all but the first updates (everything is warmed
up in them) and, of Parley, the last two (which have nothing more to play). The contestants take turns, one whole run
each, a seed after the other; what is compared is the ratio within a seed. What was learned is measured alike: by games
that nobody trained on, played by Parley's own engine with the weights that each run ended with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import fmean, median
from types import MappingProxyType
from typing import Any

from rich.table import Table

from actors.engines.transformers_engine import TransformersEngine
from benchmarks.games import RECIPE, new_play, play_out, tickets
from benchmarks.models import SIZES, parameters_of
from benchmarks.peers.environment import python_of
from benchmarks.report import Say, short
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record.checkpoints import latest
from learners.embedded.build import build_policy

ROOT = RECIPE.parent.parent
LAYER = ROOT / "recipes" / "credit" / "grpo.yaml"
ENGINES, STALENESS = ("transformers", "vllm"), (0, 1)
COLUMNS = ("", "s an update", "waiting for play", "learn", "tokens/s", "games/s to TRL's", "in training", "held out")
WARM_UP, WIND_DOWN = 2, 2
RLLIB_UPDATES = 4
FIRST_HELD_OUT = 1_000_000
TASKS = 10_000  # task seeds of a run
TIME_LIMIT_SECONDS = 2400  # of one run


@dataclass(frozen=True)
class Size:
    name: str
    settings: tuple[str, ...]  # over the demo and the layer
    updates: int
    seeds: int
    held_out: int = 0  # games before and after; 0: a policy that cannot have learned
    rllib: bool = False  # it takes a minute an update for the smallest


def shape(size: str, steps: int, batch: int) -> tuple[str, ...]:
    hidden, layers, heads = SIZES[size]
    embedded = {"hidden": hidden, "layers": layers, "heads": heads, "steps": steps}
    return (f"batch_episodes={batch}", *(f"model.embedded.{name}={value}" for name, value in embedded.items()))


CONTEST = (
    Size("the demo's policy", (), updates=40, seeds=3, held_out=400, rllib=True),
    Size("10M", (*shape("10M", 60, 32), "learner.learning_rate=1e-4"), updates=12, seeds=3, held_out=400),
    Size("100M", (*shape("100M", 0, 16), "learner.learning_rate=1e-6"), updates=8, seeds=1),
)


def config_of(size: Size, *more: str) -> RunConfig:
    return load_recipe(RECIPE, [str(LAYER), *size.settings, *more])


def measure(quick: bool, say: Say) -> dict[str, Any]:
    say("TRL's environment (made in some minutes the first time)")
    python = python_of("trl")
    return {"sizes": {size.name: contest(size, python, quick, say) for size in (CONTEST[:1] if quick else CONTEST)}}


def contest(size: Size, python: Path, quick: bool, say: Say) -> dict[str, Any]:
    config = config_of(size)
    say(f"{size.name}: the policy")
    model = build_policy(config.game, config.model.embedded)
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in range(1 if quick else size.seeds):
        settings = [f"updates={10 if quick else size.updates}", f"seed={seed}"]
        with tempfile.TemporaryDirectory(prefix="parley-peers-") as folder:
            found = {"TRL": trl(config_of(size, *settings), model, python, Path(folder) / "trl")}
            for engine in ENGINES:
                for staleness in STALENESS:
                    name = f"Parley, {engine}, max_staleness {staleness}"
                    more = [f"rollout.engine.kind={engine}", f"max_staleness={staleness}"]
                    found[name] = parley(size, [*settings, *more], Path(folder) / name.replace(" ", "-"))
            if size.rllib and seed == 0:
                found[f"RLlib, {RLLIB_UPDATES} updates"] = rllib(
                    config_of(size, *settings), model, found["TRL"]["tokens"], Path(folder) / "rllib"
                )
            for name, run in found.items():
                run["held_out"] = held_out(config, run.pop("policy"), size.held_out)
                runs.setdefault(name, []).append(run)
                say(f"{size.name}, seed {seed}: {name}: {run['update']:.2f} s an update")
    start = held_out(config, model, size.held_out)
    return {"parameters": parameters_of(model), "batch": config.batch_episodes, "held_out_before": start, "runs": runs}


def trl(config: RunConfig, model: Path, python: Path, output: Path) -> dict[str, Any]:
    return program(python, "trl_games.py", asked_of(config, model, output), config.updates, output)


def rllib(config: RunConfig, model: Path, tokens: float, output: Path) -> dict[str, Any]:
    """A few updates of as many tokens: they take long, and are alike."""
    batch = round(tokens / config.learner.minibatches) * config.learner.minibatches
    asked = asked_of(config, model, output) | {"tokens": batch, "window": config.rollout.engine.max_context}
    return program(Path(sys.executable), "rllib_games.py", asked, RLLIB_UPDATES, output)


def asked_of(config: RunConfig, model: Path, output: Path) -> dict[str, Any]:
    learner = config.learner
    return {
        "model": str(model),
        "output": str(output),
        "game": config.game.name,
        "options": config.game.options,
        "seed": config.seed,
        "first_task": TASKS * config.seed,
        "batch": config.batch_episodes,
        "group": config.group_size,
        "epochs": learner.epochs,
        "minibatches": learner.minibatches,
        "learning_rate": learner.learning_rate,
        "max_grad_norm": learner.gradient_clip,
        "utterance_tokens": config.rollout.max_utterance_tokens,
        "context": config.rollout.engine.max_context,
    }


def program(python: Path, name: str, asked: dict[str, Any], updates: int, output: Path) -> dict[str, Any]:
    """What one of the programs in this folder says of its run, and the folder of its policy."""
    output.mkdir()
    question, answer = output / "asked.json", output / "answer.json"
    question.write_text(json.dumps(asked | {"updates": updates}))
    script = Path(__file__).with_name(name)
    call(
        [str(python), str(script), str(question), str(answer)],
        {"PYTHONPATH": str(ROOT), "TRL_EXPERIMENTAL_SILENCE": "1", "OMP_NUM_THREADS": str(os.cpu_count())},
    )
    found = json.loads(answer.read_text())
    kept = slice(WARM_UP, None)
    update, play = fmean(found["update"][kept]), fmean(found["play"][kept])
    return {
        "update": update,
        "play": play,
        "learn": update - play,
        "games": fmean(found["games"][kept]),
        "threads": found["threads"],
        "tokens": fmean(found["tokens"][kept]),
        "score": fmean(found["scores"][-5:]),
        "policy": output,
        "samples": found["update"],
    }


def parley(size: Size, settings: list[str], output: Path) -> dict[str, Any]:
    over = [*size.settings, *settings, "evaluation.episodes=16", f"output={output}"]
    call([sys.executable, "-m", "cluster", "train", str(RECIPE), str(LAYER), *over])
    (run,) = output.glob("*/metrics.jsonl")
    lines = [line for text in run.read_text().splitlines() if (line := json.loads(text))["update"] > 0]
    kept = lines[WARM_UP:-WIND_DOWN]
    return {
        "update": fmean(line["seconds/update"] for line in kept),
        "play": fmean(line["seconds/collect"] for line in kept),
        "learn": fmean(line["seconds/learn"] for line in kept),
        "games": fmean(line["rollout/episodes"] for line in kept),
        "tokens": fmean(line["rollout/tokens"] for line in kept),
        "score": fmean(line["rollout/outcome"] for line in lines[-5:]),
        "policy": latest(run.parent / "checkpoints") / "policy",
        "samples": [line["seconds/update"] for line in lines],
    }


def call(command: list[str], environment: Mapping[str, str] = MappingProxyType({})) -> None:
    try:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{' '.join(command)} took more than {TIME_LIMIT_SECONDS} s") from None
    if ended.returncode:
        last = (ended.stderr or ended.stdout).strip().splitlines()[-1:]
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}: {''.join(last)}")


def held_out(config: RunConfig, policy: Path, games: int) -> float:
    if not games:
        return nan
    engine = TransformersEngine(config.rollout.engine, str(policy))
    episodes = play_out(new_play(config, policy, engine), tickets(config, games, FIRST_HELD_OUT))
    return fmean(episode.outcome[seat] for episode in episodes for seat in episode.policy_seats())


def speed(run: dict[str, Any]) -> float:
    """Games a second."""
    return run["games"] / run["update"]


def shown(share: float) -> str:
    return "" if isnan(share) else f"{100 * share:.0f}"


def tables(result: dict[str, Any]) -> list[Table]:
    made = []
    for name, found in result["sizes"].items():
        start = "" if isnan(found["held_out_before"]) else f", held out {found['held_out_before']:.0%}"
        size = f"{short(found['parameters'])} parameters, {found['batch']} games an update"
        table = Table(title=f"{name}: {size}{start}", title_justify="left")
        for column in COLUMNS:
            table.add_column(column, justify="right" if column else "left")
        for contestant, runs in found["runs"].items():
            pairs = zip(found["runs"]["TRL"], runs, strict=False)
            ratios = sorted(speed(run) / speed(other) for other, run in pairs)
            table.add_row(
                contestant,
                *(f"{median(run[key] for run in runs):.2f}" for key in ("update", "play", "learn")),
                f"{median(run['tokens'] / run['update'] for run in runs):,.0f}",
                f"{median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})",
                *(", ".join(shown(run[key]) for run in runs) for key in ("score", "held_out")),
            )
        made.append(table)
    return made
