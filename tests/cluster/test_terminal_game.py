"""Games at the terminal: what a person sees, types and cannot break."""

from __future__ import annotations

import copy
import io
import json
import re
import shutil
import socket
import subprocess
import sys

import pytest
from rich.console import Console

from actors.play.lone_player import LonePlayer
from cluster.commands.cli import main
from cluster.commands.play import opponent
from cluster.commands.terminal_game import Terminal, _new_in, _without_list
from envs.game import Game, Step
from envs.registry import GAMES, make_game, make_player


def sit_down(
    game: str | Game, typed: list[str], person: str | None, against: str = "mediocre", seed: int = 3, **options
):
    """What the terminal showed, and the outcome."""
    console = Console(file=io.StringIO(), width=100)
    answers = iter(typed)

    def ask(prompt: str) -> str:
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None

    if isinstance(game, Game):
        return console.file, Terminal(game, console, ask).play({}, seed, person)
    made = make_game(game, options)
    players = {seat: make_player(game, against, options) for seat in made.seats if seat != person}
    another = lambda: make_game(game, options)  # noqa: E731
    return console.file, Terminal(made, console, ask, another).play(players, seed, person)


class Corridor(Game):
    """Three rooms; whoever walks east from the last one is out. The walls stop everybody else."""

    seats = ("walker",)
    seat = None
    horizon = 9

    def reset(self, seed):
        self.seat, self.room = "walker", 0

    def observe(self):
        return f"room {self.room}\nYou can: {', '.join(self.actions())}"

    def actions(self):
        return ("east", "west", *(("open the chest",) if self.room == 1 else ()))

    def step(self, utterance):
        if utterance not in self.actions():
            return Step(executable=False, caption="the walker waits")
        self.room = max(0, self.room + {"east": 1, "west": -1}.get(utterance, 0))
        self.seat = None if self.room == 3 else "walker"
        return Step(terminated=self.seat is None, caption=f"the walker walks to room {self.room}")

    def save(self):
        return {"room": self.room}

    def restore(self, saved):
        self.seat, self.room = "walker", saved["room"]


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


def test_commands_cost_no_turn_and_what_they_show_is_what_the_seat_may_know():
    typed = ["help", "rules", "", "is it alive?", ":history", "quit"]
    shown, outcome = sit_down("twenty_questions", typed, "guesser")
    text = shown.getvalue()
    assert outcome is None and "invalid" not in text and "not understood" not in text
    assert text.count("We play a guessing game") == 2 and "take back your last turn" in text
    assert text.count("guesser> is it alive?") == 1, "the history has what was said; the terminal echoes what is typed"
    assert "listed action" not in text, "no numbers where no action is listed"
    assert "the listed action with that number" in sit_down("parrot", ["help"], "parrot0")[0].getvalue()


def test_a_word_that_is_a_command_can_be_said_to_the_game():
    heard = []

    class Listening(Corridor):
        def actions(self):
            return ("undo", "east")

        def step(self, utterance):
            heard.append(utterance)
            return super().step(utterance)

    sit_down(Listening(), ["undo", "> help", ":undo", "quit"], "walker")
    assert heard == ["undo", "help"], "a listed action is itself; > says anything; : is always a command"


def test_undo_goes_on_as_if_the_turn_had_never_been():
    """The rival forgets it too: the game is that of one who never said it."""
    offers = ["i offer you 1 %", "i reject", "i offer you 2 %", "i reject", "i offer you 3 %", "quit"]
    plain = sit_down("bargaining", offers, "alice", seed=5)[0].getvalue()
    again = [*offers[:2], "i offer you 3 %", "undo", *offers[2:4], "nonsense", "undo", *offers[4:]]
    shown = sit_down("bargaining", again, "alice", seed=5)[0].getvalue()
    assert shown.count("is taken back") == 2
    assert "round 6" in plain and plain.splitlines()[-3:] == shown.splitlines()[-3:]


def test_undo_goes_back_turn_by_turn():
    shown = sit_down(Corridor(), ["east", "east", "undo", "undo", "quit"], "walker")[0].getvalue()
    rooms = [line.strip() for line in shown.splitlines() if line.strip().startswith("room")]
    assert rooms == ["room 0", "room 1", "room 2", "room 1", "room 0"]


