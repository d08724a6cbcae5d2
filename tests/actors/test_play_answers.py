"""How likely the right answer was before each turn: what an engine is asked, and what a run pays by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from actors.play.live import EpisodeFailed, Failure
from cluster.episodes.reader import Episodes
from envs.episode import HELD_OUT_NUMBERS
from tests.support.engines import model_logprobs
from tests.support.play import new_play, play_out, tickets
from tests.support.runs import config_for, run


def test_each_turn_tells_what_the_model_itself_gives_the_right_answer(tiny_model):
    """And asking changes no game."""
    found = {}
    for asked in (True, False):
        play = new_play(tiny_model, max_utterance_tokens=4, score_answers=asked)
        found[asked] = play_out(play, tickets(2, "twenty_questions"))
    model = play.cast.policies["policy"].engine.model
    for number, game in found[True].items():
        answer = play.cast.policies["policy"].dialogue.utterance(f"i guess {game.facts['secret']}")
        ids, turn_of = game.sequence("guesser").ids, game.sequence("guesser").turn
        for place, turn in enumerate(game.turns):
            if place % 6:
                continue
            prompt = [*ids[turn_of < place].tolist(), *turn.tokens.observation_ids.tolist()]
            expected = model_logprobs(model, [*prompt, *answer])[len(prompt) - 1 :].mean()
            assert turn.answer_logprob == pytest.approx(expected, abs=1e-4)
        assert all(turn.answer_logprob < 0 for turn in game.turns)
        shown = play.cast.policies["policy"].dialogue.reply(game.closing["guesser"], int(ids[-1]))
        assert game.terminated and tuple(game.closing_ids["guesser"].tolist()) == shown
        assert [turn.utterance for turn in found[False][number].turns] == [turn.utterance for turn in game.turns]
        assert {turn.answer_logprob for turn in found[False][number].turns} == {None}


def test_nobody_is_asked_about_games_that_are_held_out(tiny_model):
    play = new_play(tiny_model, max_utterance_tokens=4, score_answers=True)
    (ticket,) = tickets(1, "twenty_questions")
    play.admit([replace(ticket, number=HELD_OUT_NUMBERS)])
    while play.busy():
        for returned in play.step():
            assert returned.result.terminated and play.waiting_for == {}
            assert {turn.answer_logprob for turn in returned.result.turns} == {None}
        assert not any(live.scored for live in play.live.values())


def test_an_answer_that_no_tokenizer_takes_costs_its_own_games_only(tiny_model):
    play = new_play(tiny_model, max_utterance_tokens=4, score_answers=True)
    others = [replace(ticket, number=10 + ticket.number) for ticket in tickets(2, "twenty_questions")]
    results = play_out(play, [*tickets(2, "half an answer"), *others])
    assert {results[number].reason for number in (0, 1)} == {"game_error:TypeError"}
    assert all(results[ticket.number].terminated for ticket in others)
    assert play.waiting_for == {} and not play.cast.policies["policy"].engine.busy()


def test_a_game_that_fails_while_it_is_asked_about_leaves_nothing_behind(tiny_model):
    play = new_play(tiny_model, max_utterance_tokens=4, score_answers=True)
    play.admit(tickets(1, "twenty_questions"))
    while not any(live.scored for live in play.live.values()):
        assert play.step() == []
    (live,) = play.live.values()
    play._fail(live, EpisodeFailed("timeout"))
    assert play.waiting_for == {} and play.finished[0].result == Failure("timeout")
    assert not play.cast.policies["policy"].engine.busy()


def test_an_answer_for_a_seat_that_is_not_there_costs_its_own_episode(tiny_model):
    play = new_play(tiny_model, max_utterance_tokens=4, score_answers=True)
    results = play_out(play, [*tickets(2, "answers nobody"), *(replace(t, number=9) for t in tickets(1))])
    assert [results[number] for number in (0, 1)] == [Failure("game_error:ValueError")] * 2
    assert results[9].terminated and not play.cast.policies["policy"].engine.busy()


@pytest.mark.long
def test_a_run_pays_for_what_brought_the_policy_nearer(tiny_model, tmp_path):
    """The credit of all but the last turns is other than the outcome's alone."""
    changes = {
        "updates": 2,
        "game": {"name": "twenty_questions"},
        "reward": {"shaper": "igpo"},
        "learner": {"credit": {"method": "reinforce", "baseline": "none"}, "tokens_per_micro_batch": 1024},
        "rollout": {
            "score_answers": True,
            "max_utterance_tokens": 4,
            "engine": {"kind": "transformers", "max_context": 512},
        },
    }
    _, folder = run(config_for(tiny_model, tmp_path, **changes))
    games = list(Episodes(folder.path / "episodes", "failure is None and not held_out"))
    assert len(games) == 16
    for game in games:
        shaped = [turn["shaped"] for turn in game["dialogue"]]
        assert shaped[-1] == game["seats"][0]["outcome"] and np.abs(shaped[:-1]).max() > 0
        assert all(abs(each) < 0.5 for each in shaped[:-1]), "an untrained policy knows little"
        credit = [turn["credit"][0] for turn in game["dialogue"]]
        assert credit == pytest.approx(np.cumsum(shaped[::-1])[::-1], abs=1e-5)
