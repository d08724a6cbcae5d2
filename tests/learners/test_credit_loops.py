"""Every method against a slow, obviously right one, on random ragged batches; and the exact
figures of docs/concepts/credit.md."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.credit.method import CREDIT
from learners.credit.ragged import backward_sums, segment_sums
from learners.credit.steps import rewards_to_go, token_steps
from learners.credit.turns import Turns
from tests.support.listed_actions import segment_log_softmax

CASES = settings(max_examples=1000, deadline=None)
# tokens of each turn of each trajectory: no turn at all, no token in a turn, one token, several
SHAPES = st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=4)
SHARE = st.sampled_from([0.0, 0.3, 0.95, 1.0])
DISCOUNT = st.sampled_from([0.3, 0.95, 1.0])


def batch(shapes: list[list[int]], seed: int) -> Turns:
    rng = np.random.default_rng(seed)
    tokens = np.array([n for row in shapes for n in row], np.int64)
    trained, games = int(tokens.sum()), len(shapes)
    normal = rng.normal
    return Turns(
        offsets=np.cumsum([0, *map(len, shapes)]),
        rewards=normal(size=len(tokens)),
        tokens=tokens,
        episode=np.arange(games),
        terminated=rng.random(games) < 0.5,
        values=normal(size=trained),
        bootstrap=normal(size=games),
        turn_values=normal(size=len(tokens)),
        action_values=normal(size=len(tokens)),
        logprobs=normal(-2, 0.7, trained),
        best_logprobs=normal(-1, 0.7, trained),
        sampler_logprobs=normal(-2, 0.7, trained),
        group=np.concatenate([[0, 0], rng.integers(0, 2, games)])[:games],
        anchor=rng.integers(0, 2, len(tokens)),
        token_rewards=normal(size=trained) if seed % 2 else None,
    )


def games_of(turns: Turns) -> list[list[dict]]:
    """Per trajectory and turn: its reward and, per token, value, log-ratio and reward."""
    place, games = 0, []
    for start, end in zip(turns.offsets, turns.offsets[1:], strict=False):
        game = []
        for t in range(start, end):
            words = range(place, place + turns.tokens[t])
            place += turns.tokens[t]
            game.append(
                {
                    "reward": turns.rewards[t],
                    "values": [turns.values[k] for k in words],
                    "ratios": [math.exp(turns.logprobs[k] - turns.sampler_logprobs[k]) for k in words],
                    "paid": [0.0 if turns.token_rewards is None else turns.token_rewards[k] for k in words],
                    "anchor": turns.anchor[t],
                }
            )
        games.append(game)
    return games


def slow_tokens(turns: Turns, gamma, gamma_w, lambda_a, lambda_w):
    """(advantages, targets, one-step backups) of every token, last word first."""
    found = []
    for i, game in enumerate(games_of(turns)):
        following = 0.0 if turns.terminated[i] else turns.bootstrap[i]
        g, later, away, row = 0.0, 0.0, 1.0, []
        for turn in reversed(game):
            later = turn["reward"] + gamma * later  # paid from here until somebody speaks again
            away = gamma * away
            for value, paid in zip(turn["values"][::-1], turn["paid"][::-1], strict=True):
                last = later is not None
                reward, discount = (paid + later, away) if last else (paid, gamma_w)
                later, away = None, None
                backup = reward + discount * following
                g = backup - value + discount * (lambda_a if last else lambda_w) * g
                row.append((g, g + value, backup))
                following = value
            if turn["values"]:
                later, away = 0.0, 1.0
        found += row[::-1]
    return np.array(found).reshape(-1, 3).T


def slow_turns(turns: Turns, gamma, lambda_a):
    """The same with one step for each turn: (advantages, targets) of every token, and which are first."""
    found = []
    for i, game in enumerate(games_of(turns)):
        following, g, row = 0.0 if turns.terminated[i] else turns.bootstrap[i], 0.0, []
        later, away = 0.0, 1.0
        for turn in reversed(game):
            later, away = turn["reward"] + sum(turn["paid"]) + gamma * later, gamma * away
            if turn["values"]:
                value = turn["values"][0]
                g = later + away * following - value + away * lambda_a * g
                row += [(g, g + value, j == 0) for j in reversed(range(len(turn["values"])))]
                following, later, away = value, 0.0, 1.0
        found += row[::-1]
    return np.array(found).reshape(-1, 3).T


def close(found: np.ndarray, expected, tolerance: float = 2e-6) -> bool:
    return np.allclose(found, expected, rtol=tolerance, atol=tolerance)


@CASES
@given(SHAPES, st.integers(0, 10**6), DISCOUNT, DISCOUNT, SHARE, SHARE)
def test_token_methods_are_the_plain_loop(shapes, seed, gamma, gamma_w, lambda_a, lambda_w):
    turns = batch(shapes, seed)
    common = {"gamma": gamma, "lambda_a": lambda_a, "lambda_w": lambda_w}
    credit = CREDIT.make("poad", **common).credit(turns, {})
    advantages, targets, backups = slow_tokens(turns, gamma, 1.0, lambda_a, lambda_w)
    assert close(credit.advantages, advantages) and close(credit.targets, targets)
    assert close(token_steps(turns, gamma, 1.0, 0.0, 0.0).backups(), backups, 1e-12)
    credit = CREDIT.make("poad", gamma=gamma, lambda_a=lambda_a).credit(turns, {})
    assert close(credit.advantages, slow_tokens(turns, gamma, 1.0, lambda_a, 1.0)[0])
    credit = CREDIT.make("ntpo", gamma_w=gamma_w, **common).credit(turns, {})
    advantages, targets, _ = slow_tokens(turns, gamma, gamma_w, lambda_a, lambda_w)
    assert close(credit.advantages, advantages) and close(credit.targets, targets)
    credit = CREDIT.make("ntpo", gamma=gamma, lambda_a=lambda_a).credit(turns, {})
    assert close(credit.advantages, slow_tokens(turns, gamma, gamma, lambda_a, lambda_a)[0])
    credit = CREDIT.make("q_learning", temperature=0.3, **common).credit(turns, {})
    paid = 0.3 * (turns.best_logprobs - turns.logprobs) + (0.0 if turns.token_rewards is None else turns.token_rewards)
    advantages, targets, _ = slow_tokens(replace(turns, token_rewards=paid), gamma, 1.0, lambda_a, lambda_w)
    assert close(credit.advantages, advantages) and close(credit.targets, targets)


@CASES
@given(SHAPES, st.integers(0, 10**6), DISCOUNT, SHARE)
def test_turn_methods_are_the_plain_loop(shapes, seed, gamma, lambda_a):
    turns = batch(shapes, seed)
    advantages, targets, first = slow_turns(turns, gamma, lambda_a)
    for name in ("gae", "twosome"):
        credit = CREDIT.make(name, gamma=gamma, lambda_a=lambda_a).credit(turns, {})
        assert close(credit.advantages, advantages) and close(credit.targets, targets)
        assert credit.valued.tolist() == first.astype(bool).tolist()
    returns = []
    for game in games_of(turns):
        after, row = 0.0, []
        for turn in reversed(game):
            after = turn["reward"] + sum(turn["paid"]) + gamma * after
            row.append(after)
        returns += row[::-1]
    assert close(rewards_to_go(turns, gamma), returns, 1e-12)
    plain = CREDIT.make("reinforce", gamma=gamma, baseline="none").credit(turns, {})
    assert close(plain.advantages, [g for g, n in zip(returns, turns.tokens, strict=True) for _ in range(n)])
    credit = CREDIT.make("archer", gamma=gamma).credit(turns, {})
    expected = [
        q - v for q, v, n in zip(turns.action_values, turns.turn_values, turns.tokens, strict=True) for _ in range(n)
    ]
    assert close(credit.advantages, expected)


@CASES
@given(SHAPES, st.integers(0, 10**6), DISCOUNT, SHARE, SHARE)
def test_with_lambda_w_of_1_the_first_token_has_the_turns_advantage(shapes, seed, gamma, lambda_a, lambda_w):
    turns = batch(shapes, seed)
    turns.token_rewards = None
    by_turn = CREDIT.make("gae", gamma=gamma, lambda_a=lambda_a).credit(turns, {})
    by_token = CREDIT.make("poad", gamma=gamma, lambda_a=lambda_a).credit(turns, {})
    assert close(by_token.advantages[by_turn.valued], by_turn.advantages[by_turn.valued])
    # and without any lambda the tokens' advantages add up to it
    by_turn = CREDIT.make("gae", gamma=gamma, lambda_a=0.0).credit(turns, {})
    by_token = CREDIT.make("poad", gamma=gamma, lambda_a=0.0, lambda_w=0.0).credit(turns, {})
    spoken = turns.tokens[turns.tokens > 0]
    assert close(segment_sums(by_token.advantages, spoken), by_turn.advantages[by_turn.valued], 1e-5)


@CASES
@given(SHAPES, st.integers(0, 10**6), DISCOUNT, SHARE, st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([0.5, 2.0]))
def test_vtrace_is_the_plain_loop(shapes, seed, gamma, trace, rho_cap, trace_cap):
    turns = batch(shapes, seed)
    common = {"gamma": gamma, "lambda_a": trace, "rho_cap": rho_cap, "trace_cap": trace_cap}
    by_token, by_turn = [], []
    for i, game in enumerate(games_of(turns)):
        end = 0.0 if turns.terminated[i] else turns.bootstrap[i]
        for found, whole in ((by_token, False), (by_turn, True)):
            steps = []  # [reward, discount, value, ratio, tokens]
            for turn in game:
                words = list(zip(turn["values"], turn["ratios"], turn["paid"], strict=True))
                if not words and steps:  # paid inside the step before
                    steps[-1][0] += steps[-1][1] * turn["reward"]
                    steps[-1][1] *= gamma
                elif words and whole:
                    ratio = math.prod(turn["ratios"])
                    steps.append([turn["reward"] + sum(turn["paid"]), gamma, words[0][0], ratio, len(words)])
                elif words:
                    steps += [[paid, 1.0, value, ratio, 1] for value, ratio, paid in words]
                    steps[-1][0] += turn["reward"]
                    steps[-1][1] = gamma
            row, corrected, following, last = [], end, end, True
            for reward, discount, value, ratio, tokens in reversed(steps):
                mixed = following if last else following + trace * (corrected - following)
                advantage = reward + discount * mixed - value
                delta = reward + discount * following - value
                carry = discount * trace * min(trace_cap, ratio) * (corrected - following)
                corrected = value + min(rho_cap, ratio) * delta + carry
                row += [(advantage, corrected)] * tokens
                following, last = value, False
            found += row[::-1]
    for found, own in ((by_token, {"lambda_w": trace}), (by_turn, {"step": "turn"})):
        credit = CREDIT.make("vtrace", **common, **own).credit(turns, {})
        expected = np.array(found).reshape(-1, 2).T
        assert close(credit.advantages, expected[0], 1e-5) and close(credit.targets, expected[1], 1e-5)
    # on tokens of the present policy it is GAE
    turns.sampler_logprobs = turns.logprobs
    on_policy = {"gamma": gamma, "lambda_a": trace}
    credit = CREDIT.make("vtrace", **on_policy, lambda_w=trace).credit(turns, {})
    assert close(credit.advantages, slow_tokens(turns, gamma, 1.0, trace, trace)[0], 1e-5)
    credit = CREDIT.make("vtrace", **on_policy, step="turn").credit(turns, {})
    assert close(credit.advantages, slow_turns(turns, gamma, trace)[0], 1e-5)


@CASES
@given(SHAPES, st.integers(0, 10**6), DISCOUNT, st.booleans(), st.sampled_from([0.0, 1.0, 2.5]))
def test_group_methods_are_the_plain_loop(shapes, seed, gamma, divide, weight):
    turns = batch(shapes, seed)
    games = games_of(turns)
    members = {g: [i for i in range(len(games)) if turns.group[i] == g] for g in turns.group.tolist()}
    methods = {
        "grpo": {"gamma": gamma, "group_std": divide},
        "rloo": {"gamma": gamma},
        "gigpo": {"gamma": gamma, "group_std": divide, "step_weight": weight},
    }

    def paid(turn: dict) -> float:
        return turn["reward"] + sum(turn["paid"])

    def to_go(game: list[dict], t: int, discount: float) -> float:
        return sum(discount**late * paid(turn) for late, turn in enumerate(game[t:]))

    def relative(score: float, scores: list[float]) -> float:
        if len(scores) == 1:
            return 0.0
        return (score - statistics.mean(scores)) / (statistics.stdev(scores) + 1e-6 if divide else 1)

    expected: dict[str, list[float]] = {name: [] for name in methods}
    for i, game in enumerate(games):
        mates = members[turns.group[i]]
        own, all_own = to_go(game, 0, gamma), [to_go(games[k], 0, gamma) for k in mates]
        plain, all_plain = to_go(game, 0, 1.0), [to_go(games[k], 0, 1.0) for k in mates]
        for t, turn in enumerate(game):
            words = len(turn["values"])
            expected["grpo"] += [relative(own, all_own)] * words
            others = [to_go(games[k], 0, gamma) for k in mates if k != i] or [own]
            expected["rloo"] += [own - statistics.mean(others)] * words
            same = [
                to_go(games[k], u, gamma)
                for k in mates
                for u, other in enumerate(games[k])
                if other["anchor"] == turn["anchor"]
            ]
            step = relative(to_go(game, t, gamma), same)
            expected["gigpo"] += [relative(plain, all_plain) + weight * step] * words
    for name, fields in methods.items():
        credit = CREDIT.make(name, **fields).credit(turns, {})
        assert close(credit.advantages, expected[name], 1e-5), name


# the recursion under all of it


@CASES
@given(st.integers(0, 70), st.integers(0, 10**6))
def test_backward_sums_are_the_plain_loop(length, seed):
    rng = np.random.default_rng(seed)
    x, decay = rng.normal(size=length), rng.choice([0.0, 0.5, 1.0], length)
    expected, after = np.zeros(length), 0.0
    for k in reversed(range(length)):
        expected[k] = after = x[k] + decay[k] * after
    assert backward_sums(x, decay) == pytest.approx(expected, abs=1e-12)


def test_backward_sums_of_a_long_row_are_exact():
    length = 300_000
    assert backward_sums(np.ones(length), np.ones(length)).tolist() == list(range(length, 0, -1))
    found = backward_sums(np.append(np.zeros(length - 1), 1.0), np.full(length, 0.9999))
    assert np.allclose(found, 0.9999 ** np.arange(length - 1, -1, -1), rtol=1e-9, atol=0)


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), max_size=6), st.integers(0, 10**6))
def test_rows_are_summed_and_normalised_by_themselves(lengths, seed):
    lengths = np.array(lengths, np.int64)
    x = np.random.default_rng(seed).normal(size=lengths.sum()) * 300
    rows = np.split(x, np.cumsum(lengths)[:-1]) if len(lengths) else []
    assert segment_sums(x, lengths) == pytest.approx([row.sum() for row in rows])
    expected = [value - np.logaddexp.reduce(row) for row in rows for value in row]
    assert segment_log_softmax(x, lengths) == pytest.approx(np.array(expected), abs=1e-9)


# exact figures: two turns of 3 and 2 tokens, rewards 0 and 1, a true end, gamma .95


def two_turns(values: list[float]) -> Turns:
    return Turns(
        offsets=np.array([0, 2]),
        rewards=np.array([0.0, 1.0]),
        tokens=np.array([3, 2]),
        episode=np.array([0]),
        terminated=np.array([True]),
        values=np.array(values),
    )


def of(method: str, turns: Turns, **fields) -> list[float]:
    credit = CREDIT.make(method, gamma=0.95, **fields).credit(turns, {})
    return pytest.approx(credit.advantages.tolist(), abs=6e-7)


def test_figures_without_values_at_lambda_95():
    turns = two_turns([0.0] * 5)
    assert of("poad", turns, lambda_w=0.95) == [0.773781, 0.814506, 0.857375, 0.95, 1.0]
    assert of("ntpo", turns) == [0.66342, 0.735092, 0.814506, 0.9025, 1.0]
    assert of("gae", turns) == [0.9025, 0.9025, 0.9025, 1.0, 1.0]


def test_figures_with_values_at_lambda_1():
    turns = two_turns([0.2, 0.3, 0.4, 0.5, 0.6])
    assert of("poad", turns, lambda_a=1.0) == [0.75, 0.65, 0.55, 0.5, 0.4]
    assert of("ntpo", turns, lambda_a=1.0) == [0.614506, 0.557375, 0.5025, 0.45, 0.4]
    assert of("gae", turns, lambda_a=1.0) == [0.75, 0.75, 0.75, 0.5, 0.5]


def test_figures_of_a_game_that_was_cut_off():
    turns = two_turns([0.2, 0.3, 0.4, 0.5, 0.6])
    turns.terminated, turns.bootstrap = np.array([False]), np.array([2.0])
    # 1 + .95 * 2 - .6 = 2.3; .95 * .5 - .4 + .95 * 2.4 = 2.355
    assert of("poad", turns, lambda_a=1.0) == [2.555, 2.455, 2.355, 2.4, 2.3]


def test_figures_of_a_turn_in_which_nothing_was_said():
    """The pay of the silent turn belongs to the step before it, and so does its time."""
    turns = two_turns([0.2, 0.3, 0.4, 0.5, 0.6])
    turns.offsets, turns.rewards = np.array([0, 4]), np.array([7.0, 0.0, 3.0, 1.0])
    turns.tokens = np.array([0, 3, 0, 2])
    # .95 * 3 + .95^2 * (.5 + .5) - .4 = 3.3525
    assert of("poad", turns, lambda_a=1.0) == [3.5525, 3.4525, 3.3525, 0.5, 0.4]
