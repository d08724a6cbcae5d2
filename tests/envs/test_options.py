"""An option of the wrong type is one line that names it, in every game that takes text."""

from __future__ import annotations

import pytest

from envs.registry import make_game
from tests.support.worlds import needs

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
