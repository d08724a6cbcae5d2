"""The shaper: traffic in, advantages out, with intention spaces that come and go beside it."""

from __future__ import annotations

import json
import math
import random
import re
import threading
from hashlib import blake2b
from typing import ClassVar

import numpy as np
import pytest

from envs.episode import Episode, Ticket, Turn
from reward_service.intentions.clustering.ward import Ward
from reward_service.intentions.reading import EpisodeRefused
from reward_service.intentions.settings import AggregateSettings, IntentionSettings
from reward_service.shaper import Shaper
from reward_service.shapers.aria import AriaShaper

KINDS = ("ask price", "ask size", "make offer", "refuse offer", "small talk", "walk away")
WAYS = ("now", "please", "kindly", "again", "my friend", "today", "then", "well", "so", "indeed")


def embed(texts) -> np.ndarray:
    """Sums of fixed random vectors of the words; a kind's two words weigh more than its manner."""
    rows = []
    for text in texts:
        row = np.zeros(32)
        for place, word in enumerate(text.split()):
            chance = np.random.default_rng(int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little"))
            row += chance.normal(size=32) * (1.0 if place < 2 else 0.1)
        rows.append(row / (np.linalg.norm(row) or 1.0))
    return np.array(rows, np.float32).reshape(len(rows), 32)


def settings(**options) -> IntentionSettings:
    space = {"granularity": {"kind": "fixed", "k": 6}} | options.pop("space", {})
    pooling = AggregateSettings(**({"window": 64} | options.pop("aggregate", {})))
    return IntentionSettings(**({"first_fit": 20, "refit": "inline"} | options), space=space, aggregate=pooling)


def shaper(**options) -> AriaShaper:
    return AriaShaper(settings(**options), embed)


def episode(number: int, turns: int = 3, attempt: int = 0, kinds=KINDS, seed: int = 0) -> Episode:
    """A two-seat game in which whoever makes an offer more often does better."""
    chance = random.Random(f"{seed} {number}")
    said = [f"{chance.choice(kinds)} {chance.choice(WAYS)} {chance.choice(WAYS)}" for _ in range(2 * turns - 1)]
    seats = ("alice", "bob")
    offers = {seat: sum("make offer" in text for text in said[i::2]) for i, seat in enumerate(seats)}
    outcome = {seat: offers[seat] / (sum(offers.values()) or 1) for seat in seats}
    played = [Turn(seats[i % 2], "policy", "", text) for i, text in enumerate(said)]
    players = tuple((seat, "policy") for seat in seats)
    return Episode(Ticket("run", "parrot", number, number, players, attempt), played, outcome, True)


def batch(first: int, count: int = 16, **options) -> list[Episode]:
    return [episode(number, **options) for number in range(first, first + count)]


def plain(shaped) -> list:
    return [(each.number, each.seat, each.version, each.kind, each.rewards.tobytes()) for each in shaped]


def test_before_the_first_space_a_turn_is_worth_its_own_discounted_return():
    (alice, bob) = shaper(first_fit=1000).shape([episode(0)])
    outcome = episode(0).outcome
    assert (alice.seat, bob.seat, alice.version, alice.kind) == ("alice", "bob", 0, "advantage")
    assert alice.rewards.tolist() == pytest.approx(
        [0.95**2 * outcome["alice"], 0.95 * outcome["alice"], outcome["alice"]]
    )
    assert bob.rewards.tolist() == pytest.approx([0.95 * outcome["bob"], outcome["bob"]])
    assert alice.rewards.dtype == np.float32


def test_then_turns_of_one_intention_in_one_situation_share_their_mean():
    """By hand: alice's first turns, grouped by what kind of thing she said."""
    aria = shaper()
    episodes = batch(0, 32)
    shaped = {each.number: each for each in aria.shape(episodes) if each.seat == "alice"}
    groups: dict[str, list[float]] = {}
    for each in episodes:
        groups.setdefault(" ".join(each.turns[0].utterance.split()[:2]), []).append(0.95**2 * each.outcome["alice"])
    for each in episodes:
        group = groups[" ".join(each.turns[0].utterance.split()[:2])]
        assert shaped[each.ticket.number].rewards[0] == pytest.approx(sum(group) / len(group), rel=1e-6)
    assert {each.version for each in shaped.values()} == {1} and len(groups) == 6


def test_aggregation_reduces_variance_and_says_so():
    aria = shaper()
    aria.shape(batch(0, 64))
    found = aria.metrics()
    assert found["intentions/variance_after"] < 0.9 * found["intentions/variance_before"]
    assert (found["intentions/version"], found["intentions/k"], found["intentions/episodes"]) == (1, 6, 64)
    assert found["intentions/singletons_turn_1"] < 0.2 < 0.5 < found["intentions/singletons_turn_3"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pooling": "backoff", "baseline": "history"},
        {"pooling": "shrinkage"},
        {"pooling": "evidence", "half_life": 9},
    ],
)
def test_saved_and_restored_is_as_never_stopped(options):
    straight, stopped = shaper(aggregate={"window": 40} | options), shaper(aggregate={"window": 40} | options)
    for first in range(0, 160, 16):
        expected = plain(straight.shape(batch(first)))
        assert plain(stopped.shape(batch(first))) == expected
        for each in (straight, stopped):
            with pytest.raises(EpisodeRefused):
                each.shape([episode(first)])
        state = json.loads(json.dumps(stopped.state()))
        stopped = shaper(aggregate={"window": 40} | options)
        stopped.restore(state)
        assert stopped.state() == state
        assert stopped.metrics() == straight.metrics()
    assert straight.version > 1  # there were refits in between


