"""A version made beside the traffic is, once published, as one made anew: whatever came and went meanwhile."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as checked
from hypothesis import strategies as st

import reward_service.shapers.aria as aria_module
from envs.episode import Episode, Ticket, Turn, TurnTokens
from learners.batch.crediting import assign_credit
from learners.batch.trajectories import collect, label_anchors
from learners.credit.method import CREDIT
from reward_service.intentions.version import Version
from reward_service.intentions.window import Window
from reward_service.shapers.aria import AriaShaper
from tests.reward_service.test_aria import KINDS, batch, embed, episode, settings

POOLINGS = (
    {},
    {"pooling": "backoff", "baseline": "history"},
    {"pooling": {"kind": "shrinkage", "coarser": (3,)}},
    {"pooling": {"kind": "evidence", "coarser": (3,)}, "baseline": "history", "half_life": 8},
)
ROUNDS = ("fit", "shape", "publish", "publish_again", "restore")


class Play:
    """Episodes one after the other, of changing kinds, so that utterances come and go."""

    def __init__(self, pooling: dict, window: int):
        options = {"aggregate": {"window": window} | pooling, "refit": "beside", "first_fit": 1}
        self.made = lambda: AriaShaper(settings(**options), embed)
        self.aria, self.number, self.prepared = self.made(), 0, None

    def shape(self, count: int) -> None:
        self.aria.shape([episode(self.number + place, seed=self.number // 7) for place in range(count)])
        self.number += count

    def fit(self, meanwhile: list[int]) -> None:
        """`meanwhile`: episodes that come in after the snapshot, and after each round of catching up."""
        left = list(meanwhile)

        def interrupted(done):
            if left:
                self.shape(left.pop(0))
            return done

        with pytest.MonkeyPatch.context() as patch:
            fitted, followed = aria_module.next_version, Version.follow
            patch.setattr(aria_module, "next_version", lambda *given: interrupted(fitted(*given)))
            patch.setattr(Version, "follow", lambda *given: interrupted(followed(*given)))
            self.prepared = self.aria.fit_again()

    def publish(self) -> None:
        if self.prepared is not None:
            self.aria.publish(self.prepared)
            self.prepared = None
            assert_as_made_anew(self.aria)

    def publish_again(self) -> None:
        """In place of who fitted it, another who was restored to where it is published."""
        if self.prepared is not None:
            saved = json.loads(json.dumps(self.aria.saved(self.prepared)))
            other = self.made()
            other.restore(json.loads(json.dumps(self.aria.state())))
            other.publish(other.result_of(saved))
            self.publish()
            assert other.state() == self.aria.state()
            self.aria = other
            assert_as_made_anew(other)

    def restore(self) -> None:
        state = json.loads(json.dumps(self.aria.state()))
        self.aria, self.prepared = self.made(), None
        self.aria.restore(state)


def assert_as_made_anew(aria: AriaShaper) -> None:
    now = aria.now
    fresh = Version(aria.settings.aggregate, aria.space, now.window.first, now.window.centre)
    fresh.place(aria.corpus.since())
    fresh.window.add(now.window.since(0))
    assert {code: now.where[code] for code in fresh.where} == fresh.where
    assert now.far & set(aria.corpus.utterances) == fresh.far
    ours, theirs = now.window, fresh.window
    for read in (Window.values, Window.anchors):
        assert plain(read(ours, ours.episodes)) == plain(read(theirs, theirs.episodes))
    assert ours.metrics() == theirs.metrics()
    assert len(ours.aggregates.groups) == len(theirs.aggregates.groups)
    assert [played.identity for played in ours.episodes] == [played.identity for played in theirs.episodes]


def plain(rows) -> list:
    return [[row.tolist() for row in seats] for seats in rows]


@checked(deadline=None, max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from(ROUNDS), st.lists(st.integers(0, 30), min_size=1, max_size=4)), min_size=3, max_size=8
    ),
    st.sampled_from(POOLINGS),
    st.integers(1, 40),
)
def test_published_is_as_made_anew_whatever_came_and_went(rounds, pooling, window):
    play = Play(pooling, window)
    play.shape(12)
    for what, counts in [*rounds, ("fit", [20, 3, 20]), ("publish", []), ("shape", [5])]:
        if what == "fit":
            play.fit(counts)
        elif what == "shape":
            play.shape(counts[0])
        else:
            getattr(play, what)()
    if play.aria.version:
        assert_as_made_anew(play.aria)


def test_publishing_takes_up_only_what_came_since_the_last_round(monkeypatch):
    aria = AriaShaper(settings(aggregate={"window": 100}, refit="beside"), embed)
    aria.shape(batch(0, 100))
    space = aria.fit_again()
    aria.shape(batch(100, 7))
    entered, placed, add, place = [], [], Window.add, Version.place
    monkeypatch.setattr(Window, "add", lambda self, games: entered.append(len(games)) or add(self, games))
    monkeypatch.setattr(Version, "place", lambda self, found: placed.append(len(found)) or place(self, found))
    aria.publish(space)
    said = {turn.utterance for each in batch(0, 100) for turn in each.turns}
    new = {turn.utterance for each in batch(100, 7) for turn in each.turns} - said
    assert entered == [7] and placed == [len(new)]


def test_a_window_replaced_altogether_during_a_fit_is_followed():
    play = Play({}, 10)
    play.shape(10)
    play.fit([50])
    play.shape(35)
    play.publish()
    assert len(play.aria.window) == 10 and play.aria.version == 1


def test_anchors_are_equal_where_the_label_histories_are():
    aria = AriaShaper(settings(), embed)
    shaped = aria.shape(batch(0, 40, turns=4))
    where, names = aria.now.where, aria.space.cuts[aria.space.row(6)]
    games = [seat for _, seats in aria.window.since(0) for seat in seats]
    histories, anchors = [], []
    for game, answer in zip(games, shaped, strict=True):
        said, heard = (
            [int(names[where[code]]) if code >= 0 else code for code in codes]
            for codes in (game.actions, game.observations)
        )
        histories += [(game.player, *said[:turn], "|", *heard[: turn + 1]) for turn in range(len(said))]
        anchors += answer.anchors.tolist()
    pairs = set(zip(histories, anchors, strict=True))
    assert len(pairs) == len(set(histories)) == len(set(anchors)) < 0.9 * len(anchors)
    assert anchors[0] == 0 and all(answer.anchors.dtype == np.int64 for answer in shaped)


def test_without_labels_no_two_turns_share_an_anchor():
    shaped = AriaShaper(settings(first_fit=1000), embed).shape(batch(0, 5))
    assert sorted(np.concatenate([answer.anchors for answer in shaped]).tolist()) == list(range(5 * 5))


def test_anchors_do_not_depend_on_what_was_before():
    one, two = (AriaShaper(settings(refit="beside"), embed) for _ in range(2))
    one.shape(batch(0, 40))
    one.publish(one.fit_again())
    two.restore(one.state())
    one.shape(batch(100, 30))
    two.shape(batch(100, 30))
    two.restore(json.loads(json.dumps(two.state())))
    pairs = zip(one.shape(batch(200, 20)), two.shape(batch(200, 20)), strict=True)
    assert all((a.anchors == b.anchors).all() for a, b in pairs)


def test_outcomes_may_be_given_in_place_of_advantages():
    one, two = AriaShaper(settings(), embed), AriaShaper(settings(), embed, "outcome")
    for advantage, outcome in zip(one.shape(batch(0, 30)), two.shape(batch(0, 30)), strict=True):
        assert (advantage.kind, outcome.kind) == ("advantage", "reward")
        paid = episode(outcome.number).outcome[outcome.seat]
        assert outcome.rewards.tolist() == [0.0] * (len(outcome.rewards) - 1) + [np.float32(paid)]
        assert (advantage.anchors == outcome.anchors).all() and outcome.version == 1


def test_gigpo_compares_turns_with_equal_label_histories():
    """Four games of one task: two open alike, so their second turns stand in the same state."""
    said = [("ask price now", "walk away"), ("ask price please", "ask size"), ("small talk", "walk away")] * 2
    outcomes = (1.0, 0.0, 1.0, 0.5, 0.25, 0.75)
    episodes = []
    for number, (texts, outcome) in enumerate(zip(said, outcomes, strict=True)):
        turns = [Turn("me", "policy", "go on", text, tokens=tokens(2)) for text in texts]
        ticket = Ticket("run", "parrot", number, 5, (("me", "policy"),))
        episodes.append(Episode(ticket, turns, {"me": outcome}, True))
    aria = AriaShaper(
        settings(observations="none", first_fit=1, space={"granularity": {"kind": "fixed", "k": 4}}), embed, "outcome"
    )
    trajectories = collect(episodes, aria.shape(episodes))
    anchors = label_anchors(trajectories)
    assert anchors.tolist() == [0, 1, 0, 1, 0, 2] * 2
    chosen = CREDIT.make("gigpo", anchor="labels", group_std=False, gamma=0.95)
    found = assign_credit(trajectories, chosen, {}, anchor=anchors).advantages[::2].reshape(-1, 2)
    mean, openers = np.mean(outcomes), [0, 1, 3, 4]
    for number, outcome in enumerate(outcomes):
        others = np.mean([outcomes[i] for i in (openers if number in openers else (2, 5))])
        assert found[number] == pytest.approx([outcome - mean + 0.95 * (outcome - mean), 2 * outcome - mean - others])
    episodes[0].ticket = Ticket("run", "parrot", 77, 5, (("me", "policy"),))
    bare = [replace(each, anchors=None) for each in aria.shape(episodes[:1])]
    with pytest.raises(ValueError, match="episode 77: seat 'me' has no anchors; learner.credit.anchor=labels needs"):
        label_anchors(collect(episodes[:1], bare))
    bare[0].anchors = np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="has 2 turns but 3 anchors"):
        collect(episodes[:1], bare)


def tokens(length: int) -> TurnTokens:
    ids = np.arange(length, dtype=np.int32)
    return TurnTokens(ids, ids, np.zeros(length, np.float32), np.zeros(length, np.int32))


def test_an_utterance_is_stored_with_the_name_that_its_intention_keeps():
    """Clusters are numbered anew where others become frequent."""
    aria, stored = AriaShaper(settings(first_fit=20, growth=0.1, drift=0.01), embed), {}
    for first in range(0, 320, 16):
        often = KINDS[first // 64 % len(KINDS)]
        played = batch(first, kinds=(*KINDS, *[often] * 12))
        shaped = iter(aria.shape(played))
        for each in played:
            for seat in each.policy_seats():
                for turn, label in zip(each.turns_of(seat), next(shaped).labels, strict=True):
                    stored.setdefault(" ".join(turn.utterance.split()[:2]), set()).add(int(label))
    assert aria.version >= 3 and set(stored) == set(KINDS)
    assert sorted(map(sorted, stored.values())) == [[name] for name in range(6)], "one name each, throughout"
