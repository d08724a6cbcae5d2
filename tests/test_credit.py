"""Credit and batches: exact values, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from learners.batch import collect
from learners.credit import Turns, assign_credit, turns_of
from learners.credit.reinforce import reinforce, rewards_to_go
from learners.settings import CreditSettings
from reward_service.shaper import ShapedRewards
from tests.learner_batches import make_batch

# Three trajectories of 3, 1 and 2 turns; the last two are seats of one game.
TURNS = Turns(
    offsets=np.array([0, 3, 4, 6]),
    rewards=np.array([1.0, 0.0, 4.0, 2.0, 0.0, 6.0]),
    tokens=np.array([2, 1, 1, 3, 1, 2]),
    episode=np.array([7, 8, 8]),
    terminated=np.array([True, True, False]),
)
RETURNS = [2.0, 2.0, 4.0, 2.0, 3.0, 6.0]  # gamma = .5


def per_turn(baseline: str, state: dict | None = None):
    credit = reinforce(TURNS, CreditSettings(gamma=0.5, baseline=baseline), state or {})
    starts = np.cumsum(TURNS.tokens) - TURNS.tokens
    for turn, (start, count) in enumerate(zip(starts, TURNS.tokens, strict=True)):
        assert len(set(credit.advantages[start : start + count])) == 1, f"tokens of turn {turn} share its advantage"
    return credit.advantages[starts], credit


def test_rewards_to_go_and_each_baseline_by_hand():
    assert per_turn("none")[0].tolist() == RETURNS
    assert per_turn("none")[1].returns.tolist() == RETURNS
    assert per_turn("batch")[0] == pytest.approx(np.array(RETURNS) - 19 / 6)
    assert per_turn("turn")[0] == pytest.approx([2 - 7 / 3, 2 - 4, 0, 2 - 7 / 3, 3 - 7 / 3, 6 - 4])
    # the two seats of game 8 leave each other out too
    others = np.array([11, 11, 11, 8, 8, 8]) / 3
    assert per_turn("leave_one_out")[0] == pytest.approx(np.array(RETURNS) - others)


def test_running_baseline_is_read_before_the_batch_is_added():
    first, credit = per_turn("running")
    assert first == pytest.approx(np.array(RETURNS) - 19 / 6)
    assert credit.state == {"running_return": pytest.approx(19 / 6)}
    state = {"running_return": 1.0}
    second, credit = per_turn("running", state)
    assert second == pytest.approx(np.array(RETURNS) - 1.0)
    assert credit.state["running_return"] == pytest.approx(0.9 * 1.0 + 0.1 * 19 / 6)
    assert state == {"running_return": 1.0}, "the state that was given is left alone"


def test_rewards_to_go_matches_a_plain_loop():
    trajectories = collect(*make_batch(40, seed=3, most_turns=9))
    turns = turns_of(trajectories)
    expected = []
    for trajectory in trajectories:
        after, returns = 0.0, []
        for reward in trajectory.rewards[::-1]:
            after = reward + 0.9 * after
            returns.append(after)
        expected += returns[::-1]
    assert rewards_to_go(turns, 0.9) == pytest.approx(np.array(expected), abs=1e-12)


def test_ready_made_advantages_are_only_spread_over_tokens():
    episodes, rewards = make_batch(3, seed=1)
    for reward in rewards:
        reward.kind = "advantage"
    trajectories = collect(episodes, rewards)
    credit = assign_credit(trajectories, CreditSettings(baseline="batch"), {})
    expected = np.concatenate([np.repeat(t.rewards, t.turn_tokens) for t in trajectories]).astype(np.float32)
    assert np.array_equal(credit.advantages, expected)


def test_leave_one_out_of_one_episode_is_refused():
    trajectories = collect(*make_batch(1, seed=0))
    with pytest.raises(ValueError, match="at least two episodes"):
        assign_credit(trajectories, CreditSettings(baseline="leave_one_out"), {})


def test_a_batch_does_not_depend_on_the_order_of_arrival():
    episodes, rewards = make_batch(6, seed=2, seats=("a", "b"))
    here, there = collect(episodes, rewards), collect(episodes[::-1], rewards[::-1])
    assert [(t.number, t.seat) for t in here] == [(t.number, t.seat) for t in there]
    assert all(np.array_equal(a.sequence.ids, b.sequence.ids) for a, b in zip(here, there, strict=True))


def test_what_does_not_fit_is_named():
    episodes, rewards = make_batch(3, seed=4)
    with pytest.raises(ValueError, match="episode 2: seat 'guesser' has no reward"):
        collect(episodes, rewards[:-1])
    with pytest.raises(ValueError, match="names episode 9, seat 'guesser'"):
        collect(episodes, [*rewards, ShapedRewards(9, "guesser", np.zeros(1), 0)])
    with pytest.raises(ValueError, match="episode 0: seat 'guesser' was rewarded twice"):
        collect(episodes, [*rewards, rewards[0]])
    with pytest.raises(ValueError, match="episode 1 is in the batch twice"):
        collect([*episodes, episodes[1]], rewards)
    rewards[1].rewards = np.append(rewards[1].rewards, 0.0)
    with pytest.raises(ValueError, match=r"episode 1: seat 'guesser' has \d turns but \d rewards"):
        collect(episodes, rewards)
    rewards[1].rewards = np.full(len(rewards[1].rewards) - 1, np.nan)
    with pytest.raises(ValueError, match=r"episode 1.*not finite"):
        collect(episodes, rewards)
    rewards[1].rewards = np.zeros(len(rewards[1].rewards))
    rewards[2].kind = "advantage"
    with pytest.raises(ValueError, match="must all be 'reward' or all 'advantage'"):
        collect(episodes, rewards)