def test_the_order_of_arrival_changes_neither_space_nor_advantages():
    one, two = shaper(), shaper()
    forth, back = one.shape(batch(0, 40)), two.shape(batch(0, 40)[::-1])
    assert sorted(plain(forth)) == sorted(plain(back))
    assert one.space.state() == two.space.state()


def test_the_window_forgets_and_so_does_the_corpus():
    aria = shaper(aggregate={"window": 16})
    aria.shape(batch(0, 48))
    aria.shape(batch(48, 16, kinds=KINDS[:2]))
    said = {turn.utterance for each in batch(48, 16, kinds=KINDS[:2]) for turn in each.turns}
    assert {utterance.gist.text for utterance in aria.corpus.utterances.values()} == said
    assert aria.metrics()["intentions/episodes"] == 16


def test_a_batch_larger_than_the_window_is_still_aggregated_as_a_whole():
    small, large = shaper(aggregate={"window": 4}), shaper(aggregate={"window": 64})
    assert plain(small.shape(batch(0, 40))) == plain(large.shape(batch(0, 40)))
    assert small.metrics()["intentions/episodes"] == 4


def bad(change: str) -> Episode:
    one = episode(3)
    if change == "bad_outcome":
        one.outcome = {"alice": 1.0, "bob": math.nan}
    elif change == "true_outcome":
        one.outcome = {"alice": 0.0, "bob": True}
    elif change == "no_turns":
        one.turns = []
    elif change == "huge_outcome":
        one.outcome = {"alice": 1e300, "bob": 0.0}
    elif change == "not_text":
        one.turns[1].utterance = 7
    elif change == "unknown_game":
        one.ticket = Ticket("run", "checkers", 3, 3, one.ticket.players)
    else:
        one = episode(0)
    return one


@pytest.mark.parametrize(
    "change", ["bad_outcome", "huge_outcome", "true_outcome", "no_turns", "not_text", "unknown_game", "sent_twice"]
)
def test_a_bad_episode_is_refused_and_counted_and_nothing_else_changes(change):
    aria, untouched = shaper(), shaper()
    for each in (aria, untouched):
        each.shape(batch(0, 2) + batch(10, 30))
    with pytest.raises(EpisodeRefused, match="of run 'run' refused:"):
        aria.shape([episode(2), bad(change)])
    reason = re.sub("huge|true", "bad", change)
    assert aria.metrics() == untouched.metrics() | {f"intentions/refused/{reason}": 1.0}
    assert aria.state() == untouched.state() | {"refused": {reason: 1}}
    assert plain(aria.shape([episode(2)])) == plain(untouched.shape([episode(2)]))


