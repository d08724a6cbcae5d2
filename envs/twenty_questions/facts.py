"""What holds of each object of a table: its own lists over its kind's, and its size.

    objects: name = ["attribute", ...]                                  plainly true
             name = { kind, cm, kg, is, sometimes, isnt, also }         all optional
    kinds:   name = { is, sometimes, isnt }

For one attribute the object's own list decides; then its size, if the attribute has a
bound `over` or `under`; then its kind. What nobody mentions is plainly false. The name of a
group stands for all of its attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

BLUR = 1.25  # a size within this factor of a bound is on both sides of it, sometimes
UNITS = ("cm", "kg")


class TableError(ValueError):
    """A table that cannot be read or played; the message names the file and the entry."""


@dataclass(frozen=True, slots=True)
class Thing:
    plainly: frozenset[str]
    sometimes: frozenset[str]
    also: tuple[str, ...] = ()
    kind: str | None = None
    sizes: tuple[float, float] | None = None  # centimetres (longest side), kilograms


@dataclass(frozen=True, slots=True)
class Entries:
    """Parts of one file, checked; every error names the file and the entry."""

    source: str

    def section(self, raw: dict, key: str) -> dict:
        section = raw.get(key)
        if not isinstance(section, dict) or not section:
            raise TableError(f"table {self.source}: needs a section [{key}]")
        return section

    def part(self, raw: dict, key: str, known: set[str] | None = None) -> dict:
        """A section that may be missing."""
        part = raw.get(key, {})
        if not isinstance(part, dict):
            raise TableError(f"table {self.source}: {key} must be a section [{key}]")
        if known is not None:
            self.only(part, known, f"{key} has an unknown key {{!r}}")
        return part

    def only(self, entry: dict, known: set[str], message: str) -> None:
        if unknown := set(entry) - known:
            raise TableError(f"table {self.source}: {message.format(sorted(unknown)[0])}")

    def strings(self, where: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise TableError(f"table {self.source}: {where} must be a list of words")
        return tuple(item.lower() for item in value)

    def sizes(self, where: str, entry: dict) -> tuple[float, float] | None:
        given = {unit: entry[unit] for unit in UNITS if unit in entry}
        if not given:
            return None
        for unit in UNITS:
            size = given.get(unit)
            if isinstance(size, bool) or not isinstance(size, (int, float)) or not isfinite(size) or size <= 0:
                raise TableError(f"table {self.source}: {unit} of {where} must be a number above 0")
        return float(given["cm"]), float(given["kg"])


def read_things(entries: Entries, raw: dict) -> dict[str, Thing]:
    attributes = entries.section(raw, "attributes")
    bounds = {name: _bounds(entries, name, entry) for name, entry in attributes.items() if isinstance(entry, dict)}
    bounds = {name: both for name, both in bounds.items() if both}
    groups = {
        name: entries.strings(f"group {name!r}", members) for name, members in entries.part(raw, "groups").items()
    }
    lists = _Lists(entries, set(attributes), groups)
    for name in groups:
        lists.names(f"group {name!r}", [name])
    kinds = {}
    for name, entry in entries.part(raw, "kinds").items():
        if not isinstance(entry, dict):
            raise TableError(f"table {entries.source}: kind {name!r} must have `is` or `sometimes`")
        entries.only(entry, {"is", "sometimes", "isnt"}, f"kind {name!r} has an unknown key {{!r}}")
        kinds[name] = lists.decisions(f"kind {name!r}", entry)
    things: dict[str, Thing] = {}
    for spelled, entry in entries.section(raw, "objects").items():
        name = spelled.lower()
        if name in things:
            raise TableError(f"table {entries.source}: object {name!r} is there twice")
        things[name] = _thing(entries, name, entry, lists, kinds, bounds)
    return things


def _thing(entries: Entries, name: str, entry: object, lists: _Lists, kinds: dict, bounds: dict) -> Thing:
    where = f"object {name!r}"
    if not isinstance(entry, dict):
        return Thing(lists.names(where, entry), frozenset())
    entries.only(entry, {"kind", "is", "sometimes", "isnt", "also", *UNITS}, f"{where} has an unknown key {{!r}}")
    kind = entry.get("kind")
    if kind is not None and kind not in kinds:
        raise TableError(f"table {entries.source}: {where} has unknown kind {kind!r}")
    sizes = entries.sizes(where, entry)
    decided = dict(kinds.get(kind, {}))
    if sizes is not None:
        decided |= {attribute: _measured(sizes, bound) for attribute, bound in bounds.items()}
    decided |= lists.decisions(where, entry)
    return Thing(
        frozenset(attribute for attribute, truth in decided.items() if truth == "is"),
        frozenset(attribute for attribute, truth in decided.items() if truth == "sometimes"),
        entries.strings(f"also of {where}", entry.get("also", [])),
        kind,
        sizes,
    )


@dataclass(frozen=True, slots=True)
class _Lists:
    """Lists of attributes, with the groups among them spelled out."""

    entries: Entries
    known: set[str]
    groups: dict[str, tuple[str, ...]]

    def names(self, where: str, value: object) -> frozenset[str]:
        listed = self.entries.strings(where, value)
        found = {name for item in listed for name in self.groups.get(item, (item,))}
        if found - self.known:
            raise TableError(
                f"table {self.entries.source}: {where} has unknown attribute {sorted(found - self.known)[0]!r}"
            )
        return frozenset(found)

    def decisions(self, where: str, entry: dict) -> dict[str, str]:
        """Attribute -> which list it is in. A group gives way to an attribute that is listed by name."""
        by_name: dict[str, str] = {}
        by_group: dict[str, str] = {}
        for key in ("is", "sometimes", "isnt"):
            for item in entry.get(key, []) if isinstance(entry.get(key, []), list) else [None]:
                into = by_group if item in self.groups else by_name
                for name in self.names(f"{key} of {where}" if key == "isnt" else where, [item]):
                    if into.setdefault(name, key) != key:
                        raise TableError(f"table {self.entries.source}: {where} has {name!r} in two lists")
        return by_group | by_name


def _bounds(entries: Entries, name: str, entry: dict) -> dict[str, tuple[str, float]]:
    """Unit -> the side and the bound."""
    bounds = {}
    for side in ("over", "under"):
        bound = entry.get(side, {})
        if not isinstance(bound, dict) or not set(bound) <= set(UNITS):
            raise TableError(f"table {entries.source}: {side} of attribute {name!r} must hold cm or kg")
        for unit, value in bound.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise TableError(f"table {entries.source}: {side} of attribute {name!r} must be a number above 0")
            bounds[unit] = (side, float(value))
    return bounds


def _measured(sizes: tuple[float, float], bounds: dict[str, tuple[str, float]]) -> str:
    """Plainly false if one bound says so, plainly true if all do."""
    truths = set()
    for unit, (side, bound) in bounds.items():
        ratio = sizes[UNITS.index(unit)] / bound
        above = ratio if side == "over" else 1 / ratio
        truths.add("is" if above >= BLUR else "sometimes" if above > 1 / BLUR else "isnt")
    return "isnt" if "isnt" in truths else "sometimes" if "sometimes" in truths else "is"


def read_measures(entries: Entries, raw: dict, things: dict[str, Thing]) -> dict[str, tuple[float, float]]:
    """Sizes of the objects and of other well-known things, under all their names."""
    measures = {}
    for name, entry in entries.part(raw, "measures").items():
        sizes = entries.sizes(f"measure {name!r}", entry) if isinstance(entry, dict) else None
        if sizes is None or set(entry) - {"also", *UNITS}:
            raise TableError(f"table {entries.source}: measure {name!r} must have cm and kg, and may have also")
        for each in (name.lower(), *entries.strings(f"also of measure {name!r}", entry.get("also", []))):
            measures[each] = sizes
    for name, thing in things.items():
        if thing.sizes is not None:
            measures |= dict.fromkeys((name, *thing.also), thing.sizes)
    return measures
