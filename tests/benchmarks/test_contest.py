"""The preregistered contest: its statistics on made-up records with known answers, its stages, and going on."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import contest
from benchmarks.contestants import (
    ALL_ADVANTAGES,
    BASELINES,
    CANDIDATES,
    CONTROLS,
    METHODS,
    OF,
    POSITIVE,
    RIVALS,
)
from benchmarks.lab.contest import Contest
from benchmarks.lab.meaningless import anywhere
from benchmarks.lab.store import Store
from benchmarks.lab.strata import corrected, half_width, stratified
from benchmarks.lab.trainee import HELD_OUT, TASKS, first_task
from benchmarks.lab.trial import TUNING, Game, Method, Record, Sizes, Trial
from benchmarks.lab.verdict import leading, ranking, room, verdict

ROOT = Path(__file__).parents[2]
ONE, TWO = Game("one", "parrot"), Game("two", "parrot", ("game.options.rounds=2",))
BASE, OTHER, GOOD, SAME = (Method(name) for name in ("base", "other base", "good", "same"))
RATE = 1e-3
TAKES = {  # what it has that the other has not
    "gae, positive": ("gae, hidden-state critic", {POSITIVE}),
    "regressed, positive": ("regressed, hidden-state critic", {POSITIVE}),
    "aria, positive": ("aria, own half", {POSITIVE}),
    "meaningless, positive": ("meaningless, own half", {POSITIVE}),
}
FOUR = (BASE, OTHER, GOOD, SAME)
MADE = Contest((ONE, TWO), FOUR, (RATE,), 4, Sizes(4, 8, 8), 4, rates=(RATE,), tuning_updates=2, first_seed=100)


def put(store: Store, made: Trial, score: float) -> None:
    final = None if made.seed in TUNING else score
    store.put(made, Record(asdict(made), [score] * made.sizes.updates, [10] * made.sizes.updates, final))


def tuned(store: Store, methods: dict[Method, float]) -> None:
    for game in MADE.games:
        for method, score in methods.items():
            for seed in TUNING[:4]:
                put(store, MADE.trial(game, method, RATE, seed), score)


def test_games_are_strata_and_degrees_of_freedom_are_welchs():
    differences = [1.0, 2.0, 3.0], [10.0, 14.0]
    mean, error = stratified(differences)
    assert (mean, error) == (7.0, pytest.approx(((1 / 3 + 8 / 2) ** 0.5) / 2))
    freedom = (1 / 3 + 4) ** 2 / ((1 / 3) ** 2 / 2 + 4**2 / 1)  # 1.17
    assert half_width(differences) / error == pytest.approx(9.1, abs=0.1) and freedom == pytest.approx(1.17, abs=0.01)
    assert half_width([[0.0, 1.0], [5.0, 6.0]]) / stratified([[0.0, 1.0], [5.0, 6.0]])[1] == pytest.approx(
        4.303, abs=1e-3
    )


def test_p_counts_the_signs_that_do_as_well():
    """Of the 8 signs of 1, 2 and 3 two give a mean as far from zero for its error: all and none."""
    assert corrected({"one": [[1.0, 2.0, 3.0]]})["one"] == pytest.approx(0.25, abs=0.01)
    twice = corrected({"one": [[1.0, 2.0, 3.0]], "again": [[2.0, 4.0, 6.0]]})
    assert twice["one"] == twice["again"] == pytest.approx(0.25, abs=0.01), "what is the same costs nothing"


def test_the_best_of_many_is_corrected_for_their_number():
    noise = np.random.default_rng(3)
    best = [noise.normal(0.3, 1.0, 16) for _ in range(4)]
    alone = corrected({"best": best})["best"]
    crowd = {f"noise {number}": [noise.normal(0.0, 1.0, 16) for _ in range(4)] for number in range(19)}
    among = corrected({"best": best, **crowd})["best"]
    assert alone < among < 21 * alone and among > 5 * alone  # near 1 - (1 - p)^20 for methods that are independent
    firsts = [corrected({f"{n}": [noise.normal(0.0, 1.0, 8)] for n in range(10)}, 400) for _ in range(200)]
    assert 2 <= sum(min(each.values()) < 0.05 for each in firsts) <= 22, "about 5 % of contests among equals"


def test_the_verdict_is_against_the_best_baseline_and_p_against_every_one(tmp_path):
    store = Store(tmp_path / "made.jsonl")
    tuned(store, dict.fromkeys(MADE.methods, 0.5))
    for game in MADE.games:
        for seed in range(100, 116):
            wave = 0.01 * ((seed * 7 + (game is TWO)) % 16)
            for method, better in ((BASE, 0.0), (OTHER, 0.02), (GOOD, 0.1205), (SAME, 0.0)):
                put(store, MADE.trial(game, method, RATE, seed), 0.3 + better + wave * (1.5 if method is GOOD else 1))
    found = verdict(MADE, store, 16, (BASE, OTHER), "held out")
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ") for line in found.splitlines()}
    assert "Gain over other base" in found and "16 seeds" in found
    assert rows["good"][1:3] == ["+13.8", "+13.8"] and rows["good"][3].startswith("+13.8 ± ")
    assert float(rows["good"][4]) < 0.001 and rows["same"][3].startswith("-2.0")
    assert float(rows["same"][4]) > 0.9, "level with one of the baselines"
    assert "not all have two seeds" in verdict(MADE, Store(tmp_path / "none.jsonl"), 16, (BASE,), "while learning")


def test_those_that_go_on_are_the_best_of_the_tuning_seeds(tmp_path):
    store = Store(tmp_path / "made.jsonl")
    tuned(store, {BASE: 0.4, OTHER: 0.2, GOOD: 0.6})
    assert leading(MADE, store, MADE.methods, 2) == [GOOD, BASE], "whoever has not been tuned does not"
    assert ranking(MADE, store).index("good") < ranking(MADE, store).index("| base")
    bound = replace(MADE, methods=(BASE, GOOD))
    assert room(bound, store).count("| 50.0 | 40.0 | 60.0 | 40.0 | 60.0 | +20.0 |") == 2


def test_no_reported_seed_before_everything_is_chosen(tmp_path):
    with pytest.raises(SystemExit, match=r"--stage report: \d+ runs of tuning seeds are missing") as refused:
        contest.work("report", Store(tmp_path / "none.jsonl"), 1, None)
    assert len(str(refused.value)) < 300 and contest.next_stage(Store(tmp_path / "none.jsonl")) == "bound"
    assert {trial.seed for trial in contest.TUNE.to_tune(Store(tmp_path / "none.jsonl"))} == set(TUNING[:4])
    reported = range(contest.FIRST_SEED, contest.FIRST_SEED + contest.SEEDS)
    assert not set(reported) & set(TUNING) and {seed % contest.WARM_STARTS for seed in reported} == {0, 1, 2, 3}
    tasks = [range(first_task(seed), first_task(seed) + TASKS) for seed in (*range(16), *TUNING, *reported)]
    held_out = range(HELD_OUT, HELD_OUT + contest.SIZES.held_out)
    assert all(min(each[-1], held_out[-1]) < max(each[0], held_out[0]) for each in tasks), "never trained on"
    assert len({each[0] for each in tasks}) == len(tasks)


def test_a_control_of_methods_that_do_not_go_on_stays_out(tmp_path, monkeypatch):
    monkeypatch.setattr(contest, "TUNE", replace(contest.TUNE, methods=()))
    monkeypatch.setattr(contest, "leading", lambda *_: [each for each in CANDIDATES if each.name in going_on])
    going_on = ["regressed, positive", "aria, own half"]
    names = {method.name for method in contest.reporting(Store(tmp_path / "made.jsonl")).methods}
    assert names >= {"meaningless, regressed, positive", "nothing shared", *going_on}
    assert not names & {"meaningless, by evidence", "meaningless, positive", "meaningless, regressed"}
    assert len(names) == len(BASELINES) + 2 + len(CONTROLS) - 3


def test_what_is_left_is_told_in_hours(tmp_path):
    store = Store(tmp_path / "made.jsonl")
    runs = (len(BASELINES) + 5 + len(CONTROLS)) * 4 * 16
    assert f"| report | {runs} | - |" in contest.forecast(store, 2), "nothing is known of a game's updates"
    for game in contest.GAMES:
        for method, learning in ((contest.PER_TURN, 0.1), (contest.LESS_NOISE, 0.4)):
            trial = contest.TUNE.trial(game, method, contest.BEGIN[0], TUNING[0])
            store.put(trial, Record(asdict(trial), [0.1], [9], None, seconds={"play": 0.2, "learn": learning}))
    hours = 0.3 * runs * contest.UPDATES / 2 / 3600
    assert f"| report | {runs} | {hours:.1f} |" in contest.forecast(store, 2), "four times the games cost more"


def test_a_contest_that_is_stopped_goes_on_where_it_was(tmp_path, monkeypatch):
    """Threads in place of processes: what is started, kept and left is the same."""
    monkeypatch.setattr("benchmarks.lab.store._pool", ThreadPoolExecutor)
    ran = []

    def job(trial: Trial) -> Record:
        ran.append(trial)
        time.sleep(0.02)
        return Record(asdict(trial), [0.5], [10], None)

    wanted = replace(MADE, games=(ONE,), sizes=Sizes(4, 8, 8, cloning_steps=0))
    store = Store(tmp_path / "made.jsonl", job, lambda record: "done")
    said = []
    wanted.tune(store, 1, said.append, until=0.0)
    assert 1 <= len(ran) <= 2 < len(wanted.to_tune(store)), "what had begun when the time was over"
    with store.path.open("a") as file:
        file.write('{"trial": {"ga')  # a kill
    again = Store(store.path, job, lambda record: "done")
    before, left = len(ran), len(wanted.to_tune(again))
    wanted.tune(again, 1, said.append)
    assert len(ran) - before == left and not wanted.to_tune(again) and len(set(ran)) == len(ran) == 16


def test_every_method_of_the_contest_is_one_that_can_be_run():
    """Names are unique, and a control differs from its candidate by one thing."""
    assert len({method.name for method in METHODS}) == len(METHODS) == len({method.settings for method in METHODS})
    first, *others = contest.GAMES
    for game, method in [(first, method) for method in METHODS] + [(game, METHODS[0]) for game in others]:
        config = contest.TUNE.trial(game, method, RATE, 90).config
        assert config.group_size == method.group_size and config.seed == 90
    by_name = {method.name: set(method.settings) for method in (*CANDIDATES, *CONTROLS)}
    assert len(by_name["nothing shared"] ^ by_name["aria, own half"]) == 2
    assert len(by_name["meaningless, own half"] ^ by_name["aria, own half"]) == 2
    assert len(by_name["meaningless, regressed, positive"] ^ by_name["regressed, positive"]) == 2
    assert len((*BASELINES, *RIVALS)) + len(by_name) == len(METHODS)
    assert OF.keys() <= {method.name for method in CONTROLS}
    assert set().union(*OF.values()) <= {method.name for method in CANDIDATES}
    by_name = {method.name: set(method.settings) for method in METHODS}
    for name, (other, more) in TAKES.items():
        assert by_name[name] - by_name[other] == more, name


def test_points_that_mean_nothing_are_units_and_the_same_again():
    rows = anywhere(["is it red", "is it big", "is it red"])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    assert (rows[0] == rows[2]).all() and abs(rows[0] @ rows[1]) < 0.3 and anywhere([]).shape == (0, 384)


def test_the_plans_figures_are_those_of_the_records():
    page, store = (ROOT / "docs/results/contest_plan.md").read_text(), Store(contest.RECORDS)
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for part in (contest.BOUND, contest.FEW_POINTS, contest.CUT_SHORT, contest.CREDIT)
        for line in room(part, store).splitlines()[4:]
    ]
    assert len(rows) == 2 * len(contest.GAMES) + len(contest.REPLACED) + len(contest.TOO_SLOW)
    for name, start, _, _, fewer, more, points in rows:
        figures = f"| {start} | {fewer} | {more} | {points} |"
        assert any(name in line and figures in line for line in page.splitlines()), name
    brought = [float(row[-1]) for row in rows[-len(contest.GAMES) :]]
    assert f"That is {np.mean(brought):.1f} points over the per-turn mean" in page
    assert np.mean([float(row[-1]) for row in rows[: len(contest.GAMES)]]) >= 10


def test_the_report_has_each_hypothesis_against_its_own(tmp_path, monkeypatch):
    """Made-up scores: in the order of a list each method is a point better, and candidates are ahead of all others."""
    monkeypatch.setattr(contest, "GAMES", contest.GAMES[:2])
    monkeypatch.setattr(contest, "TUNE", contest.contest(METHODS))
    store, chosen = Store(tmp_path / "made.jsonl"), contest.BEGIN[1]
    others = (*BASELINES, *RIVALS, *CONTROLS)
    better = dict(zip((*others, *CANDIDATES), np.arange(100) / 100, strict=False))

    def made(trial: Trial, score: float) -> None:
        store._keep(Record(asdict(trial), [score] * 2, [10] * 2, None if trial.seed in TUNING else score))

    for game, method in contest.TUNE.pairs():
        for rate in contest.GRID:
            for seed in TUNING[: contest.WARM_STARTS]:
                made(contest.TUNE.trial(game, method, rate, seed), better[method] - (rate != chosen) * 0.1)
    part = contest.reporting(store)
    assert {method for method in part.methods if method not in others} == set(CANDIDATES[-contest.GO_ON :])
    assert not set(part.methods) & set(RIVALS)
    seeds = range(contest.FIRST_SEED, contest.FIRST_SEED + 3)
    for seed in seeds:
        for game, method in part.pairs():
            made(part.trial(game, method, chosen, seed), better[method] * seed / seeds[1])
    written = list(contest.tables("report", store, len(seeds)))
    found = {text.split(":")[0]: text.splitlines() for text in written if ": **Gain" in text and "held out" in text}
    assert list(found) == ["H1", "H2", "H3", "H4"] and len(written) == 2 + 2 * 4 + 2
    for which, against in (("H1", BASELINES), ("H2", CONTROLS), ("H3", (contest.NOT_SHARED,)), ("H4", ALL_ADVANTAGES)):
        title, _, _, _, first, *_ = found[which]
        among = [method for method in against if method in part.methods]
        gain = 100 * (better[CANDIDATES[-1]] - better[among[-1]])
        assert f"**Gain over {among[-1].name}**, the best of {len(among)}, " in title
        assert first.startswith(f"| {CANDIDATES[-1].name} | {gain:+.1f} | {gain:+.1f} | {gain:+.1f} ± ")
