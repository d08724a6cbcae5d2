"""The experiments: resumable, paired by seed, tuned apart, and learning as a real learner does."""

from __future__ import annotations

import json
import lzma
import multiprocessing
import time
from concurrent.futures import Future
from dataclasses import asdict, replace

import numpy as np
import psutil
import pytest

from benchmarks import contest, intention_credit, words
from benchmarks.lab import store as store_module
from benchmarks.lab.contest import Contest, estimate, gain, second_half, whole_and_late
from benchmarks.lab.gradients import measured, told
from benchmarks.lab.pages import (
    costs,
    gains,
    gradient_table,
    mean_of,
    outcomes,
    speeds,
    step_sizes,
    transfers,
    write_curves,
)
from benchmarks.lab.store import Store, _ended, _pool
from benchmarks.lab.trainee import Trainee
from benchmarks.lab.trial import RECIPES, TUNING, Game, Method, Record, Sizes, Trial, destroyed, run, warm_start
from cluster.recipe.reading import load_recipe

TINY = Sizes(updates=2, batch=8, held_out=8, cloning_steps=40)
PLAIN, OTHER = Method("plain"), Method("regressed", ("reward.shaper=regressed",))
PARROT = Game("parrot", "parrot")
CONTEST = Contest(
    games=(PARROT,), methods=(PLAIN, OTHER), begin=(1e-3, 3e-3), warm_starts=1, sizes=TINY, rates=(1e-3, 3e-3)
)


def trial(**changes) -> Trial:
    return replace(Trial(PARROT, PLAIN, 1e-3, 3, 0, TINY), **changes)


def record(seed: int, method: Method, rate: float, outcome: float) -> tuple[Trial, Record]:
    made = CONTEST.trial(PARROT, method, rate, seed)
    return made, Record(asdict(made), [outcome / 2, outcome], [10, 10], outcome, seconds={"play": 1.0})


def filled(path) -> Store:
    """Two methods; the second is better by .1 at every seed, at the larger step size."""
    store = Store(path)
    for seed in (*TUNING[:2], 0, 1, 2):
        for method, better in ((PLAIN, 0.0), (OTHER, 0.1)):
            for rate in CONTEST.rates:
                store.put(*record(seed, method, rate, 0.2 + better + (0.05 * seed % 0.3) - (0.1 if rate < 2e-3 else 0)))
    return store


def test_an_interval_is_students():
    found = estimate([1.0, 2.0, 3.0, 4.0])
    assert found.mean == 2.5
    assert found.half == pytest.approx(3.18245 * 1.29099 / 2, rel=1e-4)


def test_gains_are_taken_in_pairs(tmp_path):
    store = filled(tmp_path / "records.jsonl")
    one, other = (CONTEST.records(store, PARROT, method, 3) for method in (OTHER, PLAIN))
    found = gain(one, other, lambda each: each.final)
    assert found.mean == pytest.approx(0.1)
    assert found.half == pytest.approx(0.0, abs=1e-9)  # though the seeds differ by far more


def test_the_step_size_is_that_of_the_best_curve_on_other_seeds(tmp_path):
    store = filled(tmp_path / "records.jsonl")
    assert CONTEST.best_rate(store, PARROT, PLAIN) == 3e-3
    for seed in TUNING[:2]:
        store.put(*record(seed, PLAIN, 1e-3, 0.9))
    assert CONTEST.best_rate(store, PARROT, PLAIN) == 1e-3
    assert TUNING[0] > 60


