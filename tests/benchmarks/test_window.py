"""The search over windows: what it compares, and that the page has its table."""

from __future__ import annotations

from pathlib import Path

from benchmarks import contest, window
from benchmarks.lab.store import Store
from benchmarks.lab.trial import TUNING

PAGE = Path(__file__).parents[2] / "docs" / "results" / "intention_credit.md"


def test_windows_alone_differ_on_seeds_that_are_neither_tuned_nor_reported():
    found = window.trials(Store(contest.RECORDS), window.SEEDS)
    assert len(found) == 4 * len(contest.GAMES)
    for (game, name), trials in found.items():
        assert {trial.seed for trial in trials} == {94, 95, 96, 97} <= set(TUNING) - {90, 91, 92, 93}
        aggregate = trials[0].config.reward.shaper.intentions.aggregate
        assert aggregate.own == (1 if "nothing" in name else 0.5)
        assert aggregate.window == (int(name.split()[-2]) if "games" in name else 1024), (game, name)


def test_the_page_has_the_table_of_the_records():
    wanted = window.trials(Store(contest.RECORDS), window.SEEDS)
    assert window.page(Store(window.RECORDS), wanted).partition("\n\n")[2] in PAGE.read_text(encoding="utf-8")
