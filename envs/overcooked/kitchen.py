"""The kitchen: a grid, the things in it, and one primitive step at a time. No words, no macros.

A step is a move in one of four directions, or waiting. A move onto the floor walks; a move
against anything else touches it:

    empty hand, a thing on a counter          takes it
    empty hand, whole food on a board         chops it, CHOPS times until it is chopped
    empty hand, anything else on a board      takes it
    full hand, nothing there                  puts it down
    chopped food and the bowl meet            the food goes into the bowl, whoever is held
    full hand, the hatch                      serves it, for better or worse

Nothing else has any effect, but every step costs STEP. Chopping an ingredient that the
recipe needs pays CHOPPED once an episode, however often it is chopped. The right dish - the
bowl with exactly the recipe's ingredients, which can only be chopped ones - pays SERVED and
ends the episode. Whatever else is served costs WRONG, and all of it goes back whole to where
it came from; if something stands there, to the nearest free counter clockwise.

A thing is in exactly one place: a cell, the hand, or the bowl.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache

UP, DOWN, LEFT, RIGHT, WAIT = range(5)
CHOPS = 3
STEP, CHOPPED, SERVED, WRONG = -0.001, 0.2, 1.0, -0.1
SIGHT = 2  # cells in each direction: a window of 5 x 5

NOTHING = -1  # no thing
IN_HAND, IN_BOWL, GONE = -1, -2, -3  # places that are no cells

THINGS = {"T": "tomato", "L": "lettuce", "O": "onion", "U": "bowl"}
LAYOUTS = {  # A: the agent's start, B: a cutting board, D: the hatch, #: a counter
    "tomato_salad": (
        "#####T#",
        "B   A #",
        "#     #",
        "D     #",
        "#     #",
        "#     #",
        "#####U#",
    ),
    "tomato_lettuce_salad": (
        "#####T#",
        "B   A L",
        "B     O",
        "D     #",
        "#     #",
        "#     #",
        "#####U#",
    ),
}
RECIPES = {"tomato_salad": ("tomato",), "tomato_lettuce_salad": ("tomato", "lettuce")}
TASKS = tuple(LAYOUTS)


@dataclass(frozen=True, eq=False, slots=True)
class Room:
    """What never changes. Cells are numbered row by row; things are numbered with the food
    first, in the order of THINGS, and the bowl last."""

    task: str
    width: int
    start: int
    floor: frozenset[int]
    boards: tuple[int, ...]
    hatch: int
    things: tuple[str, ...]
    homes: tuple[int, ...]
    needed: frozenset[int]  # the recipe's ingredients, by number
    around: tuple[int, ...]  # the counters clockwise from the upper left
    beyond: dict[int, tuple[int, ...]] = field(repr=False)  # floor cell -> the cell in each direction
    routes: dict[tuple[int, int], tuple[int, ...]] = field(repr=False)  # floor cell, other cell -> moves, last a touch
    seen: dict[int, frozenset[int]] = field(repr=False)  # floor cell -> cells in sight

    @property
    def bowl(self) -> int:
        return len(self.things) - 1


@lru_cache(maxsize=16)
def room_of(task: str) -> Room:
    grid = LAYOUTS[task]
    width, cells = len(grid[0]), "".join(grid)
    where = {letter: [cell for cell, there in enumerate(cells) if there == letter] for letter in sorted(set(cells))}
    floor = frozenset(where[" "] + where["A"])
    letters = [letter for letter in THINGS if letter in where]
    things = tuple(THINGS[letter] for letter in letters)
    beyond = {cell: (cell - width, cell + width, cell - 1, cell + 1) for cell in sorted(floor)}
    touchable = {cell for neighbours in beyond.values() for cell in neighbours} - floor
    edge = [*range(width), *range(2 * width - 1, len(cells), width)]
    edge += [*range(len(cells) - 2, len(cells) - width - 1, -1), *range(len(cells) - 2 * width, 0, -width)]
    return Room(
        task=task,
        width=width,
        start=where["A"][0],
        floor=floor,
        boards=tuple(where["B"]),
        hatch=where["D"][0],
        things=things,
        homes=tuple(where[letter][0] for letter in letters),
        needed=frozenset(things.index(name) for name in RECIPES[task]),
        around=tuple(cell for cell in edge if cell in touchable and cell not in (*where["B"], *where["D"])),
        beyond=beyond,
        routes=_routes(beyond, floor),
        seen={cell: _window(cell, width, len(cells)) for cell in sorted(floor)},
    )


def _routes(beyond: dict[int, tuple[int, ...]], floor: frozenset[int]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Shortest ones, by breadth first."""
    routes: dict[tuple[int, int], tuple[int, ...]] = {}
    for start in beyond:
        routes[start, start] = ()
        waiting = deque([start])
        while waiting:
            cell = waiting.popleft()
            for move, neighbour in enumerate(beyond[cell]):
                if (start, neighbour) not in routes:
                    routes[start, neighbour] = (*routes[start, cell], move)
                    if neighbour in floor:
                        waiting.append(neighbour)
    return routes