def test_sent_twice_means_the_same_attempt_and_also_within_one_batch():
    aria = shaper(aggregate={"window": 4})
    aria.shape(batch(0, 20))
    aria.shape([episode(0, attempt=1)])
    for again in ([episode(0, attempt=1)], [episode(19)], [episode(0)], [episode(50), episode(50)]):
        with pytest.raises(EpisodeRefused, match="it was sent before"):
            aria.shape(again)


def test_a_failed_embedding_changes_nothing():
    aria = shaper()
    aria.shape(batch(0, 20))
    before = aria.state()
    for embedding, says in (
        (np.full((1, 32), np.nan), "is not finite"),
        (np.full((1, 32), 1e30, np.float32), "is not finite in 16 bits: at most 65504"),
        (np.ones((1, 8)), "8 numbers, earlier ones 32"),
    ):
        aria.embed = lambda texts, row=embedding: np.repeat(row, len(texts), axis=0)
        with pytest.raises(ValueError, match=says):
            aria.shape(batch(20, 20))
    assert aria.state() == before


class Breaking(Ward):
    """Breaks as long as it is told to."""

    broken: ClassVar[bool] = False

    def cuts(self, points):
        if Breaking.broken:
            raise MemoryError("no room for the tree")
        return super().cuts(points)


@pytest.mark.parametrize("known", [0, 24])
def test_episodes_whose_inline_refit_breaks_are_not_counted(monkeypatch, known):
    """With or without a space before; the window is full, so the oldest episodes would have gone."""
    aria, untouched = (AriaShaper(settings(aggregate={"window": 20}), embed) for _ in range(2))
    for each in (aria, untouched):
        each.settings = each.settings.model_copy(update={"space": Breaking(max_k=8), "growth": 0.1})
        if known:
            each.shape(batch(0, known))
    before = aria.state()
    monkeypatch.setattr(Breaking, "broken", True)
    for _ in range(2):
        with pytest.raises(MemoryError):
            aria.shape(batch(100, 12, kinds=("sing softly", "dance slowly")))
        assert aria.state() == before
    monkeypatch.setattr(Breaking, "broken", False)
    again = [each.shape(batch(100, 12, kinds=("sing softly", "dance slowly"))) for each in (aria, untouched)]
    assert plain(again[0]) == plain(again[1]) and aria.version == untouched.version == bool(known) + 1


def test_each_distinct_utterance_of_the_window_is_embedded_once():
    asked = []
    aria = AriaShaper(settings(), lambda texts: asked.extend(texts) or embed(texts))
    aria.shape(batch(0, 30))
    aria.shape(batch(30, 30))
    assert len(asked) == len(set(asked)) == len(aria.corpus)


def test_a_refit_is_due_with_growth():
    aria = shaper(refit="beside", first_fit=30, growth=0.5, drift=1.0)
    aria.shape(batch(0, 2))
    assert aria._said < 30 and not aria.refit_due()
    aria.shape(batch(2, 8))
    assert aria.refit_due() and aria.version == 0
    aria.publish(aria.fit_again())
    fitted = aria.space.fitted
    number = 10
    while not aria.refit_due():
        assert len(aria.corpus) < 1.5 * fitted
        aria.shape(batch(number, 1))
        number += 1
    assert 1.5 * fitted <= len(aria.corpus) <= 1.5 * fitted + 5


def test_a_refit_is_due_with_drift():
    aria = shaper(refit="beside", first_fit=30, growth=100.0, drift=0.2, aggregate={"window": 1000})
    aria.shape(batch(0, 200, kinds=KINDS[:3]))
    aria.publish(aria.fit_again())
    aria.shape(batch(200, 100, kinds=KINDS[:3]))
    assert aria.metrics()["intentions/drift"] < 0.1 and not aria.refit_due()
    aria.shape(batch(300, 100, kinds=KINDS[3:]))
    assert aria.metrics()["intentions/drift"] > 0.3 and aria.refit_due()