def test_what_is_fast_and_then_forgets_is_worth_less_in_the_second_half(tmp_path):
    store, later = Store(tmp_path / "records.jsonl"), replace(CONTEST, tuning_seeds=1, worth=second_half)
    for rate, scores in ((1e-3, [0.1, 0.2, 0.6, 0.7]), (3e-3, [0.8, 0.8, 0.6, 0.6])):
        made = CONTEST.trial(PARROT, PLAIN, rate, TUNING[0])
        store.put(made, Record(asdict(made), scores, [30, 30, 20, 40]))
    assert replace(CONTEST, tuning_seeds=1).best_rate(store, PARROT, PLAIN) == 3e-3
    assert later.best_rate(store, PARROT, PLAIN) == 1e-3
    assert store.get(made).late == pytest.approx(0.6)  # the batch that ends at half of the steps is of the first
    equal = CONTEST.trial(PARROT, PLAIN, 3e-3, TUNING[0])
    store.put(equal, Record(asdict(equal), [0.8, 0.8, 0.654, 0.651], [30, 30, 20, 40]))
    assert later.best_rate(store, PARROT, PLAIN) == 1e-3, "less than half a point is none: the smaller one"
    store.put(equal, Record(asdict(equal), [0.8, 0.8, 0.9, 0.9], [30, 30, 20, 40], failure="it is destroyed"))
    assert later.best_rate(store, PARROT, PLAIN) == 1e-3


def test_a_game_may_take_the_step_sizes_of_another(tmp_path):
    store, other = filled(tmp_path / "records.jsonl"), replace(PARROT, name="another", settings=("batch_episodes=4",))
    contest = replace(CONTEST, games=(PARROT, other), tuned_on={other.name: PARROT})
    assert not store.missing(contest.tuning(store, other, PLAIN))
    assert contest.best_rate(store, other, PLAIN) == CONTEST.best_rate(store, PARROT, PLAIN)
    assert {trial.game for trial in contest.reported(store, other, PLAIN, 2)} == {other}
    assert store.missing(CONTEST.tuning(store, other, PLAIN)), "else it is tuned on its own"


@pytest.mark.parametrize(("best", "tried"), [(1e-4, {1e-4, 3e-4, 1e-3, 3e-3}), (1e-3, {3e-4, 1e-3, 3e-3}),
                                             (3e-2, {1e-3, 3e-3, 1e-2, 3e-2})])  # fmt: skip
def test_step_sizes_are_tried_until_the_best_one_has_been_compared_with_its_neighbours(tmp_path, best, tried):
    contest = Contest((PARROT,), (PLAIN,), (1e-3, 3e-3), 1, TINY)
    store = Store(tmp_path / "records.jsonl")
    while missing := store.missing(contest.tuning(store, PARROT, PLAIN)):
        for made in missing:
            store.put(
                made, Record(asdict(made), [1.0 - abs(contest.rates.index(made.rate) - contest.rates.index(best))])
            )
    assert {made.rate for made in contest.tuning(store, PARROT, PLAIN)} == tried
    assert contest.best_rate(store, PARROT, PLAIN) == best


def test_records_survive_a_kill_and_answer_for_their_own_trial_only(tmp_path):
    path = tmp_path / "records.jsonl"
    store = Store(path)
    made, found = record(0, PLAIN, 1e-3, 0.25)
    store.put(made, found)
    with path.open("a") as file:
        file.write(json.dumps(asdict(found))[:30])  # cut off in the middle
    again = Store(path)
    assert again.get(made).outcomes == [0.125, 0.25]
    assert again.missing([made, replace(made, seed=1)]) == [replace(made, seed=1)]
    assert again.get(replace(made, sizes=replace(TINY, batch=16))) is None
    again.put(*record(1, PLAIN, 1e-3, 0.5))
    assert not Store(path).missing([made, replace(made, seed=1)])


def test_packed_records_are_the_same_and_whole(tmp_path):
    store = Store(filled(tmp_path / "records.jsonl").path)
    before, lines = dict(store.records), store.path.read_text()
    store.pack()
    assert not store.path.exists() and len(store.packed.read_bytes()) < len(lines) / 4
    again = Store(store.path)
    assert again.records == before
    added = record(7, PLAIN, 1e-3, 0.5)
    again.put(*added)
    assert Store(store.path).records.keys() == again.records.keys(), "a packed file and new lines beside it"
    again.pack()
    rows = [*map(json.loads, (*lines.splitlines(), json.dumps(asdict(added[1]) | {"trial": asdict(added[0])})))]
    columns = json.loads(lzma.decompress(store.packed.read_bytes()))
    assert columns == {name: [row[name] for row in rows] for name in rows[0]}


