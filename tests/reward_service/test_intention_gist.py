"""What of an utterance is embedded, and what of an episode is read."""

from __future__ import annotations

import math

import pytest

from envs import registry
from envs.episode import Episode, Ticket, Turn
from reward_service.intentions.gist import LONGEST, NO, NOTHING, OTHER, YES, Gist, answer_of, gist_of
from reward_service.intentions.reading import EpisodeRefused, check, read


class Haggle:
    """Offers are written `name = {json-like}`; only the words and the share count."""

    @classmethod
    def gist(cls, utterance: str) -> str:
        return utterance.partition("#")[0]

    @classmethod
    def amounts(cls, utterance: str) -> dict[str, float]:
        return {"share": float(utterance.rpartition("#")[2])} if "#" in utterance else {}


class Quiz:
    observations = "labels"


class Mistaken:
    observations = "label"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(registry.GAMES, "haggle", f"{__name__}:Haggle")
    monkeypatch.setitem(registry.GAMES, "quiz", f"{__name__}:Quiz")
    monkeypatch.setitem(registry.GAMES, "mistaken", f"{__name__}:Mistaken")


def episode(game: str, said: str, players=(("me", "policy"), ("you", "policy"))) -> Episode:
    """`said`: "me: hello | you: hi"."""
    turns = []
    for number, part in enumerate(said.split("|")):
        seat, _, text = part.partition(":")
        turns.append(Turn(seat.strip(), "policy", f"seen {number}", text.strip()))
    return Episode(Ticket("run", game, 3, 0, players), turns, {"me": 1.0, "you": 0.0}, True)


def test_a_game_says_what_counts_of_an_utterance():
    assert gist_of("haggle", " take   it # 0.25") == Gist("take it", (("share", 0.25),))
    assert gist_of("haggle", "accept") == Gist("accept")


def test_without_a_word_from_the_game_white_space_collapses_and_length_is_bounded():
    assert gist_of("parrot", " is  it\n\talive? ") == Gist("is it alive?")
    assert gist_of("parrot", "") == Gist("")
    assert len(gist_of("parrot", "word " * 10**6).text) <= LONGEST


def test_absurd_amounts_are_bounded_and_what_is_no_number_is_left_out():
    assert gist_of("haggle", "x # 1e99").amounts == (("share", 2.0),)
    assert gist_of("haggle", "x # -inf").amounts == (("share", -2.0),)
    assert gist_of("haggle", "x # nan").amounts == ()


@pytest.mark.parametrize(
    ("text", "label"), [("Yes.", YES), ("no, it is not", NO), ("invalid", OTHER), ("", OTHER), ("yesterday", OTHER)]
)
def test_answers_are_labelled_by_their_first_word(text, label):
    assert answer_of(text) == label


def test_who_answers_an_offer_knows_the_offer_and_final_one_sided_actions_stay():
    me, you = read(episode("haggle", "me: a # 0.1 | you: b # 0.2 | me: accept"), "game")
    assert (me.player, you.player) == (("haggle", "me"), ("haggle", "you"))
    assert [gist.text for gist in me.said] == ["a", "accept"] and me.heard == [NOTHING, Gist("b", (("share", 0.2),))]
    assert [gist.text for gist in you.said] == ["b"] and you.heard == [Gist("a", (("share", 0.1),))]


def test_alone_with_the_game_the_opening_says_nothing_and_later_observations_count():
    alone = (("me", "policy"),)
    heard = {
        mode: read(episode("parrot", "me: a | me: b", alone), mode)[0].heard for mode in ("text", "labels", "none")
    }
    assert heard == {
        "text": [NOTHING, Gist("seen 1")],
        "labels": [NOTHING, OTHER],
        "none": [NOTHING, NOTHING],
    }
    assert read(episode("quiz", "me: a | me: b", alone), "game")[0].heard == heard["labels"]


def test_a_reading_holds_all_that_a_seat_was_shown_and_whether_the_game_could_execute_what_it_said():
    played = episode(
        "haggle", "me: a # 0.1 | you: b # 0.2 | you: c # 0.3 | me: accept", (("me", "policy"), ("you", ""))
    )
    played.turns[3].executable = False
    (me,) = read(played)
    assert me.identity == ("run", 3, 0) and me.executable == [True, False] and me.heard == [NOTHING, NOTHING]
    assert me.shown == [Gist("seen 0"), Gist("seen 3", (("share", 0.3),))], "the newest amount of each name"
    assert me.texts == (*me.shown, *me.said) and me.clustered == me.said


def test_a_game_that_asks_for_something_else_is_named():
    with pytest.raises(ValueError, match="game 'mistaken' has observations = 'label', which must be 'text'"):
        read(episode("mistaken", "me: a"), "game")


def test_only_what_the_policy_said_is_rewarded_but_its_rival_is_heard():
    (me,) = read(episode("parrot", "me: a | you: b | me: c", (("me", "policy"), ("you", "scripted:x"))), "text")
    assert me.heard == [NOTHING, Gist("b")]


@pytest.mark.parametrize(
    ("change", "reason", "says"),
    [
        ({"outcome": {"me": math.nan, "you": 0.0}}, "bad_outcome", "outcome of seat 'me' is nan"),
        ({"outcome": {"you": 0.0}}, "bad_outcome", "outcome of seat 'me' is None"),
        ({"turns": []}, "no_turns", "it has no turns"),
        ({"turns": [Turn("me", "policy", "seen", None)]}, "not_text", "utterance of turn 0 is NoneType, not text"),
        ({"ticket": Ticket("run", "checkers", 3, 0, (("me", "policy"),))}, "unknown_game", "unknown game 'checkers'"),
    ],
)
def test_bad_episodes_are_refused_by_name(change, reason, says):
    bad = episode("parrot", "me: a | you: b")
    for name, value in change.items():
        setattr(bad, name, value)
    with pytest.raises(EpisodeRefused, match=says) as refused:
        check(bad)
    assert refused.value.reason == reason
