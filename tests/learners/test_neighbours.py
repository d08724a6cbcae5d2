"""The neighbours of GiGPO and PPO: values worked by hand from their definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from learners.batch.anchors import state_anchors, utterance_openings
from learners.batch.crediting import assign_credit, turns_of
from learners.batch.trajectories import collect
from learners.credit.groups import above_the_others, compared, step_groups
from learners.credit.hgpo import history_groups
from learners.credit.method import CREDIT
from learners.credit.turns import Turns
from learners.loss.loss import LOSS, PolicyTokens
from tests.support.learner_batches import make_batch


def games(*played: tuple[str, list[float]], tasks: list[int] | None = None) -> Turns:
    """Each a word of states and what was paid at them; one token a turn."""
    lengths = [len(states) for states, _ in played]
    return Turns(
        offsets=np.cumsum([0, *lengths]),
        rewards=np.concatenate([paid for _, paid in played]).astype(np.float64),
        tokens=np.ones(sum(lengths), np.int64),
        episode=np.arange(len(played)),
        terminated=np.ones(len(played), bool),
        group=np.array(tasks or [0] * len(played)),
        anchor=np.array([ord(state) for states, _ in played for state in states]),
    )


def credited(method: str, turns: Turns, **options) -> list[float]:
    return CREDIT.make(method, **options).credit(turns, {}).advantages.tolist()


def test_hgpo_weighs_those_that_share_more_of_the_past():
    """At S three games return 1, .5 and 0; the first two came there by the same way."""
    turns = games(("XS", [0, 1]), ("XS", [0, 0.5]), ("YS", [0, 0]))
    found = credited("hgpo", turns, history=1)
    assert found == pytest.approx([1, 1.224745 / 3 + 2 / 3, -1, -2 / 3, 0, -1.224745], abs=1e-4)
    assert credited("hgpo", turns, history=0)[1::2] == pytest.approx([1.224745, 0, -1.224745], abs=1e-4)
    sharp = credited("hgpo", turns, history=1, sharpness=3)
    assert sharp[1] == pytest.approx((1.224745 + 8) / 9, abs=1e-4)
    apart = credited("hgpo", turns, history=1, group_std=False)
    assert apart[1::2] == pytest.approx([0.5 / 3 + 0.25 * 2 / 3, -0.25 * 2 / 3, -0.5])
    with_games = credited("hgpo", turns, history=1, group_std=False, episode_weight=2.0)
    assert np.subtract(with_games, apart) == pytest.approx([1, 1, 0, 0, -1, -1])


def test_hgpo_leaves_out_groups_that_say_nothing_and_compares_inside_a_task():
    alike = games(("XS", [0, 1]), ("XS", [0, 1]), ("YS", [0, 0]))
    assert credited("hgpo", alike, history=1)[1] == pytest.approx(0.707107, abs=1e-4), "X, S returned the same twice"
    assert credited("hgpo", games(("XS", [0, 1]), ("XS", [0, 0]), tasks=[0, 1])) == [0, 0, 0, 0]


def test_returns_that_are_equal_but_for_rounding_say_nothing():
    """Of games won at any place of the batch, whose discounted returns at one state are sums in another order."""
    random = np.random.default_rng(5)
    for _ in range(40):
        won = random.permutation([1, 1, 1, 1, 1, 0, 0, 0])
        lengths = random.integers(22, 40, 8)
        ways = [
            "x" * (length - 21) + ("W" if one else "L") + "S" + "y" * 19
            for length, one in zip(lengths, won, strict=True)
        ]
        turns = games(*((way, [0.0] * (len(way) - 1) + [float(one)]) for way, one in zip(ways, won, strict=True)))
        place = np.cumsum(lengths) - 20
        found = np.array(credited("hgpo", turns, history=1, gamma=0.95))[place]
        assert found == pytest.approx((won - won.mean()) / won.std(), abs=1e-4)


@pytest.mark.parametrize("score", [0.1, 0.95**7, -3.3e4])
def test_equal_scores_leave_nothing_whatever_their_sum_rounds_to(score):
    for count in range(2, 17):
        scores, group = np.full(count, score), np.zeros(count, int)
        assert not compared(scores, group, divide=True).any() and not above_the_others(scores, group).any()
        scores[0] += 1e-9 * abs(score)
        assert compared(scores, group, divide=False).all() and above_the_others(scores, group).all()


def test_histories_are_those_of_the_definition():
    random = np.random.default_rng(0)
    played = [("".join(random.choice(list("ab"), random.integers(1, 6))), []) for _ in range(30)]
    turns = games(*((states, [0.0] * len(states)) for states, _ in played), tasks=list(random.integers(0, 3, 30)))
    for back, group in enumerate(history_groups(turns, 3)):
        keys = [
            (turns.group[game], states[turn - back : turn + 1]) if turn >= back else (game, turn, "alone")
            for game, (states, _) in enumerate(played)
            for turn in range(len(states))
        ]
        pairs = set(zip(group.tolist(), keys, strict=True))
        assert len(pairs) == len({number for number, _ in pairs}) == len(set(keys))
    assert np.array_equal(np.unique(history_groups(turns, 0)[0]), np.unique(step_groups(turns)))


def test_g2po_values_the_state_that_a_turn_leads_to():
    """V(a) = (9.025 + 0) / 2, V(b) = 9.5, V(c) = 0; the first game wins 10."""
    turns = games(("ab", [0, 10]), ("ac", [0, 0]))
    step = np.array([4.75 + 4.74375, 0.25625, -4.75 - 4.75625, -0.24375])
    assert credited("g2po", gamma=0.95, turns=turns, group_std=False) == pytest.approx([5, 5, -5, -5] + step)
    assert credited("g2po", gamma=0.95, turns=turns, group_std=False, step_weight=0) == pytest.approx([5, 5, -5, -5])
    node, edge = np.array([1, 0, -1, 0]) / 2**0.5, step - [4.75, 0, -4.75, 0]
    divided = [2**-0.5, 2**-0.5, -(2**-0.5), -(2**-0.5)] + node + edge / np.std(edge, ddof=1)
    assert credited("g2po", gamma=0.95, turns=turns) == pytest.approx(divided, abs=1e-5)
    assert credited("g2po", gamma=0.95, turns=games(("ab", [0, 10])))[0] == pytest.approx(-0.707107, abs=1e-4), (
        "one game has edges alone"
    )


def test_bipace_compares_what_was_said_with_all_that_was_said_in_the_state():
    """Turns that begin alike return 1 and a half, another one 0; what began like it elsewhere does not count."""
    turns = games(("s", [1]), ("s", [0.5]), ("s", [0]), ("r", [9]), ("sr", [0, 0]), tasks=[0, 0, 0, 0, 1])
    turns.opening = np.array([7, 7, 8, 7, 7, 7])
    plain = {"turns": turns, "group_std": False}
    game = np.array([1, 0.5, 0, 9]) - 2.625
    for difference, step in (("opening", [0.25, 0.25, -0.5]), ("peers", [1, 0.5, -0.75])):
        expected = [*game + [*step, 0], 0, 0]
        assert credited("bipace", **plain, difference=difference) == pytest.approx(expected)
        doubled = credited("bipace", **plain, difference=difference, step_weight=2.0)
        assert np.subtract(doubled, expected) == pytest.approx([*step, 0, 0, 0])
    divided = np.subtract(credited("bipace", turns), [0.25, 0.25, -0.5, 0, 0, 0])
    assert divided[:4] == pytest.approx(game / np.std(game, ddof=1), abs=1e-5)


def test_states_that_are_near_each_other_are_one():
    """The cosine of the first two is .95. A cluster's mean moves: the fourth is near it and not the first one."""
    vectors = np.array([[1, 0], [0.95, 0.31225], [0, 0], [0.866025, 0.5], [3, 0], [0, 0]], np.float32)
    task = np.zeros(6, np.int64)
    assert state_anchors(task, vectors, 0.1).tolist() == [0, 0, 1, 0, 0, 2]
    assert 1 - vectors[0] @ vectors[3] > 0.1
    assert state_anchors(task, vectors, 0.01).tolist() == [0, 1, 2, 3, 0, 4]
    assert state_anchors(np.array([0, 1, 1, 0, 1, 0]), vectors, 0.1).tolist() == [0, 3, 4, 1, 3, 2]


