"""Whole runs for tests: small configurations, and what must hold of every run."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from cluster.recipe.config import RunConfig
from cluster.record.metric_list import STAGES, unlisted
from cluster.record.run_folder import RunFolder

ROOT = Path(__file__).parents[2]

SMALL = {
    "updates": 3,
    "batch_episodes": 8,
    "max_staleness": 1,
    "game": {"name": "parrot"},
    "rollout": {
        "cpus_per_worker": 0.5,
        "max_utterance_tokens": 8,
        "engine": {"max_sequences": 16, "max_context": 128, "cpu_cache_gib": 0.25},
    },
    "learner": {"cpus_per_rank": 0.5, "threads": 1},
    "evaluation": {"episodes": 8},
    "checkpoint": {"every": 1, "keep": 2},
}


def command(*words: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "cluster", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def merged(base: dict, extra: dict) -> dict:
    out = dict(base)
    for key, value in extra.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def config_for(model: Path, output: Path, **changes) -> RunConfig:
    return RunConfig(**merged(SMALL, {"model": {"path": str(model)}, "output": str(output), **changes}))


def run(config: RunConfig) -> tuple[dict, RunFolder]:
    from cluster.run.session import train

    folder = RunFolder.create(config)
    with folder:
        return train(config, folder), folder


def metrics_of(folder: RunFolder) -> list[dict]:
    rows = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    return [row for row in rows if "learner/loss" in row]


def assert_time_adds_up(rows: list[dict]) -> None:
    """Each second between two lines of one process is in a stage that the list of metrics names."""
    named = [stage.name for stage in STAGES]
    for row in rows:
        update, stages = row["seconds/update"], sum(row.get(name, 0.0) for name in named)
        assert stages == pytest.approx(update, rel=0.01, abs=0.02), f"update {row['update']}: seconds without a stage"
    for before, row in pairwise(rows):
        assert row["time"] - before["time"] == pytest.approx(row["seconds/update"], rel=0.01, abs=0.5)


def kept_games(folder: Path) -> list[tuple]:
    """What the run's store holds of each game, but for times and places."""
    from cluster.episodes.reader import Episodes

    of_turn = ("utterance", "utterance_ids", "logprobs", "versions", "credit", "shaped")
    return [
        (
            game["update"],
            game["held_out"],
            game["number"],
            [[turn[name] for name in of_turn] for turn in game["dialogue"]],
        )
        for game in Episodes(folder / "episodes", "failure is None")
    ]


def assert_kept(folder: Path, updates: int, batch: int, tokens: float) -> None:
    """Every game that was trained on is in the store once, and its words have the credit they were trained with."""
    trained = [game for game in kept_games(folder) if not game[1]]
    assert [game[2] for game in trained] == list(range(updates * batch))
    assert [game[0] for game in trained] == [1 + number // batch for number in range(updates * batch)]
    spoken = [turn for game in trained for turn in game[3]]
    assert sum(len(ids) for _, ids, *_ in spoken) == tokens
    assert all(len(ids) == len(credit) for _, ids, _, _, credit, _ in spoken)


def assert_listed(rows: list[dict]) -> None:
    found = unlisted({name for row in rows for name in row} - {"update", "time"})
    assert not found, f"not in cluster/record/metric_list: {found}"


def assert_whole(summary: dict, folder: RunFolder, updates: int, batch: int) -> None:
    ledger = summary["ledger"]
    assert ledger["ledger/consumed"] == updates * batch
    assert ledger["ledger/issued"] == ledger["ledger/consumed"] + ledger["ledger/reissued"] + ledger["ledger/dropped"]
    rows, tokens = metrics_of(folder), summary["tokens"]
    assert tokens["tokens/trained"] == sum(row["rollout/tokens"] for row in rows) > 0
    assert tokens["tokens/waiting"] == tokens["tokens/playing"] == 0 < tokens["tokens/evaluated"]
    assert_kept(folder.path, updates, batch, tokens["tokens/trained"])
    assert_time_adds_up(rows)
    assert_listed(rows)
    assert set(summary["seconds"]) <= {stage.name.removeprefix("seconds/") for stage in STAGES}
    assert [row["update"] for row in rows] == list(range(1, updates + 1))
    assert all(row["sync/parity_gap"] < 1e-4 for row in rows)
    assert all(row["rollout/staleness"] <= 1 for row in rows)
    learned = [row for row in rows if not row["learner/nothing_to_learn"]]  # else all returns of a batch were equal
    assert all(row["learner/grad_norm"] > 0 for row in learned), "an update with something to learn from moved nothing"
    assert all(row.get("learner/logprob_gap_max", 0.0) < 1e-4 for row in rows)
