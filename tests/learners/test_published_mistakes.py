"""Mistakes that published code of such methods makes, one test each: the naive form would fail it.

Tested elsewhere already:
- a beginning-of-sequence token or padding between prompt and answer: what is trained on is the ids
  that the engine saw and made (test_play::test_tokens_in_tokens_out), and a packed batch predicts
  exactly the sampled ones, from what came before them
  (test_packing::test_a_pack_predicts_exactly_the_sampled_tokens_from_what_came_before);
- log-probs under another template or another temperature than sampled: engine and trainer agree on
  the same ids (test_end_to_end, test_sync), a whole game is what the template renders
  (test_dialogue::test_a_whole_game_is_what_the_template_renders), and the trainer's log-probs do not
  depend on packing (test_packing::test_packing_changes_no_log_prob);
- final actions that nobody answers, in aggregation alone
  (test_aggregation::test_first_turns_and_final_one_sided_actions_are_grouped_like_all_others).
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as checked
from hypothesis import strategies as st
from pydantic import ValidationError

from envs.episode import Episode, Ticket, Turn, TurnTokens
from learners.batch.crediting import assign_credit
from learners.batch.trajectories import collect
from learners.credit.method import CREDIT
from reward_service.intentions.settings import AggregateSettings, IntentionSettings
from reward_service.shapers.aria import AriaShaper
from tests.reward_service.test_aria import embed
from tests.support.glee_games import earned, new, play, say


def shaper(gamma: float = 0.95, gives: str = "advantage", **options) -> AriaShaper:
    aggregate = AggregateSettings(gamma=gamma)
    return AriaShaper(IntentionSettings(**({"first_fit": 10**6} | options), aggregate=aggregate), embed, gives)


def talk(lengths: list[int], outcome: float, number: int = 0) -> Episode:
    """A seat alone with its game, whose utterances are so many tokens long."""
    turns = [
        Turn("me", "policy", f"seen {turn}", f"word {turn} " * length, tokens=tokens(length, first=100 * turn))
        for turn, length in enumerate(lengths)
    ]
    return Episode(Ticket("run", "parrot", number, number, (("me", "policy"),)), turns, {"me": outcome}, True)


def tokens(length: int, first: int = 0) -> TurnTokens:
    said = np.arange(first, first + length, dtype=np.int32)
    return TurnTokens(np.array([7, 8], np.int32), said, np.full(length, -1, np.float32), np.zeros(length, np.int32))


def trained(episodes: list[Episode], by: AriaShaper) -> tuple[np.ndarray, np.ndarray]:
    """Token ids that get a gradient, and the advantage of each."""
    trajectories = collect(episodes, by.shape(episodes))
    credit = assign_credit(trajectories, CREDIT.make("reinforce", baseline="none"), {})
    return np.concatenate([each.sequence.ids[each.sequence.mask] for each in trajectories]), credit.advantages


@checked(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.floats(0, 1), st.floats(0.5, 1))
def test_exponents_count_turns_and_not_tokens(lengths, outcome, gamma):
    """Mistake: the discount counts tokens, so that whoever says the same in more words is worth less."""
    advantages = trained([talk(lengths, outcome)], shaper(gamma))[1]
    worth = [gamma ** (len(lengths) - turn) * outcome for turn in range(1, len(lengths) + 1)]
    assert advantages == pytest.approx(np.repeat(worth, lengths), rel=1e-6, abs=1e-7)


@checked(deadline=None, max_examples=40)
@given(st.integers(1, 60), st.floats(0, 1), st.floats(0.01, 1))
def test_no_exponent_is_negative(turns, outcome, gamma):
    """Mistake: an exponent that falls below 0, so that a turn is worth more than the game it was in."""
    advantages = trained([talk([1] * turns, outcome)], shaper(gamma))[1]
    assert (advantages <= np.float32(outcome)).all() and advantages[-1] == np.float32(outcome)
    assert (np.diff(advantages) >= 0).all()


def test_a_discount_above_1_is_refused():
    """Mistake: a discount above 1, by which the oldest turns are worth most."""
    for settings, name in ((AggregateSettings, "gamma"), (CREDIT.find("reinforce"), "gamma")):
        with pytest.raises(ValidationError):
            settings(**{name: 1.05})


@pytest.mark.parametrize("gives", ["advantage", "outcome"])
def test_each_players_first_and_last_turns_are_trained(gives):
    """Mistake: a player's first turn, or a final action that nobody answers, is dropped where histories
    and actions are paired up. Here either side may have the last word."""
    ended_by = set()
    for seed in range(12):
        _, moves = played = play("bargaining", "tit_for_tat", ("conceding", "stubborn")[seed % 2], seed)
        turns = [
            Turn(seat, "policy", seen, said, tokens=tokens(3, 10 * number))
            for number, (seat, seen, said, _) in enumerate(moves)
        ]
        ticket = Ticket("run", "bargaining", seed, seed, (("alice", "policy"), ("bob", "policy")))
        episode = Episode(ticket, turns, played[0].outcome(), True)
        shaped = shaper(gives=gives).shape([episode])
        assert [len(each.rewards) for each in shaped] == [len(episode.turns_of(each.seat)) for each in shaped]
        assert [float(each.rewards[-1]) for each in shaped] == [episode.outcome["alice"], episode.outcome["bob"]]
        ids = np.concatenate([each.sequence.ids[each.sequence.mask] for each in collect([episode], shaped)])
        assert sorted(ids.tolist()) == sorted(np.concatenate([t.tokens.utterance_ids for t in turns]).tolist())
        ended_by.add(turns[-1].seat)
    assert ended_by == {"alice", "bob"}


def test_what_was_said_is_trained_with_what_it_earned():
    """Mistake: actions sampled anew when training, and the outcomes of the games ignored."""
    lost, won = talk([2, 3], 0.0, 0), talk([4, 1], 1.0, 1)
    ids, advantages = trained([lost, won], shaper())
    assert ids.tolist() == [0, 1, 100, 101, 102, 0, 1, 2, 3, 100]
    assert advantages == pytest.approx([0, 0, 0, 0, 0, 0.95, 0.95, 0.95, 0.95, 1])
    swapped = [replace(lost, outcome={"me": 1.0}), replace(won, outcome={"me": 0.0})]
    assert trained(swapped, shaper())[1] == pytest.approx([0.95, 0.95, 1, 1, 1, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("configuration", range(0, 48, 5))
def test_players_are_told_what_a_round_costs_and_not_the_discount_factor(configuration):
    """Mistake: the discount factor printed as if it were the rate of loss, .95 as "95 % inflation"."""
    paid = []
    for wait in (0, 1):
        game = new("bargaining", 0, configuration=configuration)
        told = [game.briefing("alice"), game.observe()]
        first, second = ("bob", "alice") if wait else ("alice", "bob")
        if wait:
            say(game, "alice", "i offer you 50 %")
            say(game, "bob", "i reject")
        say(game, first, "i offer you 50 %")
        say(game, second, "i accept")
        paid.append(earned(game))
    for text in told:
        own, rival = re.search(r"los\w+ (\d+) %.*? (\d+) %", text).groups()
        left = [1 - Fraction(int(cost), 100) for cost in (own, rival)]
        assert [late / early for early, late in zip(*(each.values() for each in paid), strict=True)] == left
