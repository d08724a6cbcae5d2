"""Made-up games, some of which wait, hang or fail, and the Play that plays them."""

from __future__ import annotations

import asyncio
import random
import threading
import time

from transformers import AutoTokenizer

from actors.engines.transformers_engine import TransformersEngine
from actors.play.live import Failure
from actors.play.play import Play
from actors.play.players import Cast, Policy, stable_seed
from actors.settings import RolloutSettings
from envs.episode import Episode, Ticket
from envs.game import Step
from envs.registry import make_game, make_player
from envs.text.chat import EndpointError
from envs.text.dialogue import Dialogue
from tests.support.engines import engine_settings, shared_engine


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


class AnswersNobody(Chat):
    def answers(self) -> dict[str, str]:
        return {"left": "dog", "somebody": "dog"}


class Broken(Chat):
    def step(self, utterance: str) -> Step:
        raise ZeroDivisionError("the game divides by zero")


class WrongSeat(Chat):
    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.seat = "LEFT"


class OverAtOnce(Chat):
    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.seat = None


class ListsNumbers(Chat):
    def actions(self) -> tuple:
        return ("yes", 2)


class HalfAnEmoji(Chat):
    def observe(self) -> str:
        return "look: \ud83d"


class HalfAnAnswer(Chat):
    def answers(self) -> dict[str, str]:
        return {"left": "look: \ud83d"}


class Quits(Chat):
    def step(self, utterance: str) -> Step:
        raise SystemExit("the server of the game is down")


class Endless(Chat):
    def step(self, utterance: str) -> Step:
        self.heard, self.seat = "again", "left" if self.seat == "right" else "right"
        return Step()


class Slow(Chat):
    """Thinks in a thread, and pays one seat; counts how many of its kind think at once."""

    slow = True
    at_work, most = 0, 0
    guard = threading.Lock()

    def step(self, utterance: str) -> Step:
        with Slow.guard:
            Slow.at_work += 1
            Slow.most = max(Slow.most, Slow.at_work)
        time.sleep(0.02)
        with Slow.guard:
            Slow.at_work -= 1
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

    at_work, most, ended = 0, 0, 0
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
        kind.at_work += 1
        kind.most = max(kind.most, kind.at_work)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            kind.at_work -= 1
            kind.ended += 1


class Gathering(Waiting):
    """Nobody begins before all are there."""

    at_work = most = ended = 0
    expected = 2000

    async def reset(self, seed: int) -> None:
        kind = type(self)
        kind.at_work += 1
        while max(kind.most, kind.at_work) < kind.expected:
            await asyncio.sleep(0.1)
        kind.most = max(kind.most, kind.at_work)
        kind.at_work -= 1
        await super().reset(seed)


class SometimesHangs(Waiting):
    """One in ten never answers."""

    seconds = 0.01
    at_work = ended = 0

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


class FewAtOnce(Chat):
    """Two are played at the same time; counts how many are."""

    at_once = 2
    playing = most = 0

    def reset(self, seed: int) -> None:
        super().reset(seed)
        FewAtOnce.playing += 1
        FewAtOnce.most = max(FewAtOnce.most, FewAtOnce.playing)

    def outcome(self) -> dict[str, float]:
        FewAtOnce.playing -= 1
        return super().outcome()


class Alone(Slow):
    """One is played at a time, and none gives its thread back within a second; counts how many are at work."""

    at_once = 1
    at_work = most = 0

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.left = 1

    def step(self, utterance: str) -> Step:
        Alone.at_work += 1
        Alone.most = max(Alone.most, Alone.at_work)
        time.sleep(1.0)
        Alone.at_work -= 1
        return Chat.step(self, utterance)


class NoneAtOnce(Chat):
    at_once = 0


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
    "answers nobody": AnswersNobody,
    "broken": Broken,
    "wrong seat": WrongSeat,
    "over at once": OverAtOnce,
    "lists numbers": ListsNumbers,
    "half an emoji": HalfAnEmoji,
    "half an answer": HalfAnAnswer,
    "quits": Quits,
    "endless": Endless,
    "slow": Slow,
    "slow and broken": SlowAndBroken,
    "slow to begin": SlowToBegin,
    "waiting": Waiting,
    "gathering": Gathering,
    "sometimes hangs": SometimesHangs,
    "hangs in a thread": HangsInAThread,
    "few at once": FewAtOnce,
    "alone": Alone,
    "none at once": NoneAtOnce,
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
        for ticket, result, _ in play.step():
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
