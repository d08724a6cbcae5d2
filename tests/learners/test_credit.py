"""Credit and batches: exact values, the contract of the methods, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from learners.batch.anchors import histories, numbered, observation_anchors
from learners.batch.crediting import assign_credit, turns_of
from learners.batch.trajectories import collect
from learners.credit.method import CREDIT
from learners.credit.steps import rewards_to_go
from learners.credit.turns import FIELDS, Turns
from reward_service.shaper import ShapedRewards
from tests.support.learner_batches import make_batch

METHODS = CREDIT.names

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
    credit = CREDIT.make("reinforce", gamma=0.5, baseline=baseline).credit(TURNS, state or {})
    starts = np.cumsum(TURNS.tokens) - TURNS.tokens
    for turn, (start, count) in enumerate(zip(starts, TURNS.tokens, strict=True)):
        assert len(set(credit.advantages[start : start + count])) == 1, f"tokens of turn {turn} share its advantage"
    return credit.advantages[starts], credit


def test_rewards_to_go_and_each_baseline_by_hand():
    assert per_turn("none")[0].tolist() == RETURNS
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
    credit = assign_credit(trajectories, CREDIT.make("reinforce", baseline="batch"), {})
    expected = np.concatenate([np.repeat(t.rewards, t.turn_tokens) for t in trajectories]).astype(np.float32)
    assert np.array_equal(credit.advantages, expected)


@pytest.mark.parametrize("settings", [CREDIT.make("reinforce", baseline="none"), CREDIT.make("gae", gamma=0.9)])
def test_expected_advantages_go_on_top_of_every_token_of_its_turn(settings):
    episodes, rewards = make_batch(4, seed=5, seats=("a", "b"))
    plain = collect(episodes, rewards)
    readings = readings_of(plain) if settings.needs else {}
    chance = np.random.default_rng(0)
    for reward in rewards:
        reward.expected_advantages = chance.normal(size=len(reward.rewards)).astype(np.float32)
    trajectories = collect(episodes, rewards)
    before, after = (assign_credit(each, settings, {}, **readings) for each in (plain, trajectories))
    expected = np.concatenate([np.repeat(t.expected_advantages, t.turn_tokens) for t in trajectories])
    np.testing.assert_allclose(after.advantages - before.advantages, expected, atol=1e-5)
    if settings.needs:  # a critic learns of rewards, not of what was expected
        np.testing.assert_array_equal(after.targets, before.targets)


def test_advantages_expected_for_some_or_beside_advantages_is_refused():
    episodes, rewards = make_batch(3, seed=5)
    rewards[1].expected_advantages = np.zeros(len(rewards[1].rewards))
    with pytest.raises(ValueError, match="on top of those that credit makes of rewards, for all of a batch"):
        collect(episodes, rewards)
    for reward in rewards:
        reward.kind, reward.expected_advantages = "advantage", np.zeros(len(reward.rewards))
    with pytest.raises(ValueError, match="on top of those that credit makes of rewards"):
        collect(episodes, rewards)
    rewards[0].expected_advantages = np.zeros(1 + len(rewards[0].rewards))
    with pytest.raises(ValueError, match=r"episode 0: seat 'guesser' has \d turns but \d expected_advantages"):
        collect(episodes, rewards)
    rewards[0].expected_advantages = np.full(len(rewards[0].rewards), np.inf)
    with pytest.raises(ValueError, match="episode 0.* has an expected advantage that is not finite"):
        collect(episodes, rewards)


def test_leave_one_out_of_one_episode_is_refused():
    trajectories = collect(*make_batch(1, seed=0))
    with pytest.raises(ValueError, match="at least two episodes"):
        assign_credit(trajectories, CREDIT.make("reinforce", baseline="leave_one_out"), {})


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


# the contract


def readings_of(trajectories, seed: int = 0) -> dict[str, np.ndarray]:
    """Everything that may be handed in, at random."""
    rng = np.random.default_rng(seed)
    sizes = {
        "trained token": sum(int(t.turn_tokens.sum()) for t in trajectories),
        "turn": sum(len(t.rewards) for t in trajectories),
        "trajectory": len(trajectories),
    }
    found = {name: rng.normal(size=sizes[unit]) for name, unit in FIELDS.items() if name != "token_rewards"}
    found["states"] = rng.normal(size=(sizes["turn"], 3))
    return found | {"group": np.arange(sizes["trajectory"]) // 2, "anchor": rng.integers(0, 3, sizes["turn"])}


def test_a_method_is_a_file_with_its_settings_its_needs_and_its_formula():
    assert len(METHODS) == 16
    for name in METHODS:
        method = CREDIT.find(name)
        assert method.__module__ == f"learners.credit.{name}" and CREDIT.name_of(method()) == name
        assert set(method.needs) <= set(FIELDS)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_each_trained_token_its_credit_and_changes_nothing_it_was_given(name):
    trajectories = collect(*make_batch(6, seed=8))
    readings = readings_of(trajectories)
    before = {key: array.copy() for key, array in readings.items()}
    state = {"kept": 1.0}
    credit = assign_credit(trajectories, CREDIT.make(name), state, **readings)
    count = sum(int(t.turn_tokens.sum()) for t in trajectories)
    assert credit.advantages.shape == (count,) and credit.advantages.dtype == np.float32
    assert np.isfinite(credit.advantages).all() and credit.advantages.std() > 0
    assert credit.returns == pytest.approx(rewards_to_go(turns_of(trajectories), 1.0))
    assert state == {"kept": 1.0} and credit.state.items() >= state.items()
    assert all(np.array_equal(before[key], readings[key]) for key in before)
    if "values" in CREDIT.find(name).needs:
        assert credit.targets.shape == (count,) and credit.targets.dtype == np.float32
        again = assign_credit(trajectories, CREDIT.make(name), state, **readings)
        assert again.advantages.tobytes() == credit.advantages.tobytes()


@pytest.mark.parametrize("name", ["gae", "twosome", "poad", "ntpo", "q_learning", "vtrace", "archer"])
def test_a_trajectory_has_the_same_credit_whoever_is_in_the_batch(name):
    trajectories = collect(*make_batch(5, seed=9))
    readings = readings_of(trajectories)
    together = assign_credit(trajectories, CREDIT.make(name), {}, **readings).advantages
    tokens = np.cumsum([0, *(int(t.turn_tokens.sum()) for t in trajectories)])
    turns = np.cumsum([0, *(len(t.rewards) for t in trajectories)])
    ends = {"trained token": tokens, "turn": turns, "trajectory": np.arange(6)}
    for i, trajectory in enumerate(trajectories):
        own = {key: array[ends[FIELDS[key]][i] : ends[FIELDS[key]][i + 1]] for key, array in readings.items()}
        alone = assign_credit([trajectory], CREDIT.make(name), {}, **own).advantages
        assert alone == pytest.approx(together[tokens[i] : tokens[i + 1]], abs=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_without_what_it_needs_says_so(name):
    trajectories = collect(*make_batch(4, seed=5))
    for trajectory in trajectories:
        trajectory.terminated = False
    everything = readings_of(trajectories)
    settings = CREDIT.make(name, **({"anchor": "labels"} if "anchor" in CREDIT.find(name).needs else {}))
    for missing in settings.readings:
        if missing in ("sampler_logprobs", "group", "seat", "opening"):
            continue  # the episodes have it
        given = {key: array for key, array in everything.items() if key != missing}
        with pytest.raises(ValueError, match=f"'{name}' needs {missing}, one for each {FIELDS[missing]}"):
            assign_credit(trajectories, settings, {}, **given)


def test_readings_of_the_wrong_name_size_or_value_are_refused():
    trajectories = collect(*make_batch(3, seed=5))
    settings = CREDIT.make("poad")
    values = readings_of(trajectories)["values"]
    with pytest.raises(ValueError, match="no reading 'value'; there are: values, "):
        assign_credit(trajectories, settings, {}, value=values)
    with pytest.raises(
        ValueError, match=rf"values has shape \({len(values) - 1},\), but there are {len(values)} of trained"
    ):
        assign_credit(trajectories, settings, {}, values=values[1:])
    values[4] = np.nan
    with pytest.raises(ValueError, match="values of trained token 4 is nan"):
        assign_credit(trajectories, settings, {}, values=values)
    with pytest.raises(ValueError, match="offsets end at turn 5, but there are 6 rewards"):
        replace(TURNS, offsets=np.array([0, 3, 4, 5]))
    with pytest.raises(ValueError, match="episode 8 was cut off, so its trajectories need a bootstrap value"):
        CREDIT.make("gae").credit(replace(TURNS, values=np.zeros(10)), {})


def test_finished_games_need_no_bootstrap_values():
    trajectories = collect(*make_batch(3, seed=5))
    values = readings_of(trajectories)["values"]
    settings = CREDIT.make("poad", gamma=0.9)
    bare = assign_credit(trajectories, settings, {}, values=values)
    unread = assign_credit(trajectories, settings, {}, values=values, bootstrap=np.full(3, 1e9))
    assert np.array_equal(bare.advantages, unread.advantages), "nothing follows a true end"


def test_behaviour_logprobs_are_those_of_the_episodes():
    trajectories = collect(*make_batch(3, seed=6))
    readings = readings_of(trajectories)
    sampled = np.concatenate([t.sequence.logprobs[t.sequence.mask] for t in trajectories])
    found = []
    for sampler_logprobs in ({}, {"sampler_logprobs": sampled}):
        given = {"values": readings["values"], "logprobs": sampled + readings["logprobs"] / 9, **sampler_logprobs}
        found.append(assign_credit(trajectories, CREDIT.make("vtrace"), {}, **given).advantages)
    assert np.array_equal(*found)


def test_an_empty_batch_has_no_credit():
    none = np.zeros(0)
    turns = Turns(
        offsets=np.array([0]), rewards=none, tokens=np.zeros(0, np.int64), episode=none, terminated=none.astype(bool),
        **{name: none for name in FIELDS},
    )  # fmt: skip
    for name in METHODS:
        credit = CREDIT.make(name).credit(turns, {})
        assert len(credit.advantages) == 0 and credit.state == {}
    assert CREDIT.make("reinforce", baseline="running").credit(turns, {"running_return": 2.0}).state == {
        "running_return": 2.0
    }


def test_the_soft_form_pays_at_the_token():
    trajectories = collect(*make_batch(4, seed=3))
    readings = readings_of(trajectories)
    soft = CREDIT.make("poad", gamma=0.9, kl_penalty=0.2)
    assert soft.readings == ("values", "bootstrap", "logprobs", "reference")
    with pytest.raises(ValueError, match="'poad' needs reference, one for each trained token"):
        assign_credit(trajectories, soft, {}, **{key: readings[key] for key in ("values", "logprobs")})
    paid = -0.2 * (readings["logprobs"] - readings["reference"])
    plain = CREDIT.make("poad", gamma=0.9)
    assert np.array_equal(
        assign_credit(trajectories, soft, {}, **readings).advantages,
        assign_credit(trajectories, plain, {}, **readings, token_rewards=paid).advantages,
    )
    # turn by turn it is the reward of the whole utterance
    turns = turns_of(trajectories)
    of_turns = np.add.reduceat(paid, np.cumsum(turns.tokens) - turns.tokens)
    for trajectory, part in zip(trajectories, np.split(of_turns, turns.offsets[1:-1]), strict=True):
        trajectory.rewards = trajectory.rewards + part
    for name in ("reinforce", "gae"):
        hard = assign_credit(trajectories, CREDIT.make(name, gamma=0.9), {}, **readings)
        unpaid = collect(*make_batch(4, seed=3))
        softened = assign_credit(unpaid, CREDIT.make(name, gamma=0.9, kl_penalty=0.2), {}, **readings)
        assert softened.advantages == pytest.approx(hard.advantages, abs=1e-6)


def test_whitened_advantages_have_mean_0_and_deviation_1_over_tokens():
    trajectories = collect(*make_batch(6, seed=3))
    plain = assign_credit(trajectories, CREDIT.make("reinforce"), {}).advantages.astype(np.float64)
    white = assign_credit(trajectories, CREDIT.make("reinforce", whiten=True), {}).advantages
    assert white == pytest.approx((plain - plain.mean()) / plain.std(), abs=1e-6)
    assert (white.mean(), white.std()) == (pytest.approx(0, abs=1e-6), pytest.approx(1, abs=1e-6))


@pytest.mark.parametrize("kind", ["reward", "advantage"])
def test_positive_only_leaves_out_what_did_worse_than_expected(kind):
    trajectories = collect(*make_batch(6, seed=3))
    for trajectory in trajectories:
        trajectory.kind, trajectory.rewards = kind, trajectory.rewards - 0.5
    values = {"values": np.full(int(sum(t.turn_tokens.sum() for t in trajectories)), 0.2)}
    plain = assign_credit(trajectories, CREDIT.make("gae", whiten=True), {}, **values)
    found = assign_credit(trajectories, CREDIT.make("gae", whiten=True, positive_only=True), {}, **values)
    assert plain.advantages.min() < 0 < plain.advantages.max(), "what is left out is known after whitening"
    assert np.array_equal(found.advantages, np.maximum(plain.advantages, 0)) and found.advantages.dtype == np.float32
    assert kind == "advantage" or np.array_equal(found.targets, plain.targets), "the critic learns from all of them"


# groups and anchors


def test_ids_are_counted_in_the_order_of_appearance():
    assert numbered([("game", 7), ("game", 5), ("game", 7)]).tolist() == [0, 1, 0]
    assert histories([["ask", "guess", "ask"], ["ask", "ask"], []]).tolist() == [0, 1, 2, 0, 1]


def test_turns_that_were_shown_the_same_tokens_share_an_anchor():
    episodes, rewards = make_batch(3, seed=4, most_turns=3)
    shown = episodes[0].turns[0].tokens.observation_ids
    for turn in (episodes[1].turns[-1], episodes[2].turns[0]):
        turn.tokens.observation_ids = shown.copy()
    trajectories = collect(episodes, rewards)
    anchors = np.split(observation_anchors(trajectories), np.cumsum([len(t.rewards) for t in trajectories])[:-1])
    assert anchors[0][0] == anchors[1][-1] == anchors[2][0] == 0
    assert len(set(np.concatenate(anchors).tolist())) == sum(map(len, anchors)) - 2


# settings


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"method": "poad", "gamma_w": 0.95}, "gamma_w\n  Extra inputs are not permitted"),
        ({"method": "grpo", "baseline": "batch"}, "baseline\n  Extra inputs"),
        ({"lambda_a": 0.9}, "lambda_a\n  Extra inputs"),
        ({"method": "gae", "lambda_w": 1.0}, "lambda_w\n  Extra inputs"),
        ({"method": "rloo", "group_std": False}, "group_std\n  Extra inputs"),
        ({"method": "twosome", "kl_penalty": 0.1}, "kl_penalty\n  Extra inputs"),
        ({"running_decay": 0.5}, "baseline=turn does not read running_decay=0.5"),
        (
            {"method": "vtrace", "step": "turn", "lambda_w": 0.9},
            "step=turn has no steps inside an utterance for lambda_w=0.9",
        ),
        ({"method": "poad", "lambda_a": 1.5}, "less than or equal to 1"),
        ({"method": "ppo"}, "'ppo' is not one of 'archer', 'bipace', "),
        ({"method": "ragged"}, "'ragged' is not one of 'archer', 'bipace', "),
    ],
)
def test_settings_that_make_no_sense_together_cannot_be_written(fields, line):
    with pytest.raises(ValidationError) as refused:
        CREDIT.read(fields)
    assert line in str(refused.value)