def test_bipace_finds_states_and_openings_by_itself():
    episodes, rewards = make_batch(6, seed=4, most_turns=1)
    for number, episode in enumerate(episodes):
        episode.turns[0].tokens.utterance_ids[0] = number % 2
    trajectories, group = collect(episodes, rewards), np.zeros(6, np.int64)
    assert utterance_openings(trajectories, 1).tolist() == [0, 1, 0, 1, 0, 1]
    assert utterance_openings(trajectories, 99).tolist() == [0, 1, 2, 3, 4, 5]
    method = CREDIT.make("bipace", opening_tokens=1)
    found = assign_credit(trajectories, method, {}, group=group, states=np.eye(2)[[0, 0, 0, 1, 1, 1]])
    turns = turns_of(trajectories, group=group, anchor=np.array([0, 0, 0, 1, 1, 1]), opening=np.arange(6) % 2)
    assert np.array_equal(found.advantages, method.credit(turns, {}).advantages)
    assert found.figures == {"states": 2, "alone_in_state": 0}
    alone = assign_credit(trajectories, method, {}, group=group, states=np.eye(6))
    assert alone.figures == {"states": 6, "alone_in_state": 1}
    assert np.array_equal(
        alone.advantages, assign_credit(trajectories, CREDIT.make("grpo"), {}, group=group).advantages
    )


