"""What a BabyAI agent sees, in words: its own view of 7 by 7 fields, as it stands.

    Goal: go to the red ball.
    You see a wall 3 steps forward. You see a red ball 1 step left and 2 steps forward. You carry a green key.

The nearest wall is told straight ahead, to the left and to the right; everything else wherever it is in view. The form
is that of BabyAI-Text (Carta et al., 2023), in our own code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")  # by MiniGrid's numbers
KINDS = {4: "door", 5: "key", 6: "ball", 7: "box", 8: "goal", 9: "lava"}
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
DOOR_STATES = ("open", "closed", "locked")
WALL, SIZE = 2, 7
AHEAD = SIZE // 2  # the column, and the last row, in which the agent stands
NOTHING = "You see nothing."


def thing(kind: int, colour: int, state: int) -> str:
    name = f"{COLOURS[colour]} {KINDS[kind]}"
    return f"{DOOR_STATES[state]} {name}" if KINDS[kind] == "door" else name


def article(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def bearing(right: int, forward: int) -> str:
    side = steps(abs(right), "right" if right > 0 else "left") if right else ""
    return " and ".join(filter(None, (side, steps(forward, "forward") if forward else "")))


def steps(count: int, way: str) -> str:
    return f"{count} step{'s' if count > 1 else ''} {way}"


def seen(view: Sequence[Sequence[Sequence[int]]], carried: str) -> str:
    """`view`: [column][row] -> kind, colour, state."""
    told = [f"You see a wall {where}." for where in walls(view)]
    for row in range(SIZE - 1, -1, -1):
        for column in range(SIZE):
            kind, colour, state = view[column][row]
            if kind in KINDS and (column, row) != (AHEAD, SIZE - 1):
                where = bearing(column - AHEAD, SIZE - 1 - row)
                told.append(f"You see {article(thing(kind, colour, state))} {where}.")
    if carried:
        told.append(f"You carry {article(carried)}.")
    return " ".join(told) or NOTHING


def walls(view: Sequence[Sequence[Sequence[int]]]) -> Iterator[str]:
    for right, forward in ((0, 1), (-1, 0), (1, 0)):
        for far in range(1, SIZE if forward else AHEAD + 1):
            if view[AHEAD + right * far][SIZE - 1 - forward * far][0] == WALL:
                yield bearing(right * far, forward * far)
                break


def vocabulary() -> Iterator[str]:
    yield from (NOTHING, *ACTIONS)
    names = [f"{colour} {kind}" for colour in COLOURS for kind in KINDS.values()]
    for name, state in product(names, ("", *DOOR_STATES)):
        full = f"{state} {name}".strip()
        yield f"You see {article(full)} 1 step left. You carry {article(full)}."
    for count in range(2, SIZE):
        yield f"You see a wall {count} steps left and {count} steps right and 1 step forward."
        yield f"You see a wall {count} steps forward. It is {count} steps left. It is {count} steps right."
        yield "You see a wall 1 step forward. You see a wall 1 step left. It is 1 step right."
    kinds = ("object", *KINDS.values())
    for kind in kinds:
        yield f"Goal: go to the {kind}, then pick up a {kind} and open {kind} after you put it next to a {kind}."
    for place in ("on your left", "on your right", "in front of you", "behind you"):
        yield f"Goal: go to a door {place}, then a door {place} and a door {place}."
