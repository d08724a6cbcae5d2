"""The experiment on staleness: its cells, what each is compared with, and its table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks.lab.store import Store
from benchmarks.lab.trial import Record
from benchmarks.staleness import (
    ALONE,
    CONTROL_SEEDS,
    CONTROLS,
    CORRECTIONS,
    DEPTHS,
    GAMES,
    RECORDS,
    SEEDS,
    Trial,
    compared,
    controls,
    page,
    synchronous,
    trials,
)


def test_every_correction_meets_every_depth_and_its_own_synchronous_run():
    every = trials()
    cells = len(CORRECTIONS) * (len(DEPTHS) - 1) + 2 + len(CONTROLS) + len(ALONE) + 2
    assert len(SEEDS) == len(CONTROL_SEEDS) and not {*SEEDS} & {*CONTROL_SEEDS}
    assert len(set(every)) == len(every) == len(SEEDS) * len(GAMES) * cells
    assert {synchronous(trial) for trial in every if trial.seed in SEEDS} <= set(every)
    for trial in every[::5]:
        assert trial.config.max_staleness == trial.depth
    assert Trial("demo", "none", 4, 200).config.learner.loss.asks_sampler is False
    assert Trial("demo", "sequence mask", 4, 200).config.learner.loss.sequence_mask == (0.8, 1.25)
    one, four = (Trial("demo", name, 1, 200).config.learner for name in ("truncated", "four times the step size"))
    assert four == one.model_copy(update={"learning_rate": 2.4e-3}) and one.learning_rate == 6e-4
    assert {trial.config.model.embedded.seed for trial in every} == {0, 1, 2, 3}


def test_what_is_lost_is_told_in_pairs(tmp_path):
    store = Store(tmp_path / "staleness.jsonl")
    for game, base in (("demo", 0.5), ("bargaining", 0.4)):
        for number, seed in enumerate((200, 201)):
            for trial, final in (
                (Trial(game, "truncated", 0, seed), base),
                (Trial(game, "token mask", 8, seed), base - 0.1 - 0.02 * number),
                (Trial(game, "truncated", 8, seed), base - 0.2),
                (Trial(game, "truncated", 1, seed + 8), base - 0.1),
                (Trial(game, "decoupled", 1, seed + 8), base + 0.1),
                (Trial(game, "four steps", 1, seed + 8), base + 0.02 * number),
            ):
                store.put(trial, Record(asdict(trial), final=final, seconds={"play": base, "learn": number}))
    assert np.ravel(compared(store, "token mask", 8, synchronous)) == pytest.approx([-0.1, -0.12] * 2)
    assert "| token mask | 8 | 39.0 | 29.0 | 2 | -11.0 ± 3.0 | **not borne** | +9.0 ± 3.0 |" in page(store)
    assert "| truncated | 40.0 | 30.0 | 2 |  | +20.0 ± 0.0 | 1.00 and 0.90 |" in controls(store)
    assert "| four steps | 51.0 | 41.0 | 2 | +11.0 ± 3.0 | +9.0 ± 3.0 | 1.00 and 0.90 |" in controls(store)


def test_the_table_of_the_page_is_made_of_the_records():
    shown = (Path(__file__).parents[2] / "docs" / "results" / "staleness.md").read_text()
    store = Store(RECORDS)
    assert page(store) in shown and controls(store) in shown
