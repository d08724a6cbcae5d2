"""The kitchen by the rules of gym-macro-overcooked, as TWOSOME and POAD use it: `rules: published`.

It differs from `kitchen`, `macros` and `words` in these points.

    chopping      pays each time, also when the food was served wrongly and came back whole
    the bowl      chopped food that is put into a bowl on a board: the bowl comes into the hand
    a macro       is never cut off; after `steps` primitive steps the episode ends with it
    in vain       getting what cannot be had: go there and touch it all the same. Whole food on
                  a board, and the bowl with whole food in hand: go there and wait one step, or
                  for the food only wait, if the cook is there. What is in the hand: wait. Food
                  in a bowl elsewhere: go until the bowl is in sight, and wait one step
    chop          touches a board with whole food three times, with full hands too
    serve         with empty hands in front of the hatch: touches it
    to be seen    a thing that lies where it was at the beginning, what is on a board, what is in
                  hand, and the board in front. Not the hatch, nor that a board is empty

Names tell more or less there, too: an unserved bowl is "the empty bowl" of the salad with two
foods until a bowl with food in it is seen; "chop the tomato" is named for chopped food and with
full hands; chopped food in hand does not change what the boards are called.
"""

from __future__ import annotations

from collections.abc import Iterator

from envs.overcooked.kitchen import CHOPPED, CHOPS, IN_BOWL, IN_HAND, NOTHING, WAIT, Kitchen, Room
from envs.overcooked.macros import Macro, board_beside, board_name
from envs.overcooked.words import bowl_with, food_named, lies, stands


class PublishedKitchen(Kitchen):
    __slots__ = ()

    def _touch(self, cell: int) -> float:
        room, hand = self.room, self.hand
        if cell in room.boards and self.at[room.bowl] == cell and hand != NOTHING and self.chopped(hand):
            self.at[hand], self.at[room.bowl], self.hand = IN_BOWL, IN_HAND, room.bowl
            return 0.0
        return super()._touch(cell)

    def _chop(self, food: int) -> float:
        self.chops[food] += 1
        return CHOPPED if self.chops[food] == CHOPS and food in self.room.needed else 0.0


def moves_of(kitchen: PublishedKitchen, macro: Macro) -> tuple[int, ...]:
    room, hand = kitchen.room, kitchen.hand
    if macro.verb == "get":
        return _moves_to_get(kitchen, macro.index)
    if macro.verb == "chop":
        board = board_beside(kitchen)
        if board == NOTHING or not _whole_food_on(kitchen, room.boards[board]):
            return (WAIT,)
        return _route(kitchen, room.boards[board]) * CHOPS
    *walk, touch = _route(kitchen, room.hatch if macro.verb == "serve" else room.boards[macro.index])
    if hand != NOTHING:
        return (*walk, touch)
    return tuple(walk) or ((touch,) if macro.verb == "serve" else (WAIT,))


def _moves_to_get(kitchen: PublishedKitchen, thing: int) -> tuple[int, ...]:
    room, hand, cell = kitchen.room, kitchen.hand, kitchen.at[thing]
    if cell == IN_BOWL:
        cell = kitchen.at[room.bowl]
        return (WAIT,) if cell == IN_HAND else (*_until_seen(kitchen, cell), WAIT)
    if cell == IN_HAND:
        return (WAIT,)
    *walk, touch = _route(kitchen, cell)
    if cell in room.boards and _whole_food_on(kitchen, cell):
        return tuple(walk) or (WAIT,)
    if thing != room.bowl or hand == NOTHING:
        return (*walk, touch)
    if not kitchen.chopped(hand):
        return (*walk, WAIT)
    return (*walk, touch, WAIT if cell in room.boards else touch)


def _route(kitchen: Kitchen, cell: int) -> tuple[int, ...]:
    return kitchen.room.routes[kitchen.cook, cell]


def _until_seen(kitchen: Kitchen, cell: int) -> Iterator[int]:
    place = kitchen.cook
    for move in _route(kitchen, cell):
        if cell in kitchen.room.seen[place]:
            return
        yield move
        place = kitchen.room.beyond[place][move]


def _whole_food_on(kitchen: Kitchen, cell: int) -> bool:
    return any(thing != kitchen.room.bowl and not kitchen.chopped(thing) for thing in _on(kitchen, cell))


def phrase(kitchen: PublishedKitchen, macro: Macro) -> str:
    room, hand = kitchen.room, kitchen.hand
    if macro.verb == "get":
        if macro.index != room.bowl:
            name = room.things[macro.index]
            return f"put the {name} in the bowl" if hand == room.bowl else f"pick up the {name}"
        return "take the empty bowl" if len(room.boards) > 1 and not _full_bowl_seen(kitchen) else "take the bowl"
    if macro.verb == "board":
        where = board_name(room, macro.index)
        carried = hand != NOTHING and not kitchen.chopped(hand)
        return f"put the {room.things[hand]} on {where}" if carried else f"walk to {where}"
    if macro.verb == "serve":
        return "serve nothing" if hand == NOTHING else "serve the dish"
    board = board_beside(kitchen)
    foods = [] if board == NOTHING else [thing for thing in _on(kitchen, room.boards[board]) if thing != room.bowl]
    return f"chop the {room.things[foods[0]]}" if foods else "chop nothing"


def _full_bowl_seen(kitchen: Kitchen) -> bool:
    place = kitchen.at[kitchen.room.bowl]
    seen = place == IN_HAND or (place in kitchen.room.boards and place in kitchen.room.seen[kitchen.cook])
    return seen and IN_BOWL in kitchen.at


def description(kitchen: PublishedKitchen) -> str:
    room, hand, seen = kitchen.room, kitchen.hand, kitchen.room.seen[kitchen.cook]

    def called(thing: int) -> str:
        if thing == room.bowl:
            return bowl_with(room, [food for food in range(room.bowl) if kitchen.at[food] == IN_BOWL])
        return food_named(room, thing, kitchen.chopped(thing), plain=False)

    at_home = [thing for thing, cell in enumerate(kitchen.at) if cell in seen and cell == room.homes[thing]]
    on_boards = [(thing, cell) for cell in room.boards if cell in seen for thing in _on(kitchen, cell)]
    board = board_beside(kitchen)
    return " ".join(
        [
            *(lies(food_named(room, thing, False, plain=True), "the counter") for thing in at_home),
            *(lies(called(thing), board_name(room, room.boards.index(cell))) for thing, cell in on_boards),
            stands(
                None if board == NOTHING else board_name(room, board), "nothing" if hand == NOTHING else called(hand)
            ),
        ]
    )


def _on(kitchen: Kitchen, cell: int) -> list[int]:
    return [thing for thing, place in enumerate(kitchen.at) if place == cell]


def every_phrase(room: Room) -> Iterator[str]:
    """Names that a macro has by these rules only."""
    if len(room.boards) > 1:
        yield "take the empty bowl"
