"""What the cook reads: what is in sight and in hand, and nothing else.

There is a tomato on the counter. The cutting board is empty. There is the serving hatch.
Currently you are standing in front of the cutting board with nothing in hand. To serve
the dish of a bowl only containing chopped tomato, you should first
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations

from envs.overcooked.kitchen import CHOPPED, CHOPS, IN_BOWL, NOTHING, SERVED, SIGHT, STEP, WRONG, Kitchen, Room
from envs.overcooked.macros import board_name

HATCH = "the serving hatch"


def listing(names: Iterable[str]) -> str:
    """a / a and b / a, b and c"""
    *front, last = names
    return f"{', '.join(front)} and {last}" if front else last


def article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def goal_of(room: Room) -> str:
    dish = listing(room.things[food] for food in sorted(room.needed))
    return f"To serve the dish of a bowl only containing chopped {dish}, you should first"


def bowl_with(room: Room, inside: Iterable[int]) -> str:
    foods = [room.things[food] for food in inside]
    return f"a bowl with chopped {listing(foods)}" if foods else "a bowl"


def food_named(room: Room, food: int, chopped: bool, plain: bool) -> str:
    """Food that was never touched is just that: a tomato."""
    return article(room.things[food] if plain else f"{'chopped' if chopped else 'unchopped'} {room.things[food]}")


def description_of(kitchen: Kitchen) -> str:
    return description(kitchen.room, *kitchen.situation())


@lru_cache(maxsize=1 << 16)
def description(room: Room, cook: int, hand: int, at: tuple[int, ...], chops: tuple[int, ...]) -> str:
    inside = [food for food in range(room.bowl) if at[food] == IN_BOWL]

    def called(thing: int, plain: bool) -> str:
        if thing == room.bowl:
            return bowl_with(room, inside)
        chopped = chops[thing] == CHOPS
        return food_named(room, thing, chopped, plain and not chopped)

    places = {cell: board_name(room, board) for board, cell in enumerate(room.boards)}
    sentences = [
        lies(called(thing, cell not in places), places.get(cell, "the counter"))
        for thing, cell in enumerate(at)
        if cell in room.seen[cook]
    ]
    sentences += [_empty(name) for cell, name in places.items() if cell in room.seen[cook] and cell not in at]
    if room.hatch in room.seen[cook]:
        sentences.append(f"There is {HATCH}.")
    held = "nothing" if hand == NOTHING else called(hand, False)
    places[room.hatch] = HATCH
    beside = next((name for cell, name in places.items() if cell in room.beyond[cook]), None)
    sentences.append(stands(beside, held))
    return " ".join(sentences)


def lies(thing: str, where: str) -> str:
    return f"There is {thing} on {where}."


def _empty(board: str) -> str:
    return f"{board.capitalize()} is empty."


def stands(beside: str | None, held: str) -> str:
    if beside is None:
        return f"Currently you have {held} in hand."
    return f"Currently you are standing in front of {beside} with {held} in hand."


def briefing(room: Room, phrases: Iterable[str]) -> str:
    dish = listing(room.things[food] for food in sorted(room.needed))
    boards = [board_name(room, board) for board in range(len(room.boards))]
    return (
        f"You are the cook in a small kitchen. Serve one dish: a bowl that contains chopped {dish} and nothing "
        f"else. Food is chopped on {listing(boards)}, put into the bowl, and the bowl is served at {HATCH}. Your "
        "hands hold one thing at a time, and you chop with empty hands. Each turn you are told what you see - "
        f"things up to {SIGHT} steps away - and what you hold, and you say what to do next. You know the kitchen "
        "and find what is out of sight. These are the actions, each possible only when it makes sense: "
        f"{'; '.join(phrases)}. Say exactly one of them and nothing else. Every step you walk or work costs "
        f"{-STEP}. Each needed ingredient that is chopped earns {CHOPPED} once, the right dish earns {SERVED:g}, and "
        f"anything else that is served costs {-WRONG} and goes back to where it came from."
    )


def every_phrase(room: Room) -> Iterator[str]:
    """Every name that a macro can have."""
    foods = room.things[: room.bowl]
    yield from (f"pick up the {food}" for food in foods)
    yield "take the bowl"
    yield from (f"put the {food} in the bowl" for food in foods)
    for board in range(len(room.boards)):
        where = board_name(room, board)
        yield f"walk to {where}"
        yield from (f"put the {thing} on {where}" for thing in room.things)
    yield from ("serve the dish", "serve nothing")
    yield from (f"chop the {food}" for food in foods)
    yield "chop nothing"


def every_sentence(room: Room) -> Iterator[str]:
    """Sentences that together hold every word of every description."""
    foods = range(room.bowl)
    boards = [board_name(room, board) for board in range(len(room.boards))]
    bowls = [bowl_with(room, inside) for count in range(room.bowl + 1) for inside in combinations(foods, count)]
    named = [food_named(room, food, *kind) for food in foods for kind in ((True, False), (False, False), (False, True))]
    things = [*bowls, *named]
    yield from (lies(thing, where) for thing in things for where in ("the counter", *boards))
    yield from (_empty(board) for board in boards)
    yield f"There is {HATCH}."
    yield from (stands(where, held) for where in (None, HATCH, *boards) for held in ("nothing", *things))
    yield goal_of(room)