def test_undo_says_why_not():
    class Forgetful(Corridor):
        def restore(self, saved):
            raise ValueError("the world went another way")

    class Closed(Corridor):
        def save(self):
            raise NotImplementedError

    text = sit_down(Corridor(), ["undo", "quit"], "walker")[0].getvalue()
    assert "you have not said anything that could be taken back" in text
    for game, reason in ((Forgetful(), "the world went another way"), (Closed(), "NotImplementedError")):
        text = sit_down(game, ["east", "undo", "east", "quit"], "walker")[0].getvalue()
        assert f"this game cannot go back: {reason}" in text and "room 2" in text, "the episode goes on"


def test_what_changes_nothing_is_apart_from_what_is_not_understood():
    typed = ["west", "dance", "east", "open the chest", "west", "OPEN THE CHEST", "east", "east", "east"]
    shown, outcome = sit_down(Corridor(), typed, "walker")
    lines = [line.strip() for line in shown.getvalue().splitlines()]
    said = [line for line in lines if line.startswith(("nothing happened", "you see", "the walker"))]
    assert said == [
        "you see the same as before",  # west of the first room is a wall
        "the walker waits; not understood",
        "you see the same as before",  # in an empty chest
        "the walker waits; nothing happened: not possible now",  # the chest is in another room
    ]
    assert outcome == {"walker": 0.0}


def test_nothing_is_told_twice():
    shown = sit_down("twenty_questions", ["is it alive?", "quit"], "guesser")[0].getvalue()
    assert "  yes" in shown or "  no" in shown
    assert "asks about alive" not in shown, "what was said and answered stands there already"
    shown = sit_down(Corridor(), ["east", "quit"], "walker")[0].getvalue()
    assert "You can:" not in shown and "3 open the chest" in shown and "walks to" not in shown
    assert _without_list(
        "a long way east of the west wall there is more to read than a list of actions", ("east", "west")
    )
    assert _new_in("player 0 moves: [4] is taken. Try again.", "[4]", "[4] is taken. Board:") == ["Try again."]
    assert _new_in("the wheel turns: no luck", "spin", "nobody else is here") == ["the wheel turns: no luck"]
    assert _new_in("the oracle says:", "spin", "") == ["the oracle says:"]


@pytest.mark.parametrize("typed", [["quit"], [], ["apple", "exit"]])
def test_leaving_is_no_outcome(typed):
    assert sit_down("parrot", typed, "parrot0")[1] is None


PROGRAM = """\
def build_model(x_train, y_train):
    # quit

    from sklearn.naive_bayes import GaussianNB
    return GaussianNB().fit(x_train, y_train)
"""


@pytest.mark.parametrize("opening", ["```", "```python", " ``` "])
def test_an_answer_of_several_lines_is_taken_as_it_is(opening, monkeypatch):
    said, step = [], type(make_game("parrot")).step
    monkeypatch.setattr("envs.parrot.Parrot.step", lambda game, text: said.append(text) or step(game, text))
    shown, outcome = sit_down("parrot", [opening, *PROGRAM.splitlines(), "```", "quit"], "parrot0")
    assert said == [PROGRAM.rstrip("\n")] and outcome is None
    assert "a line ``` begins an answer of several lines, another ``` ends it" in " ".join(shown.getvalue().split())
    said.clear()
    sit_down("parrot", ["```", "a", "  b"], "parrot0")
    assert said == ["a\n  b"], "the end of the input ends an answer, too"
    said.clear()
    sit_down("parrot", ["```x = 1```", "quit"], "parrot0")
    assert said == ["```x = 1```"], "one line is one line"


@pytest.mark.parametrize("end", ["\r\n", pytest.param("\n", marks=pytest.mark.long)])
def test_a_program_is_played_at_a_pipe(end):
    result = subprocess.run(
        [sys.executable, "-m", "cluster", "play", "data_science", "dataset=iris", "--seed", "3"],
        input=f"```\n{PROGRAM}```\n".replace("\n", end).encode(), capture_output=True, timeout=120,
    )  # fmt: skip
    told = result.stdout.decode()
    assert result.returncode == 0 and "over after 1 turns" in told and "result: success. 0.99" in told, result


@pytest.mark.parametrize("game", sorted(GAMES))
def test_every_game_can_be_watched_and_sat_down_to(game):
    shown, outcome = sit_down(game, [], None, seed=1)
    assert outcome is not None and "the end" in shown.getvalue()
    typed = ["hello [bold]there[/bold]", "undo", "1", "quit"]
    shown, outcome = sit_down(game, typed, make_game(game).seats[-1], seed=1)
    assert "you left" in shown.getvalue() or outcome is not None
    assert "your last turn is taken back" in shown.getvalue()


