"""The frame of worlds: a missing package is one plain line, and what a world answers is fit for an episode."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest

from cluster.errors import ConfigError
from cluster.recipe.reading import load_recipe
from docs.games_page import games_page
from envs.options import options_of
from envs.parrot import Parrot
from envs.registry import DOORS, GAMES, WORLDS, game_class, game_names, make_game
from envs.worlds.package import LONGEST, MissingPackage, number_of, package, text_of
from tests.support.worlds import MODULES

NAMES = sorted(WORLDS)
MISSING = "import sys\nfor name in {modules!r}: sys.modules[name] = None\n"


def without(modules: list[str], code: str) -> subprocess.CompletedProcess:
    """What happens in a process in which these cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", MISSING.format(modules=modules) + code], capture_output=True, text=True, timeout=120
    )


def test_a_missing_package_is_one_line_with_the_ways_to_get_it(tmp_path, monkeypatch):
    with pytest.raises(MissingPackage, match="^no_such_world is not installed: make setup WORLDS=1, or pip install"):
        package("no_such_world.inside")
    with pytest.raises(MissingPackage, match="^open_spiel is not installed"):
        package("no_such_world", "open_spiel")
    (tmp_path / "half_a_world.py").write_text("import no_such_part.of_it")
    (tmp_path / "old_world.py").write_text("raise ImportError('libc.so.7:\\n cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingPackage, match="^no_such_part is not installed: make"):
        package("half_a_world")
    with pytest.raises(MissingPackage, match=r"^old_world cannot be imported: ImportError: libc.so.7: cannot open$"):
        package("old_world")
    assert package("math") is math


@pytest.mark.parametrize("name", NAMES)
def test_a_world_without_its_package_can_be_described_and_says_what_it_lacks(name):
    code = (
        "from cluster.commands.games import describe\n"
        "from envs.registry import make_game\n"
        f"describe({name!r})\n"
        f"try: make_game({name!r})\n"
        "except ValueError as error: print('LINE', error)\n"
    )
    module = MODULES.get(name, name)
    done = without([module], code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{name}\n") and "\noptions (" in done.stdout and "\nplayers\n" in done.stdout
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("LINE")]
    assert re.fullmatch(rf"LINE ({name}|{module}) is not installed: make setup WORLDS=1, or pip install \S.*", line)


def test_the_list_of_games_and_a_recipe_say_so_too(monkeypatch):
    monkeypatch.setitem(WORLDS, "far_away", "tests.envs.test_worlds:FarAway")
    assert "far_away" in game_names()
    with pytest.raises(ConfigError, match=r"^game.name: far_away: no_such_world is not installed: make setup WORLDS=1"):
        load_recipe(None, ["game.name=far_away"])


class FarAway(Parrot):
    def __init__(self):
        package("no_such_world")


def test_importing_the_worlds_imports_none_of_the_packages():
    modules = sorted({WORLDS[name].partition(":")[0] for name in WORLDS} | {"envs.worlds.package"})
    found = sorted(MODULES.get(name, name) for name in WORLDS)
    code = f"import sys, {', '.join(modules)}\nprint([name for name in {found!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_text_is_text():
    assert text_of("two\r\nlines\rand\ta tab") == "two\nlines\nand\ta tab"
    assert text_of("\x00bell\x07\x1b[0m\ud800") == "\ufffdbell\ufffd\ufffd[0m\ufffd"
    assert text_of("a" * 10 * LONGEST) == "a" * LONGEST + " ... (cut)" and text_of("abc", 2) == "ab ... (cut)"
    for answer in (b"bytes", None, 3, ["a"]):
        with pytest.raises(TypeError, match=f"answered with {type(answer).__name__}, not with text"):
            text_of(answer)


def test_a_number_is_finite():
    assert [number_of(each) for each in (1, -0.5, np.float32(0.25), np.int64(2))] == [1.0, -0.5, 0.25, 2.0]
    for answer in (math.nan, math.inf, -math.inf, np.float32("nan"), True, "1", None, Decimal(1)):
        with pytest.raises(ValueError, match="no finite number"):
            number_of(answer)


def test_the_page_tells_of_every_game_and_door_and_world():
    page = games_page()
    for name in GAMES | DOORS | WORLDS:
        rules = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        made_by = game_class(name)
        assert sys.modules[made_by.__module__].__doc__.strip().splitlines()[-1] in rules, name
        assert all(f"| `{player}` |" in rules for player in made_by.players()), name
    assert "| `shuffle` | `true` | list the actions in an order " in page and "| beside a perfect one | 100 |" in page


@pytest.mark.parametrize("name", sorted(GAMES | DOORS | WORLDS))
def test_every_option_says_what_it_means(name):
    options = options_of(game_class(name))
    assert options and all(len(each.meaning) > 5 for each in options)
    assert len({each.meaning for each in options}) == len(options)


def test_the_page_needs_none_of_the_packages():
    modules = sorted({MODULES.get(name, name) for name in WORLDS} | {"textworld", "textarena", "gymnasium", "mcp"})
    done = without(modules, "from docs.games_page import games_page\nprint(games_page(), end='')")
    assert done.returncode == 0, done.stderr
    assert done.stdout == games_page()


def test_an_option_of_a_world_is_checked_like_any_other(monkeypatch):
    monkeypatch.setitem(WORLDS, "far_away", "tests.envs.test_worlds:FarAway")
    with pytest.raises(ValueError, match="'far_away' has no option 'colour'"):
        make_game("far_away", {"colour": "red"})
