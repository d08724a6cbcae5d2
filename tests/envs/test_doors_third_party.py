"""A game in a package of somebody else's: docs/how-to/new_game.md is carried out as it is written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "hot_cold"
PAGE = (ROOT / "docs" / "how-to" / "new_game.md").read_text(encoding="utf-8")
PIP_INSTALL = (sys.executable, "-m", "pip", "install", "-q")
FILES = ("hot_cold.py", "pyproject.toml", "test_hot_cold.py", "recipe.yaml")


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    """Variables under which the example is installed, outside of the environment that runs the tests."""
    source, site = tmp_path_factory.mktemp("source") / "hot_cold", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [*PIP_INSTALL, "--no-deps", "--no-build-isolation", "--no-index", "--target", site, source],
        check=True,
        timeout=120,
    )
    assert (site / "hot_cold.py").is_file()
    path = os.pathsep.join(str(each) for each in (site, ROOT))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def run(environment: dict[str, str], *command: str, timeout: float = 100) -> str:
    result = subprocess.run(
        [sys.executable, *command], cwd=EXAMPLE, env=environment, capture_output=True, text=True, timeout=timeout
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("name", FILES)
def test_the_page_shows_the_files_as_they_are(name):
    (block,) = re.findall(rf"^`{re.escape(name)}`[^\n]*:\n\n```[^\n]*\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert block == f'--8<-- "examples/hot_cold/{name}"\n'  # the site has the file itself in its place


def test_the_page_shows_all_of_the_example():
    assert {path.name for path in EXAMPLE.iterdir() if path.name != "__pycache__"} == set(FILES)


def test_the_installed_game_is_listed_with_the_others(environment):
    listed = run(environment, "-m", "cluster", "games")
    (line,) = [line for line in listed.splitlines() if "hot_cold" in line]
    assert "seeker" in line and "mediocre" in line
    assert "twenty_questions" in listed


def test_it_plays_as_its_own_tests_demand(environment):
    assert "passed" in run(environment, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_hot_cold.py")


def test_it_holds_the_contract_that_all_games_hold(environment):
    code = (
        "import sys, pytest, envs.registry as registry\n"
        "registry.WORLDS.clear(); registry.GAMES.clear(); registry.GAMES['hot_cold'] = 'hot_cold:HotCold'\n"
        f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', {str(ROOT / 'tests' / 'envs' / 'test_games.py')!r}]))"
    )
    assert "passed" in run({**environment, "PARLEY_FUZZ": "3000"}, "-c", code)


def test_its_recipe_is_understood(environment):
    shown = run(environment, "-m", "cluster", "train", "recipe.yaml", "--dry-run")
    assert "name: hot_cold" in shown and "places: 20" in shown


def test_it_goes_out_through_the_doors_too(environment):
    code = (
        "import gymnasium\n"
        "made = gymnasium.make('envs.doors.outward.gymnasium:parley/hot_cold-v0')\n"
        "shown, info = made.reset(seed=0)\n"
        "print(shown, info['actions'][:2], made.step('look 3')[1:3])"
    )
    assert run(environment, "-W", "ignore", "-c", code).strip() == "places 1 to 20 ('look 1', 'look 2') (1.0, True)"


def test_a_game_that_is_not_installed_is_unknown_and_the_known_ones_are_named():
    from envs.registry import make_game

    with pytest.raises(ValueError, match="unknown game 'hot_cold'; known: .*parrot"):
        make_game("hot_cold")


def test_the_smallest_game_of_the_page_plays():
    block = next(block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
    names: dict = {}
    exec(compile(block, "new_game.md", "exec"), names)
    game = names["Echo"]()
    game.reset(4)
    assert game.name == "echo" and game.observe() == "say bread" and game.step("no").executable is False
    assert game.step("bread").terminated and game.outcome() == {"speaker": 1.0}
    assert set(game.players()) == {"mediocre", "random"} and "say cloud" in set(game.language())
