"""Observations of other libraries in words.

    text                 itself; bytes are read as UTF-8
    numbers              one after the other, at most MOST_NUMBERS of them
    a Dict               a line for each part, "mission: get to the green goal", texts before numbers
    a view of MiniGrid   what stands where, as seen by the one who looks

What is too large to be told is refused, never left out in silence: an agent that is not shown a part of what it
has to know plays another game.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

MOST_NUMBERS = 64  # of one observation, or of one part of it
DIRECTIONS = ("east", "south", "west", "north")  # of MiniGrid
DOORS = ("open", "closed", "locked")
NOTHING = ("unseen", "empty", "floor", "wall")  # walls are told along the lines of sight


class TooLarge(ValueError):
    """More numbers than a text can tell."""


def told(seen: Any, part: str = "") -> str:
    """Any observation; `part` is the name under which a Dict has it."""
    if seen is None:
        return "nothing"
    if isinstance(seen, bytes):
        return seen.decode("utf-8", "replace") or "nothing"
    if isinstance(seen, str):
        return str(seen) or "nothing"
    if isinstance(seen, Mapping):
        return "\n".join(_parts(seen, part))
    array = _array(seen)
    if array is None:
        return "; ".join(told(each, part) for each in seen) if isinstance(seen, list | tuple) else str(seen)
    if array.size > MOST_NUMBERS:
        raise TooLarge(
            f"{f'part {part!r}' if part else 'it'} has {array.size} numbers, and a text tells at most {MOST_NUMBERS}"
        )
    return " ".join(map(_said, array.ravel().tolist()))


def _said(number: float) -> str:
    """Whole numbers have all their digits."""
    whole = isinstance(number, int) or number.is_integer() and abs(number) < 2**53
    return str(int(number)) if whole else f"{number:g}"


def _parts(seen: Mapping, above: str) -> list[str]:
    texts_first = sorted(seen, key=lambda key: (not isinstance(seen[key], str | bytes), str(key)))
    if not above and {"image", "direction", "mission"} <= set(seen) and np.shape(seen["image"])[2:] == (3,):
        seen = {**seen, "image": _view(np.asarray(seen["image"])), "direction": DIRECTIONS[int(seen["direction"]) % 4]}
    lines = []
    for key in texts_first:
        name = f"{above}.{key}" if above else str(key)
        text = told(seen[key], name)
        lines += [text] if isinstance(seen[key], Mapping) else [f"{name}: {text}"]
    return lines


def _array(seen: Any) -> np.ndarray | None:
    """Of numbers, as they are; of texts there is none, even if they could be read as numbers."""
    try:
        found = np.asarray(seen)
    except (TypeError, ValueError):
        return None
    return found if found.dtype.kind in "biuf" else None


def _view(image: np.ndarray) -> str:
    """MiniGrid's view: [across, along, (kind, colour, state)], the looker in the middle of the last row."""
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT

    width, height, _ = image.shape
    middle, last = width // 2, height - 1

    def kind(across: int, along: int) -> str:
        return IDX_TO_OBJECT.get(int(image[across, along, 0]), "something")

    def named(across: int, along: int) -> str:
        _, colour, state = map(int, image[across, along])
        door = f"{DOORS[state % 3]} " if kind(across, along) == "door" else ""
        return f"{door}{IDX_TO_COLOR.get(colour, 'strange')} {kind(across, along)}"

    found = []
    for ahead in range(height):
        for across in sorted(range(width), key=lambda across: abs(across - middle)):
            here = (across, last) == (middle, last - ahead)
            if kind(across, last - ahead) not in NOTHING and not here:
                found.append(f"{named(across, last - ahead)} {_where(ahead, across - middle)}")
    for way, cells in {
        "ahead": [(middle, last - step) for step in range(1, height)],
        "left": [(middle - step, last) for step in range(1, middle + 1)],
        "right": [(middle + step, last) for step in range(1, width - middle)],
    }.items():
        far = next((step for step, cell in enumerate(cells, 1) if kind(*cell) == "wall"), None)
        found += [] if far is None else [f"wall {far} {way}"]
    held = kind(middle, last)
    return "; ".join([*found, *([] if held in NOTHING else [f"in your hands a {named(middle, last)}"])]) or "nothing"


def _where(ahead: int, aside: int) -> str:
    parts = [f"{ahead} ahead"] if ahead else []
    parts += [f"{abs(aside)} {'left' if aside < 0 else 'right'}"] if aside else []
    return " ".join(parts)
