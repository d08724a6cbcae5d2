"""NetHack in words: what is told, what can be said, and that a seed fixes it all."""

from __future__ import annotations

import pytest

from envs.coroutines import finish
from envs.processes.pool import lease
from envs.registry import make_game, make_player
from envs.worlds.nethack.game import SEAT, NetHack
from envs.worlds.nethack.helpful import helpful
from envs.worlds.nethack.keys import KEYS, SETS, answers_to
from tests.support.worlds import needs


def played(game, player, seed: int) -> list[tuple]:
    game.reset(seed)
    player.reset(seed)
    found = []
    while game.seat is not None:
        seen, listed = game.observe(), game.actions()
        said = player.reply(seen, listed)
        step = game.step(said)
        found.append((seen, listed, said, step.caption, step.rewards.get(SEAT, 0.0), step.executable))
    return found


def test_questions_are_answered_by_what_they_offer():
    assert set(answers_to("In what direction?")) >= {"north", "southwest", "here", "escape"}
    assert list(answers_to("What do you want to eat? [a-ce or ?*]")) == ["a", "b", "c", "e", "escape"]
    assert list(answers_to("There is a newt corpse here; eat it? [ynq] (n)")) == ["yes", "no", "escape"]
    assert answers_to("What do you want to write with? [- or ?*]") == {"-": ord("-"), "escape": 27}
    assert list(answers_to("What do you want to wield? [- abC or ?*]")) == ["-", "a", "b", "C", "escape"]
    assert list(answers_to("Really attack the guard?")) == ["yes", "no", "escape"]
    assert KEYS["far north"] == ord("K") and KEYS["pray"] == 0x80 | ord("p") and len(SETS["task"]) == 22


def test_the_annotator_tells_good_news_from_bad():
    assert helpful("You kill the newt!") == helpful("$ - 12 gold pieces.") == 1.0
    assert helpful("You see here an apple.") == helpful("The door opens.") == 0.5
    for bad in ("You die...", "It's a wall.", "Ouch! That hurts!", "The newt bites!", "", "You kill it. You die..."):
        assert helpful(bad) == 0.0


@needs("nethack")
def test_a_seed_fixes_the_game_in_whichever_process_and_after_whichever_games():
    options = {"turns": 60, "processes": 2}
    game, player = make_game("nethack", options), make_player("nethack", "explorer", options)
    first = played(game, player, 3)
    assert played(game, player, 4) != first
    held = finish(lease(game._kind, **game.game._made_with()))  # so that the next one has another process
    assert played(game, player, 3) == first
    held.release()
    game.reset(3)
    for *_, said, _, _, _ in first[:30]:
        game.step(said)
    other = make_game("nethack", options)
    other.restore(game.save())
    assert other.observe() == game.observe() == first[30][0]


@needs("nethack")
def test_what_is_told_and_what_can_be_said():
    game = make_game("nethack", {"turns": 5, "menu": True})
    game.reset(8)
    hello, state, ways, seen, has, menu = game.observe().split("\n")
    assert hello.startswith("Hello Agent, welcome to NetHack!") and state == "HP 14 of 14, depth 1."
    assert ways == "Ways: east, southeast, south, southwest, west."
    assert seen == "You see: tame kitten southwest, doorway 5 southeast."
    assert "uncursed food rations" in has and menu.startswith("You can: north; east;")
    assert game.actions() == SETS["task"] and all(word in game.briefing(SEAT) for word in SETS["task"])
    assert not game.step("xyzzy").executable and game.observe().startswith("That is none of your actions.\nHello")
    walked = game.step("Action: far north.")
    assert walked.executable and walked.caption == "It's a wall." and "You have" not in game.observe()
    game.step("kick")
    assert game.actions() == tuple(answers_to("direction")) and game.observe().startswith("In what direction?")
    game.step("here")
    last = game.step("up")
    assert last.truncated and not last.terminated and last.rewards[SEAT] == pytest.approx(-0.01 / 1000)
    assert game.money(SEAT) < 0 and game.outcome() == {SEAT: 0.0} and game.facts()["depth"] == "1"


@needs("nethack")
def test_tasks_end_where_the_papers_end_them():
    options = {"task": "staircase", "turns": 300}
    game, player = make_game("nethack", options), make_player("nethack", "explorer", options)
    for seed in range(20):
        told = played(game, player, seed)
        if game.outcome()[SEAT] > 0.5:
            break
    assert game.facts()["done"] == "True" and told[-1][4] == pytest.approx(1.0) and len(told) < 300


@needs("nethack")
def test_weapons_are_wielded():
    game = make_game("nethack", {"character": "sam-hum-law-mal", "actions": "all"})
    game.reset(4)
    game.step("wield")
    assert game.actions() == ("-", "a", "b", "c", "d", "escape") and game.observe().endswith("[- abcd or ?*]")
    assert game.step("Action: c.").caption == "c - a +0 yumi (weapon in hand)."


@needs("nethack")
def test_every_question_may_be_asked_and_whatever_is_said_is_heard():
    options = {"character": "@", "actions": "all", "turns": 150, "things": 0, "inventory": False}
    game, player = make_game("nethack", options), make_player("nethack", "random", options)
    asked = set()
    for seed in range(3):
        told = played(game, player, seed)
        assert all(each[5] for each in told)
        asked |= {each[0].partition("?")[0] for each in told if len(each[1]) < len(KEYS)}
    assert len(asked) > 5
    for wrong in ("mon-elf-neu-mal", "val-hum-neu-mal", "sam-hum-xxx-mal", "a-b-c-d", "mon-hum-neu", "Mon-hum-neu-mal"):
        with pytest.raises(ValueError, match=f"^game option character='{wrong}'"):
            NetHack(character=wrong)
    for game_option in ({"task": "win"}, {"character": "wizard"}, {"best": 0}, {"things": -1}, {"processes": 0}):
        with pytest.raises(ValueError, match=f"^game option {next(iter(game_option))}="):
            NetHack(**game_option)
