"""An episode that goes on elsewhere is the episode that would have been."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import numpy as np
import pytest

from actors.play.live import EpisodeFailed, Failure
from actors.play.play import Play
from actors.play.snapshots import Snapshot
from envs.episode import Episode, Ticket
from envs.game import Game, Step
from envs.registry import make_game
from tests.support import play as support
from tests.support.play import new_play, play_out

GAMES = {
    "twenty_questions": {"guesser": "policy"},
    "guess_my_city": {},
    "negotiation": {},
    "bargaining": {},
    "case_study": {},
    "tools": {},
    "slow counting": {"one": "policy", "other": "scripted:parrot"},
    "waiting counting": {"one": "policy", "other": "frozen:old"},
}


class Counting(Game):
    """Each turn shows what was said so far; nothing else than the seed and what was said decides anything. It saves
    itself as games do that say nothing of it, so it is played again when it is restored."""

    seats, horizon = ("one", "other"), 8

    def reset(self, seed: int) -> None:
        self.shown, self.random = f"yes {seed % 7}", random.Random(seed)

    def briefing(self, seat: str) -> str:
        return "is it big" if self.shown else ""

    def observe(self) -> str:
        return self.shown

    def step(self, utterance: str) -> Step:
        self.shown = f"{self.random.choice(('dog', 'apple'))} {len(utterance)}"
        return Step({seat: self.random.random() for seat in self.seats})


class SlowCounting(Counting):
    slow = True


class WaitingCounting(Counting):
    async def reset(self, seed: int) -> None:
        Counting.reset(self, seed)

    async def step(self, utterance: str) -> Step:
        return Counting.step(self, utterance)


@pytest.fixture(autouse=True)
def more_games(monkeypatch):
    monkeypatch.setitem(support.GAMES, "slow counting", SlowCounting)
    monkeypatch.setitem(support.GAMES, "waiting counting", WaitingCounting)
    monkeypatch.setitem(support.GAMES, "counting", Counting)


def tickets_of(game: str, count: int) -> list[Ticket]:
    seats = GAMES[game]
    if not seats:
        made = make_game(game)
        first, *others = made.seats
        seats = {first: "policy"} | dict.fromkeys(others, "scripted:mediocre")
    return [Ticket("run", game, number, 90 + number, tuple(seats.items())) for number in range(count)]


def broken_off(play: Play, wanted: list[Ticket], turns: float) -> tuple[dict[int, Episode], dict[Ticket, Snapshot]]:
    """What is finished, and the newest snapshots of the rest, when the worker is gone after so many turns of all."""
    play.admit(wanted)
    finished, snapshots = {}, {}
    while sum(len(each.turns) for each in [*finished.values(), *play.live.values()]) < turns:
        play.keeper.looked = 0.0
        for ticket, episode, _ in play.step():
            finished[ticket.number] = episode
            snapshots.pop(ticket, None)
        taken = play.new_snapshots()
        assert not taken.keys() & {ticket for ticket in wanted if ticket.number in finished}
        snapshots |= taken
    for live in list(play.live.values()):
        play._fail(live, EpisodeFailed("worker_died"))
    play.step()
    play.queue.clear()
    return finished, snapshots


def gone_on(play: Play, snapshots: dict[Ticket, Snapshot]) -> dict[int, Episode | Failure]:
    play.admit([snapshot.next_ticket for snapshot in snapshots.values()], None, list(snapshots.values()))
    found, deadline = {}, time.monotonic() + 60.0
    while play.busy():
        assert time.monotonic() < deadline
        found |= {returned.ticket.number: returned for returned in play.step()}
    return found


def told(episode: Episode) -> tuple:
    turns = [
        (t.seat, t.player, t.observation, t.utterance, t.executable, t.reward, t.caption, t.actions)
        for t in episode.turns
    ]
    ids = [(t.tokens.observation_ids.tolist(), t.tokens.utterance_ids.tolist()) for t in episode.turns if t.tokens]
    return turns, ids, episode.outcome, episode.terminated, episode.closing, episode.facts, episode.money


@pytest.mark.parametrize("game", GAMES)
def test_an_episode_that_goes_on_is_the_one_that_would_have_been(game, tiny_model):
    frozen, count = game == "waiting counting", 12
    often = {"frozen": frozen, "snapshot_seconds": 1e-9, "episodes_in_flight": count}
    whole = play_out(new_play(tiny_model, frozen=frozen, snapshot_seconds=None), tickets_of(game, count))
    turns = sum(len(episode.turns) for episode in whole.values())
    for share in (0.15, 0.4, 0.8):
        finished, snapshots = broken_off(new_play(tiny_model, **often), tickets_of(game, count), share * turns)
        again = new_play(tiny_model, **often)
        found = gone_on(again, snapshots)
        assert set(found) == {ticket.number for ticket in snapshots} and not set(found) & set(finished)
        for number, (ticket, episode, wasted) in found.items():
            assert isinstance(episode, Episode) and wasted == 0 and (ticket.attempt, episode.ticket) == (1, ticket)
            assert told(episode) == told(whole[number])
            for turn, other in zip(episode.turns, whole[number].turns, strict=True):
                if turn.tokens:
                    np.testing.assert_allclose(turn.tokens.logprobs, other.tokens.logprobs, atol=1e-5)
        tokens = sum(
            len(turn.tokens.utterance_ids) for each in found.values() for turn in each.result.turns if turn.tokens
        )
        kept = sum(snapshot.tokens for snapshot in snapshots.values())
        assert kept > 0 and again.sampled == tokens - kept, "nothing is sampled twice"


class Forgetful(Counting):
    def save(self) -> dict:
        raise NotImplementedError("nobody knows how it stands")


class GoesAnotherWay(Counting):
    def restore(self, saved: dict) -> None:
        super().restore(saved)
        self.shown += " yes"


class CannotGoBack(Counting):
    lost = False

    def reset(self, seed: int) -> None:
        assert not self.lost, "nobody knows what state it is in"
        super().reset(seed)

    def restore(self, saved: dict) -> None:
        self.lost = True
        raise RuntimeError("the server has forgotten it")


class Moody:
    """Answers otherwise in each process: here, each time that it is made."""

    moods = 0

    def reset(self, seed: int) -> None:
        Moody.moods += 1
        self.mood = Moody.moods

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        return "dog " * self.mood


@pytest.mark.parametrize(
    "why", ["it shows something else", "it cannot be restored", "a player answers otherwise", "hotter"]
)
@pytest.mark.parametrize("wait", [False, True])
def test_where_there_is_any_doubt_the_episode_begins_anew(why, wait, tiny_model, monkeypatch, caplog):
    kind = {"it shows something else": GoesAnotherWay, "it cannot be restored": CannotGoBack}.get(why, Counting)
    monkeypatch.setitem(support.GAMES, "counting", type(kind.__name__, (kind,), {"slow": wait}))
    if why == "a player answers otherwise":
        monkeypatch.setattr(support, "Parrot", Moody)
    seats = (("one", "policy"), ("other", "scripted:parrot"))
    wanted = [Ticket("run", "counting", number, number, seats) for number in range(6)]
    _, snapshots = broken_off(new_play(tiny_model, snapshot_seconds=1e-9), wanted, 24)
    assert len(snapshots) == 6
    again = new_play(tiny_model, temperature=1.5 if why == "hotter" else 1.0)
    for ticket, episode, wasted in gone_on(again, snapshots).values():
        assert isinstance(episode, Episode) and len(episode.turns) == 8
        assert wasted == snapshots[Ticket("run", "counting", ticket.number, ticket.seed, seats)].tokens > 0
        kinds = [turn.utterance for turn in episode.turns_of("other")]
        assert why != "a player answers otherwise" or len(set(kinds)) == 1, "it is asked from its beginning"
    assert caplog.text.count("cannot go on from its snapshot: it begins anew") == 6


def test_a_game_that_cannot_be_saved_is_named_once_and_played_all_the_same(tiny_model, monkeypatch, caplog):
    monkeypatch.setitem(support.GAMES, "counting", Forgetful)
    wanted = [Ticket("run", "counting", n, n, (("one", "policy"), ("other", "policy"))) for n in range(6)]
    finished, snapshots = broken_off(new_play(tiny_model, snapshot_seconds=1e-9), wanted, 48)
    assert len(finished) == 6 and not snapshots
    assert caplog.text.count("counting cannot be saved: its episodes begin anew if a worker is lost") == 1


class Unreadable(Counting):
    class Saved(dict):
        def __reduce__(self):
            return int, ("nobody reads this",)

    def save(self) -> dict:
        return self.Saved()


class HangsWhenRestored(SlowCounting):
    def restore(self, saved: dict) -> None:
        time.sleep(2.0)


def test_a_snapshot_that_cannot_be_read_costs_the_episode_its_beginning_alone(tiny_model, monkeypatch):
    monkeypatch.setitem(support.GAMES, "counting", Unreadable)
    wanted = [Ticket("run", "counting", n, n, (("one", "policy"), ("other", "policy"))) for n in range(4)]
    _, snapshots = broken_off(new_play(tiny_model, snapshot_seconds=1e-9), wanted, 16)
    found = gone_on(new_play(tiny_model), snapshots)
    assert len(found) == 4 and all(len(each.result.turns) == 8 and each.wasted > 0 for each in found.values())


def test_a_game_that_hangs_when_it_is_restored_fails_in_time_and_every_token_is_accounted_for(tiny_model, monkeypatch):
    monkeypatch.setitem(support.GAMES, "counting", HangsWhenRestored)
    wanted = [Ticket("run", "counting", n, n, (("one", "policy"), ("other", "policy"))) for n in range(4)]
    _, snapshots = broken_off(new_play(tiny_model, snapshot_seconds=1e-9), wanted, 16)
    found = gone_on(new_play(tiny_model, turn_seconds=0.01, episode_seconds=0.5), snapshots)
    for ticket, failure, wasted in found.values():
        assert failure == Failure("timeout"), "the limit of a turn is not that of a game which is played again"
        assert failure.tokens == 0 and wasted == snapshots[replace(ticket, attempt=0)].tokens > 0


def test_in_a_hurry_each_turn_has_its_snapshot(tiny_model):
    play, newest = new_play(tiny_model), {}
    play.admit(tickets_of("twenty_questions", 8))
    while sum(len(live.turns) for live in play.live.values()) < 16:
        play.step()
        assert not play.new_snapshots()
    play.keeper.hurry()
    while play.busy():
        play.step()
        newest |= play.new_snapshots()
        for live in play.live.values():
            assert len(newest[live.ticket].standing().turns) == len(live.turns) > 0
    assert len(newest) == 8
    nobody = new_play(tiny_model, snapshot_seconds=None)
    nobody.keeper.hurry()
    play_out(nobody, tickets_of("twenty_questions", 8))
    assert not nobody.new_snapshots()


def test_short_episodes_cost_nothing(tiny_model, monkeypatch):
    monkeypatch.setattr("actors.play.snapshots.take", lambda *_: pytest.fail("nobody needs it"))
    play = new_play(tiny_model)
    play_out(play, tickets_of("twenty_questions", 8))
    assert play.settings.snapshot_seconds == 30.0


def test_a_snapshot_is_taken_again_only_when_there_is_something_new(tiny_model):
    play = new_play(tiny_model, snapshot_seconds=1e-9)
    play.admit(tickets_of("twenty_questions", 1))
    seen = []
    while play.busy():
        play.keeper.looked = 0.0
        play.step()
        seen += [len(snapshot.standing().turns) for snapshot in play.new_snapshots().values()]
    assert seen == sorted(set(seen)) and len(seen) > 5
