"""Credit that is known: values from games that go on from each situation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.contest import GAMES, PER_TURN
from benchmarks.lab.known import KnownCredit, _played
from benchmarks.lab.trainee import Trainee
from benchmarks.lab.trial import Sizes, Trial, trainee_of, warm_start
from envs.episode import Episode

PLAIN = Trial(GAMES[1], PER_TURN, 1e-3, 90, 0, Sizes(updates=1, batch=8, held_out=8, cloning_steps=60))


def knowing(more_games: int, *settings: str) -> KnownCredit:
    method = replace(PER_TURN, settings=(*PER_TURN.settings, *settings), more_games=more_games)
    return trainee_of(replace(PLAIN, method=method))


def told(episodes: list[Episode]) -> list[tuple]:
    return [(each.ticket.number, [turn.utterance for turn in each.turns], each.outcome) for each in episodes]


@pytest.mark.long
def test_a_turn_is_worth_how_much_better_games_go_on():
    trainee, plain = knowing(6), trainee_of(PLAIN)
    assert type(plain) is Trainee
    episodes, same = trainee.next_batch(), plain.next_batch()
    assert told(episodes) == told(same), "to keep situations changes no game"
    values, again = trainee.values(), trainee.values()
    assert values == again, "what is drawn depends on version and round alone"
    learned = trainee.shaped(episodes)
    assert {(each.number, each.seat, turn) for each in learned for turn in range(len(each.rewards))} == set(values)
    for each, episode in zip(learned, episodes, strict=True):
        assert each.kind == "advantage"
        first = values[each.number, each.seat, 0]
        assert each.rewards.sum() == pytest.approx(episode.outcome[each.seat] - first)
    gone_on = [(values[each.number, each.seat, 0], each.rewards.sum()) for each in learned]
    assert any(first > 0 for first, _ in gone_on) and any(abs(luck) > 0.01 for _, luck in gone_on)
    assert told(trainee.next_batch()) == told(plain.next_batch())


def test_where_nothing_is_drawn_every_turn_is_worth_nothing():
    """Each game goes on as it went, so its situations are worth its outcome from the first."""
    trainee = knowing(2, "rollout.temperature=0.01")
    episodes = trainee.next_batch()
    assert any(episode.outcome[seat] > 0 for episode in episodes for seat in episode.policy_seats())
    for each in trainee.shaped(episodes):
        np.testing.assert_allclose(each.rewards, 0.0, atol=1e-12)


def test_a_game_that_cannot_go_on_as_it_stood_is_an_error():
    trainee = knowing(1)
    trainee.next_batch()
    ticket = next(iter(trainee.games.situations.values())).ticket
    with pytest.raises(RuntimeError, match="does not go on as it stood"):
        _played(ticket, None, wasted=3)


def test_it_trains():
    figures = knowing(2).update()
    assert figures["applied"] and figures["advantage_std"] > 0 and warm_start(PLAIN).is_dir()
