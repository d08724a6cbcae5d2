"""Many episodes at once: what the learner is given is what the engine saw and made."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from transformers import AutoTokenizer

from actors.engines.transformers_engine import TransformersEngine
from actors.play import Failure, Play
from actors.players import Cast, Endpoint, Policy, stable_seed
from actors.settings import RolloutSettings
from envs.episode import Episode, Ticket
from envs.game import Step
from envs.registry import make_game, make_player
from envs.settings import EndpointSettings
from envs.text.chat import EndpointError
from envs.text.dialogue import Dialogue
from tests.support.engines import engine_settings, model_of, send, shared_engine


class Chat:
    """Two seats in a seeded, uneven order; what each hears depends on what was said, and a
    payment to the silent seat follows every utterance."""

    name, seats, horizon = "chat", ("left", "right"), 9
    words = ["yes", "no", "is", "it", "red", "big", "an", "animal", "dog", "apple"]

    def reset(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.left = self.random.randint(1, self.horizon)
        self.heard, self.seat = "begin", self.random.choice(self.seats)

    def briefing(self, seat: str) -> str:
        return "you are left" if seat == "left" else ""

    def observe(self) -> str:
        return self.heard

    def actions(self) -> tuple[str, ...]:
        return ()

    def step(self, utterance: str) -> Step:
        speaker, self.left = self.seat, self.left - 1
        self.heard = " ".join(self.random.choices(self.words, k=self.random.randint(1, 6)))
        self.seat = None if self.left == 0 else self.random.choice(self.seats)
        other = "right" if speaker == "left" else "left"
        return Step(rewards={speaker: 1.0, other: 0.25}, terminated=self.left == 0, caption=utterance[:5])

    def outcome(self) -> dict[str, float]:
        return {"left": 1.0, "right": 0.0}

    def closing(self) -> dict[str, str]:
        return {"left": self.heard, "right": self.heard}

    def facts(self) -> dict[str, str]:
        return {"turns left": str(self.left)}


class Broken(Chat):
    def step(self, utterance: str) -> Step:
        raise ZeroDivisionError("the game divides by zero")


class Endless(Chat):
    def step(self, utterance: str) -> Step:
        self.heard, self.seat = "again", "left" if self.seat == "right" else "right"
        return Step()


class Slow(Chat):
    """Thinks in a thread, and pays one seat; counts how many of its kind think at once."""

    slow = True
    at_once, most = 0, 0
    guard = threading.Lock()

    def step(self, utterance: str) -> Step:
        with Slow.guard:
            Slow.at_once += 1
            Slow.most = max(Slow.most, Slow.at_once)
        time.sleep(0.02)
        with Slow.guard:
            Slow.at_once -= 1
        return super().step(utterance)

    def money(self, seat: str) -> int | None:
        return 2 if seat == "left" else None


class SlowAndBroken(Slow):
    def step(self, utterance: str) -> Step:
        raise EndpointError("the server is down") if self.left % 2 else ZeroDivisionError()


class SlowToBegin(Slow):
    def reset(self, seed: int) -> None:
        time.sleep(3.0 if seed == 7000 else 0.0)
        super().reset(seed)


class Waiting(Chat):
    """Waits for somebody else at every step, without a thread; counts how many of its kind wait at once."""

    at_once, most, ended = 0, 0, 0
    seconds = 0.3

    async def reset(self, seed: int) -> None:
        self.seed = seed
        await self.wait()
        super().reset(seed)

    async def step(self, utterance: str) -> Step:
        await self.wait()
        return super().step(utterance)

    async def wait(self) -> None:
        kind = type(self)
        kind.at_once += 1
        kind.most = max(kind.most, kind.at_once)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            kind.at_once -= 1
            kind.ended += 1


class SometimesHangs(Waiting):
    """One in ten never answers."""

    seconds = 0.01
    at_once = ended = 0

    async def step(self, utterance: str) -> Step:
        if self.seed % 10 == 3:
            self.seconds = 3600.0
        return await super().step(utterance)


class HangsInAThread(Slow):
    """One in four never gives its thread back."""

    release = threading.Event()

    def reset(self, seed: int) -> None:
        self.seed = seed
        super().reset(seed)

    def step(self, utterance: str) -> Step:
        if self.seed % 4 == 1:
            self.release.wait(60.0)
        return super().step(utterance)


class Leaves(Waiting):
    seconds = 0.0

    async def step(self, utterance: str) -> Step:
        raise SystemExit(3) if self.left % 2 else asyncio.CancelledError


class Parrot:
    def reset(self, seed: int) -> None:
        self.seed = seed

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        return f"{observation} {self.seed % 7}"


GAMES = {
    "chat": Chat,
    "broken": Broken,
    "endless": Endless,
    "slow": Slow,
    "slow and broken": SlowAndBroken,
    "slow to begin": SlowToBegin,
    "waiting": Waiting,
    "sometimes hangs": SometimesHangs,
    "hangs in a thread": HangsInAThread,
    "leaves": Leaves,
}


def new_game(name: str):
    return GAMES[name]() if name in GAMES else make_game(name)


def new_player(game: str, player: str):
    return Parrot() if game in GAMES else make_player(game, player)


class Recorder:
    """A real engine, and a record of every request it got and every completion it gave."""

    def __init__(self, engine):
        self.engine, self.asked, self.made = engine, {}, {}

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def submit(self, request):
        self.asked[request.id] = request
        self.engine.submit(request)

    def step(self):
        done = self.engine.step()
        self.made |= {completion.id: completion for completion in done}
        return done


def settings(**changes) -> RolloutSettings:
    fields = {"episodes_in_flight": 48, "max_utterance_tokens": 8, "engine": engine_settings("transformers")}
    return RolloutSettings(**{**fields, **changes})


def new_play(tiny_model, kind: str = "transformers", endpoints=None, frozen=False, **changes) -> Play:
    path = str(tiny_model)
    engine = shared_engine(kind, path)
    dialogue = Dialogue(AutoTokenizer.from_pretrained(path))
    policies = {"policy": Policy(Recorder(engine), dialogue, trained=True)}
    if frozen:  # an engine of its own: each engine's completions belong to one policy
        old = TransformersEngine(engine_settings("transformers"), path)
        policies["frozen:old"] = Policy(old, dialogue, trained=False)
    return Play(Cast(policies, endpoints or {}, new_player), settings(**changes), new_game)


def tickets(count: int, game: str = "chat", left="policy", right="policy", attempt: int = 0) -> list[Ticket]:
    seats = (("guesser", left),) if game == "twenty_questions" else (("left", left), ("right", right))
    return [Ticket("run", game, number, 7000 + number, seats, attempt) for number in range(count)]


def play_out(play: Play, wanted: list[Ticket], seconds: float = 120.0) -> dict[int, Episode | Failure]:
    play.admit(wanted)
    results, deadline = {}, time.monotonic() + seconds
    while play.busy():
        assert time.monotonic() < deadline, "play does not end"
        for ticket, result in play.step():
            assert ticket.number not in results
            results[ticket.number] = result
    assert set(results) == {ticket.number for ticket in wanted}
    return results


def check_exact(play: Play, episodes: list[Episode]) -> int:
    """Every trained sequence against the engine's own record; returns the sampled tokens checked."""
    recorder = play.cast.policies["policy"].engine
    by_prompt: dict[tuple, list] = {}
    for request in recorder.asked.values():
        by_prompt.setdefault((request.seed, request.prompt_ids), []).append(recorder.made[request.id])
    checked = 0
    for episode in episodes:
        for seat in episode.policy_seats():
            turns = [turn for turn in episode.turns if turn.seat == seat]
            if not turns:
                continue
            sequence, at = episode.sequence(seat), 0
            for number, turn in enumerate(turns):
                seen, said = turn.tokens.observation_ids, turn.tokens.utterance_ids
                begin, end = at + len(seen), at + len(seen) + len(said)
                prompt = tuple(sequence.ids[:begin].tolist())
                seed = stable_seed(episode.ticket.seed, episode.ticket.number, seat, number)
                (completion, *_) = by_prompt[seed, prompt]
                assert sequence.ids[begin:end].tobytes() == completion.token_ids.tobytes()
                assert sequence.logprobs[begin:end].tobytes() == completion.logprobs.tobytes()
                assert sequence.versions[begin:end].tobytes() == completion.versions.tobytes()
                assert len(seen) and not sequence.mask[at:begin].any() and sequence.mask[begin:end].all()
                assert not sequence.logprobs[at:begin].any() and (sequence.versions[at:begin] == -1).all()
                at, checked = end, checked + len(said)
            assert at == len(sequence.ids)
    return checked


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


