"""The home as a graph: what is where, what is done to it, and what that needs. No words.

A state is a value; an action makes another state of it, or none where a precondition fails:

    walk to a room       not sitting, and not in it
    walk to a thing      not sitting; it is in sight and not close
    grab                 close, not in hand, and a hand is free
    open, close          close to it; opening needs a free hand
    put in, put on       the thing in hand, close to the other; what opens must be open
    turn on, turn off    close to it, and a hand is free
    sit on, stand up     close to it

There are two hands. In sight is what is in the same room or in hand, and in nothing that is
closed. Close is what was walked to, what lies in or on it, what it lies in or on, and what
is in hand. "In or on" goes on and on: the ring is in the box on the shelf.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from envs.virtualhome.task import Task

HANDS = 2
HELD = NOWHERE = -1


class State(NamedTuple):
    room: int
    near: int  # the thing that was walked to, or NOWHERE
    sitting: bool  # on that thing
    places: tuple[int, ...]  # of each thing: see Task; HELD in hand
    opened: tuple[bool, ...]
    lit: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Action:
    verb: str  # go, walk, grab, put, open, close, switch on, switch off, sit, stand
    thing: int  # a room's number where the verb is go
    holder: int = NOWHERE  # where to put it
    phrase: str = ""  # as the agent says it


def start_of(task: Task) -> State:
    return State(task.start, NOWHERE, False, task.places, task.opened, task.lit)


@lru_cache(maxsize=64)
def actions_of(task: Task) -> tuple[Action, ...]:
    """Every action that there is in a task, whatever the state."""
    things = list(enumerate(task.things))
    actions = [Action("go", room, phrase=f"walk to the {name}") for room, name in enumerate(task.rooms)]
    actions += [Action("walk", number, phrase=f"walk to the {thing.name}") for number, thing in things]
    for number, thing in things:
        if "grab" in thing.can:
            actions.append(Action("grab", number, phrase=f"grab the {thing.name}"))
            for holder, other in things:
                for ability in ("put in", "put on"):
                    if ability in other.can and holder != number:
                        where = ability.removeprefix("put ")
                        said = f"put the {thing.name} {where} the {other.name}"
                        actions.append(Action("put", number, holder, said))
        if "open" in thing.can:
            actions += [Action(verb, number, phrase=f"{verb} the {thing.name}") for verb in ("open", "close")]
        if "switch" in thing.can:
            actions += [Action(f"switch {how}", number, phrase=f"turn {how} the {thing.name}") for how in ("on", "off")]
        if "sit" in thing.can:
            actions.append(Action("sit", number, phrase=f"sit on the {thing.name}"))
            actions.append(Action("stand", number, phrase=f"stand up from the {thing.name}"))
    return tuple(actions)


def chain(task: Task, state: State, thing: int) -> list[int]:
    """The thing, what it is in or on, what that is in or on, and so on."""
    links = [thing]
    while state.places[links[-1]] >= len(task.rooms):
        links.append(state.places[links[-1]] - len(task.rooms))
    return links


def in_sight(task: Task, state: State, thing: int) -> bool:
    links = chain(task, state, thing)
    shut = any({"open", "put in"} <= task.things[holder].can and not state.opened[holder] for holder in links[1:])
    return not shut and state.places[links[-1]] in (HELD, state.room)


def is_close(task: Task, state: State, thing: int) -> bool:
    if not in_sight(task, state, thing):
        return False
    links = chain(task, state, thing)
    if state.places[links[-1]] == HELD:
        return True
    return state.near != NOWHERE and (state.near in links or thing in chain(task, state, state.near))


def within_reach(task: Task, state: State, action: Action) -> bool:
    """Whether it makes sense to try: the room is another one, the thing is in sight or close.
    It may still fail, say for want of a free hand."""
    match action.verb:
        case "go":
            return action.thing != state.room
        case "walk":
            return in_sight(task, state, action.thing) and not is_close(task, state, action.thing)
        case "grab":
            return state.places[action.thing] != HELD and is_close(task, state, action.thing)
        case "put":
            return state.places[action.thing] == HELD and is_close(task, state, action.holder)
        case _:
            return is_close(task, state, action.thing)


def after(task: Task, state: State, action: Action) -> State | None:
    """The state that the action leads to, or None where it cannot be done."""
    if not within_reach(task, state, action):
        return None
    thing = action.thing
    hand_free = state.places.count(HELD) < HANDS
    match action.verb:
        case "go" if not state.sitting:
            return state._replace(room=thing, near=NOWHERE)
        case "walk" if not state.sitting:
            return state._replace(near=thing)
        case "grab" if hand_free:
            return _grabbed(task, state, thing)
        case "put" if "open" not in task.things[action.holder].can or state.opened[action.holder]:
            if thing in chain(task, state, action.holder):
                return None  # a box does not go into what is in it
            return state._replace(places=_with(state.places, thing, len(task.rooms) + action.holder))
        case "open" if hand_free and not state.opened[thing]:
            return state._replace(opened=_with(state.opened, thing, True))
        case "close" if state.opened[thing]:
            return _closed(task, state, thing)
        case "switch on" if hand_free and not state.lit[thing]:
            return state._replace(lit=_with(state.lit, thing, True))
        case "switch off" if hand_free and state.lit[thing]:
            return state._replace(lit=_with(state.lit, thing, False))
        case "sit" if not state.sitting and state.places[thing] != HELD:
            return state._replace(near=thing, sitting=True)
        case "stand" if state.sitting and state.near == thing:
            return state._replace(sitting=False)
    return None


def _grabbed(task: Task, state: State, thing: int) -> State | None:
    """One stays where one is: at what it lay in or on, or just somewhere in the room."""
    near = state.near
    if near != NOWHERE and thing in chain(task, state, near):
        if state.sitting:
            return None
        near = next(iter(chain(task, state, thing)[1:]), NOWHERE)
    return state._replace(near=near, places=_with(state.places, thing, HELD))


def _closed(task: Task, state: State, thing: int) -> State:
    """One is never close to what is shut away."""
    shut_away = state.near != NOWHERE and thing in chain(task, state, state.near)
    near = thing if shut_away else state.near
    return state._replace(near=near, opened=_with(state.opened, thing, False))


def _with(values: tuple, place: int, value) -> tuple:
    return (*values[:place], value, *values[place + 1 :])


def achieved(task: Task, state: State) -> bool:
    first = len(task.rooms)
    for fact in task.goal:
        match fact.kind:
            case "in" | "on":
                true = state.places[fact.thing] == first + fact.place
            case "open" | "closed":
                true = state.opened[fact.thing] == (fact.kind == "open")
            case "lit" | "unlit":
                true = state.lit[fact.thing] == (fact.kind == "lit")
            case "hold":
                true = state.places[fact.thing] == HELD
            case "sit":
                true = state.sitting and state.near == fact.thing
            case _:
                true = state.room == fact.place
        if not true:
            return False
    return True
