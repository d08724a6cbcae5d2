"""`pip install .` alone: what needs no engine works with the packages of install_requires and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.whole.test_packaging import ROOT, declared

START = (
    "import sys; sys.path[:0] = sys.argv[1:3]; del sys.argv[1:3]; from parley.__main__ import main; sys.exit(main())"
)


def needed() -> set[str]:
    """The names of install_requires and of what these need."""
    names, left = set(), [requirement.name for requirement in declared()[""]]
    while left:
        name = left.pop()
        if name not in names:
            names.add(name)
            wanted = map(Requirement, distribution(name).requires or ())
            left += [each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    return names


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """A folder with these packages alone."""
    folder = tmp_path_factory.mktemp("base")
    for name in needed():
        found = distribution(name)
        for top in {file.parts[0] for file in found.files if file.parts[0] not in ("..", "__pycache__")}:
            (folder / top).symlink_to(found.locate_file(top))
    return folder


def parley(packages: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-S", "-c", START, str(ROOT), str(packages), *words],
        cwd=packages, capture_output=True, text=True, timeout=100,
    )  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["games"], ["play", "parrot", "--watch", "perfect"]])
def test_it_reads_lists_and_plays(packages, words):
    done = parley(packages, *words)
    assert done.returncode == 0 and done.stdout, done.stderr


@pytest.mark.parametrize(
    ("game", "package", "extra"),
    [("openenv", "httpx", "doors"), ("textarena", "textarena", "doors"), ("data_science", "sklearn", "cpu")],
)
def test_a_game_that_needs_more_says_what_and_how_to_get_it(packages, game, package, extra):
    done = parley(packages, "play", game)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert re.search(
        rf"game '{game}' needs the package '{package}', .*pip install -e '\.\[{extra}\]' in Parley's", done.stderr
    )


def test_the_folder_is_the_base_installation(packages):
    there = {path.name for path in packages.iterdir()}
    assert {"numpy", "pydantic", "yaml", "rich"} <= there and not {"torch", "ray", "httpx", "scipy"} & there
    assert len(list(distributions(path=[str(packages)]))) == len(needed())