def test_what_ends_a_contest_ends_the_runs_at_work():
    others = set(multiprocessing.active_children())
    with pytest.raises(TimeoutError), _pool(1) as pool:
        assert pool.submit(int, "1").result(60) == 1  # it has begun
        job, until = pool.submit(time.sleep, 600), time.monotonic() + 10
        while not job.running():
            assert time.monotonic() < until
            time.sleep(0.01)
        at_work = [psutil.Process(process.pid) for process in set(multiprocessing.active_children()) - others]
        raise TimeoutError
    # not asked of multiprocessing: a thread of the pool may have reaped it, and not noted it yet
    assert at_work and not psutil.wait_procs(at_work, timeout=10)[1]


def test_tables_show_every_method_with_its_seeds(tmp_path):
    store = filled(tmp_path / "records.jsonl")
    held_out, _ = outcomes(CONTEST, store, 3)
    assert held_out.index("regressed") < held_out.index("plain")  # the best first
    assert "+" not in held_out and held_out.count("| 3 |") == 2
    assert "held out" in (found := gains(CONTEST, store, 3, ("plain",))) and "10.0 ± 0.0" in found
    assert "while learning" in (found := gains(CONTEST, store, 3, ("plain",), mean_of)) and "7.5 ± 0.0" in found
    assert "| plain | 0.003 |" in step_sizes(CONTEST, store)
    assert "1.000" in costs(CONTEST, store, 3)


def test_a_committed_picture_is_redrawn_byte_for_byte(tmp_path):
    store = Store(contest.RECORDS)
    write_curves(contest.drawn(store), store, contest.SEEDS, contest.SHOWN, tmp_path / "drawn.webp")
    assert (tmp_path / "drawn.webp").read_bytes() == contest.CURVES.read_bytes()


def test_a_method_that_cannot_play_a_game_is_left_out_of_it_alone(tmp_path):
    second = replace(PARROT, name="other parrot", transfer=("game.options.turns=2",))
    both = replace(CONTEST, games=(PARROT, second), left_out=frozenset({("other parrot", "regressed")}))
    store = filled(tmp_path / "records.jsonl")
    for seed in (*TUNING[:2], 0, 1, 2):
        for rate in CONTEST.rates:
            made = both.trial(second, PLAIN, rate, seed)
            there = {"game.options.turns=2": 0.25}, {"game.options.turns=2": 0.1 * (seed % 2)}
            store.put(made, Record(asdict(made), [0.5, 0.5], [10, 10], 0.5, *there))
    assert len(both.pairs()) == 3
    rows = {line.split(" | ")[0].strip("| "): line for line in next(outcomes(both, store, 3)).splitlines()}
    assert rows["regressed"].count("| - |") == 1 and rows["regressed"].endswith("| - | 3 |")
    assert "**50.0 ± 0.0**" in rows["plain"]
    assert "regressed" not in gains(both, store, 3, ("plain",))
    assert "| regressed | 0.003 | - |" in step_sizes(both, store)
    assert "| warm start | 3.3 |\n| plain | 25.0 ± 0.0 |" in transfers(both, store, 3)
    # the better one's mean curve, smoothed, goes from half of its end to three quarters; the other's is lower
    reached = {line.split(" | ")[0].strip("| "): line for line in speeds(CONTEST, store, 3).splitlines()}
    assert "not reached" in reached["plain"] and "| 17 |" in reached["regressed"]


def test_at_equal_steps_a_batch_counts_by_its_steps():
    made = trial(sizes=replace(TINY, steps=30))
    assert Record(asdict(made), [0.0, 1.0], [20, 20]).mean == pytest.approx(1 / 3)  # what is beyond is not counted
    assert Record(asdict(trial()), [0.0, 1.0], [20, 60]).mean == 0.5
    found = run(trial(sizes=replace(TINY, updates=50, steps=60)))
    assert sum(found.steps[:-1]) < 60 <= sum(found.steps)