def _window(centre: int, width: int, count: int) -> frozenset[int]:
    row, column = divmod(centre, width)
    return frozenset(
        cell for cell in range(count) if abs(cell // width - row) <= SIGHT and abs(cell % width - column) <= SIGHT
    )


class Kitchen:
    __slots__ = ("at", "chops", "cook", "hand", "paid", "room", "served", "steps")

    def __init__(self, room: Room):
        self.room = room
        self.begin()

    def begin(self) -> None:
        self.cook = self.room.start
        self.hand = NOTHING
        self.at = list(self.room.homes)  # of each thing
        self.chops = [0] * self.room.bowl  # of each ingredient
        self.paid: list[int] = []  # ingredients whose chopping has been paid
        self.served = False
        self.steps = 0

    def situation(self) -> tuple:
        """All that can be seen of it somewhere; without the clock."""
        return self.cook, self.hand, tuple(self.at), tuple(self.chops)

    def chopped(self, thing: int) -> bool:
        return thing != self.room.bowl and self.chops[thing] == CHOPS

    def act(self, move: int) -> float:
        """One primitive step; its reward."""
        self.steps += 1
        if move == WAIT:
            return STEP
        cell = self.room.beyond[self.cook][move]
        if cell in self.room.floor:
            self.cook = cell
            return STEP
        return STEP + self._touch(cell)

    def _touch(self, cell: int) -> float:
        room, at, hand = self.room, self.at, self.hand
        if cell == room.hatch:
            return 0.0 if hand == NOTHING else self._serve()
        there = at.index(cell) if cell in at else NOTHING
        if hand == NOTHING:
            if there == NOTHING:
                return 0.0
            if cell in room.boards and there != room.bowl and self.chops[there] < CHOPS:
                return self._chop(there)
            at[there], self.hand = IN_HAND, there
        elif there == NOTHING:
            at[hand], self.hand = cell, NOTHING
        elif hand == room.bowl and self.chopped(there):
            at[there] = IN_BOWL
        elif there == room.bowl and self.chopped(hand):
            at[hand], self.hand = IN_BOWL, NOTHING
        return 0.0

    def _chop(self, food: int) -> float:
        self.chops[food] += 1
        if self.chops[food] < CHOPS or food not in self.room.needed or food in self.paid:
            return 0.0
        self.paid.append(food)
        return CHOPPED

    def _serve(self) -> float:
        room, hand = self.room, self.hand
        inside = [food for food, place in enumerate(self.at) if place == IN_BOWL] if hand == room.bowl else []
        self.hand = NOTHING
        if hand == room.bowl and set(inside) == room.needed:
            for thing in (hand, *inside):
                self.at[thing] = GONE
            self.served = True
            return SERVED
        for thing in (hand, *inside):
            self._give_back(thing)
        return WRONG

    def _give_back(self, thing: int) -> None:
        around, home = self.room.around, self.room.homes[thing]
        first = around.index(home)
        self.at[thing] = next(cell for cell in (*around[first:], *around[:first]) if cell not in self.at)
        if thing != self.room.bowl:
            self.chops[thing] = 0

    def save(self) -> dict:
        return {
            "cook": self.cook,
            "hand": self.hand,
            "at": list(self.at),
            "chops": list(self.chops),
            "paid": list(self.paid),
            "served": self.served,
            "steps": self.steps,
        }

    def restore(self, saved: dict) -> None:
        self.cook, self.hand, self.served, self.steps = (saved[key] for key in ("cook", "hand", "served", "steps"))
        self.at, self.chops, self.paid = (list(saved[key]) for key in ("at", "chops", "paid"))
