"""An option says what it means, and one of the wrong type is one line that names it, in every game that takes text."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated

import pytest

from cluster.commands.games import about, as_plain, describe, written
from cluster.errors import ConfigError
from cluster.recipe.reading import load_recipe
from cluster.record.run_folder import to_json
from envs.options import options_of
from envs.parrot import Parrot
from envs.registry import GAMES, make_game
from tests.support.worlds import needs

if TYPE_CHECKING:
    from pathlib import Path

TEXT, SEVERAL = "must be text", "must be text or a list of texts"


@pytest.mark.parametrize(
    ("game", "option", "value", "line"),
    [
        pytest.param("babyai", "level", ["a"], TEXT, marks=needs("babyai")),
        pytest.param("scienceworld", "simplifications", None, SEVERAL, marks=needs("scienceworld")),
        pytest.param("scienceworld", "simplifications", [1], SEVERAL, marks=needs("scienceworld")),
        ("webshop", "tagger", ["x"], TEXT),
        ("gymnasium", "id", 1, TEXT),
        ("gymnasium", "action_names", 1, SEVERAL),
        ("pettingzoo", "id", [], TEXT),
        ("textarena", "id", ["x"], TEXT),
        ("openenv", "briefing", 3, TEXT),
        ("verifiers", "python", None, TEXT),
        ("data_science", "folder", 1, TEXT),
    ],
)
def test_an_option_of_the_wrong_type_is_one_line(game, option, value, line):
    more = {"openenv": {"url": "http://127.0.0.1:9"}, "webshop": {"data": "tiny"}}.get(game, {})
    with pytest.raises(ValueError) as found:
        make_game(game, more | {option: value})
    assert str(found.value) == f"game option {option}={value!r} {line}"


HERE = PurePosixPath("here")


class Annotations(Parrot):
    """Meanings stand among whatever else an annotation may hold."""

    def __init__(
        self,
        seats: Annotated[int, 3, "how many", "more"],
        rounds: Annotated[int, range(3)] = 3,
        bare=(0.5, True),
        folder=HERE,
        **more,
    ):
        super().__init__(seats, rounds)


class Unreadable(Parrot):
    def __init__(
        self,
        seats: Annotated[int, "how many"] = 1,
        folder: Annotated[Path | None, "where files lie"] = None,
        more: Annotated[Path[int], "of no use"] = (),
    ):
        super().__init__(seats)


def test_what_options_mean_is_read_from_the_annotations():
    seats, rounds, bare, _ = options_of(Annotations)
    assert (seats.name, seats.meaning, seats.needed, written(seats)) == ("seats", "how many", True, "(needed)")
    assert (rounds.meaning, rounds.needed, written(rounds)) == ("", False, "3")
    assert (bare.meaning, bare.default, written(bare)) == ("", (0.5, True), "[0.5, true]")


def test_of_annotations_that_cannot_be_read_the_others_are():
    assert [(each.name, each.meaning, written(each)) for each in options_of(Unreadable)] == [
        ("seats", "how many", "1"),
        ("folder", "where files lie", "null"),
        ("more", "", "[]"),
    ]


def test_they_are_shown_as_a_recipe_would_have_them(capsys, monkeypatch):
    monkeypatch.setitem(GAMES, "annotations", f"{__name__}:Annotations")
    describe("annotations")
    rules, _, shown = capsys.readouterr().out.partition("options")
    assert rules == "annotations\n  Meanings stand among whatever else an annotation may hold.\n\n"
    shown = shown.partition("players")[0].splitlines()
    assert shown[1:] == ["  seats   (needed)     how many", "  rounds  3", "  bare    [0.5, true]", '  folder  "here"']


def test_a_game_asks_for_an_option_that_it_needs_and_takes_any_where_it_says_so(monkeypatch):
    monkeypatch.setitem(GAMES, "annotations", f"{__name__}:Annotations")
    with pytest.raises(
        ValueError, match=r"^game 'annotations' needs the option 'seats', how many: game.options.seats="
    ):
        make_game("annotations", {"rounds": 2})
    assert make_game("annotations", {"seats": 2, "unheard_of": 1}).seats == ("parrot0", "parrot1")
    with pytest.raises(ConfigError, match="needs the option 'seats'"):
        load_recipe(None, ["game.name=annotations"])
    with pytest.raises(ValueError, match="has no option 'seat'; it has: seats, rounds$"):
        make_game("parrot", {"seat": 2})


def test_they_are_json_whatever_the_defaults_are(monkeypatch):
    monkeypatch.setitem(GAMES, "annotations", f"{__name__}:Annotations")
    options = json.loads(to_json(as_plain("annotations")))["options"]
    assert options["seats"] == {"about": "how many"} and options["rounds"] == {"about": "", "default": 3}
    assert (options["bare"]["default"], options["folder"]["default"]) == ([0.5, True], "here")


def test_what_a_game_is_about_is_its_first_sentence():
    assert about(Annotations) == "Meanings stand among whatever else an annotation may hold"
    assert (
        about(Unreadable) == "An option says what it means, and one of the wrong type is one line that names it, in "
        "every game that takes text"
    )
    assert about(Parrot) == "say the word you are shown"