def test_hcapo_weighs_turns_by_how_likely_the_end_makes_them():
    """Mean log-probs -1, -2 and -3 in a game that brings 1; one turn in a game that brings a half."""
    turns = games(("abc", [0, 0, 1]), ("a", [0.5]))
    turns.tokens = np.array([2, 1, 3, 1])
    turns.hindsight = np.array([-0.5, -1.5, -2, -3, -2, -4, -4])
    plain = {"turns": turns, "gamma": 0.95, "group_std": False}
    wide = CREDIT.make("hcapo", clip_low=1.0, clip_high=9.0).ratios(turns)
    assert wide == pytest.approx([1.205279, 0.986799, 0.807922, 1], abs=1e-6)

    def expected(worth: list[float], blamed: bool) -> np.ndarray:
        """Three turns of the first game, one of the second."""
        step = np.array([*worth, 0.5]) - np.mean([*worth, 0.5])
        step[:3] = np.maximum(step[:3], 0)
        step[3] = step[3] if blamed else 0
        return np.repeat(step + [0.25, 0.25, 0.25, -0.25], turns.tokens)

    worth, smooth = [1.083, 0.937459, 0.807922], [1.010229, 0.872691, 0.807922]
    assert expected(worth, True)[[0, 2, 3, 6]] == pytest.approx([0.500905, 0.355364, 0.25, -0.582095], abs=1e-6)
    assert credited("hcapo", **plain) == pytest.approx(expected(worth, True), abs=1e-5)
    assert credited("hcapo", **plain, smoothing=0.5) == pytest.approx(expected(smooth, True), abs=1e-5)
    assert credited("hcapo", **plain, won=0.5) == pytest.approx(expected(worth, False), abs=1e-5)
    deviation = np.std([*worth, 0.5], ddof=1)
    divided = credited("hcapo", turns, gamma=0.95)
    assert divided[0] == pytest.approx(2**-0.5 + (1.083 - 0.832095) / deviation, abs=1e-4)
    method = CREDIT.make("hcapo", clip_low=1.0, clip_high=9.0)
    told = method.credit(turns, {}).figures["hindsight_by_length"]
    assert told == pytest.approx(np.corrcoef([1.205279, 0.986799, 0.807922, 1], [2, 1, 3, 1])[0, 1], abs=1e-5)


def test_hcapo_leaves_out_turns_in_which_nothing_was_said():
    """Time passes in them all the same."""
    turns = games(("abc", [0, 0, 1]), ("a", [0]))
    turns.tokens, turns.hindsight = np.array([1, 0, 1, 1]), np.array([-1.0, -3.0, -1.0])
    ratio = np.exp([-0.2, -0.6]) / np.mean(np.exp([-0.2, -0.6]))
    assert ratio == pytest.approx([1.197375, 0.802625], abs=1e-6)
    worth = np.array([ratio[0] * 0.25, ratio[1], 0])
    found = credited("hcapo", turns, gamma=0.5, group_std=False)
    assert found == pytest.approx(np.maximum(worth - worth.mean(), [0, 0, -1]) + [0.5, 0.5, -0.5], abs=1e-6)


