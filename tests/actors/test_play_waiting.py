"""Episodes that wait for servers, threads and coroutines: nobody else waits with them, and each ends with a name."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from actors.play.live import Failure
from actors.play.players import Endpoint
from envs.episode import Episode
from envs.settings import EndpointSettings
from tests.support.play import (
    Alone,
    FewAtOnce,
    Gathering,
    HangsInAThread,
    Slow,
    SometimesHangs,
    check_exact,
    new_play,
    play_out,
    tickets,
)


@contextmanager
def server(answer):
    """A chat completion server on this machine; `answer(body, calls)` gives (status, reply)."""
    calls = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            calls.append(body)
            status, reply = answer(body, len(calls))
            data = json.dumps({"choices": [{"message": {"content": reply}}]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}/v1", calls
    running.shutdown()
    running.server_close()


def test_an_endpoint_sees_its_own_dialogue_and_is_tried_again(tiny_model):
    def answer(body, call):
        return (503, "") if call == 1 else (200, f"heard {len(body['messages'])}")

    with server(answer) as (url, calls):
        endpoint = Endpoint("rival", EndpointSettings(url=url, model="m", timeout_seconds=10, retries=2))
        play = new_play(tiny_model, endpoints={"endpoint:rival": endpoint})
        results = play_out(play, tickets(8, left="endpoint:rival"))
        endpoint.close()
    spoken = 0
    for episode in results.values():
        for number, turn in enumerate(episode.turns_of("left")):
            assert turn.utterance == f"heard {2 + 2 * number}"  # the rules, then each observation and answer
            spoken += 1
    assert len(calls) == spoken + 1 and calls[0]["messages"][0] == {"role": "system", "content": "you are left"}


def test_an_endpoint_that_fails_is_a_named_failure(tiny_model, monkeypatch):
    with server(lambda body, call: (400, "")) as (url, calls):
        endpoint = Endpoint("rival", EndpointSettings(url=url, model="m", timeout_seconds=5, retries=3))
        play = new_play(tiny_model, endpoints={"endpoint:rival": endpoint})
        results = play_out(play, tickets(6, left="endpoint:rival", right="endpoint:rival"))
        endpoint.close()
    assert set(results.values()) == {Failure("endpoint_error")} and len(calls) == 6  # a 400 is not tried again
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(ValueError, match="rollout.endpoints.rival.key_variable=NO_SUCH_KEY"):
        Endpoint("rival", EndpointSettings(url=url, model="m", key_variable="NO_SUCH_KEY"))


def test_a_slow_game_keeps_nobody_waiting_and_plays_as_a_quick_one(tiny_model):
    play = new_play(tiny_model)
    slow, quick = play_out(play, tickets(24, game="slow")), play_out(play, tickets(24))
    assert Slow.most > 4, "games think at the same time"
    for number, episode in slow.items():
        assert [t.seat for t in episode.turns] == [t.seat for t in quick[number].turns]
        assert [t.observation for t in episode.turns] == [t.observation for t in quick[number].turns]
        assert [t.reward for t in episode.turns] == [t.reward for t in quick[number].turns]
        assert episode.facts == {"turns left": "0"} and episode.terminated and episode.money == {"left": 2.0}


def test_a_slow_game_that_fails_or_takes_too_long_is_a_named_failure(tiny_model):
    play = new_play(tiny_model)
    results = play_out(play, tickets(20, game="slow and broken"))
    assert set(results.values()) == {Failure("endpoint_error"), Failure("game_error:ZeroDivisionError")}
    play = new_play(tiny_model, episode_seconds=2.0)
    results = play_out(play, tickets(6, game="slow to begin"))
    assert results.pop(0) == Failure("timeout") and all(isinstance(each, Episode) for each in results.values())
    time.sleep(1.5)  # its work ends now, and is nobody's any more
    play.admit(tickets(1))
    while play.busy():
        assert [ticket.game for ticket, *_ in play.step()] in ([], ["chat"])


def test_a_game_of_coroutines_plays_as_a_quick_one(tiny_model):
    play = new_play(tiny_model)
    late, quick = play_out(play, tickets(24, game="waiting")), play_out(play, tickets(24))
    for number, episode in late.items():
        assert [(t.seat, t.observation, t.reward) for t in episode.turns] == [
            (t.seat, t.observation, t.reward) for t in quick[number].turns
        ]
        assert episode.terminated and episode.facts == {"turns left": "0"}
    check_exact(play, list(late.values()))


def test_one_worker_holds_two_thousand_waiting_games_without_a_thread_for_each(tiny_model):
    play, before = new_play(tiny_model, episodes_in_flight=4000), threading.active_count()
    started = time.monotonic()
    results = play_out(play, tickets(Gathering.expected, game="gathering", left="scripted:x", right="scripted:x"))
    seconds = time.monotonic() - started
    assert all(isinstance(each, Episode) for each in results.values()), "all were there at the same time, or none began"
    assert threading.active_count() <= before + 1
    waits = sum(1 + len(each.turns) for each in results.values()) * Gathering.seconds
    assert seconds < waits / 100, "64 threads would take longer"


def test_games_that_hang_cost_their_own_episodes_only(tiny_model):
    play = new_play(tiny_model, turn_seconds=6.0, episodes_in_flight=4000)
    SometimesHangs.ended = 0
    results = play_out(play, tickets(500, game="sometimes hangs", left="scripted:x", right="scripted:x"))
    hung = {number for number, result in results.items() if result == Failure("turn_timeout")}
    assert hung == {number for number in range(500) if (7000 + number) % 10 == 3}
    assert all(isinstance(result, Episode) for number, result in results.items() if number not in hung)
    deadline = time.monotonic() + 10
    while SometimesHangs.at_work and time.monotonic() < deadline:
        time.sleep(0.01)
    assert SometimesHangs.at_work == 0, "what was given up is over"


def test_threads_that_hang_stop_nobody(tiny_model):
    play = new_play(tiny_model, turn_seconds=1.0, game_threads=4, episodes_in_flight=8)
    results = play_out(play, tickets(40, game="hangs in a thread", left="scripted:x", right="scripted:x"))
    hung = {number for number, result in results.items() if result == Failure("turn_timeout")}
    assert {number for number in range(40) if (7000 + number) % 4 == 1} <= hung
    assert sum(isinstance(result, Episode) for result in results.values()) > 15
    HangsInAThread.release.set()


def test_a_coroutine_that_ends_oddly_is_a_named_failure(tiny_model):
    results = play_out(new_play(tiny_model), tickets(20, game="leaves"))
    assert set(results.values()) == {Failure("game_error:RuntimeError"), Failure("game_error:CancelledError")}


def test_games_of_which_few_are_played_at_once_wait_for_each_other_and_stop_nobody_else(tiny_model):
    play = new_play(tiny_model, episodes_in_flight=8)
    few = tickets(12, game="few at once", left="scripted:x")
    play.admit([*few, *(replace(ticket, number=100 + ticket.number) for ticket in tickets(6))])
    finished, alongside = [], 0
    while play.busy():
        finished += play.step()
        playing = Counter(live.ticket.game for live in play.live.values())
        assert playing["few at once"] <= 2
        alongside = max(alongside, playing["chat"])
    assert FewAtOnce.most == 2 and alongside == 6, "those behind them in the queue have begun"
    assert len(finished) == 18 and all(isinstance(each.result, Episode) for each in finished)


def test_a_game_that_was_given_up_counts_as_played_until_it_ends(tiny_model):
    play = new_play(tiny_model, turn_seconds=0.3, game_threads=8)
    results = play_out(play, tickets(4, game="alone", left="scripted:x", right="scripted:x"))
    assert set(results.values()) == {Failure("turn_timeout")} and Alone.most == 1


def test_waiting_for_a_connection_is_no_part_of_a_turn(tiny_model):
    """24 ask at once for a tenth of a second each: the last one waits for longer than a turn may take."""

    def answer(body, call):
        time.sleep(0.1)
        return 200, "yes"

    with server(answer) as (url, calls):
        endpoint = Endpoint("rival", EndpointSettings(url=url, model="m", timeout_seconds=60, connections=1))
        play = new_play(tiny_model, endpoints={"endpoint:rival": endpoint}, turn_seconds=1.5)
        results = play_out(play, tickets(24, left="endpoint:rival", right="endpoint:rival"))
        endpoint.close()
    assert all(isinstance(each, Episode) for each in results.values())


def test_a_game_of_which_none_may_be_played_fails_with_a_name(tiny_model):
    assert set(play_out(new_play(tiny_model), tickets(3, game="none at once")).values()) == {
        Failure("game_error:ValueError")
    }
