"""What the agent reads: the rooms, what is in sight, how it is, and what is in its hands.

There are four rooms: the kitchen, the bathroom, the bedroom and the living room. You are
in the kitchen. You notice a pancake and a microwave. The microwave is closed. You are
not close to anything. Your hands are empty. In order to heat up the pancake in the
microwave, your next step is to
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from envs.virtualhome.home import HELD, NOWHERE, State, actions_of, in_sight
from envs.virtualhome.task import Task, Thing

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def listing(names: Iterable[str]) -> str:
    """a / a and b / a, b and c"""
    *front, last = names
    return f"{', '.join(front)} and {last}" if front else last


@lru_cache(maxsize=1 << 16)
def description(task: Task, state: State) -> str:
    seen = [number for number in range(len(task.things)) if in_sight(task, state, number)]
    about = [number for number in seen if state.places[number] != HELD]
    lying = [number for number in about if state.places[number] < len(task.rooms)]
    held = [task.things[number] for number, place in enumerate(state.places) if place == HELD]
    sentences = [_rooms(task), _here(task.rooms[state.room])]
    if lying:
        sentences.append(_notice(task.things[number].called for number in lying))
    elif not about:
        sentences.append("You notice nothing useful.")
    for number in seen:
        thing, place = task.things[number], state.places[number]
        if place >= len(task.rooms):
            word = "in" if task.is_inside(place) else "on"
            sentences.append(_lies(thing, word, task.things[place - len(task.rooms)]))
        if "open" in thing.can:
            sentences.append(_is(thing, "open" if state.opened[number] else "closed"))
        if "switch" in thing.can:
            sentences.append(_is(thing, "on" if state.lit[number] else "off"))
    near = None if state.near == NOWHERE else task.things[state.near]
    sentences.append(_sits(near) if state.sitting else _close(near))
    sentences.append(_hands(held))
    sentences.append(_next(task))
    return " ".join(sentences)


def _rooms(task: Task) -> str:
    count = len(task.rooms)
    number = NUMBERS[count] if count < len(NUMBERS) else str(count)
    return f"There are {number} rooms: {listing(f'the {room}' for room in task.rooms)}."


def _here(room: str) -> str:
    return f"You are in the {room}."


def _notice(called: Iterable[str]) -> str:
    return f"You notice {listing(called)}."


def _is(thing: Thing, how: str) -> str:
    return f"The {thing.name} {'are' if thing.plural else 'is'} {how}."


def _lies(thing: Thing, word: str, holder: Thing) -> str:
    return _is(thing, f"{word} the {holder.name}")


def _close(thing: Thing | None) -> str:
    return "You are not close to anything." if thing is None else f"You are close to the {thing.name}."


def _sits(thing: Thing) -> str:
    return f"You are sitting on the {thing.name}."


def _hands(held: list[Thing]) -> str:
    return f"You are holding {listing(f'the {thing.name}' for thing in held)}." if held else "Your hands are empty."


def _next(task: Task) -> str:
    return f"In order to {task.aim}, your next step is to"


def briefing(task: Task) -> str:
    return (
        f"You are a household robot. Your task is to {task.aim}. Each turn you are told where you are, what you "
        "notice there and what you hold, and you say what to do next. You walk to a room or to a thing that you "
        "see; to grab, open, close, switch or use a thing you must be close to it. You have two hands; grabbing, "
        "opening and switching need a free one. What is in something closed is out of sight, and nothing is put "
        "into it. Whoever sits must stand up before walking. These are the actions, each possible only when it "
        f"makes sense: {'; '.join(action.phrase for action in actions_of(task))}. Say exactly one of them and "
        "nothing else. What cannot be done costs the turn. You earn 1 once the task is done, and nothing before that."
    )


def every_sentence(task: Task) -> Iterator[str]:
    """Sentences that together hold every word of every description and action of a task."""
    things = task.things
    yield from (_rooms(task), "You notice nothing useful.", "Your hands are empty.", _close(None), _next(task))
    yield from map(_here, task.rooms)
    yield from (_notice([thing.called] * 3) for thing in things)
    for thing in things:
        yield from (_close(thing), _hands([thing] * 3))
        yield from (_is(thing, how) for how in ("open", "closed", "on", "off"))
        yield from (_lies(thing, word, other) for word in ("in", "on") for other in things)
        if "sit" in thing.can:
            yield _sits(thing)
    yield from (action.phrase for action in actions_of(task))
