"""Parley beside TRL: what is run, and what the table says of it. The runs themselves need TRL's own environment."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.peers import contest
from benchmarks.peers.environment import PACKAGES, _pinned
from learners.credit.method import CREDIT


def test_both_play_the_same_sizes_and_each_engine_is_named():
    for size in contest.CONTEST:
        config = contest.config_of(size, "updates=9", "seed=2")
        assert config.batch_episodes % (config.group_size * config.learner.minibatches) == 0, "TRL cuts whole groups"
        assert CREDIT.name_of(config.learner.credit) == "grpo" and config.updates == 9
        assert size.updates > contest.WARM_UP + contest.WIND_DOWN


def test_what_is_installed_is_pinned():
    assert all("==" in _pinned(package) for packages in PACKAGES.values() for package in packages)


@pytest.mark.parametrize("name", ["trl_games.py", "rllib_games.py"])
def test_a_peer_s_program_imports_nothing_of_parley_but_the_games(name):
    tree = ast.parse((Path(contest.__file__).parent / name).read_text())
    modules = {node.module.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules & {"actors", "cluster", "learners", "reward_service", "parley", "benchmarks"} == set()


def test_the_table_compares_within_a_seed():
    def run(update: float, held_out: float) -> dict:
        return {
            "update": update,
            "play": 0.4,
            "learn": 0.5,
            "games": 128,
            "tokens": 4500,
            "score": 0.5,
            "held_out": held_out,
        }

    runs = {"TRL": [run(1.0, 0.5), run(2.0, 0.6)], "Parley": [run(0.5, 0.55), run(1.6, 0.65)]}
    found = {"parameters": 180_000, "batch": 128, "held_out_before": 0.25, "runs": runs}
    (table,) = contest.tables({"sizes": {"small": found}})
    cells = {column.header: list(column.cells) for column in table.columns}
    assert cells["games/s to TRL's"] == ["1.00 (1.00-1.00)", "1.62 (1.25-2.00)"]
    assert cells["held out"] == ["50, 60", "55, 65"] and cells["tokens/s"][1] == f"{(9000 + 2812.5) / 2:,.0f}"
    assert "25%" in table.title and "0.18M" in table.title