def test_a_trial_stays_the_same_when_trials_learn_something_new(tmp_path):
    store = Store(tmp_path / "records.jsonl")
    made, found = record(0, PLAIN, 1e-3, 0.25)
    older = json.loads(json.dumps(asdict(found)))
    del older["trial"]["sizes"]["steps"], older["trial"]["game"]["transfer"]
    store.path.write_text(json.dumps(older) + "\n")
    assert Store(store.path).get(made) is not None


OFTEN = {"poad", "twosome, by what would be said"}  # the others train as well, where there is time


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, id=method.name, marks=() if method.name in OFTEN else pytest.mark.long)
        for method in words.PARTS["main"].methods
    ],
)
def test_every_method_of_the_contest_of_word_credit_trains(method):
    found = run(words.PARTS["main"].trial(replace(words.CASE, sizes=replace(TINY, batch=16)), method, 1e-3, 0))
    assert not found.failure and len(found.outcomes) == 2 and found.steps[0] >= 48


def test_held_out_games_are_played_for_reported_seeds_only():
    other = "game.options.rounds=2"
    assert run(trial(seed=TUNING[0])).final is None
    tried = run(trial(seed=0, game=replace(PARROT, transfer=(other,))))
    assert tried.final is not None
    assert tried.untrained.keys() == tried.transfer.keys() == {other} and tried.untrained != tried.transfer
    assert tried.outcomes == run(trial(seed=0)).outcomes, "what is played elsewhere changes nothing"


def test_a_warm_start_may_be_of_another_game():
    made = trial()
    assert warm_start(made) != warm_start(replace(made, game=replace(PARROT, cloned=("game.options.rounds=2",))))
    assert warm_start(made) == warm_start(replace(made, game=replace(PARROT, transfer=("game.options.rounds=2",))))


@pytest.mark.parametrize(
    ("outcomes", "gone"),
    [
        ([0.4, 0.4, 0.4, 0.1, 0.1, 0.3], True),
        ([0.4, 0.4, 0.4, 0.1, 0.1, 0.5], False),
        ([0.4, 0.4, 0.4, 0.0, 0.0], False),
        ([0.0] * 9, False),
        ([-0.1] * 9, False),
    ],
)
def test_a_policy_is_destroyed_when_it_scores_less_than_half_of_what_it_did(outcomes, gone):
    assert destroyed(outcomes) == gone


def test_a_run_is_the_same_again_and_another_seed_is_not():
    one, again, other = run(trial()), run(trial()), run(trial(seed=4))
    assert one.outcomes == again.outcomes and one.final == again.final
    assert one.outcomes != other.outcomes


def test_sampler_and_learner_share_the_weights():
    """What was just learned is what plays next: log-probs of fresh tokens agree."""
    made = trial()
    trainee = Trainee(made.config, warm_start(made))
    trainee.update()
    before = trainee.play(trainee.tickets(4, 0))
    trainee.update()
    trajectories = trainee.shaped(trainee.next_batch())
    assert all((t.sequence.versions[t.sequence.mask] == 2).all() for t in trajectories)
    from learners.batch.packing import pack_trajectories
    from learners.model.load import pack_logprobs

    pack = pack_trajectories(trajectories, [np.zeros(int(t.turn_tokens.sum())) for t in trajectories], 2)
    found = pack_logprobs(trainee.model, pack, 1.0, trainee.sampler.device).detach().numpy()
    np.testing.assert_allclose(found, pack.sampler_logprobs, atol=1e-4)
    assert before[0].turns[0].tokens.versions[0] == 1


def test_batches_are_played_as_many_updates_ago_as_is_asked_for():
    """The first ones by the first weights; then each that many updates before it is learned from."""
    made = trial()
    trainee = Trainee(made.config, warm_start(made), staleness=2)
    found, batches = [], []
    for _ in range(5):
        (batch, *_) = trainee.waiting or [None]
        found.append(trainee.update()["stale_share"])
        batches.append(batch)
    versions = [batch[0].turns[0].tokens.versions[0] for batch in batches[1:]]
    assert versions == [0, 0, 1, 2] and found == [0, 1, 1, 1, 1]
    numbers = [batch[0].ticket.number for batch in batches[1:]]
    assert numbers == [number * made.sizes.batch for number in range(1, 5)], "none twice, none left out"


