"""Why a better gradient may teach no more: what sharing leaves as it was, and how sums of gradients are compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.lab.store import Store
from benchmarks.sums import (
    ARIA,
    METHODS,
    PLAIN,
    RECORDS,
    SEEDS,
    SHARING,
    SUMMED,
    WINDOW,
    cosine_of_sums,
    page,
    trial,
)
from envs.episode import Episode
from reward_service.shapers.aria import AriaShaper
from tests.reward_service.test_aria import batch, embed, settings


def kind_of(utterance: str) -> str:
    return " ".join(utterance.split()[:2])


def by_kind(episodes: list[Episode], value: Callable[[Episode, str, int], float]) -> dict[str, float]:
    """The sum over turns, by what kind of thing was said."""
    found: dict[str, float] = {}
    for each in episodes:
        for seat in each.policy_seats():
            for number, turn in enumerate(each.turns_of(seat)):
                kind = kind_of(turn.utterance)
                found[kind] = found.get(kind, 0.0) + value(each, seat, number)
    return found


def answered(shaper: AriaShaper, episodes: list[Episode]) -> dict[tuple[int, str], np.ndarray]:
    return {(each.number, each.seat): each.rewards for each in shaper.shape(episodes)}


def test_in_one_window_sharing_moves_nothing_between_intentions():
    episodes = batch(0, 64)
    shared = answered(AriaShaper(settings(), embed), episodes)
    after = by_kind(episodes, lambda each, seat, number: shared[each.ticket.number, seat][number])
    before = by_kind(
        episodes,
        lambda each, seat, number: 0.95 ** (len(each.turns_of(seat)) - 1 - number) * each.outcome[seat],
    )
    assert len(before) == 6 and after == pytest.approx(before, rel=1e-5)
    first = [abs(shared[each.ticket.number, "alice"][0] - 0.95**2 * each.outcome["alice"]) for each in episodes]
    assert np.mean(first) > 0.1  # but within them it does


def test_over_a_sliding_window_a_return_is_used_once_in_all():
    """Outcomes are drawn, so all there is to learn is noise. A batch has less of it where credit is shared, and many
    batches together have the same."""
    chance, aria = np.random.default_rng(0), AriaShaper(settings(aggregate={"gamma": 1.0}), embed)
    names: dict[str, int] = {}
    given = np.zeros((2, 200, 6))  # plain, shared: of each batch, the sum by kind
    for number in range(given.shape[1]):
        episodes = batch(16 * number, turns=1)
        for each in episodes:
            each.outcome["alice"] = float(chance.integers(2))
        shared = answered(aria, episodes)
        for each in episodes:
            kind = names.setdefault(kind_of(each.turns[0].utterance), len(names))
            values = each.outcome["alice"], shared[each.ticket.number, "alice"][0]
            given[:, number, kind] += np.array(values) - 0.5
    given = given[:, 4:]  # the window of 64 games is full
    plain, shared = np.sqrt((given**2).mean(axis=(1, 2)))
    assert shared < 0.7 * plain
    plain, shared = given.sum(axis=1)
    assert np.corrcoef(plain, shared)[0, 1] > 0.9
    assert np.linalg.norm(shared) == pytest.approx(np.linalg.norm(plain), rel=0.25)


def test_sums_follow_each_other_and_are_held_against_the_true_direction():
    true = np.array([2.0, 0.0])
    found = np.array([[1.0, 1.0], [1.0, -1.0], [0.0, 0.0], [0.0, 3.0]])
    assert cosine_of_sums(found, true, 1) == pytest.approx((2 * np.sqrt(0.5) + 0 + 0) / 4)
    assert cosine_of_sums(found, true, 2) == pytest.approx((1 + 0) / 2)
    assert cosine_of_sums(found, true, 4) == pytest.approx(2 / np.hypot(2, 3))


def test_methods_differ_in_credit_alone():
    games = {str(trial(game, method, 3).config.game) for game in _games() for method in METHODS}
    assert len(games) == len(_games())
    for method in METHODS:
        config = trial(_games()[0], method, 3).config
        assert config.learner.epochs == config.learner.minibatches == config.group_size == 1
    window = trial(_games()[0], ARIA, 3).config.reward.shaper.intentions.aggregate.window
    assert window == WINDOW and PLAIN not in SHARING


def _games():
    from benchmarks.contest import GAMES

    return GAMES


def test_every_table_of_the_page_is_made_of_the_records():
    shown = (RECORDS.parents[2] / "docs" / "results" / "sums.md").read_text(encoding="utf-8")
    made = page(Store(RECORDS), SEEDS)
    assert shown.endswith(f"{made}\n") and made.count("| aria |") == len(SUMMED) + 2