def test_play_goes_on_beside_a_refit_and_every_answer_names_one_version():
    aria = shaper(refit="beside")
    aria.shape(batch(0, 40))
    old = aria.state()
    prepared = aria.fit_again()
    assert aria.state() == old and aria.version == 0
    assert {each.version for each in aria.shape(batch(40, 10, seed=9))} == {0}
    aria.publish(prepared)
    assert {each.version for each in aria.shape(batch(50, 10))} == {1}


def test_threads_that_refit_do_not_disturb_those_that_shape():
    aria, stop, failures, answers = shaper(refit="beside"), threading.Event(), [], []
    aria.shape(batch(0, 40))

    def refit():
        try:
            while not stop.is_set():
                aria.publish(aria.fit_again())
        except Exception as error:
            failures.append(error)

    beside = threading.Thread(target=refit)
    beside.start()
    try:
        while aria.version < 4 and not failures:
            answers.append(aria.shape(batch(40 + 8 * len(answers), 8)))
    finally:
        stop.set()
        beside.join()
    assert not failures
    assert all(len({each.version for each in answer}) == 1 for answer in answers)
    versions = [answer[0].version for answer in answers]
    assert versions == sorted(versions)


def test_versions_follow_one_another():
    aria = shaper(refit="beside")
    aria.shape(batch(0, 40))
    first = aria.fit_again()
    aria.publish(first)
    with pytest.raises(ValueError, match="intention space 1 cannot follow version 1"):
        aria.publish(first)
    second = aria.fit_again()
    aria.restore(aria.state())
    with pytest.raises(ValueError, match="intention space 2 was not fitted beside the version in use"):
        aria.publish(second)
    aria.publish(aria.fit_again())
    assert aria.version == 2


def test_intentions_keep_their_ids_across_refits():
    aria = shaper(refit="beside", aggregate={"window": 1000})
    aria.shape(batch(0, 60))
    aria.publish(aria.fit_again())
    before = aria.space.labels(embed(KINDS))
    aria.shape(batch(60, 60))
    aria.publish(aria.fit_again())
    assert aria.space.labels(embed(KINDS)).tolist() == before.tolist()
    found = aria.metrics()
    assert found["intentions/agreement"] == pytest.approx(1.0) and found["intentions/moved"] == pytest.approx(0.0)


def test_split_granularity_is_chosen_on_the_window():
    aria = shaper(space={"granularity": {"kind": "split", "patience": 3, "epsilon": 0.5}, "max_k": 30})
    aria.shape(batch(0, 40))
    assert (aria.space.k, aria.space.settled) == (2, True)


def test_silence_is_an_utterance_like_any_other():
    quiet = episode(0)
    for turn in quiet.turns:
        turn.utterance = "  "
    alice, bob = shaper().shape([quiet])
    assert len(alice.rewards) == 3 and np.isfinite(bob.rewards).all()


def test_the_longest_utterances_and_the_smallest_windows_are_nothing_special():
    """A million characters count by how they begin; of one episode each, every window is its own mean."""
    huge = [episode(number) for number in range(30)]
    for each in huge:
        each.turns[0].utterance += " x" * 500_000
    aria = shaper(aggregate={"window": 1}, first_fit=1)
    for each in huge:
        alice, bob = aria.shape([each])
        for seat in (alice, bob):
            turns, outcome = len(seat.rewards), each.outcome[seat.seat]
            expected = [0.95 ** (turns - turn) * outcome for turn in range(1, turns + 1)]
            assert seat.rewards.tolist() == pytest.approx(expected, rel=1e-6)
        assert len(aria.window) == 1 and len(aria.corpus) <= len(each.turns)
    assert max(len(each.gist.text) for each in aria.corpus.utterances.values()) <= 1000
    restored = shaper(aggregate={"window": 1}, first_fit=1)
    restored.restore(json.loads(json.dumps(aria.state())))
    assert restored.state() == aria.state()


def test_it_is_a_shaper_and_starts_from_the_defaults():
    aria: Shaper = AriaShaper()
    assert aria.shape([]) == [] and aria.metrics()["intentions/version"] == 0
    again = AriaShaper()
    again.restore(json.loads(json.dumps(aria.state())))
    assert again.state() == aria.state()
