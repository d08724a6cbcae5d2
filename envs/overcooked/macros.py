"""Macro actions: a purpose each, carried out by shortest paths over primitive steps.

    get THING     go to where it is; take it, or put it into the held bowl; whole food on a
                  board is only gone to. With chopped food in hand, getting the bowl puts
                  the food in first
    board N       go to that board; put down what is held
    serve         go to the hatch; serve what is held
    chop          chop the food on the board beside, until it is chopped

All that a macro does is settled when it begins: nobody else moves anything. One that comes
to nothing waits one step. Its reward is the sum of its steps' rewards, the n-th of them
times discount^n. The cook knows its kitchen: a macro finds things that are out of sight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from envs.overcooked.kitchen import CHOPS, IN_BOWL, NOTHING, WAIT, Kitchen, Room

BOARD_NAMES = ("first", "second", "third")


@dataclass(frozen=True, slots=True)
class Macro:
    verb: str  # get, board, serve, chop
    index: int = NOTHING  # the thing, or the board


@lru_cache(maxsize=16)
def macros_of(room: Room) -> tuple[Macro, ...]:
    """Every macro of a kitchen, whether it makes sense now or not."""
    things = [Macro("get", thing) for thing in range(len(room.things))]
    boards = [Macro("board", board) for board in range(len(room.boards))]
    return (*things, *boards, Macro("serve"), Macro("chop"))


def board_name(room: Room, board: int) -> str:
    return "the cutting board" if len(room.boards) == 1 else f"the {BOARD_NAMES[board]} cutting board"


def board_beside(kitchen: Kitchen) -> int:
    """The board that the cook stands in front of, by number."""
    beside = kitchen.room.beyond[kitchen.cook]
    return next((board for board, cell in enumerate(kitchen.room.boards) if cell in beside), NOTHING)


def phrase(kitchen: Kitchen, macro: Macro) -> str:
    """What a macro is called just now. It tells no more than the cook sees and holds."""
    room, hand = kitchen.room, kitchen.hand
    if macro.verb == "get":
        if macro.index == room.bowl:
            return "take the bowl"
        name = room.things[macro.index]
        return f"put the {name} in the bowl" if hand == room.bowl else f"pick up the {name}"
    if macro.verb == "board":
        where = board_name(room, macro.index)
        return f"walk to {where}" if hand == NOTHING else f"put the {room.things[hand]} on {where}"
    if macro.verb == "serve":
        return "serve nothing" if hand == NOTHING else "serve the dish"
    food = _whole_food_beside(kitchen)
    return "chop nothing" if food == NOTHING else f"chop the {room.things[food]}"


def moves_of(kitchen: Kitchen, macro: Macro) -> tuple[int, ...]:
    """The primitive steps that carry the macro out from here; at least one."""
    cell, touches = _aim(kitchen, macro)
    if cell == NOTHING:
        return (WAIT,)
    route = kitchen.room.routes[kitchen.cook, cell]
    return (*route[:-1], *route[-1:] * touches) or (WAIT,)


def perform(kitchen: Kitchen, moves: Iterable[int], discount: float) -> float:
    """Make the moves of a macro; its reward."""
    reward, weight = 0.0, 1.0
    for move in moves:
        reward += weight * kitchen.act(move)
        weight *= discount
    return reward


def _aim(kitchen: Kitchen, macro: Macro) -> tuple[int, int]:
    """Which cell to go to, and how often to touch it."""
    room, hand = kitchen.room, kitchen.hand
    if macro.verb == "get":
        return _aim_to_get(kitchen, macro.index)
    if macro.verb == "board":
        return room.boards[macro.index], int(hand != NOTHING)
    if macro.verb == "serve":
        return room.hatch, int(hand != NOTHING)
    food = _whole_food_beside(kitchen)
    return (NOTHING, 0) if food == NOTHING else (kitchen.at[food], CHOPS - kitchen.chops[food])


def _aim_to_get(kitchen: Kitchen, thing: int) -> tuple[int, int]:
    room, hand, cell = kitchen.room, kitchen.hand, kitchen.at[thing]
    if thing == hand or cell == IN_BOWL:
        return NOTHING, 0
    if hand == NOTHING:
        whole_on_board = cell in room.boards and thing != room.bowl and not kitchen.chopped(thing)
        return cell, 0 if whole_on_board else 1
    if hand == room.bowl:
        return cell, int(kitchen.chopped(thing))
    return cell, 2 if thing == room.bowl and kitchen.chopped(hand) else 0


def _whole_food_beside(kitchen: Kitchen) -> int:
    """Food that can be chopped now: the hand is empty, and it lies on the board in front."""
    board = board_beside(kitchen)
    if board == NOTHING or kitchen.hand != NOTHING:
        return NOTHING
    cell, at = kitchen.room.boards[board], kitchen.at
    there = at.index(cell) if cell in at else NOTHING
    return NOTHING if there in (NOTHING, kitchen.room.bowl) or kitchen.chopped(there) else there
