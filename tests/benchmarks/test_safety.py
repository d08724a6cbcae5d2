"""The sweep of recipes and layers: what is in it, its rule, and one run of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.lab.store import Store
from benchmarks.lab.trial import Record
from benchmarks.safety import RECIPES, RECORDS, below, combinations, digest, page, pooled, resolved, run
from cluster.errors import ConfigError

FOLDER = Path(__file__).parents[2] / "recipes"


def test_every_recipe_and_layer_is_in_it():
    assert set(RECIPES) == {"demo"} | {f"games/{path.stem}" for path in (FOLDER / "games").glob("*.yaml")}
    found = combinations(range(2))
    assert all([trial.seed for trial in trials] == [0, 1] for trials in found)
    taken = {(trials[0].recipe, trials[0].layer) for trials in found}
    assert {layer for _, layer in taken} == {None, "aria", "aria_rm", "oni"} | {
        path.stem for path in (FOLDER / "credit").glob("*.yaml")
    }
    assert {(recipe, None) for recipe in RECIPES} | {("demo", "grpo"), ("games/overcooked", "oni")} <= taken
    assert ("demo", "twosome") not in taken, "the demo lists no actions"


def test_records_answer_for_what_was_set():
    assert (
        digest(resolved("demo", None, 0)) != digest(resolved("demo", "grpo", 0)) != digest(resolved("demo", "rloo", 0))
    )
    assert digest(resolved("demo", "grpo", 0)) == digest(resolved("demo", "grpo", 0))


@pytest.mark.parametrize(("change", "error", "low"), [(-0.1, 0.05, True), (-0.1, 0.052, False), (0.1, 0.01, False)])
def test_below_is_below_by_more_than_luck(change, error, low):
    assert below(change, error) is low


def test_one_seed_below_marks_the_combination_however_the_others_ended(tmp_path):
    store = Store(tmp_path / "safety.jsonl")
    demo = combinations(range(3), ["demo + grpo"])
    (trials,) = demo
    for trial, change in zip(trials, (0.3, -0.1, 0.3), strict=True):
        figures = {"change": change, "error": 0.04}
        store.put(trial, Record({}, untrained={"score": 0.3}, final=0.3 + change, figures=figures))
    assert pooled([store.get(trial) for trial in trials]) == pytest.approx((0.5 / 3, 0.04 / 3**0.5))
    line = page(store, demo).splitlines()[2]
    assert line == "| demo + grpo | 30 | 60, 20, 60 | +16.7 ± 4.5 | **below** |"
    assert page(Store(tmp_path / "none.jsonl"), demo).endswith("not run: demo + grpo")


def test_what_is_changed_is_part_of_the_record():
    plain, changed = (combinations([90], ["demo + grpo"], changed=over)[0][0] for over in ((), ("batch_episodes=16",)))
    assert plain.config.batch_episodes != changed.config.batch_episodes == 16
    assert plain.settings != changed.settings and changed.seed == 90
    with pytest.raises(ConfigError, match="batch_episode"):
        combinations([90], ["demo"], changed=["batch_episode=16"])


def test_a_run_of_it():
    (trial,), *_ = combinations([0], ["parrot"])
    record = run(replace(trial, updates=3, games=20))
    assert len(record.outcomes) == 3 and record.figures["change"] == pytest.approx(
        record.final - record.untrained["score"]
    )


def test_the_table_of_the_page_is_made_of_the_records():
    shown = (FOLDER.parent / "docs" / "results" / "stability.md").read_text()
    assert page(Store(RECORDS), combinations(range(6))) in shown
