"""Many episodes at once: what the learner is given is what the engine saw and made."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from actors.play.live import Failure
from actors.play.players import stable_seed
from envs.episode import Episode, Ticket
from tests.support.engines import KINDS, engine_settings, model_of, send, shared_engine
from tests.support.play import check_exact, new_play, play_out, tickets


@pytest.mark.parametrize(("kind", "count"), [("transformers", 300), ("vllm", 100)])
def test_tokens_in_tokens_out(kind, count, tiny_model):
    """Random multi-turn episodes, two policy seats: the learner's ids are the engine's, byte for byte."""
    send(shared_engine(kind, str(tiny_model)), model_of(str(tiny_model), seed=20, shake=0.1), 3)
    play = new_play(tiny_model, kind)
    results = play_out(play, tickets(count))
    episodes = [results[number] for number in range(count)]
    assert all(isinstance(episode, Episode) for episode in episodes)
    assert sum(len(episode.turns) for episode in episodes) > 3 * count
    recorder = play.cast.policies["policy"].engine
    assert check_exact(play, episodes) == sum(len(completion.token_ids) for completion in recorder.made.values())
    finishes = {turn.tokens.finish for episode in episodes for turn in episode.turns}
    assert finishes == {"stop", "length"}


def test_the_same_tickets_give_the_same_bytes_whatever_was_played_before(tiny_model):
    def bytes_of(results: dict) -> list:
        return [
            [(t.utterance, t.tokens.utterance_ids.tobytes(), t.tokens.logprobs.tobytes()) for t in episode.turns]
            for _, episode in sorted(results.items())
        ]

    play = new_play(tiny_model)
    first = bytes_of(play_out(play, tickets(60)))
    play_out(play, tickets(25, game="twenty_questions"))
    assert bytes_of(play_out(play, tickets(60, attempt=3))) == first  # and the attempt changes nothing
    assert len({str(episode) for episode in first}) > 50


def test_rewards_go_to_the_turn_that_earned_them(tiny_model):
    results = play_out(new_play(tiny_model), tickets(40))
    for episode in results.values():
        paid = {"left": 0.0, "right": 0.0}
        for turn in episode.turns:
            paid[turn.seat] += 1.0
            paid["right" if turn.seat == "left" else "left"] += 0.25
        for seat in paid:
            turns = episode.turns_of(seat)
            if turns:  # nothing is lost, not even what came before a seat's first turn
                assert sum(turn.reward for turn in turns) == pytest.approx(paid[seat])
                assert all(turn.reward >= 1.0 for turn in turns)
        assert episode.terminated and episode.outcome == {"left": 1.0, "right": 0.0}
        assert episode.facts == {"turns left": "0"} and set(episode.closing) == {"left", "right"}
        assert episode.money == {}, "a game that says nothing of money"


def test_scripted_and_frozen_seats_leave_no_tokens_to_train_on(tiny_model):
    results = play_out(new_play(tiny_model, frozen=True), tickets(30, left="scripted:parrot", right="frozen:old"))
    kinds = {turn.player for episode in results.values() for turn in episode.turns}
    assert kinds == {"scripted:parrot", "frozen:old"}
    for episode in results.values():
        assert episode.policy_seats() == [] and all(turn.tokens is None for turn in episode.turns)
        seed = stable_seed(episode.ticket.seed, episode.ticket.number, "left", "player") % 7
        assert all(turn.utterance == f"{turn.observation} {seed}" for turn in episode.turns_of("left"))


def test_a_full_context_truncates_and_keeps_what_would_have_come_next(tiny_model):
    engine = engine_settings("transformers").model_copy(update={"max_context": 40})
    play = new_play(tiny_model, engine=engine)
    results = play_out(play, tickets(20, game="endless"))
    for episode in results.values():
        assert not episode.terminated and len(episode.turns) > 2 and len(episode.closing) == 1
        ((seat, observation),) = episode.closing.items()
        assert observation == "again" and episode.facts == {}
        assert len(episode.sequence(seat).ids) <= 40
        assert max(len(episode.sequence(seat).ids) for seat in ("left", "right")) > 30
    check_exact(play, list(results.values()))
    assert not play.spare_games["endless"], "a game that is not over may still hold a process, or a session"


def test_a_seat_whose_first_prompt_does_not_fit_says_so(tiny_model):
    """Also where another seat has spoken before it: such a game would have no turn of the policy."""
    engine = engine_settings("transformers").model_copy(update={"max_context": 2})
    results = play_out(new_play(tiny_model, engine=engine), tickets(12, left="scripted:parrot")).values()
    played = [each for each in results if isinstance(each, Episode)]
    assert {each.reason for each in results if each not in played} == {"context_too_small"}
    assert all(episode.terminated and not episode.turns_of("right") for episode in played)


def test_a_game_that_is_over_is_not_late(tiny_model):
    """Its answers are scored still."""
    play = new_play(tiny_model, episode_seconds=1e-9)
    over, late = (SimpleNamespace(started=0.0, episode=found, ticket=None) for found in (object(), None))
    play.live, failed = {1: over, 2: late}, []
    play._fail = lambda live, why: failed.append(live)
    play._end_overdue()
    assert failed == [late]


def test_a_game_that_raises_costs_its_own_episodes_only(tiny_model, caplog):
    play = new_play(tiny_model)
    wanted = tickets(20)
    wanted[3::4] = [ticket for ticket in tickets(20, game="broken")[3::4]]
    wanted[2] = tickets(3, left="nobody")[2]
    wanted[1] = Ticket("run", "chat", 1, 1, (("left", "policy"),))
    results = play_out(play, wanted)
    assert all(results[number] == Failure("game_error:ZeroDivisionError") for number in range(3, 20, 4))
    assert results[2] == Failure("unknown_player") and results[1] == Failure("wrong_seats")
    assert sum(isinstance(result, Episode) for result in results.values()) == 13
    assert "the game divides by zero" in caplog.text and "no player 'nobody'" in caplog.text


@pytest.mark.parametrize(
    ("game", "kind", "says"),
    [
        ("wrong seat", "ValueError", "WrongSeat.seat is 'LEFT', which is none of its seats: one of left, right has to"),
        ("over at once", "ValueError", "OverAtOnce.seat is None, the game is over before anybody has spoken"),
        ("lists numbers", "TypeError", "ListsNumbers.actions has to list texts, not 2"),
        ("half an emoji", "TypeError", "TextEncodeInput"),
        ("quits", "SystemExit", "the server of the game is down"),
    ],
)
def test_a_game_that_answers_wrongly_costs_its_own_episodes_only(game, kind, says, tiny_model):
    """Whatever leaves `step` would end the worker, and the next one that is given its tickets."""
    play = new_play(tiny_model)
    wanted = tickets(6)
    wanted[::2] = tickets(6, game=game)[::2]
    results = play_out(play, wanted)
    assert [results[number] for number in (0, 2, 4)] == [Failure(f"game_error:{kind}")] * 3
    assert says in results[0].what
    assert all(isinstance(results[number], Episode) for number in (1, 3, 5))


def test_an_episode_that_does_not_end_times_out_and_leaves_the_engine_free(tiny_model):
    play = new_play(tiny_model, episode_seconds=0.3)
    assert set(play_out(play, tickets(5, game="endless", left="scripted:x", right="scripted:x")).values()) == {
        Failure("timeout")
    }
    assert not play.cast.policies["policy"].engine.busy()


def test_an_episode_in_flight_over_a_sync_carries_both_versions(tiny_model):
    path = str(tiny_model)
    engine = shared_engine("transformers", path)
    send(engine, model_of(path, seed=21, shake=0.1), 1)
    play = new_play(tiny_model)
    play.admit(tickets(30, game="endless"))
    for _ in range(20):
        play.step()
    send(engine, model_of(path, seed=22, shake=0.1), 2)
    done = []
    while play.busy():
        done += play.step()
    versions = [np.unique(episode.sequence("left").versions).tolist() for _, episode, _ in done]
    assert all(found == [-1, 1, 2] for found in versions)
    check_exact(play, [episode for _, episode, _ in done])


@pytest.mark.parametrize("kind", KINDS)
def test_a_game_begins_when_the_engine_has_room_for_it(kind, tiny_model):
    """Before that its clock stands and it holds no game: more of them would only wait for each other."""
    play = new_play(tiny_model, kind, episodes_in_flight=200)
    rows, live, returned = play.settings.engine.max_sequences, [], []
    play.admit(tickets(150))
    while play.busy():
        returned += play.step()
        if play.queue:
            live.append(len(play.live) + len(play.finished))
        assert len(play.queue) + len(play.live) + len(returned) == 150
    assert max(live) <= rows and np.mean(live[1:]) > 0.9 * rows, "a place does not stay empty while others talk"
    assert all(isinstance(each.result, Episode) for each in returned)
