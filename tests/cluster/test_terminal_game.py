"""Games at the terminal: what a person sees, types and cannot break."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.console import Console

from cluster.commands.cli import main
from cluster.commands.play import opponent
from cluster.commands.terminal_game import Terminal
from envs.registry import GAMES, make_game, make_player


def sit_down(game: str, typed: list[str], person: str | None, against: str = "mediocre", seed: int = 3, **options):
    """What the terminal showed, and the outcome."""
    console = Console(file=io.StringIO(), width=100)
    answers = iter(typed)

    def ask(prompt: str) -> str:
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None

    made = make_game(game, options)
    players = {seat: make_player(game, against, options) for seat in made.seats if seat != person}
    return console.file, Terminal(made, console, ask).play(players, seed, person)


def test_a_listed_action_is_chosen_by_its_number_or_its_words():
    game = make_game("parrot")
    game.reset(3)
    word = game.observe().removeprefix("say ")
    number = str(game.actions().index(word) + 1)
    shown, outcome = sit_down("parrot", [number, word, "7"], "parrot0")
    assert outcome == {"parrot0": pytest.approx(2 / 3)}, "7 is no action, so it is what was said"
    assert "not understood" in shown.getvalue() and "over after 3 turns" in shown.getvalue()


def test_a_person_sees_their_own_seat_only():
    game = make_game("parrot", {"seats": 2})
    seed = next(s for s in range(99) if game.reset(s) or len(set(game._words.values())) == 2)
    shown, _ = sit_down("parrot", ["apple"] * 3, "parrot0", "perfect", seed, seats=2)
    before_the_end = shown.getvalue().partition("the end")[0]
    assert f"say {game._words['parrot0']}" in before_the_end and f"say {game._words['parrot1']}" not in before_the_end


@pytest.mark.parametrize("typed", [["quit"], [], ["apple", "exit"]])
def test_leaving_is_no_outcome(typed):
    assert sit_down("parrot", typed, "parrot0")[1] is None


@pytest.mark.parametrize("game", sorted(GAMES))
def test_every_game_can_be_watched_and_sat_down_to(game):
    shown, outcome = sit_down(game, [], None, seed=1)
    assert outcome is not None and "the end" in shown.getvalue()
    shown, outcome = sit_down(game, ["hello [bold]there[/bold]", "1", "quit"], make_game(game).seats[-1], seed=1)
    assert "you left" in shown.getvalue() or outcome is not None


def test_a_trained_policy_sits_down(tiny_model):
    game, player = make_game("twenty_questions"), opponent("twenty_questions", f"policy:{tiny_model}", {})
    outcomes = [Terminal(game, Console(file=io.StringIO())).play({"guesser": player}, 5, None) for _ in range(2)]
    assert outcomes[0] == outcomes[1] is not None
    player.reset(5)
    first = player.reply("what is it?", ())
    player.reset(5)
    assert player.reply("what is it?", ()) == first
    player.close()


def test_the_command_plays_at_a_pipe():
    result = subprocess.run(
        [sys.executable, "-m", "cluster", "play", "parrot", "--seed", "3", "rounds=1"],
        input="1\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0 and "over after 1 turns" in result.stdout and "seed 3" in result.stdout, result


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["play", "chess"], "unknown game 'chess'"),
        (["play", "parrot", "--seat", "parrot7"], "has no seat 'parrot7'; it has: parrot0"),
        (["play", "parrot", "seats=0"], "game option seats=0 must be"),
        (["play", "parrot", "--watch", "genius"], "no scripted player 'genius'; it has: mediocre, perfect, random"),
        (["play", "parrot", "--watch", "policy:/nowhere"], "is no whole model"),
        (["games", "chess"], "unknown game 'chess'"),
    ],
)
def test_what_cannot_be_is_one_line(words, says, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_games_are_listed_and_described(capsys):
    assert main(["games"]) == 0
    shown = capsys.readouterr().out
    assert all(game in shown for game in GAMES)
    assert main(["games", "parrot"]) == 0
    assert "rounds = 3" in (shown := capsys.readouterr().out) and "beside a perfect one: 100 episodes" in shown
