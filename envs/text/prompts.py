"""Texts of a game in published form, which a user may replace by those that the projects themselves ship.

A text has places, {{name}}, that the game fills. Folders of two shapes are read:

    GLEE    text and JSON files of each game, such as games/bargaining/prompts/rules_prompt.txt
    ARIA    reward_aggregation/prompt_base.py, whose constants have places of the form {name}; it is read and never run

A folder is the one that holds these files, or the whole project's.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envs.options import one_of

ARIA = "prompt_base.py"
LARGEST = 1_000_000  # bytes of a file
MOST_PLACES = 12  # that a message lists
_GLEE_PLACE = re.compile(r"\{\{(\w+)\}\}")
_ARIA_PLACE = re.compile(r"\{(\w*)\}")


@dataclass(frozen=True, slots=True)
class Text:
    words: str  # our own
    places: frozenset[str]  # that the game can fill
    file: str = ""  # of GLEE's, which holds the same
    key: str = ""  # in that file, where it is JSON
    constant: str = ""  # of ARIA's file


def is_published(rules: str, prompts: str | None) -> bool:
    """Whether a game's options ask for published rules."""
    return one_of("rules", rules, ("own", "published")) == "published" or prompts is not None


def places_in(names: str) -> frozenset[str]:
    return frozenset(names.split())


def texts_of(folder: str | None, game: str, known: dict[str, Text]) -> dict[str, str]:
    """The texts of that game: our own words, and what the folder has instead of them."""
    if folder is None:
        return {name: text.words for name, text in known.items()}
    if not isinstance(folder, str) or not folder:
        raise ValueError(f"game option prompts={folder!r} must be the path of a folder")
    return dict(_read(folder, game, tuple(known.items())))


def filled(text: str, values: dict[str, str]) -> str:
    """Places that are filled with nothing leave no empty lines."""
    lines = _GLEE_PLACE.sub(lambda place: values[place[1]], text).strip().split("\n")
    return "\n".join(line.strip() for line in lines if line.strip())


@lru_cache(maxsize=32)
def _read(folder: str, game: str, known: tuple[tuple[str, Text], ...]) -> tuple[tuple[str, str], ...]:
    try:
        root = Path(folder).expanduser()
        if not root.is_dir():
            raise ValueError("there is no such folder")
        files = sorted({text.file for _, text in known if text.file})
        for place in (root, root / "games" / game / "prompts"):
            if any((place / file).is_file() for file in files):
                return tuple((name, _of_glee(place, text)) for name, text in known)
        for path in (root / ARIA, root / "reward_aggregation" / ARIA):
            if path.is_file() and any(text.constant for _, text in known):
                constants = _constants(path)
                return tuple((name, _of_aria(path, constants, text)) for name, text in known)
        wanted = [*files, *[ARIA] * any(text.constant for _, text in known)]
        raise ValueError(f"it holds none of the files of {game}: {', '.join(wanted)}")
    except ValueError as wrong:
        raise ValueError(f"game option prompts={folder[-100:]!r}: {wrong}") from None


def _of_glee(folder: Path, text: Text) -> str:
    if not text.file:
        return text.words
    path = folder / text.file
    said = _content(path)
    if text.key:
        try:
            said = json.loads(said, strict=False)
        except ValueError as broken:
            raise ValueError(f"{path.name} is no JSON: {broken}"[:150]) from None
        said = said.get(text.key) if isinstance(said, dict) else None
        if not isinstance(said, str) or not said.strip():
            raise ValueError(f"{path.name} has no text {text.key!r}")
    return _checked(said, _GLEE_PLACE.findall(said), text, path.name, "{{%s}}")


def _of_aria(path: Path, constants: dict[str, str], text: Text) -> str:
    if not text.constant:
        return text.words
    if text.constant not in constants:
        raise ValueError(f"{path.name} has no text {text.constant}")
    said = constants[text.constant]
    _checked(said, _ARIA_PLACE.findall(said), text, f"{path.name}, {text.constant}", "{%s}")
    return _ARIA_PLACE.sub(r"{{\1}}", said)


def _checked(said: str, places: Iterable[str], text: Text, where: str, form: str) -> str:
    unknown = [place for place in places if place not in text.places]
    if unknown:
        known = sorted(text.places)
        more = f" and {len(known) - MOST_PLACES} more" if len(known) > MOST_PLACES else ""
        listed = ", ".join(known[:MOST_PLACES]) or "none"
        raise ValueError(f"{where}: unknown place {form % unknown[0][:30]}; known here: {listed}{more}")
    if not said.strip():
        raise ValueError(f"{where} is empty")
    return said


def _constants(path: Path) -> dict[str, str]:
    """The texts that a module gives names to."""
    try:
        body = ast.parse(_content(path)).body
    except (SyntaxError, RecursionError, MemoryError) as broken:
        raise ValueError(f"{path.name} is no Python: {broken}"[:150]) from None
    found = {}
    for line in body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str):
            found |= {target.id: line.value.value for target in line.targets if isinstance(target, ast.Name)}
    return found


def _content(path: Path) -> str:
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path.name} is larger than {LARGEST:,} bytes")
    try:
        return path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except (UnicodeDecodeError, OSError) as broken:
        raise ValueError(f"{path.name} cannot be read: {broken}"[:150]) from None
