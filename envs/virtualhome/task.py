"""A household task: rooms, things and what is to be achieved, read from a TOML file.

    aim = "heat up the pancake in the microwave"      # as the agent is told it
    rooms = ["kitchen", "bathroom"]                   # two or more, each is reached from each
    start = "kitchen"
    goal = ["pancake in microwave", "microwave is closed"]

    [things.pancake]
    at = "kitchen"                                    # a room, or "on sofa", "in microwave"
    can = ["grab"]

    [things.microwave]
    at = "kitchen"
    can = ["open", "put in"]

`can` says what may be done with a thing: "grab" it, "open" and close it, "put in" it, "put
on" it, "switch" it on and off, "sit" on it. Further keys: `open` and `on` for how it is at
the start (false if left out), `called` for its name with an article ("some milk"; "a" or
"an" if left out) and `plural` for things that "are". A goal is a list of facts, all to be
true at once: "X in Y", "X on Y", "X is open", "X is closed", "X is on", "X is off", "you
hold X", "you sit on X", "you in ROOM".
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

TASKS = Path(__file__).parent / "tasks"
KEYS = {"aim", "rooms", "start", "goal", "things"}
THING_KEYS = {"at": str, "can": list, "open": bool, "on": bool, "called": str, "plural": bool}
CAN = ("grab", "open", "put in", "put on", "switch", "sit")


class TaskError(ValueError):
    """A task that cannot be read or played; the message names the file and the entry."""


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    can: frozenset[str]
    called: str  # with its article
    plural: bool


@dataclass(frozen=True, slots=True)
class Fact:
    """`kind` is one of: in, on, open, closed, lit, unlit, hold, sit, room. `thing` and
    `place` are numbers of things, of a room where the kind says so, and -1 where unused."""

    kind: str
    thing: int
    place: int = -1


@dataclass(frozen=True, eq=False, slots=True)
class Task:
    """Rooms and things go by their numbers, in the order of the file. A place is a room's
    number, or `len(rooms)` plus the number of the thing that something is in or on."""

    source: str
    aim: str
    rooms: tuple[str, ...]
    things: tuple[Thing, ...]
    start: int
    places: tuple[int, ...]  # of each thing at the start
    opened: tuple[bool, ...]
    lit: tuple[bool, ...]  # switched on
    goal: tuple[Fact, ...]

    def is_inside(self, place: int) -> bool:
        """Whether what is at this place is in something, rather than on it or in a room."""
        return place >= len(self.rooms) and "put in" in self.things[place - len(self.rooms)].can


def shipped() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in TASKS.glob("*.toml")))


def task_named(task: str) -> Task:
    """A task that ships with the game, or a path of the user's own: read once in a process,
    and again if the file changes."""
    if not isinstance(task, str):
        raise TaskError(f"game option task={task!r} must be the name or the path of a task")
    own = task in shipped()
    path = TASKS / f"{task}.toml" if own else Path(task).expanduser()
    if not path.is_file():
        raise TaskError(f"task {task!r} is neither a file nor one of: {', '.join(shipped())}")
    return _read(path, path.stat().st_mtime_ns)


def tasks_named(tasks: str | Sequence[str]) -> tuple[Task, ...]:
    """The tasks of a game that plays one of several in each episode: each is known by what is to be achieved."""
    if isinstance(tasks, str):
        return (task_named(tasks),)
    if not isinstance(tasks, Sequence) or not tasks:
        raise TaskError(f"game option task={tasks!r} must be the name or the path of a task, or a list of them")
    found = tuple(map(task_named, tasks))
    for task in found:
        if [other.aim for other in found].count(task.aim) > 1:
            raise TaskError(f"game option task={list(tasks)}: two of them are to {task.aim}")
    return found


@lru_cache(maxsize=64)
def _read(path: Path, _modified: int) -> Task:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TaskError(f"task {path}: not a TOML file: {error}") from None
    except OSError as error:
        raise TaskError(f"task {path}: {error.strerror}") from None
    return _Reader(str(path), raw).task()


class _Reader:
    def __init__(self, source: str, raw: dict[str, Any]):
        self.source, self.raw = source, raw
        for key in raw:
            if key not in KEYS:
                raise self.wrong(f"unknown key {key!r}")
        self.rooms = self.words("rooms")
        if len(self.rooms) < 2:
            raise self.wrong("rooms must be at least two: there is always one to walk to")
        self.entries = self.table(raw.get("things"), "a section for each thing, such as [things.sofa]")
        self.names = tuple(self.entries)
        for name in (*self.rooms, *self.names):
            if (*self.rooms, *self.names).count(name) > 1:
                raise self.wrong(f"the name {name!r} is used twice")
            if not name.strip() or set(name.lower().split()) & {"in", "on", "is", "you", "hold", "sit"}:
                raise self.wrong(f"{name!r} is no name: it must not hold the words of which facts are made")
        self.things = tuple(self.thing(name) for name in self.names)

    def wrong(self, what: str) -> TaskError:
        return TaskError(f"task {self.source}: {what}")

    def table(self, value: object, what: str) -> dict[str, dict]:
        if not isinstance(value, dict) or not value or not all(isinstance(entry, dict) for entry in value.values()):
            raise self.wrong(f"needs {what}")
        return value

    def text(self, key: str) -> str:
        value = self.raw.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(f"{key} must be a text")
        return value.strip()

    def words(self, key: str) -> tuple[str, ...]:
        value = self.raw.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
            raise self.wrong(f"{key} must be a list of texts")
        return tuple(value)

    def thing(self, name: str) -> Thing:
        entry = self.entries[name]
        for key, value in entry.items():
            if key not in THING_KEYS:
                raise self.wrong(f"thing {name!r} has the unknown key {key!r}")
            if not isinstance(value, THING_KEYS[key]):
                raise self.wrong(f"thing {name!r}: {key} must be a {THING_KEYS[key].__name__}")
        can = entry.get("can", [])
        for ability in can:
            if ability not in CAN:
                raise self.wrong(f"thing {name!r} can {ability!r}, which is none of: {', '.join(CAN)}")
        if {"put in", "put on"} <= set(can):
            raise self.wrong(f"thing {name!r} must be something to put in or to put on, not both")
        for state, ability in (("open", "open"), ("on", "switch")):
            if entry.get(state) and ability not in can:
                raise self.wrong(f"thing {name!r} is said to be {state}, but cannot {ability!r}")
        called = entry.get("called", f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}")
        return Thing(name, frozenset(can), called, entry.get("plural", False))

    def number(self, names: tuple[str, ...], name: str, where: str) -> int:
        if name not in names:
            raise self.wrong(f"{where}: there is no {name!r}")
        return names.index(name)

    def place(self, name: str) -> int:
        at = self.entries[name].get("at", "")
        word, _, other = at.partition(" ")
        if at in self.rooms or word not in ("in", "on"):
            return self.number(self.rooms, at, f"thing {name!r}")
        holder = self.number(self.names, other, f"thing {name!r}")
        self.needs(holder, f"put {word}", f"thing {name!r}")
        return len(self.rooms) + holder

    def needs(self, thing: int, ability: str, where: str) -> None:
        if ability not in self.things[thing].can:
            raise self.wrong(f"{where}: {self.names[thing]!r} cannot {ability!r}")

    def fact(self, text: str) -> Fact:
        where, words = f"goal {text!r}", text.split()
        if text.startswith("you in "):
            return Fact("room", -1, self.number(self.rooms, text.removeprefix("you in "), where))
        for opening, kind, ability in (("you hold ", "hold", "grab"), ("you sit on ", "sit", "sit")):
            if text.startswith(opening):
                thing = self.number(self.names, text.removeprefix(opening), where)
                self.needs(thing, ability, where)
                return Fact(kind, thing)
        states = {"open": ("open", "open"), "closed": ("closed", "open"), "on": ("lit", "switch")}
        states["off"] = ("unlit", "switch")
        if "is" in words and words[-1] in states:
            kind, ability = states[words[-1]]
            thing = self.number(self.names, " ".join(words[:-2]), where)
            self.needs(thing, ability, where)
            return Fact(kind, thing)
        for word in ("in", "on"):
            one, between, other = text.partition(f" {word} ")
            if between:
                thing, holder = (self.number(self.names, name, where) for name in (one, other))
                self.needs(thing, "grab", where)
                self.needs(holder, f"put {word}", where)
                return Fact(word, thing, holder)
        raise self.wrong(f"{where} is no fact")

    def task(self) -> Task:
        places = tuple(self.place(name) for name in self.names)
        for name, place in zip(self.names, places, strict=True):
            seen = set()
            while place >= len(self.rooms):
                if place in seen:
                    raise self.wrong(f"thing {name!r} is in or on itself")
                seen.add(place)
                place = places[place - len(self.rooms)]
        return Task(
            source=self.source,
            aim=self.text("aim"),
            rooms=self.rooms,
            things=self.things,
            start=self.number(self.rooms, self.text("start"), "start"),
            places=places,
            opened=tuple(bool(self.entries[name].get("open")) for name in self.names),
            lit=tuple(bool(self.entries[name].get("on")) for name in self.names),
            goal=tuple(self.fact(fact) for fact in self.words("goal")),
        )
