"""What else holds of the objects of a table: a folder of TOML files beside it, `full/*.toml` for `full.toml`.

    name = { means, words, yes, some, open, opposites, role, called, over, under, fits }

`means` says when it is true, `words` holds the words and phrases that ask for it, `opposites` those that
ask for the contrary. `yes` lists the objects of which it is true, `some` those of which it is often true (answered
yes), `open` those that people would argue about (not answered); it is false of all others. A list is read from left
to right:

    apple, pear        objects                 #electric    of which another fact or attribute is plainly true
    Mammal             a kind of objects       ~electric    of which it is sometimes true
    *                  everything              -apple       and not this

An object's own name counts before any group, `open` before `some` before `yes`; of groups `yes` counts first. `over`
and `under` derive it from the objects' sizes, `fits` from what goes into a room of so many centimetres and kilograms,
where no list says otherwise; sizes near the bound are open. `role` is for the reading: a fact may be a kind of
things, a part, a colour, or so wide that it says little beside another ("can you buy it in a toy shop?"). `called`
is the object whose name may also mean all of which the fact is true: a polar bear is a bear.
An entry that has the name of an attribute adds words to it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from envs.twenty_questions.facts import UNITS, Entries, TableError, Thing

KEYS = {"means", "words", "yes", "some", "open", "opposites", "role", "called", "over", "under", "fits"}
MORE = {"means", "words", "opposites", "role"}  # what may be added to an attribute of the table
ROLES = ("", "kind", "part", "colour", "wide")
NEAR_A_BOUND = 1.3  # a size within this factor of a bound is open
FITS, FITS_NOT = 0.9, 1.4  # of the room's longest side
FOLDED = 0.35  # of its length is left of what is soft, when it is packed


@dataclass(frozen=True, slots=True)
class Fact:
    """Bit masks over the objects; no object is in two of them."""

    name: str
    words: tuple[str, ...]
    opposites: tuple[str, ...]
    role: str
    yes: int
    some: int
    open: int
    called: str = ""

    def truth(self, bit: int) -> str:
        if self.open & bit:
            return "open"
        return "some" if self.some & bit else "yes" if self.yes & bit else "no"


@dataclass(slots=True)
class Lists:
    """Reads lists of objects."""

    entries: Entries
    places: dict[str, int]
    kinds: dict[str, int]
    facts: dict[str, Fact]
    new: int  # objects that the folder does not speak of

    def masks(self, where: str, text: object) -> tuple[int, int]:
        """Those that are listed by their own names, and the others."""
        if not isinstance(text, str):
            raise TableError(f"table {self.entries.source}: {where} must be a text of names with commas between them")
        own = grouped = 0
        for item in filter(None, map(str.strip, text.split(","))):
            bits = self._bits(where, item.removeprefix("-"))
            if item.startswith("-"):
                own, grouped = own & ~bits, grouped & ~bits
            elif item in self.places:
                own |= bits
            else:
                grouped |= bits
        return own, grouped & ~own

    def _bits(self, where: str, item: str) -> int:
        if item == "*":
            return (1 << len(self.places)) - 1
        if item[0] in "#~" and (fact := self.facts.get(item[1:])) is not None:
            return fact.yes if item[0] == "#" else fact.some
        if item in self.places:
            return 1 << self.places[item]
        if item[0].isupper() and item.lower() in self.kinds:
            return self.kinds[item.lower()]
        if self.new:
            return 0  # an object or a kind of the table that the folder belongs to
        raise TableError(f"table {self.entries.source}: {where} has unknown {item!r}")


def read_knowledge(
    folder: Path, things: dict[str, Thing], attributes: Iterable[Fact], new: Collection[str] = ()
) -> dict[str, Fact]:
    """The facts of all files of the folder, in the order of their names, after those of the attributes. Objects that
    are `new`, in a table that builds on that of the folder, are open in every fact that no group or size decides."""
    facts = {fact.name: fact for fact in attributes}
    kinds: dict[str, int] = {}
    for place, thing in enumerate(things.values()):
        if thing.kind:
            kinds[thing.kind] = kinds.get(thing.kind, 0) | 1 << place
    places = {name: place for place, name in enumerate(things)}
    unheard = sum(1 << places[name] for name in new)
    for path in sorted(folder.glob("*.toml")):
        entries = Entries(str(path))
        try:
            raw = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise TableError(f"table {path}: not a TOML file: {error}") from None
        lists = Lists(entries, places, kinds, facts, unheard)
        for name, entry in raw.items():
            known = facts.get(name)
            if known is not None and isinstance(entry, dict) and set(entry) <= MORE:
                facts[name] = _with_more(known, entry)
            elif known is not None and new:
                continue  # the table itself says who has it
            elif known is not None:
                raise TableError(f"table {path}: {name!r} is there twice")
            else:
                facts[name] = _fact(lists, name, entry, things)
    return facts


def _fact(lists: Lists, name: str, entry: object, things: dict[str, Thing]) -> Fact:
    source = lists.entries.source
    if not isinstance(entry, dict) or not {"means", "words"} <= set(entry):
        raise TableError(f"table {source}: {name!r} must have `means` and `words`")
    lists.entries.only(entry, KEYS, f"{name!r} has an unknown key {{!r}}")
    role = entry.get("role", "")
    if role not in ROLES:
        raise TableError(f"table {source}: role of {name!r} must be one of: {', '.join(ROLES[1:])}")
    listed = {key: lists.masks(f"{key} of {name!r}", entry.get(key, "")) for key in ("yes", "some", "open")}
    within, near = _sized(lists, name, entry, things)
    truths = dict.fromkeys(("yes", "some", "open"), 0)
    told = 0
    for key, mask in (
        *((key, listed[key][0]) for key in ("open", "some", "yes")),
        *((key, listed[key][1]) for key in ("yes", "some", "open")),
        ("yes", within),
        ("open", near),
        ("open", lists.new),
    ):
        truths[key] |= mask & ~told
        told |= mask
    words, opposites = (_phrases(entry.get(key, "")) for key in ("words", "opposites"))
    called = entry.get("called", "")
    if called and called not in lists.places and not lists.new:
        raise TableError(f"table {source}: called of {name!r} is no object: {called!r}")
    return Fact(name, words, opposites, role, truths["yes"], truths["some"], truths["open"], called)


def _with_more(fact: Fact, entry: dict) -> Fact:
    words, opposites = (_phrases(entry.get(key, "")) for key in ("words", "opposites"))
    return replace(
        fact,
        words=(*fact.words, *words),
        opposites=(*fact.opposites, *opposites),
        role=entry.get("role", fact.role),
    )


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.lower().split(","))))


def _sized(lists: Lists, name: str, entry: dict, things: dict[str, Thing]) -> tuple[int, int]:
    """Masks of those whose sizes are plainly within the bounds, and of those near them."""
    bounds = [
        (UNITS.index(unit), side, value)
        for side in ("over", "under", "fits")
        for unit, value in lists.entries.part(entry, side, set(UNITS)).items()
    ]
    if not bounds:
        return 0, 0
    soft = lists.facts["fabric"].yes if "fabric" in lists.facts else 0
    yes = near = 0
    for place, thing in enumerate(things.values()):
        if thing.sizes is None:
            raise TableError(f"table {lists.entries.source}: {name!r} needs the sizes of all objects")
        truths = {_within(thing.sizes[unit], unit, side, value, soft >> place & 1) for unit, side, value in bounds}
        yes |= (truths == {"yes"}) << place
        near |= ("no" not in truths and "near" in truths) << place
    return yes, near


def _within(size: float, unit: int, side: str, bound: float, soft: bool) -> str:
    if side == "fits" and unit == 0:
        share = size * (FOLDED if soft else 1) / bound
        return "yes" if share <= FITS else "no" if share >= FITS_NOT else "near"
    ratio = size / bound if side == "over" else bound / size
    return "yes" if ratio >= NEAR_A_BOUND else "no" if ratio <= 1 / NEAR_A_BOUND else "near"