def test_a_step_of_the_lab_is_held_by_the_guard_as_the_learners_is():
    made = trial(method=Method("held", ("learner.loss.kl_guard=1e-3",)), rate=3e-3)
    trainee = Trainee(made.config, warm_start(made))
    figures = [trainee.update() for _ in range(3)]
    assert all(each["kept_kl"] <= 1e-3 < each["update_kl"] and 0 < each["step_left"] < 1 for each in figures)


def test_groups_play_one_task_in_different_ways():
    made = trial(method=Method("grpo", ("learner.credit.method=grpo", "group_size=4"), 4))
    trainee = Trainee(made.config, warm_start(made), 4)
    episodes = trainee.next_batch()
    tasks = [episode.ticket.seed for episode in episodes]
    assert tasks == [tasks[0]] * 4 + [tasks[4]] * 4 and tasks[0] != tasks[4]
    assert np.isfinite(trainee.gradient(episodes)).all()


def test_a_gradient_is_measured_against_that_of_a_large_sample(tmp_path, monkeypatch):
    for name, count in (("LARGE_BATCHES", 8), ("BATCHES", 3), ("WARM_UP", 1)):
        monkeypatch.setattr(f"benchmarks.lab.gradients.{name}", count)
    store = Store(tmp_path / "gradients.jsonl", measured, told)
    made, _ = CONTEST.gradients()
    store.put(made, found := measured(made))
    assert 0 < found.figures["cosine"] < 1 and found.figures["noise"] > 0
    rows = {line.split(" | ")[0].strip("| "): line for line in gradient_table(CONTEST, store).splitlines()}
    assert f"| {found.figures['cosine']:.2f} ± " in rows["plain"] and rows["regressed"].endswith("| - |")


def test_the_layer_of_intentions_is_the_method_that_was_measured():
    contest = intention_credit.CONTEST
    measured_form = contest.trial(contest.games[2], intention_credit.OWN_HALF, 1e-3, 0).config.reward.shaper.intentions
    layer = load_recipe(RECIPES / "bargaining.yaml", [str(RECIPES.parent / "shapers" / "aria.yaml")]).reward
    assert layer.shaper.intentions.aggregate == measured_form.aggregate


def test_a_run_that_fails_is_told_and_the_others_go_on(tmp_path):
    store, said = Store(tmp_path / "records.jsonl"), []
    broken = trial(method=Method("broken", ("rollout.episode_seconds=1e-9",)))
    wanted = [trial(seed=1), trial(seed=2)]
    with pytest.raises(RuntimeError, match=r"1 of 3 runs failed, the first: parrot, broken at 0.001, seed 3"):
        store.complete([wanted[0], broken, wanted[1]], 1, said.append)
    assert sum("failed: RuntimeError" in line for line in said) == 1
    assert not Store(store.path).missing(wanted)


def test_a_run_that_hangs_is_noticed_when_the_others_have_ended(monkeypatch):
    monkeypatch.setattr(store_module, "TRIAL_SECONDS", 0.2)
    done, hanging = Future(), Future()
    done.set_result(1)
    ended = _ended([hanging, done])
    assert next(ended) is done
    with pytest.raises(TimeoutError, match="no run has ended for 0.2 s, though 1 are left"):
        next(ended)


def test_a_step_size_is_worth_half_of_all_steps_and_half_of_the_late_ones():
    """What is fast and keeps it is worth most; of two that end alike the faster one."""
    made = trial()
    fast, slow, forgets = (
        Record(asdict(made), outcomes, [10] * 4) for outcomes in ([0.8] * 4, [0.0, 0.0, 0.8, 0.8], [0.8, 0.8, 0.0, 0.0])
    )
    worth = [whole_and_late([each]) for each in (fast, slow, forgets)]
    assert worth == pytest.approx([0.8, 0.6, 0.2])
    assert whole_and_late([replace(fast, failure="stopped")]) == -1.0
