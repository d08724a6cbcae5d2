"""SPA and ONI against the game's pay alone: answers of made-up records that are known, and a page of the records."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.lab.store import Store
from benchmarks.lab.trial import TUNING, Record
from benchmarks.shapers import CONTEST, PARTS, RECORDS, WITHOUT, answers, gained, holm, tables
from reward_service.shaper import SHAPERS


def filled(path, better: dict[str, float]) -> Store:
    store = Store(path)
    for game, method in CONTEST.pairs():
        for seed in (*TUNING[:2], *range(200, 208)):
            for rate in CONTEST.rates:
                made = CONTEST.trial(game, method, rate, seed)
                score = 0.5 + better.get(method.name, 0.0) + 0.01 * (seed % 3) * (method is not WITHOUT)
                store.put(made, Record(asdict(made), [score] * 30, [9] * 30, None if seed in TUNING else score))
    return store


def test_holm_by_hand():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == {"a": pytest.approx(0.03), "c": 0.06, "b": 0.06}
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0} and holm({}) == {}


def test_three_questions_are_answered(tmp_path):
    store = filled(tmp_path / "made.jsonl", {"spa": -0.2, "oni": -0.01})
    differences = gained(CONTEST, store, 8)
    assert set(differences) == {("spa", "Twenty Questions"), ("spa", "bargaining"), ("oni", "Twenty Questions")}
    assert differences["spa", "bargaining"] == pytest.approx([-20 + seed % 3 for seed in range(200, 208)])
    rows = [line.strip("| ").split(" | ") for line in answers(differences).splitlines()[2:]]
    assert {row[0]: row[-1] for row in rows} == {"spa": "it harms", "oni": "cannot be told"}
    assert {row[4] for row in rows if row[0] == "spa"} == {"0.024"}, "2 of 256 signs, of three questions"


def test_the_shapers_are_what_they_are_said_to_be():
    kinds = {(game.name, method.name): CONTEST.trial(game, method, 1e-3, 200).config.reward.shaper for game, method in
             CONTEST.pairs()}  # fmt: skip
    assert len(kinds) == 5 and ("bargaining", "oni") not in kinds
    assert all(SHAPERS.name_of(each) == (name if name != "plain" else "outcome") for (_, name), each in kinds.items())
    oni = kinds["Twenty Questions", "oni"]
    assert (oni.intrinsic_weight, oni.extrinsic) == (0.05, "game") and kinds["bargaining", "spa"].every == 5


@pytest.mark.parametrize("part", PARTS)
def test_the_page_has_the_tables_of_the_records(part):
    page = (Path(__file__).parents[2] / "docs" / "results" / "rewards.md").read_text(encoding="utf-8")
    for each in tables(PARTS[part], Store(RECORDS), 8):
        assert each.rpartition("\n\n")[2] in page
