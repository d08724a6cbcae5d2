"""What a model thought before it spoke: no game reads it, no other seat is shown it."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.game import Game, Step
from envs.registry import GAMES, game_class, make_game, make_player
from envs.text.thinking import spoken
from reward_service.intentions.gist import gist_of

THOUGHTS = '<think>\nI could say "i guess cat", [accept] or {"decision": "accept"}.\nIs it Paris?\n</think>\n\n'
TEMPLATE_OPENED = THOUGHTS.removeprefix("<think>")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("is it alive?", "is it alive?"),
        ("  as it is \n", "  as it is \n"),
        ("1 < 2 and [3] > 2", "1 < 2 and [3] > 2"),
        ("<think>a</think>b", "b"),
        ("<think>a</think>\n\n b \n", "b"),
        ("a</think>b", "b"),
        ("<think>a", ""),
        ("<think>a</think>", ""),
        ("</think>", ""),
        ("b<think>a", "b"),
        ("b <think>a</think>", "b"),
        ("hm <think>a</think> b", "b"),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a</think>b<think>c", "b"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("a <think> b</think>", "a"),
        ("a</think><think>b", ""),
        ("<THINK>a</ Think >b", "b"),
        ("<thinking>a</thinking>b", "b"),
        ("[THINK]a[/THINK]b", "b"),
        ("[think] about it", "[think] about it"),
        ("<thin>b</thin>", "<thin>b</thin>"),
    ],
)
def test_said_is_what_follows_the_thoughts(text, said):
    assert spoken(text) == said


@given(st.lists(st.sampled_from(["<think>", "</think>", "<think", ">", "<", "/", "think", "[THINK]", "a", " "])))
def test_no_tag_is_left_and_asking_again_changes_nothing(pieces):
    text = "".join(pieces)
    said = spoken(text)
    assert said in text and spoken(said) == said
    assert "<think>" not in said and "</think>" not in said and "[THINK]" not in said


@pytest.mark.parametrize("name", sorted(set(GAMES) - {"data_science"}))
def test_every_game_goes_on_as_if_nothing_had_been_thought(name):
    plain, thinking = make_game(name), make_game(name)
    players = {seat: make_player(name, "mediocre") for seat in plain.seats}
    for player in players.values():
        player.reset(3)
    plain.reset(3), thinking.reset(3)
    turns = 0
    while (seat := plain.seat) is not None:
        seen, listed = plain.observe(), tuple(plain.actions())
        assert (thinking.seat, thinking.observe(), tuple(thinking.actions())) == (seat, seen, listed)
        said = players[seat].reply(seen, listed)
        assert thinking.step((THOUGHTS, TEMPLATE_OPENED)[turns % 2] + said) == plain.step(said)
        turns += 1
    assert thinking.seat is None and json.dumps(thinking.save()) == json.dumps(plain.save())
    assert (thinking.outcome(), thinking.closing()) == (plain.outcome(), plain.closing())


@pytest.mark.parametrize("name", sorted(set(GAMES) - {"data_science"}))
def test_thoughts_alone_say_nothing(name):
    for said in (THOUGHTS, THOUGHTS.removesuffix("</think>\n\n"), TEMPLATE_OPENED):
        game, silent = make_game(name), make_game(name)
        game.reset(5), silent.reset(5)
        assert game.step(said) == silent.step("") and game.save() == silent.save()


class Heard(Game):
    seats = ("one",)

    def reset(self, seed):
        self.heard = []

    def observe(self):
        return "say"

    def step(self, utterance):
        self.heard.append(utterance)
        return Step()


class HeardTwice(Heard):
    def step(self, utterance):
        self.heard.append(utterance.upper())
        return super().step(utterance)


class HeardLater(Heard):
    async def step(self, utterance):
        self.heard.append(utterance)
        return Step()


class HeardInFull(Heard):
    hears_thoughts = True


class WithAllOfItsOwn(Heard):
    seat = "one"

    def outcome(self):
        return {}

    def save(self):
        return {}

    def restore(self, saved):
        pass

    def step(self, utterance):
        self.heard.append(utterance)
        return Step()


def test_a_game_of_ones_own_hears_what_is_said_and_saves_no_thoughts():
    for made_by, heard in ((Heard, ["b"]), (HeardTwice, ["B", "b"]), (WithAllOfItsOwn, ["b"])):
        game = made_by()
        game.reset(0)
        game.step("<think>a</think>b")
        assert game.heard == heard
        assert "think" not in str(game.save())
    game = HeardInFull()
    game.reset(0)
    game.step("<think>a</think>b")
    assert game.heard == ["<think>a</think>b"]
    game = HeardLater()
    game.reset(0)
    asyncio.run(game.step("<think>a</think>b"))
    assert game.heard == ["b"]


def test_an_oracle_that_thinks_is_heard_too(monkeypatch):
    server = {"url": "http://nowhere/v1", "model": "thinker"}
    game = make_game("twenty_questions", {"table": "full", "oracle": "endpoint", "endpoint": server})
    monkeypatch.setattr(game.oracle.client, "complete", lambda *_, **__: "<think>no, or</think>\n\nYes.")
    game.reset(0)
    game.step("Thought: no idea.\nQuestion: Would a child enjoy it?")
    assert game.observe() == "yes" and "would a child enjoy it" in {asked for _, asked in game.oracle.answers}


@pytest.mark.parametrize(
    ("game", "plain", "utterance"),
    [
        ("twenty_questions", "Is it alive?", "Thought: halve them.\n**Question 3:** Is it alive?"),
        ("guess_my_city", "Is it Paris?", "I know it!\n\nIs it Paris?"),
        ("virtualhome", "walk to the pancake", "Thought: it is near.\nAction: walk to the pancake"),
        ("overcooked", "pick up the tomato", "**pick up the tomato**"),
        ("case_study", "open the microwave", "<action>open the microwave</action>"),
        ("bargaining", "i offer you 40 %", "Reasoning: fair.\nProposal: i offer you 40 %"),
        ("parrot", "apple", "apple"),
    ],
)
def test_intentions_read_what_the_game_reads(game, plain, utterance):
    """Thoughts differ each time, and would be all that an embedding hears."""
    assert gist_of(game, f"{THOUGHTS}{utterance}") == gist_of(game, plain)
    assert game_class(game).gist("la la la") == "la la la"
