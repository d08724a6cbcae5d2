"""Q-learning and soft action decomposition against the exact optimum of real games (docs/concepts/credit.md)."""

from __future__ import annotations

import numpy as np
import pytest

from envs.case_study import CaseStudy
from envs.virtualhome.game import VirtualHome
from learners.credit.method import CREDIT
from learners.credit.soft import token_penalties
from learners.loss.loss import LOSS
from tests.support.language_mdp import soft_policy, soft_values
from tests.support.tabular_games import Tables, explored

GAMES = {"case_study": (CaseStudy(), 5, 0.95**2), "virtualhome": (VirtualHome(), 50, 0.95**5)}
GAMMA, TEMPERATURE = 0.95, 0.05
RATES = 0.4, 0.4 / TEMPERATURE
DESCENT = LOSS.make("mirror_descent")


def tables(game: str) -> Tables:
    return Tables(explored(GAMES[game][0]), GAMMA)


def train(made: Tables, game: str, updates: int, *learned, sampler: np.ndarray | None = None, **how) -> Tables:
    """By games of the policy from the start, or by short ones of a fixed `sampler` from everywhere."""
    rng, turns, starts = np.random.default_rng(0), GAMES[game][1], np.unique(made.opens)
    for _ in range(updates):
        if sampler is None:
            games = made.play(made.logprobs().detach().numpy(), np.full(32, made.opens[0]), turns, rng)
        else:
            games = made.play(sampler, rng.choice(starts, 32), 3, rng)
        made.learn(games, *learned, rates=RATES, **how)
    return made


def q_learning(trace: float = 0.95):
    return CREDIT.make("q_learning", gamma=GAMMA, temperature=TEMPERATURE, lambda_a=trace, lambda_w=trace)


def best(q: np.ndarray, _reference: np.ndarray) -> float:
    return q.max()


def soft(q: np.ndarray, reference: np.ndarray) -> float:
    return float(soft_values(q, reference, TEMPERATURE))


@pytest.mark.parametrize("game", GAMES)
def test_the_games_are_worth_what_is_known_of_them(game):
    made = tables(game)
    assert made.solved(best)[0][made.opens[0]] == pytest.approx(GAMES[game][2], abs=1e-12)


@pytest.mark.parametrize("trace", [0.0, 0.95])
@pytest.mark.parametrize("game", GAMES)
def test_whoever_plays_the_values_are_those_of_value_iteration(game, trace):
    made = tables(game)
    train(made, game, 1000 if trace == 0 else 400, q_learning(trace), DESCENT, sampler=made.uniform)
    values, q = made.solved(best)
    assert made.values == pytest.approx(values, abs=1e-4)
    logprobs = made.logprobs().detach().numpy()
    of_words = made.values[made.place] + TEMPERATURE * (logprobs - made.best(logprobs)[made.place])
    assert of_words == pytest.approx(q, abs=1e-3)
    assert made.greedy_return(GAMES[game][1]) == pytest.approx(GAMES[game][2], abs=1e-12)


@pytest.mark.parametrize("game", GAMES)
def test_the_policy_that_plays_finds_the_optimum_by_itself(game):
    made = train(tables(game), game, 200, q_learning(), DESCENT)
    assert made.greedy_return(GAMES[game][1]) == pytest.approx(GAMES[game][2], abs=1e-12)
    assert made.values[made.opens[0]] == pytest.approx(GAMES[game][2], abs=1e-3)


@pytest.mark.parametrize("trace", [0.0, 0.95])
@pytest.mark.parametrize("game", GAMES)
def test_whoever_plays_the_soft_form_is_the_soft_optimum(game, trace):
    def pay(logprobs: np.ndarray, _best: np.ndarray) -> np.ndarray:
        return token_penalties(logprobs, made.uniform, TEMPERATURE)

    made = tables(game)
    method = CREDIT.make("poad", gamma=GAMMA, lambda_a=trace, lambda_w=trace)
    train(made, game, 1000 if trace == 0 else 400, method, DESCENT, sampler=made.uniform, pay=pay)
    values, q = made.solved(soft)
    assert made.values == pytest.approx(values, abs=1e-4)
    for place in range(len(values)):
        here = made.place == place
        expected = np.exp(soft_policy(q[here], made.uniform[here], TEMPERATURE))
        assert np.exp(made.logprobs().detach().numpy()[here]) == pytest.approx(expected, abs=1e-3)


def test_with_a_discount_between_words_it_is_another_game():
    """ntpo's backups under the same pay: the goal is 29 words away, and worth that much less."""

    def pay(logprobs: np.ndarray, best: np.ndarray) -> np.ndarray:
        return token_penalties(logprobs, best, TEMPERATURE)

    made = tables("virtualhome")
    naive = CREDIT.make("ntpo", gamma=GAMMA, gamma_w=GAMMA)
    train(made, "virtualhome", 400, naive, DESCENT, sampler=made.uniform, pay=pay)
    assert made.values[made.opens[0]] == pytest.approx(GAMMA**28, abs=1e-4)
