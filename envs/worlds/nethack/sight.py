"""What stands on the map, in words: only what a player sees. Used in NetHack's own process.

A potion is "a potion" and no more: its glyph knows which one it is, and the player does not. So what has an
appearance that differs from game to game is told by its class; all else by its name.
"""

from __future__ import annotations

import math

import numpy as np
from nle import nethack

PLAIN = ("dark part of a room", "wall", "floor of a room", "corridor", "lit corridor", "")  # of no interest from afar
SOLID = ("wall", "closed door", "iron bars", "tree", "raised drawbridge", "water", "molten lava", "")
CLASSES = {
    nethack.WEAPON_CLASS: "weapon", nethack.ARMOR_CLASS: "piece of armor", nethack.RING_CLASS: "ring",
    nethack.AMULET_CLASS: "amulet", nethack.TOOL_CLASS: "tool", nethack.FOOD_CLASS: "food",
    nethack.POTION_CLASS: "potion", nethack.SCROLL_CLASS: "scroll", nethack.SPBOOK_CLASS: "spellbook",
    nethack.WAND_CLASS: "wand", nethack.GEM_CLASS: "gem", nethack.ROCK_CLASS: "boulder",
}  # fmt: skip
DIRECTIONS = {
    "north": (0, -1), "northeast": (1, -1), "east": (1, 0), "southeast": (1, 1),
    "south": (0, 1), "southwest": (-1, 1), "west": (-1, 0), "northwest": (-1, -1),
}  # fmt: skip
SECTORS = tuple(DIRECTIONS)  # clockwise from the north
CLOCKWISE = {name: 3 * (1 + down) + 1 + right for name, (right, down) in DIRECTIONS.items()}  # in a square of nine


def name_of(glyph: int) -> str:
    if nethack.glyph_is_pet(glyph):
        return f"tame {monster(glyph)}"
    if nethack.glyph_is_invisible(glyph):
        return "unseen monster"
    if nethack.glyph_is_monster(glyph) or nethack.glyph_is_detected_monster(glyph):
        return monster(glyph)
    if nethack.glyph_is_body(glyph):
        return f"{nethack.permonst(glyph - nethack.GLYPH_BODY_OFF).mname} corpse"
    if nethack.glyph_is_statue(glyph):
        return f"statue of a {nethack.permonst(glyph - nethack.GLYPH_STATUE_OFF).mname}"
    if nethack.glyph_is_normal_object(glyph):
        return thing(nethack.glyph_to_obj(glyph))
    if nethack.glyph_is_cmap(glyph):
        return nethack.symdef.from_idx(nethack.glyph_to_cmap(glyph)).explanation if glyph < CMAP_END else ""
    if nethack.glyph_is_warning(glyph):
        return "warning of a monster"
    return "inside of a monster" if nethack.glyph_is_swallow(glyph) else ""


def monster(glyph: int) -> str:
    return nethack.permonst(nethack.glyph_to_mon(glyph)).mname


def thing(number: int) -> str:
    described = nethack.objdescr.from_idx(number)
    if described.oc_descr is None and described.oc_name:
        return described.oc_name
    kind = nethack.objclass(number).oc_class
    return CLASSES.get(kind if isinstance(kind, int) else ord(kind), "thing")


CMAP_START, CMAP_END = nethack.GLYPH_CMAP_OFF, nethack.GLYPH_CMAP_OFF + 78
NAMES = [name_of(glyph) for glyph in range(nethack.MAX_GLYPH)]
INTEREST = np.array([name not in PLAIN for name in NAMES])  # by glyph
OPEN = np.array([name not in SOLID for name in NAMES])


class Sight:
    """`most`: how many things are told."""

    def __init__(self, most: int):
        self.most = most
        self.forget()

    def forget(self) -> None:
        self.level: tuple[int, int] | None = None
        self.features: dict[tuple[int, int], str] = {}  # of this level: staircases and the like that were seen

    def look(self, glyphs: np.ndarray, blstats: np.ndarray) -> list[str]:
        """What is under the player, where it can go, and what there is, the nearest first."""
        x, y = int(blstats[nethack.NLE_BL_X]), int(blstats[nethack.NLE_BL_Y])
        level = int(blstats[nethack.NLE_BL_DNUM]), int(blstats[nethack.NLE_BL_DLEVEL])
        if level != self.level:
            self.level, self.features = level, {}
        places = np.flatnonzero(INTEREST[glyphs])
        found = []
        for place, glyph in zip(places.tolist(), glyphs.ravel()[places].tolist(), strict=True):
            row, column = divmod(place, COLUMNS)
            if column != x or row != y:
                steps, where = BEARINGS[column - x, row - y]
                found.append((steps, where, NAMES[glyph]))
                if CMAP_START <= glyph < CMAP_END:
                    self.features[column, row] = NAMES[glyph]
        found.sort()
        lines = [f"Here: {self.features[x, y]}."] if (x, y) in self.features else []
        is_open = around(OPEN[glyphs[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]], x, y)
        ways = [name for name, place in CLOCKWISE.items() if is_open[place]]
        lines.append(f"Ways: {', '.join(ways)}." if ways else "Ways: none.")
        if found:
            told = [f"{name} {where}" for _, where, name in found[: self.most]]
            lines.append(f"You see: {', '.join(told)}.")
        return lines


def around(cut: np.ndarray, x: int, y: int) -> list[bool]:
    """The nine of a square that the map's edge may have cut."""
    if cut.size == 9:
        return cut.ravel().tolist()
    whole = np.zeros((3, 3), bool)
    top, left = int(y == 0), int(x == 0)
    whole[top : top + cut.shape[0], left : left + cut.shape[1]] = cut
    return whole.ravel().tolist()


def bearing(right: int, down: int) -> str:
    """Next to one only the direction, else with the number of steps."""
    sector = SECTORS[round(math.atan2(right, -down) / (math.pi / 4)) % 8]
    steps = max(abs(right), abs(down))
    return sector if steps == 1 else f"{steps} {sector}"


ROWS, COLUMNS = nethack.DUNGEON_SHAPE
BEARINGS = {
    (right, down): (max(abs(right), abs(down)), bearing(right, down))
    for right in range(-COLUMNS, COLUMNS + 1)
    for down in range(-ROWS, ROWS + 1)
}
