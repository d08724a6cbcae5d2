"""What the methods converge to, on language games that are solved exactly (docs/concepts/credit.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.credit.method import CREDIT
from learners.credit.soft import token_penalties
from learners.credit.steps import token_steps
from learners.credit.turns import Turns
from tests.support.language_mdp import (
    END,
    Experience,
    LanguageMDP,
    lengthened,
    random_mdp,
    random_policy,
    soft_policy,
    soft_values,
    token_kl,
)

SEEDS = st.integers(0, 10**6)
FEW = settings(max_examples=15, deadline=None)


def backed_up(mdp: LanguageMDP, gamma_w: float):
    """One-step token backups, as `poad` (gamma_w = 1) and `ntpo` make them at lambda 0."""
    return lambda turns: token_steps(turns, mdp.gamma, gamma_w, 0.0, 0.0).backups()


def value_of_states(mdp: LanguageMDP, found: dict) -> np.ndarray:
    return np.array([found[state, ()] for state in range(len(mdp.utterances))])


def lengths_of(mdp: LanguageMDP) -> list[np.ndarray]:
    return [np.array([len(said) for said in every]) for every in mdp.utterances]


# action decomposition


@FEW
@given(SEEDS, st.integers(2, 6))
def test_the_fixed_point_of_bad_is_the_value_of_the_action_level(seed, longest):
    mdp = random_mdp(seed, longest=longest)
    policy = random_policy(mdp, seed)
    found = Experience(mdp, policy).fixed_point(backed_up(mdp, 1.0), 1e-13)
    values = mdp.evaluated(policy)
    assert value_of_states(mdp, found) == pytest.approx(values, abs=1e-10)
    # inside an utterance it is what the utterances that begin like this are worth on average
    every = mdp.action_values(values)
    for (state, begun), value in found.items():
        like_this = [said[: len(begun)] == begun for said in mdp.utterances[state]]
        expected = np.average(every[state][like_this], weights=policy[state][like_this])
        assert value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("trace", [0.0, 0.7, 1.0])
def test_poad_itself_has_that_fixed_point_at_every_lambda(trace):
    mdp = random_mdp(5)
    policy = random_policy(mdp, 5)
    method = CREDIT.make("poad", gamma=mdp.gamma, lambda_a=trace, lambda_w=trace)
    found = Experience(mdp, policy).fixed_point(lambda turns: method.credit(turns, {}).targets, 1e-6)
    assert value_of_states(mdp, found) == pytest.approx(mdp.evaluated(policy), abs=1e-5)


@FEW
@given(SEEDS)
def test_the_max_form_finds_the_best_utterances_whatever_their_lengths(seed):
    mdp = random_mdp(seed)
    best = mdp.solved(lambda state, q: q.max())
    rng = np.random.default_rng(seed)
    for game in (mdp, lengthened(mdp, rng.integers(1, 7, (3, 3)).tolist())):
        q = token_q(game, lambda _, choices: max(choices))
        assert np.array([best_of(q, (state, ())) for state in range(3)]) == pytest.approx(best, abs=1e-10)
        for state, every in enumerate(mdp.action_values(best)):
            said: tuple = ()
            while said not in game.utterances[state]:
                said += (max(q[state, said], key=q[state, said].get),)
            assert game.utterances[state].index(said) == int(every.argmax())


def best_of(q: dict, place) -> float:
    return max(q[place].values())


def token_q(mdp: LanguageMDP, value) -> dict:
    """Q at the fixed point of the one-step backups, with `value(place, its Qs)` for V."""
    uniform = [np.full(len(every), 1 / len(every)) for every in mdp.utterances]
    experience = Experience(mdp, uniform)
    edges = sorted(set(experience.words))
    edge = np.array([edges.index(word) for word in experience.words])
    mass = np.bincount(edge, experience.weight)
    q = np.zeros(len(edges))
    children = {
        place: [i for i, (s, begun, _) in enumerate(edges) if (s, begun) == place] for place in experience.places
    }
    for _ in range(20000):
        values = np.array([value(place, q[children[place]]) for place in experience.places])
        targets = backed_up(mdp, 1.0)(experience.turns(values[experience.place], values[experience.start]))
        before, q = q, np.bincount(edge, experience.weight * targets) / mass
        if np.abs(q - before).max() < 1e-13:
            return {place: {edges[i][2]: q[i] for i in found} for place, found in children.items()}
    raise AssertionError("the token backup did not converge")


# what discounting inside an utterance does


def gap_by_formula(mdp: LanguageMDP, policy, gamma_w: float) -> np.ndarray:
    """V - V_ntpo = (I - gamma * P_k)^-1 d        with k(a) = gamma_w^(tokens of a - 1)

    P_k(s, s') = sum over a of pi(a|s) k(a) P(s'|s, a)
    d(s)       = sum over a of pi(a|s) (1 - k(a)) Q(s, a)
    """
    every = mdp.action_values(mdp.evaluated(policy))
    shrink = [gamma_w ** (lengths - 1) for lengths in lengths_of(mdp)]
    lost = np.array([p @ ((1 - k) * q) for p, k, q in zip(policy, shrink, every, strict=True)])
    move = np.array([(p * k) @ m for p, k, m in zip(policy, shrink, mdp.moves, strict=True)])
    return np.linalg.solve(np.eye(len(lost)) - mdp.gamma * move, lost)


@FEW
@given(SEEDS, st.sampled_from([0.5, 0.8, 0.9, 0.99, 1.0]))
def test_ntpo_misses_the_value_by_the_derived_amount(seed, gamma_w):
    mdp = random_mdp(seed)
    policy = random_policy(mdp, seed)
    found = Experience(mdp, policy).fixed_point(backed_up(mdp, gamma_w), 1e-13)
    gap = mdp.evaluated(policy) - value_of_states(mdp, found)
    assert gap == pytest.approx(gap_by_formula(mdp, policy, gamma_w), abs=1e-10)
    if gamma_w == 1.0:
        assert np.abs(gap).max() < 1e-10


@FEW
@given(SEEDS)
def test_the_gap_grows_with_length_and_with_the_discount_inside(seed):
    mdp = random_mdp(seed, positive=True)
    policy = random_policy(mdp, seed)

    def gap(tokens: int, gamma_w: float) -> np.ndarray:
        game = lengthened(mdp, [[tokens] * 3] * 3)
        found = Experience(game, policy).fixed_point(backed_up(game, gamma_w), 1e-12)
        return mdp.evaluated(policy) - value_of_states(game, found)

    by_length = [gap(tokens, 0.9) for tokens in (1, 2, 3, 5, 8)]
    assert by_length[0] == pytest.approx(np.zeros(3), abs=1e-9), "one token is one action"
    assert all((longer > shorter + 1e-6).all() for shorter, longer in zip(by_length, by_length[1:], strict=False))
    by_discount = [gap(4, gamma_w) for gamma_w in (1.0, 0.99, 0.95, 0.9, 0.8)]
    assert all((more > less + 1e-6).all() for less, more in zip(by_discount, by_discount[1:], strict=False))


def test_ntpo_prefers_a_short_answer_to_a_better_long_one():
    # .9^5 = .59 < .6 < 1: six tokens that win are worth less to it than one that half wins
    game = LanguageMDP([[(0, 8, 8, 8, 8, END), (1,)]], [np.array([1.0, 0.6])], [np.zeros((2, 1))], 0.9)
    policy = [np.array([0.5, 0.5])]
    first = {}
    for gamma_w in (1.0, 0.9):
        found = Experience(game, policy).fixed_point(backed_up(game, gamma_w), 1e-13)
        first[gamma_w] = (gamma_w * found[0, (0,)], 0.6)  # Q of the two first tokens
    assert first[1.0] == pytest.approx((1.0, 0.6)) and first[0.9] == pytest.approx((0.9**5, 0.6))
    assert first[1.0][0] > first[1.0][1] and first[0.9][0] < first[0.9][1]


def test_the_authors_lambda_lets_an_outcome_reach_few_words():
    turns = Turns(
        offsets=np.array([0, 1]),
        rewards=np.array([1.0]),
        tokens=np.array([129]),
        episode=np.array([0]),
        terminated=np.array([True]),
        values=np.zeros(129),
    )
    reached = CREDIT.make("poad", lambda_w=0.95).credit(turns, {}).advantages
    assert reached[0] == pytest.approx(0.95**128, rel=1e-6) and round(float(reached[0]), 4) == 0.0014
    assert CREDIT.make("poad").credit(turns, {}).advantages.tolist() == [1.0] * 129


# the soft form


@FEW
@given(SEEDS)
def test_the_kl_terms_of_the_tokens_add_up_to_that_of_the_utterance(seed):
    mdp = random_mdp(seed)
    policy, reference = random_policy(mdp, seed), random_policy(mdp, seed + 1)
    summed, discounted = np.zeros(3), np.zeros(3)
    for place in mdp.places():
        ours, theirs = mdp.next_tokens(policy, place), mdp.next_tokens(reference, place)
        kl = token_kl(np.log(list(ours.values())), np.log(list(theirs.values())))
        summed[place[0]] += mdp.reached(policy, place) * kl
        discounted[place[0]] += mdp.reached(policy, place) * kl * 0.9 ** len(place[1])
    expected = token_kl(np.log(policy), np.log(reference))
    assert summed == pytest.approx(expected, abs=1e-12)
    assert (discounted <= expected + 1e-12).all(), "a gamma_w below 1 would count late words for less"
    # and so do the sampled terms that are paid
    state, a = seed % 3, seed % 2
    said = mdp.utterances[state][a]
    terms = [
        [math.log(mdp.next_tokens(who, (state, said[:j]))[said[j]]) for j in range(len(said))]
        for who in (policy, reference)
    ]
    paid = token_penalties(np.array(terms[0]), np.array(terms[1]), beta=0.3)
    assert paid.sum() == pytest.approx(-0.3 * math.log(policy[state][a] / reference[state][a]), abs=1e-12)


@FEW
@given(SEEDS, st.sampled_from([0.05, 0.3, 2.0]))
def test_the_soft_fixed_point_is_that_of_the_action_level(seed, beta):
    mdp = random_mdp(seed)
    reference = random_policy(mdp, seed)
    soft = mdp.solved(lambda state, q: float(soft_values(q, np.log(reference[state]), beta)))
    log_reference = {
        place: np.log(list(mdp.next_tokens(reference, place).values())) for place in mdp.places()
    }  # tokens in ascending order, as in token_q
    q = token_q(mdp, lambda place, choices: float(soft_values(choices, log_reference[place], beta)))
    for state, every in enumerate(mdp.action_values(soft)):
        at_start = soft_values(np.array(list(q[state, ()].values())), log_reference[state, ()], beta)
        assert at_start == pytest.approx(soft[state], abs=1e-9)
        best = np.exp(soft_policy(every, np.log(reference[state]), beta))
        assert best.sum() == pytest.approx(1.0)
        for said, probability in zip(mdp.utterances[state], best, strict=True):
            product = 1.0
            for j, word in enumerate(said):
                choices = q[state, said[:j]]
                logs = soft_policy(np.array(list(choices.values())), log_reference[state, said[:j]], beta)
                product *= math.exp(logs[list(choices).index(word)])
            assert product == pytest.approx(probability, abs=1e-9)


# corrections for older weights


@pytest.mark.parametrize("step", ["token", "turn"])
@pytest.mark.parametrize(("rho_cap", "trace"), [(1e6, 1.0), (1e6, 0.0), (1.0, 1.0), (1.0, 0.5)])
def test_vtrace_finds_the_value_of_the_policy_that_its_cap_allows(step, rho_cap, trace):
    """Without a cap, the present policy's; with one, that of a policy proportional to min(cap * mu, pi)."""
    mdp = random_mdp(11)
    target, sampler = random_policy(mdp, 1), random_policy(mdp, 2)
    experience = Experience(mdp, sampler)
    logs = [
        np.log([mdp.next_tokens(who, (state, begun))[word] for state, begun, word in experience.words])
        for who in (target, sampler)
    ]
    lambda_w = trace if step == "token" else None
    method = CREDIT.make("vtrace", gamma=mdp.gamma, lambda_a=trace, lambda_w=lambda_w, rho_cap=rho_cap, step=step)
    valued = np.array([len(begun) == 0 or step == "token" for _, begun, _ in experience.words])

    def targets(turns: Turns) -> np.ndarray:
        return np.where(valued, method.credit(turns, {}).targets, 0.0)

    found = experience.fixed_point(targets, 1e-6, logprobs=logs[0], sampler_logprobs=logs[1])
    expected = []
    for state, every in enumerate(mdp.utterances):
        if step == "turn":
            mixed = np.minimum(rho_cap * sampler[state], target[state])
            expected.append(mixed / mixed.sum())
            continue
        expected.append(np.ones(len(every)))
        for a, said in enumerate(every):
            for j, word in enumerate(said):
                old, new = (mdp.next_tokens(who, (state, said[:j])) for who in (sampler, target))
                mixed = {w: min(rho_cap * old[w], new[w]) for w in old}
                expected[state][a] *= mixed[word] / sum(mixed.values())
    assert value_of_states(mdp, found) == pytest.approx(mdp.evaluated(expected), abs=2e-5)
    assert np.abs(mdp.evaluated(expected) - mdp.evaluated(sampler)).max() > 0.01