def test_rae_compares_a_seat_with_what_it_brought_before():
    """One seat returns 1, 1 and 0, and another 0, 1 and 1 in between; a game of two turns is discounted to its end."""
    turns = games(("a", [1]), ("a", [0]), ("a", [1]), ("a", [1]), ("ab", [0, 0]), ("a", [1]))
    turns.seat = np.array(["guesser", "left"] * 3)
    method = CREDIT.make("rae", gamma=0.5)
    first = method.credit(turns, {"kept": 2.0})
    assert first.advantages.tolist() == pytest.approx([1, 0, 0.95, 1, -0.0975 / 2, -0.0975, 0.95])
    brought = {"kept": 2.0, "return/guesser": 0.092625, "return/left": 0.05 * 0.95 + 0.05}
    assert first.state == pytest.approx(brought)
    again = method.credit(turns, first.state)
    assert again.advantages[:2].tolist() == pytest.approx([1 - 0.092625, -0.0975]), "the next batch goes on"
    assert CREDIT.make("rae", decay=0.0).credit(turns, {}).advantages.tolist() == [1, 0, 0, 1, -1, -1, 0]


def test_utterances_near_their_limit_are_charged():
    overlong = {"limit": 20480, "buffer": 4096}
    charged = CREDIT.make("grpo", overlong=overlong).overlong.rewards(np.array([0, 16384, 18432, 20480]))
    assert charged.tolist() == [0, 0, -0.5, -1]
    trajectories = collect(*make_batch(6, seed=4))
    for name in ("reinforce", "grpo"):
        options = {"gamma": 0.9, "overlong": {"limit": 4, "buffer": 3, "weight": 2.0}}
        group = np.arange(6) // 2
        found = assign_credit(trajectories, CREDIT.make(name, **options), {}, group=group)
        paid = [replace(t, rewards=t.rewards - 2 * np.maximum(t.turn_tokens - 1, 0) / 3) for t in trajectories]
        expected = assign_credit(paid, CREDIT.make(name, gamma=0.9), {}, group=group)
        assert np.array_equal(found.advantages, expected.advantages) and found.advantages.std() > 0
        assert np.array_equal(found.returns, expected.returns)
    with pytest.raises(ValueError, match="buffer=5 is more than limit=4"):
        CREDIT.make("grpo", overlong={"limit": 4, "buffer": 5})


def tokens_of(moved: list[float], advantages: list[float], lengths: list[int], kept: list[int] | None = None):
    """`moved`: log of pi / sampler at each."""
    logprobs = torch.tensor(moved, dtype=torch.float64, requires_grad=True)
    sampled, of = torch.zeros(len(moved)).double(), torch.tensor(advantages).double()
    weights = torch.tensor(kept or [1] * len(moved)).double()
    return logprobs, PolicyTokens(logprobs, sampled, sampled, of, weights, torch.tensor(lengths))


def test_gspo_clips_whole_games_and_leaves_each_token_its_own_gradient():
    """e^.1 is the geometric mean of e^.3 and e^-.1; with a negative advantage nothing clips it."""
    for advantage, value, slope in ((1.0, 1.0004, 0.0), (-1.0, -1.105171, -1.105171)):
        logprobs, tokens = tokens_of([0.3, -0.1], [advantage] * 2, [2])
        loss, clipped = LOSS.make("gspo").policy_term(tokens, 0.5)
        assert -loss.item() == pytest.approx(value, abs=1e-6) and clipped.tolist() == [advantage > 0] * 2
        assert torch.autograd.grad(-loss, logprobs)[0].tolist() == pytest.approx([slope / 2] * 2, abs=1e-6)
    logprobs, tokens = tokens_of([0.3, -0.1, -0.4, 0.9], [-1.0] * 4, [2, 2], kept=[1, 1, 1, 0])
    loss, _ = LOSS.make("gspo", clip_low=0.9, clip_high=0.9).policy_term(tokens, 1.0)
    slopes = -np.exp([0.1, 0.1, -0.4, -np.inf])
    assert torch.autograd.grad(-loss, logprobs)[0].tolist() == pytest.approx(slopes), "a dropped token is in no mean"


@pytest.mark.parametrize(("ratio", "advantage", "slope"), [(2.0, 1.0, 1.2), (0.5, -1.0, -0.5), (2.0, -1.0, -1.2)])
def test_cispo_is_the_policy_gradient_with_its_weight_capped(ratio, advantage, slope):
    """No token loses its gradient, where PPO's clip leaves none to the first."""
    logprobs, tokens = tokens_of([float(np.log(ratio))], [advantage], [1])
    loss, clipped = LOSS.make("policy_gradient", importance_cap=1.2).policy_term(tokens, 1.0)
    assert torch.autograd.grad(-loss, logprobs)[0].item() == pytest.approx(slope) and not clipped.any()
    ppo, _ = LOSS.make("ppo").policy_term(tokens, 1.0)
    if ratio > 1.2 and advantage > 0:
        assert torch.autograd.grad(-ppo, logprobs)[0].item() == 0
