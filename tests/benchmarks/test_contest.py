"""The preregistered contest: its statistics on made-up records with known answers, its stages, and going on."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import contest
from benchmarks.contestants import (
    ALL_ADVANTAGES,
    AS_PUBLISHED,
    BASELINES,
    CANDIDATES,
    CONTROLS,
    CONTROLS_OF,
    FROZEN,
    NOT_SHARED,
    POSITIVE,
    POSITIVE_ALONE,
    RIVALS,
)
from benchmarks.lab.contest import Contest
from benchmarks.lab.controls import anywhere, shuffled
from benchmarks.lab.pages import write_curves
from benchmarks.lab.store import Store
from benchmarks.lab.strata import corrected, half_width, stratified
from benchmarks.lab.trainee import FIRST_HELD_OUT, TASKS, first_task
from benchmarks.lab.trial import HALF_AS_GOOD, TUNING, Game, Method, Record, Sizes, Trial
from benchmarks.lab.verdict import leading, ranking, room, verdict
from benchmarks.wordings import equal_wording
from reward_service.intentions.corpus import Corpus
from reward_service.intentions.gist import Gist
from reward_service.intentions.reading import EpisodeReading, Reading

ROOT = Path(__file__).parents[2]
ONE, TWO = Game("one", "parrot"), Game("two", "parrot", ("game.options.rounds=2",))
BASE, OTHER, GOOD, SAME = (Method(name) for name in ("base", "other base", "good", "same"))
RATE = 1e-3
TAKES = {  # what it has that the other has not
    "gae, positive": ("gae, hidden-state critic", {POSITIVE}),
    "regressed, positive": ("regressed, hidden-state critic", {POSITIVE}),
    "aria, positive": ("aria, own half", {POSITIVE}),
    "per-turn mean, positive": ("per-turn mean", {POSITIVE}),
    "equal texts, own half, positive": ("equal texts, own half", {POSITIVE}),
}
EVERY = tuple(
    dict.fromkeys((*BASELINES, *RIVALS, *CANDIDATES, *(each for of in CONTROLS_OF.values() for each in of), *CONTROLS))
)
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
    found = str(verdict(MADE, store, 16, (BASE, OTHER), "held out"))
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ") for line in found.splitlines()}
    assert "Gain over other base" in found and "16 seeds" in found
    assert rows["good"][1:3] == ["+13.8", "+13.8"] and rows["good"][3].startswith("+13.8 ± ")
    assert float(rows["good"][4]) < 0.001 and rows["same"][3].startswith("-2.0")
    assert float(rows["same"][4]) > 0.9, "level with one of the baselines"
    of_one = verdict(MADE, store, 16, (BASE, OTHER), "held out", tested=(GOOD,), chosen_among=3).rows
    assert [row.name for row in of_one] == ["good"] and of_one[0].p == pytest.approx(3 / 20_001, rel=1e-6)
    none = verdict(MADE, Store(tmp_path / "none.jsonl"), 16, (BASE,), "while learning")
    assert "not all have two seeds" in str(none) and not none.rows


def test_a_run_that_is_missing_hides_what_came_after_it(tmp_path):
    """Or pairs would be of unequal seeds."""
    store = Store(tmp_path / "made.jsonl")
    tuned(store, {BASE: 0.5, GOOD: 0.5})
    for game in MADE.games:
        for seed in range(100, 108):
            for method in (BASE, GOOD):
                if (game, seed, method) != (TWO, 104, GOOD):
                    put(store, MADE.trial(game, method, RATE, seed), 0.01 * (seed - 100) ** 2)
    found = verdict(MADE, store, 8, (BASE,), "held out", tested=(GOOD,))
    assert "4 seeds" in found.title and found.rows[0].games == [0.0, 0.0]


def test_a_policy_whose_numbers_are_not_finite_has_nothing_to_show(tmp_path):
    trial = MADE.trial(ONE, BASE, RATE, 100)
    failed = Record(asdict(trial), [0.8], [10], failure="numbers that stay bad")
    assert failed.mean == 0.2 and failed.final == 0.0 and Record(asdict(trial), failure="at once").mean == 0.0
    assert Record(asdict(trial), [0.8, 0.4], [10, 10], failure=HALF_AS_GOOD).mean == pytest.approx(0.6)
    assert contest.whole([failed]) == 0.2
    short = contest.TUNE.trial(ONE, BASE, RATE, 90)
    assert contest.late([Record(asdict(short), [0.1] * 20 + [0.6] * 10, [9] * 30, failure="bad")]) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="not a number"):
        corrected({"one": [[1.0, float("nan")]]})


def test_those_that_go_on_gained_most_on_the_tuning_seeds(tmp_path):
    store = Store(tmp_path / "made.jsonl")
    tuned(store, {BASE: 0.4, OTHER: 0.2, GOOD: 0.6})

    def start(game: Game, method: Method) -> float:
        return 0.3 if method is GOOD else 0.0

    assert leading(MADE, store, MADE.methods, 2, start) == [BASE, GOOD], "whoever has not been tuned does not go on"
    assert ranking(MADE, store, start).index("| base") < ranking(MADE, store, start).index("| good")
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
    held_out = range(FIRST_HELD_OUT, FIRST_HELD_OUT + contest.SIZES.held_out)
    assert all(min(each[-1], held_out[-1]) < max(each[0], held_out[0]) for each in tasks), "never trained on"
    assert len({each[0] for each in tasks}) == len(tasks)


def test_only_those_that_go_on_bring_their_controls(tmp_path, monkeypatch):
    going_on = ["regressed, positive", "gigpo, intention anchors"]
    monkeypatch.setattr(contest, "leading", lambda _, __, among, *___: [one for one in among if one.name in going_on])
    part = contest.reporting(Store(tmp_path / "made.jsonl"))
    more = {"equal texts, regressed, positive", "gigpo", *going_on}
    assert {method.name for method in part.methods} == {method.name for method in (*BASELINES, *CONTROLS)} | more
    assert len(part.methods) == len(BASELINES) + len(CONTROLS) + 4, "each once"
    reported = {part.trial(part.games[0], part.methods[0], RATE, 116 + number).warm_start for number in range(16)}
    assert len(reported) == 16 and not reported & {trial.warm_start for trial in contest.TUNE.to_tune(Store(tmp_path))}


def test_what_is_left_is_told_in_hours(tmp_path):
    store = Store(tmp_path / "made.jsonl")
    runs = len(contest.left("report", store))
    assert runs % (4 * 16) == 0 and len(BASELINES) + 4 < runs / 64 < len(EVERY)
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
    assert len({method.name for method in EVERY}) == len(EVERY) == len({method.settings for method in EVERY})
    first, *others = contest.GAMES
    for game, method in [(first, method) for method in EVERY] + [(game, EVERY[0]) for game in others]:
        config = contest.TUNE.trial(game, method, RATE, 90).config
        assert config.group_size == method.group_size and config.seed == 90
    by_name = {method.name: set(method.settings) for method in EVERY}
    for name in ("aria, own half", "aria, positive", "aria, by evidence", "aria, by evidence, half-life"):
        matched, _, mixed, equal = CONTROLS_OF[name]
        changed = 3 if "evidence" in name else 2  # another pooling, and `own` beside it
        assert len(by_name[matched.name] ^ by_name[name]) in (changed, changed + 1)
        assert len(by_name[mixed.name] ^ by_name[name]) == len(by_name[equal.name] ^ by_name[name]) == 2
    for name in ("regressed, positive", "regressed, hidden-state critic"):
        assert len(by_name[CONTROLS_OF[name][-1].name] ^ by_name[name]) == 2
    assert CONTROLS_OF.keys() == {method.name for method in CANDIDATES}
    for name, (other, more) in TAKES.items():
        assert by_name[name] - by_name[other] == more, name
    assert {method.group_size for method in FROZEN} == {method.group_size for method in EVERY}


def test_shuffled_turns_are_those_of_other_turns():
    readings = [
        EpisodeReading(("lab", game, 0), [Reading(("game", "a"), said, heard, game / 9, (), (True,) * 3)])
        for game in range(5)
        for said, heard in [([Gist(f"{game}{turn}") for turn in range(game + 1)], list(range(-game - 1, 0)))]
    ]

    def turns(found):
        return [turn for each in found for seat in each.seats for turn in zip(seat.said, seat.heard, strict=True)]

    dealt = shuffled(readings, 3)
    assert sorted(turns(dealt)) == sorted(turns(readings)) and turns(dealt) != turns(readings)
    assert turns(dealt) == turns(shuffled(readings, 3)) != turns(shuffled(readings, 4))
    for old, new in zip(readings, dealt, strict=True):
        kept = [(each.identity, seat.player, seat.outcome, seat.turns) for each in (old, new) for seat in each.seats]
        assert kept[0] == kept[1]


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
    chosen = contest.parts("tune", store)[1:]
    assert len(chosen) == 2 and not contest.to_tune("tune", store)
    for part in (*chosen, contest.STILL_ONES):
        for line in ranking(part, store, contest.start(store)).splitlines()[2:]:
            assert line in page.splitlines(), line
    at_an_end = {contest.RATES[0], contest.RATES[-1]}
    assert not any(part.best_rate(store, *pair) in at_an_end for part in chosen for pair in part.pairs())
    brought = [float(row[-1]) for row in rows[-len(contest.GAMES) :]]
    assert f"That is {np.mean(brought):.1f} points over the per-turn mean" in page
    assert np.mean([float(row[-1]) for row in rows[: len(contest.GAMES)]]) >= 10


def test_the_page_has_every_table_and_the_picture_of_the_records(tmp_path):
    page, store = (ROOT / "docs/results/intention_credit.md").read_text(), Store(contest.RECORDS)
    whole = " ".join(page.split())
    for each in contest.tables("report", store, contest.SEEDS):
        for part in each.split("\n\n"):
            assert " ".join(part.split()) in whole, part
    write_curves(contest.drawn(store), store, contest.SEEDS, contest.SHOWN, tmp_path / "drawn.webp")
    assert (tmp_path / "drawn.webp").read_bytes() == contest.CURVES.read_bytes()


def test_the_report_has_each_hypothesis_against_its_own(tmp_path, monkeypatch):
    """Made-up scores: in the order of a list each method is a point better, and candidates are ahead of all others."""
    monkeypatch.setattr(contest, "GAMES", contest.GAMES[:2])
    monkeypatch.setattr(contest, "SEEDS", 7)
    for name in ("TUNE", "STILL_ONES"):
        monkeypatch.setattr(contest, name, replace(getattr(contest, name), games=contest.GAMES))
    store, chosen = Store(tmp_path / "made.jsonl"), contest.BEGIN[1]
    others = tuple(method for method in EVERY if method not in CANDIDATES)
    better = dict(zip((*FROZEN, *others, *CANDIDATES), np.arange(100) / 100, strict=False))

    def made(trial: Trial, score: float) -> None:
        updates, held_out = trial.sizes.updates, None if trial.seed in TUNING else score
        store._keep(Record(asdict(trial), [score] * updates, [10] * updates, held_out))

    def tune(part: Contest) -> None:
        for trial in part.to_tune(store):
            made(trial, better[trial.method] - (trial.rate != chosen) * 0.1)

    tune(contest.STILL_ONES)
    assert contest.next_stage(store) == "bound" and len(contest.parts("tune", store)) == 2
    tune(contest.TUNE)
    part = contest.reporting(store)
    assert [*part.methods[len(BASELINES) :][:3]] == [*CANDIDATES[:-4:-1]] and set(part.methods) & set(RIVALS) == {
        RIVALS[-1]
    }
    assert contest.to_tune("tune", store), "controls are tuned when it is known whose"
    tune(part)
    assert not contest.to_tune("tune", store)
    assert "Nothing is shown" in next(contest.tables("report", store, 7))
    seeds = range(contest.FIRST_SEED, contest.FIRST_SEED + contest.SEEDS)
    for seed in seeds:
        for game, method in part.pairs():
            made(part.trial(game, method, chosen, seed), better[method] * seed / seeds[3])
    assert not contest.left("report", store)
    written = list(contest.tables("report", store, len(seeds)))
    found = {text.split(":")[0]: text.splitlines() for text in written if ": **Gain" in text and "held out" in text}
    best = CANDIDATES[-1]
    controls = [method for method in part.methods if method in (*CONTROLS_OF[best.name], *CONTROLS)]
    asked = {
        "H1": (best, BASELINES),
        "H2": (best, controls),
        "H3": (AS_PUBLISHED, (NOT_SHARED,)),
        "H4": (POSITIVE_ALONE[-1], ALL_ADVANTAGES),
    }
    assert [*found] == [which + more for which in asked for more in ("", f" without {contest.GAMES[0].name}")]
    for which, (method, against) in asked.items():
        title, _, _, _, first, *_ = found[which]
        over = max(against, key=better.__getitem__)
        gain = 100 * (better[method] - better[over])
        assert f"**Gain over {over.name}**, the best of {len(against)}, " in title
        assert first.startswith(f"| {method.name} | {gain:+.1f} | {gain:+.1f} | {gain:+.1f} ± ")
        decided = next(text for text in written if text.startswith(f"**{which} "))
        low = which in ("H4",)
        assert ("does not hold" in decided) == low and (low or method.name in decided), decided


def test_pairs_of_one_intention_are_counted_by_turns():
    """Two wordings of 3 and 1 turns share an intention, one of 2 has its own: 9 + 1 + 4 of 16 + 4 pairs."""
    corpus = Corpus()
    corpus.learn([Gist("a"), Gist("b"), Gist("c")], np.eye(3))
    corpus.count([0, 0, 0, 1, 2, 2])
    space = SimpleNamespace(features=lambda points, gists: points, labels=lambda _: np.array([5, 5, 7]))
    assert equal_wording(SimpleNamespace(space=space, corpus=corpus)) == "70 %"


def test_a_reported_run_tells_no_score_and_tables_wait_for_what_they_are_measured_by(tmp_path):
    store = Store(tmp_path / "made.jsonl")
    trial = contest.TUNE.trial(contest.GAMES[0], BASELINES[0], RATE, contest.FIRST_SEED)
    assert contest.told_of(Record(asdict(trial), [0.123], [9], 0.456)) == "done"
    assert "0.123" in contest.told_of(Record(asdict(trial), [0.123], [9], None))
    for rate in contest.GRID:
        for seed in TUNING[: contest.WARM_STARTS]:
            put(store, contest.TUNE.trial(contest.GAMES[0], BASELINES[0], rate, seed), 0.5)
    (only,) = contest.tables("tune", store, contest.SEEDS)
    assert only.startswith("32 runs of a policy that does not learn are missing")