def test_an_episode_that_does_not_end_times_out_and_leaves_the_engine_free(tiny_model):
    play = new_play(tiny_model, episode_seconds=0.3)
    assert set(play_out(play, tickets(5, game="endless", left="scripted:x", right="scripted:x")).values()) == {
        Failure("timeout")
    }
    assert not play.cast.policies["policy"].engine.busy()


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
        assert [ticket.game for ticket, _ in play.step()] in ([], ["chat"])


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
    started, Waiting.most = time.monotonic(), 0
    results = play_out(play, tickets(2000, game="waiting", left="scripted:x", right="scripted:x"))
    seconds = time.monotonic() - started
    assert all(isinstance(each, Episode) for each in results.values())
    assert Waiting.most >= 2000 and threading.active_count() <= before + 1
    waits = sum(1 + len(each.turns) for each in results.values()) * Waiting.seconds
    assert seconds < waits / 100, "64 threads would take longer"


def test_games_that_hang_cost_their_own_episodes_only(tiny_model):
    play = new_play(tiny_model, turn_seconds=1.5, episodes_in_flight=4000)
    SometimesHangs.ended = 0
    results = play_out(play, tickets(500, game="sometimes hangs", left="scripted:x", right="scripted:x"))
    hung = {number for number, result in results.items() if result == Failure("turn_timeout")}
    assert hung == {number for number in range(500) if (7000 + number) % 10 == 3}
    assert all(isinstance(result, Episode) for number, result in results.items() if number not in hung)
    deadline = time.monotonic() + 10
    while SometimesHangs.at_once and time.monotonic() < deadline:
        time.sleep(0.01)
    assert SometimesHangs.at_once == 0, "what was given up is over"


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


def test_an_episode_in_flight_over_a_sync_carries_both_versions(tiny_model):
    path = str(tiny_model)
    engine = shared_engine("transformers", path)
    send(engine, model_of(path, seed=21, shake=0.1), 1)
    play = new_play(tiny_model)
    play.admit(tickets(40, game="endless"))
    for _ in range(20):
        play.step()
    send(engine, model_of(path, seed=22, shake=0.1), 2)
    done = []
    while play.busy():
        done += play.step()
    versions = [np.unique(episode.sequence("left").versions).tolist() for _, episode in done]
    assert all(found == [-1, 1, 2] for found in versions)
    check_exact(play, [episode for _, episode in done])
