"""The recipes that come with Parley: found by name wherever a command is given.

    parley train demo                      recipes/demo.yaml of the checkout, or of the installed package
    parley train bargaining poad           a name is enough: games/bargaining.yaml, credit/poad.yaml
    parley train recipes/games/parrot.yaml the path of the docs, from any folder

A file that is there under the words given always comes first.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cluster.errors import ConfigError

SUFFIXES = (".yaml", ".yml")


@cache
def packaged() -> dict[str, Path]:
    """Every recipe and layer, by its path below recipes/ without suffix."""
    folder = (Path(__file__).parents[2] / "parley" / "recipes").resolve()  # in a checkout a link to recipes/
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.yaml"))}


def recipe_file(words: str | Path) -> Path:
    """The file that is meant; where there is none, what was written."""
    written, name = Path(words), str(words)
    if written.is_file():
        return written
    if name.endswith(SUFFIXES):
        below = written.with_suffix("").as_posix().removeprefix("recipes/")
        return packaged().get(below, written) if name.startswith("recipes/") else written
    if name in packaged():
        return packaged()[name]
    named = [key for key in packaged() if key.rpartition("/")[2] == name]
    if len(named) > 1:
        raise ConfigError(f"several recipes are called {name!r}: {', '.join(named)}")
    return packaged()[named[0]] if named else written
