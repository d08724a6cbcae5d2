"""ArCHer in the learner: ranks hold the same critics, a restart goes on, and a run trains with it."""

from __future__ import annotations

import numpy as np
import pytest

from learners.batch.trajectories import collect
from tests.learners.test_learner_critic import cut_off
from tests.support.learner_batches import make_batch
from tests.support.learner_pair import Learners, distance
from tests.support.runs import config_for, metrics_of, run

ARCHER = {
    "credit": {
        "method": "archer",
        "gamma": 0.9,
        "critic": {"replay": {"turns": 60, "steps": 5, "draws": 32}},
    },
}
BATCHES = [cut_off(make_batch(9, seed=seed, most_turns=5)) for seed in (81, 82, 83, 84)]


@pytest.fixture(scope="module")
def alone(ray_cluster, tiny_model):
    one = Learners(ray_cluster, str(tiny_model), processes=1)
    yield one
    ray_cluster.kill(one.processes[0])


@pytest.fixture(scope="module")
def expected(alone) -> tuple:
    """Three updates of one rank: the policy before and after, the critics, the figures."""
    alone.become(**ARCHER)
    before = alone.call("parameters")
    figures = [alone.call("update", *batch) for batch in BATCHES[:3]]
    return before, alone.call("parameters"), alone.turn_critics()[0], figures


@pytest.mark.long
@pytest.mark.parametrize("zero", [2, 3])
def test_two_ranks_hold_the_critics_that_one_would(learners, expected, zero):
    before, policy, critics, figures = expected
    learners.become(zero=zero, **ARCHER)
    found = [learners.call("update", *batch) for batch in BATCHES[:3]]
    mine, other = learners.turn_critics()
    assert all(np.array_equal(mine[name], other[name]) for name in mine), "ranks hold the same critics"
    assert len(mine["replay rewards"]) == 60 < sum(f["trajectories"] for f in found) * 3
    for name in critics:
        # 60 steps of AdamW each: a gradient near 0 whose sign rounding decides moves its weight a whole step
        apart, size = np.linalg.norm(mine[name] * 1.0 - critics[name]), np.linalg.norm(critics[name])
        assert apart <= 1e-3 * size + 1e-6, name
    assert distance(learners.call("parameters"), policy) < 1e-2 * distance(policy, before)
    for here, there in zip(found, figures, strict=True):
        for name in ("critic_loss_q", "critic_loss_v", "value_mean", "replay_turns", "advantage_std"):
            assert here[name] == pytest.approx(there[name], rel=1e-3, abs=1e-6)
    one, two = learners.readings(collect(*BATCHES[3]))
    assert one.keys() == two.keys() == {"turn_values", "action_values"}
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.long
def test_untaught_critics_give_no_credit_and_taught_ones_move_the_policy(learners):
    learners.become(**ARCHER)
    before = learners.call("parameters")
    first = learners.call("update", *BATCHES[0])
    assert first["applied"] == 1 and first["grad_norm"] == first["value_mean"] == first["advantage_std"] == 0
    assert distance(learners.call("parameters"), before) == 0
    second = learners.call("update", *BATCHES[1])
    assert second["grad_norm"] > 0 and second["value_mean"] != 0
    assert distance(learners.call("parameters"), before) > 0
    assert second["replay_turns"] > first["replay_turns"] == sum(len(e.turns) for e in BATCHES[0][0])


def test_a_restored_learner_goes_on_to_the_same_bytes(learners, tmp_path):
    learners.become(**ARCHER)
    for batch in BATCHES[:2]:
        learners.call("update", *batch)
    learners.call("save", str(tmp_path))
    whole = [learners.call("update", *batch) for batch in BATCHES[2:]]
    policy, critics = learners.call("parameters"), learners.turn_critics()
    learners.become(**ARCHER)
    learners.call("load", str(tmp_path))
    again = [learners.call("update", *batch) for batch in BATCHES[2:]]
    assert [f["critic_loss_q"] for f in again] == [f["critic_loss_q"] for f in whole]
    assert all(np.array_equal(policy[name], found) for name, found in learners.call("parameters").items())
    for here, there in zip(learners.turn_critics(), critics, strict=True):
        assert here.keys() == there.keys() and all(np.array_equal(here[name], there[name]) for name in here)


def test_a_skipped_update_leaves_no_trace_in_the_critics(learners):
    learners.become(**ARCHER)
    for batch in BATCHES[:2]:
        learners.call("update", *batch)
    before = learners.turn_critics()[0]
    episodes, rewards = make_batch(9, seed=85)
    for turn in episodes[0].turns:
        turn.tokens.versions[:] = -7
        turn.tokens.logprobs[:] = np.nan
    assert learners.call("update", episodes, rewards)["applied"] == 0
    after = learners.turn_critics()[0]
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_batch_in_which_nobody_spoke_teaches_nothing(learners):
    learners.become(**ARCHER)
    learners.call("update", *BATCHES[0])
    held = learners.turn_critics()[0]
    episodes, rewards = make_batch(4, seed=86)
    for turn in (turn for episode in episodes for turn in episode.turns):
        for name in ("utterance_ids", "logprobs", "versions"):
            setattr(turn.tokens, name, getattr(turn.tokens, name)[:0])
    learners.call("update", episodes, rewards)
    after = learners.turn_critics()[0]
    assert all(np.array_equal(held[name], after[name]) for name in held)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("choose_listed", [False, True])
def test_a_run_trains_with_it(ray_cluster, parrot_model, tmp_path, choose_listed):
    config = config_for(
        parrot_model,
        tmp_path,
        updates=3,
        reward={"shaper": "game"},
        rollout={"choose_listed": choose_listed, "engine": {"kind": "transformers"}},
        learner={"learning_rate": 1e-2} | ARCHER,
    )
    summary, folder = run(config)
    rows = metrics_of(folder)
    assert rows[0]["learner/grad_norm"] == 0 < min(row["learner/grad_norm"] for row in rows[1:])
    assert [row["learner/replay_turns"] for row in rows] == [24, 48, 60]
    assert all(row.get("learner/logprob_gap_max", 0.0) < 1e-4 for row in rows)
    assert summary["ledger"]["ledger/consumed"] == 3 * 8
