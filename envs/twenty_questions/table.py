"""The objects and attributes of one game of Twenty Questions, read from a TOML file.

A table that cannot be played honestly is refused when it is read: every object must be
told apart from every other by some attribute, and every listed question must be
understood by the oracle as the attribute it is listed under.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

TABLES = Path(__file__).parent / "tables"


class TableError(ValueError):
    """A table that cannot be read or played; the message names the file and the entry."""


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str
    ask: tuple[str, ...]  # whole questions, as the scripted players put them
    keywords: tuple[str, ...]  # words and phrases by which the oracle knows it


@dataclass(frozen=True, slots=True)
class Table:
    source: str
    opening: str
    attributes: tuple[Attribute, ...]
    objects: dict[str, frozenset[str]]  # object -> names of the attributes that are true of it
    names: tuple[str, ...]  # the objects, in the order of the file
    yes: dict[str, int] = field(repr=False)  # attribute -> bit mask over `names` of the objects it is true of

    @property
    def everything(self) -> int:
        return (1 << len(self.names)) - 1


def table_path(table: str) -> Path:
    """The file of a table that ships with the game, or a path of the user's own."""
    if not isinstance(table, str):
        raise TableError(f"game option table={table!r} must be the name or the path of a table")
    own = TABLES / f"{table}.toml"
    if own.is_file():
        return own
    path = Path(table).expanduser()
    if path.is_file():
        return path
    known = ", ".join(sorted(file.stem for file in TABLES.glob("*.toml")))
    raise TableError(f"table {table!r} is neither a file nor one of: {known}")


def read_table(path: Path) -> Table:
    source = str(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"table {source}: not a TOML file: {error}") from None
    except OSError as error:
        raise TableError(f"table {source}: {error.strerror}") from None
    unknown = set(raw) - {"opening", "attributes", "objects"}
    if unknown:
        raise TableError(f"table {source}: unknown key {sorted(unknown)[0]!r}")
    attributes = tuple(_attribute(source, name, entry) for name, entry in _section(source, raw, "attributes").items())
    objects = {
        name.lower(): _truths(source, name, entry, {attribute.name for attribute in attributes})
        for name, entry in _section(source, raw, "objects").items()
    }
    if len(objects) < 2:
        raise TableError(f"table {source}: needs at least two objects")
    seen: dict[frozenset[str], str] = {}
    for name, truths in objects.items():
        if truths in seen:
            raise TableError(f"table {source}: no attribute tells {name!r} from {seen[truths]!r}")
        seen[truths] = name
    opening = raw.get("opening", "what is it?")
    if not isinstance(opening, str) or not opening.strip():
        raise TableError(f"table {source}: opening must be a sentence")
    yes = {
        attribute.name: sum(1 << place for place, truths in enumerate(objects.values()) if attribute.name in truths)
        for attribute in attributes
    }
    return Table(source, opening, attributes, objects, tuple(objects), yes)


def _section(source: str, raw: dict, key: str) -> dict:
    section = raw.get(key)
    if not isinstance(section, dict) or not section:
        raise TableError(f"table {source}: needs a section [{key}]")
    return section


def _strings(source: str, where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise TableError(f"table {source}: {where} must be a list of words")
    return tuple(item.lower() for item in value)


def _attribute(source: str, name: str, entry: object) -> Attribute:
    if not isinstance(entry, dict) or set(entry) != {"ask", "keywords"}:
        raise TableError(f"table {source}: attribute {name!r} must have exactly `ask` and `keywords`")
    ask = _strings(source, f"ask of attribute {name!r}", entry["ask"])
    keywords = _strings(source, f"keywords of attribute {name!r}", entry["keywords"])
    if not ask or not keywords:
        raise TableError(f"table {source}: attribute {name!r} needs at least one question and one keyword")
    return Attribute(name, ask, keywords)


def _truths(source: str, name: str, entry: object, known: set[str]) -> frozenset[str]:
    truths = frozenset(_strings(source, f"object {name!r}", entry))
    if truths - known:
        raise TableError(f"table {source}: object {name!r} has unknown attribute {sorted(truths - known)[0]!r}")
    return truths