def test_a_trained_policy_sits_down(tiny_model):
    game, player = make_game("twenty_questions"), opponent("twenty_questions", f"policy:{tiny_model}", {})
    outcomes = [Terminal(game, Console(file=io.StringIO())).play({"guesser": player}, 5, None) for _ in range(2)]
    assert outcomes[0] == outcomes[1] is not None
    player.reset(5)
    first = player.reply("what is it?", ())
    player.reset(5)
    assert player.reply("what is it?", ()) == first
    player.close()


def test_a_trained_policy_goes_back_with_the_game(tiny_model):
    player = LonePlayer(tiny_model, max_utterance_tokens=6)
    player.reset(5)
    player.reply("what is it?", ())
    twin = copy.deepcopy(player)
    assert twin.policy is player.policy, "the model is there once"
    first = player.reply("yes", ())
    assert twin.seat.prompt != player.seat.prompt and twin.reply("yes", ()) == first
    player.close()


def test_a_model_of_few_positions_plays_within_them_and_a_broken_one_is_told(tiny_model, tmp_path, capsys):
    short = tmp_path / "short"
    shutil.copytree(tiny_model, short)
    config = json.loads((short / "config.json").read_text())
    (short / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 48}))
    player = opponent("twenty_questions", f"policy:{short}", {})
    player.reset(5)
    said = [player.reply("yes " * 8, ()) for _ in range(6)]
    assert player.max_context == 48 and said[0] and not said[-1], "it says nothing once its context is full"
    player.close()
    for file in short.glob("*.safetensors"):
        file.unlink()
    assert main(["play", "twenty_questions", "--watch", f"policy:{short}"]) == 2
    assert re.search(f"parley: policy:{short} cannot be loaded: .*safetensors.*", capsys.readouterr().err)


def test_something_is_said_while_a_model_loads(tiny_model, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("quit\n"))
    assert main(["play", "bargaining", "--against", f"policy:{tiny_model}", "--seed", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"loading policy:{tiny_model} for bob\n")


def test_nobody_can_be_played_against_in_a_game_of_one_seat(capsys):
    assert main(["play", "parrot", "--against", "nobody"]) == 2
    assert capsys.readouterr().err == "parley: --against=nobody: parrot has one seat, and you sit there\n"


def test_the_command_plays_at_a_pipe():
    result = subprocess.run(
        [sys.executable, "-m", "cluster", "play", "parrot", "--seed", "3", "rounds=1"],
        input="1\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0 and "over after 1 turns" in result.stdout and "seed 3" in result.stdout, result


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["play", "checkers"], "unknown game 'checkers'"),
        (["play", "parrot", "--seat", "parrot7"], "has no seat 'parrot7'; it has: parrot0"),
        (["play", "parrot", "seats=0"], "game option seats=0 must be"),
        (["play", "parrot", "--watch", "genius"], "no scripted player 'genius'; it has: mediocre, perfect, random"),
        (["play", "parrot", "--watch", "policy:/nowhere"], "is no whole model"),
        (["games", "checkers"], "unknown game 'checkers'"),
    ],
)
def test_what_cannot_be_is_one_line(words, says, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_a_server_that_is_not_there_is_one_line(capsys):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    for more in ([], ["action=message", "retries=0"]):
        assert main(["play", "openenv", f"url={url}", *more]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"parley: environment at {url}: ") and error.count("\n") == 1
        assert "start the server there, or name another with url=" in error


class Broken(Corridor):
    def step(self, utterance):
        raise ZeroDivisionError("division by zero")


def test_a_game_that_fails_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("east\n"))
    assert main(["play", f"{__name__}:Broken"]) == 1
    error = capsys.readouterr().err
    place = r"\(test_terminal_game.py, line \d+\)"
    assert re.search(rf"failed: ZeroDivisionError: division by zero {place} \(PARLEY_DEBUG=1 shows where\)\n$", error)
    assert error.count("\n") == 1


def test_games_are_listed_and_described(capsys):
    assert main(["games"]) == 0
    shown = capsys.readouterr().out
    assert all(game in shown for game in GAMES)
    assert main(["games", "parrot"]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "rounds 3 turns of each seat, 1 to 99" in shown and "alone 100 episodes" in shown
