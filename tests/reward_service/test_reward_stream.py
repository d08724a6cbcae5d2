"""Episodes in one by one, values out: micro-batches, back-pressure, refits beside the traffic."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest

from envs.episode import Episode
from envs.settings import GameSettings
from reward_service.intentions.reading import EpisodeRefused
from reward_service.service.client import episode_values
from reward_service.service.http.app import answer_of
from reward_service.service.requests import (
    Busy,
    OtherContent,
    Stopped,
    StreamError,
    TooMany,
    answered,
    kept,
    request_of,
)
from reward_service.service.stream import RewardStream
from reward_service.settings import StreamSettings
from reward_service.shaper import ShapedRewards, Stateless
from reward_service.shapers.outcome import Outcome
from tests.support.reward_streams import SECONDS, aggregates, answer, aria, episode, plain, waits


class Gated(Stateless):
    """The outcome; each call waits to be let through, and says how many episodes it had."""

    def __init__(self):
        self.gate, self.sizes, self.version = threading.Semaphore(0), [], 0

    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]:
        assert self.gate.acquire(timeout=SECONDS)
        if any(each.ticket.number == 13 for each in episodes):
            raise EpisodeRefused(next(e for e in episodes if e.ticket.number == 13), "unlucky", "it is number 13")
        if any(each.ticket.number == 14 for each in episodes):
            raise ConnectionError("the endpoint is away")
        self.sizes.append(len(episodes))
        return Outcome().make(GameSettings()).shape(episodes)


# --- requests and micro-batches -------------------------------------------------------------------


def test_the_values_are_those_of_the_shaper():
    stream, alone = RewardStream(aria()), aria()
    for number in range(0, 60, 3):
        few = [episode(number + place) for place in range(3)]
        assert plain(answer(stream, *few)) == plain(alone.shape(few))
    assert alone.version >= 1 and aggregates(stream.shaper) == aggregates(alone)
    stream.close()


def test_what_is_told_beside_the_values_comes_through_json_and_the_journal():
    """Of a shaper that leaves advantages to its caller: the states that turns were said in, and what was expected."""
    stream, few = RewardStream(aria(gives="outcome")), [episode(number) for number in range(60, 63)]
    answer(stream, *(episode(number) for number in range(60)))
    values = answer(stream, *few)
    stream.close()
    assert len({int(number) for each in values for number in each.anchors}) > 1
    values[1].expected_advantages = np.array([0.25, -0.5, 1.0], np.float32)
    again = answered(kept(request_of("one", few, []), values)).future.result(0)
    told = [episode_values(each) for each in json.loads(answer_of(few, values).model_dump_json())["rewards"]]
    for mine, journalled, each in zip(values, again, told, strict=True):
        seat = each.seats["parrot0"]
        assert (seat.version, seat.kind) == (mine.version, "reward")
        for other in (journalled, seat):
            assert np.array_equal(other.anchors, mine.anchors)
            assert (other.expected_advantages is None) == (mine.expected_advantages is None)
            assert mine.expected_advantages is None or np.array_equal(
                other.expected_advantages, mine.expected_advantages
            )
        assert np.array_equal(seat.values, mine.rewards) and np.array_equal(journalled.rewards, mine.rewards)


def test_requests_that_wait_are_shaped_together_up_to_the_limit():
    shaper = Gated()
    stream = RewardStream(shaper, StreamSettings(episodes=4, milliseconds=0))
    first = stream.submit([episode(0)])
    assert waits(lambda: not stream.queue)
    rest = [stream.submit([episode(2 * n), episode(2 * n + 1)]) for n in range(1, 6)]
    shaper.gate.release(10)
    assert [len(future.result(SECONDS)) for future in [first, *rest]] == [1, 2, 2, 2, 2, 2]
    assert shaper.sizes == [1, 4, 4, 2]
    large = stream.submit([episode(n) for n in range(20, 30)])
    assert len(large.result(SECONDS)) == 10 and shaper.sizes[-1] == 10, "a request is never split"
    stream.close()


def test_a_full_queue_refuses_at_once_and_takes_nothing():
    shaper = Gated()
    stream = RewardStream(shaper, StreamSettings(queue_episodes=4, milliseconds=0))
    taken = [stream.submit([episode(n)]) for n in range(4)]
    with pytest.raises(Busy, match="4 episodes are waiting already") as busy:
        stream.submit([episode(4)], "four")
    assert busy.value.retry_seconds > 0
    with pytest.raises(TooMany, match="a request may have 4 episodes, not 5"):
        stream.submit([episode(n) for n in range(10, 15)])
    shaper.gate.release(10)
    assert [len(future.result(SECONDS)) for future in taken] == [1] * 4
    assert len(answer(stream, episode(4), request="four")) == 1, "it was not taken before, so now it may be"
    found = stream.metrics()
    assert (found["stream/refused/busy"], found["stream/refused/too_many"]) == (1, 1)
    assert (found["stream/requests"], found["stream/episodes"], found["stream/waiting"]) == (5, 5, 0)
    stream.close()


def test_a_bad_request_fails_alone():
    shaper = Gated()
    stream = RewardStream(shaper, StreamSettings(milliseconds=0))
    first = stream.submit([episode(0)])
    assert waits(lambda: not stream.queue)
    futures = [stream.submit([episode(n)]) for n in (12, 13, 14, 15)]
    shaper.gate.release(20)
    assert [len(futures[place].result(SECONDS)) for place in (0, 3)] == [1, 1] and first.done()
    with pytest.raises(EpisodeRefused, match="it is number 13"):
        futures[1].result(SECONDS)
    with pytest.raises(StreamError, match="could not be shaped: ConnectionError: the endpoint is away"):
        futures[2].result(SECONDS)
    found = stream.metrics()
    assert (found["stream/refused/unlucky"], found["stream/refused/failed"], found["stream/waiting"]) == (1, 1, 0)
    with pytest.raises(EpisodeRefused, match="13"):  # it was not counted, so it is not known
        answer(stream, episode(13))
    stream.close()


def paid(reward: float) -> Episode:
    played = episode(7)
    played.turns[0].reward = reward
    return played


BAD = {
    "bad_reward": [paid(reward) for reward in (math.nan, -math.inf, 1e39)],
    "too_many_turns": [episode(7, said=["apple"] * 2001)],
    "bad_outcome": [episode(7, all={"parrot0": bad}) for bad in (math.nan, math.inf, -0.1, 1.1, "1", None, True)]
    + [episode(7, all={})],
    "unknown_seat": [episode(7, all={"parrot0": 1.0, "other": 1.0})],
    "empty_utterance": [episode(7, said=["apple", " \n"])],
    "huge_text": [episode(7, said=["apple", "x" * 20_001])],
    "not_text": [episode(7, said=["apple", None]), episode(7, said=[b"apple"])],
    "unknown_game": [episode(7, game="checkers")],
}


@pytest.mark.parametrize(("reason", "bad"), [(reason, each) for reason, all_ in BAD.items() for each in all_])
def test_a_bad_episode_is_refused_by_name_and_changes_nothing(reason, bad):
    stream = RewardStream(aria())
    answer(stream, episode(1))
    before = aggregates(stream.shaper)
    with pytest.raises(EpisodeRefused, match="episode 7 ") as refused:
        stream.submit([episode(6), bad])
    assert refused.value.reason == reason and aggregates(stream.shaper) == before
    assert stream.metrics()[f"stream/refused/{reason}"] == 1
    answer(stream, episode(6), episode(7))
    stream.close()


def test_longer_episodes_may_be_allowed():
    long = episode(7, said=["apple"] * 2001)
    stream = RewardStream(Outcome().make(GameSettings()), StreamSettings(longest_episode=2001))
    assert len(answer(stream, long)[0].rewards) == 2001
    stream.close()


def test_an_episode_counts_once_and_a_request_sent_again_gets_its_answer():
    shaper = Gated()
    stream = RewardStream(shaper, StreamSettings(milliseconds=0))
    asked = stream.submit([episode(1), episode(2)], "mine")
    assert stream.submit([episode(1), episode(2)], "mine") is asked, "while it waits"
    with pytest.raises(EpisodeRefused, match="episode 2 .* was sent before"):
        stream.submit([episode(2)])
    shaper.gate.release(10)
    assert stream.submit([episode(1), episode(2)], "mine").result(SECONDS) is asked.result(SECONDS)
    with pytest.raises(OtherContent, match="'mine' was sent before with other episodes"):
        stream.submit([episode(3)], "mine")
    with pytest.raises(EpisodeRefused, match="episode 4 "):
        stream.submit([episode(4), episode(4)])
    assert shaper.sizes == [2] and stream.metrics()["stream/asked_again"] == 2
    stream.close()


def test_what_is_remembered_is_bounded():
    stream = RewardStream(Outcome().make(GameSettings()), StreamSettings(remembered_episodes=10))
    for number in range(50):
        answer(stream, episode(2 * number), episode(2 * number + 1), request=f"request {number}")
    assert len(stream.known) == 10 and len(stream.asked) == 5 and stream.held == 10
    assert not [request for request in stream.asked.values() if request.episodes or request.plain]
    stream.close()


def test_a_refit_goes_on_beside_the_traffic_and_is_published_between_two_answers():
    shaper = aria(refit="beside", growth=100)
    may_finish, fitted = threading.Event(), shaper.fit_again
    shaper.fit_again = lambda: (may_finish.wait(SECONDS), fitted())[1]
    stream = RewardStream(shaper)
    versions = [answer(stream, episode(number))[0].version for number in range(30)]
    assert versions == [0] * 30 and stream.metrics()["stream/refitting"] == 1
    may_finish.set()
    assert waits(lambda: shaper.version == 1), "also while nobody asks"
    assert answer(stream, episode(40), episode(41))[1].version == 1
    assert stream.metrics()["stream/refits"] == 1
    shaper.refit = lambda: lambda: 1 / 0
    answer(stream, episode(50))
    assert waits(lambda: stream.counts["failed_refits"] >= 1)
    time.sleep(0.3)
    assert stream.counts["failed_refits"] == 1, "the same is not tried again while nothing comes"
    assert answer(stream, episode(51))[0].version == 1, "and it goes on"
    stream.close()


def test_a_closed_stream_answers_what_it_has_begun_and_refuses_the_rest():
    shaper = Gated()
    stream = RewardStream(shaper, StreamSettings(milliseconds=0))
    begun = stream.submit([episode(0)])
    assert waits(lambda: not stream.queue)
    waiting = stream.submit([episode(1)])
    threading.Timer(0.1, shaper.gate.release).start()
    stream.close()
    assert len(begun.result(0)) == 1
    with pytest.raises(Stopped, match="is closed"):
        waiting.result(0)
    with pytest.raises(Stopped, match="is closed"):
        stream.submit([episode(2)])
