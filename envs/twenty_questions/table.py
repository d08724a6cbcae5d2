"""The objects and attributes of one game of Twenty Questions, read from a TOML file.

An attribute is plainly true of an object, plainly false, or true only sometimes: an apple
may be green. The oracle says yes to what is sometimes true, and nobody is told apart by it.

A table that cannot be played honestly is refused when it is read: every object must be
told apart from every other by as many attributes as the table says (`differences`), and
every listed question must be understood by the oracle as the attribute it is listed under.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from envs.twenty_questions.facts import Entries, TableError, Thing, read_measures, read_things
from envs.twenty_questions.knowledge import Fact, read_knowledge

TABLES = Path(__file__).parent / "tables"
KEYS = {
    "opening", "reading", "differences", "attributes", "objects", "kinds", "groups", "measures", "unanswerable",
    "base", "take",
}  # fmt: skip
READINGS = ("plain", "free")


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str
    ask: tuple[str, ...]  # whole questions, as the scripted players put them
    keywords: tuple[str, ...]  # words and phrases by which the oracle knows it
    opposites: tuple[str, ...] = ()  # words and phrases that ask for the contrary


@dataclass(frozen=True, slots=True)
class Table:
    source: str
    folder: Path  # of what else is known of its objects
    opening: str
    reading: str  # how the oracle reads unless the game's options say otherwise: one of READINGS
    attributes: tuple[Attribute, ...]
    objects: dict[str, frozenset[str]]  # object -> the attributes that are plainly or sometimes true of it
    sometimes: dict[str, frozenset[str]]  # object -> the attributes that are only sometimes true
    names: tuple[str, ...]  # the objects, in the order of the file
    also: dict[str, str]  # another name -> the object
    measures: dict[str, tuple[float, float]]  # name of an object or a reference -> centimetres, kilograms
    beyond: tuple[str, ...]  # words and phrases of questions that the table cannot answer
    kinds: tuple[str, ...]  # the kinds of its objects, in the order of the file
    facts: dict[str, Fact] = field(
        repr=False
    )  # what is known of the objects: the attributes, and what else can be asked
    yes: dict[str, int] = field(repr=False)  # attribute -> bit mask over `names`: may be answered yes truthfully
    no: dict[str, int] = field(repr=False)  # attribute -> bit mask over `names`: may be answered no truthfully

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


def _raw(path: Path) -> dict:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"table {path}: not a TOML file: {error}") from None
    except OSError as error:
        raise TableError(f"table {path}: {error.strerror}") from None


def _on_base(entries: Entries, own: dict) -> dict:
    """A table that says `base` has what the table of that name has, unless it says it itself; of its objects those
    that it lists in `take`."""
    base = _raw(table_path(own["base"]))
    if "base" in base:
        raise TableError(f"table {entries.source}: its base {own['base']!r} has a base itself")
    taken = entries.strings("take", own.get("take", []))
    objects = {name.lower(): entry for name, entry in entries.section(base, "objects").items()}
    if unknown := [name for name in taken if name not in objects]:
        raise TableError(f"table {entries.source}: take has {unknown[0]!r}, which is no object of {own['base']!r}")
    whole = {**base, **own, "objects": {name: objects[name] for name in taken} | entries.part(own, "objects")}
    for part in ("attributes", "kinds", "groups", "measures"):
        whole[part] = entries.part(base, part) | entries.part(own, part)
    return whole


def read_table(path: Path) -> Table:
    source, raw = str(path), _raw(path)
    entries = Entries(source)
    entries.only(raw, KEYS, "unknown key {!r}")
    facts_of, own = path, set()
    if "base" in raw:
        facts_of = table_path(raw["base"])
        own = {name.lower() for name in entries.part(raw, "objects")}
        raw = _on_base(entries, raw)
    elif "take" in raw:
        raise TableError(f"table {source}: take is for a table with a base")
    attributes = tuple(_attribute(entries, name, entry) for name, entry in entries.section(raw, "attributes").items())
    things = read_things(entries, raw)
    if len(things) < 2:
        raise TableError(f"table {source}: needs at least two objects")
    _tell_apart(source, things, raw.get("differences", 1))
    opening, reading = raw.get("opening", "what is it?"), raw.get("reading", "plain")
    if not isinstance(opening, str) or not opening.strip():
        raise TableError(f"table {source}: opening must be a sentence")
    if reading not in READINGS:
        raise TableError(f"table {source}: reading={reading!r} must be one of: {', '.join(READINGS)}")
    beyond = entries.part(raw, "unanswerable", {"keywords"})
    names = [attribute.name for attribute in attributes]
    told = [
        Fact(
            each.name,
            each.keywords,
            each.opposites,
            "",
            _mask(each.name in thing.plainly for thing in things.values()),
            _mask(each.name in thing.sometimes for thing in things.values()),
            0,
        )
        for each in attributes
    ]
    return Table(
        source,
        facts_of.with_suffix(""),
        opening,
        reading,
        attributes,
        objects={name: thing.plainly | thing.sometimes for name, thing in things.items()},
        sometimes={name: thing.sometimes for name, thing in things.items()},
        names=tuple(things),
        also={other: name for name, thing in things.items() for other in thing.also},
        measures=read_measures(entries, raw, things),
        beyond=entries.strings("keywords of unanswerable", beyond.get("keywords", [])),
        facts=read_knowledge(facts_of.with_suffix(""), things, told, own),
        kinds=tuple(dict.fromkeys(thing.kind for thing in things.values() if thing.kind)),
        yes={name: _mask(name in thing.plainly | thing.sometimes for thing in things.values()) for name in names},
        no={name: _mask(name not in thing.plainly for thing in things.values()) for name in names},
    )


def _mask(bits) -> int:
    return sum(1 << place for place, bit in enumerate(bits) if bit)


def _attribute(entries: Entries, name: str, entry: object) -> Attribute:
    source = entries.source
    more = {"opposites", "over", "under"}
    if not isinstance(entry, dict) or set(entry) - more != {"ask", "keywords"}:
        raise TableError(f"table {source}: attribute {name!r} must have exactly `ask` and `keywords`")
    lists = {
        key: entries.strings(f"{key} of attribute {name!r}", entry.get(key, []))
        for key in ("ask", "keywords", "opposites")
    }
    if not lists["ask"] or not lists["keywords"]:
        raise TableError(f"table {source}: attribute {name!r} needs at least one question and one keyword")
    return Attribute(name, **lists)


def _tell_apart(source: str, things: dict[str, Thing], differences: object) -> None:
    if isinstance(differences, bool) or not isinstance(differences, int) or differences < 1:
        raise TableError(f"table {source}: differences={differences!r} must be a whole number of at least 1")
    for (one, thing), (other, rival) in combinations(things.items(), 2):
        sure = (thing.plainly ^ rival.plainly) - thing.sometimes - rival.sometimes
        if not sure:
            raise TableError(f"table {source}: no attribute tells {other!r} from {one!r}")
        if len(sure) < differences:
            raise TableError(
                f"table {source}: {', '.join(sorted(sure))} alone tells {other!r} from {one!r}; "
                f"differences={differences} are needed"
            )
