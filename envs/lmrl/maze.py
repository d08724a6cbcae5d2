"""Maze as in LMRL-Gym: find the way to a goal, by words for what is near.

A player stands on a free cell and moves by one cell: up, down, left or right. A wall stops it, and the move counts
all the same; so does what names no move. Reaching the goal ends the game: reward and outcome 1. After `turns`
moves it is cut off, with outcome 0. The published reward is 0 for the move that reaches the goal, -4 for what is no
move, and -1 for every other one; its return is their sum, not discounted.

Places are row and column, from 0 at the top left. In the partial view, where one is has to be made out from the moves
so far. The goal is at 8, 6 in double_t and at 3, 3 in u, which are the paper's.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial
from envs.options import one_of, whole_number
from envs.text.listed import gist, named

SEAT = "walker"
Cell = tuple[int, int]  # row, column
MOVES = {"move up": (-1, 0), "move down": (1, 0), "move left": (0, -1), "move right": (0, 1)}
SIDES = {"above you": (-1, 0), "below you": (1, 0), "to your left": (0, -1), "to your right": (0, 1)}
LARGEST = 99  # rows or columns

DRAWN = {
    "double_t": """
#############
#     #     #
### ##### ###
### ##### ###
### ##### ###
###       ###
###### ######
###### ######
######G######
#############""",
    "u": """
#####
#   #
# # #
# #G#
#####""",
}
STARTS = {"double_t": (1, 1), "u": (3, 1)}


@dataclass(frozen=True)
class Plan:
    free: frozenset[Cell]
    goal: Cell

    def beside(self, cell: Cell, step: Cell) -> Cell:
        """Where a move leads from there: a wall stops it."""
        moved = cell[0] + step[0], cell[1] + step[1]
        return moved if moved in self.free else cell

    def walls(self, cell: Cell) -> str:
        near = [side for side, step in SIDES.items() if self.beside(cell, step) == cell]
        if not near:
            return "there are no walls near you."
        return f"there {'is a wall' if len(near) == 1 else 'are walls'} {', '.join(near)}."

    def distances(self) -> dict[Cell, int]:
        """Fewest moves from each cell that leads to the goal."""
        found, waiting = {self.goal: 0}, deque([self.goal])
        while waiting:
            cell = waiting.popleft()
            for step in MOVES.values():
                if (near := self.beside(cell, step)) not in found:
                    found[near] = found[cell] + 1
                    waiting.append(near)
        return found


@lru_cache(maxsize=16)
def plan_of(maze: str) -> Plan:
    if maze in DRAWN:
        text = DRAWN[maze]
    else:
        try:
            text = Path(maze).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"game option maze={maze[-100:]!r} is neither double_t nor u nor a file: {error}"
            ) from None
    rows = [row.rstrip("\r") for row in text.strip("\n").split("\n")]
    cells = {(y, x): mark for y, row in enumerate(rows) for x, mark in enumerate(row)}
    goals = [cell for cell, mark in cells.items() if mark == "G"]
    if set(cells.values()) - set("# G") or len(goals) != 1 or max(len(rows), *map(len, rows)) > LARGEST:
        raise ValueError(
            f"game option maze={maze[-100:]!r}: a maze is rows of '#', ' ' and one 'G', 99 each way at most"
        )
    plan = Plan(frozenset(cell for cell, mark in cells.items() if mark != "#"), goals[0])
    if len(plan.distances()) != len(plan.free) or len(plan.free) < 2:
        raise ValueError(f"game option maze={maze[-100:]!r}: the goal is not to be reached from every free cell")
    return plan


class Maze(Game):
    seats = (SEAT,)

    def __init__(
        self,
        maze: Annotated[
            str, "double_t, u, or the path of a text file of # for walls, spaces, and one G for the goal"
        ] = "double_t",
        view: Annotated[
            str, "full: where the goal, the player and walls next to it are; partial: the walls only"
        ] = "full",
        start: Annotated[str, "any free cell, by seed; published: 1, 1 in double_t, 3, 1 in u"] = "any",
        turns: Annotated[int, "moves until it is truncated"] = 100,
    ):
        if not isinstance(maze, str) or not maze:
            raise ValueError(f"game option maze={maze!r} must be double_t, u or the path of a file")
        self.plan = plan_of(maze)
        self.full = one_of("view", view, ("full", "partial")) == "full"
        if one_of("start", start, ("any", "published")) == "published" and maze not in STARTS:
            raise ValueError(f"game option start='published' is for the mazes {', '.join(STARTS)}")
        self.start = STARTS[maze] if start == "published" else None
        self.horizon = whole_number("turns", turns, 1, 10_000)
        self.cell: Cell | None = None

    def reset(self, seed: int) -> None:
        self.cell = self.start or random.Random(f"start {seed}").choice(sorted(self.plan.free - {self.plan.goal}))
        self.moves = 0

    @property
    def seat(self) -> str | None:
        return None if self.cell in (None, self.plan.goal) or self.moves >= self.horizon else SEAT

    def briefing(self, seat: str) -> str:
        position = "You are told where you and the goal are, as row and column, and " if self.full else "You are told "
        return (
            f"You are in a maze and look for the goal. {position}on which sides of you there are walls. In each turn, "
            f"say one move and nothing else: {', '.join(MOVES)}. You have {self.horizon} moves."
        )

    def observe(self) -> str:
        if self.cell == self.plan.goal:
            return "you have reached the goal."
        if not self.full:
            return self.plan.walls(self.cell)
        (row, column), (goal_row, goal_column) = self.cell, self.plan.goal
        return f"the goal is at {goal_row} , {goal_column} . you are at {row} , {column} . {self.plan.walls(self.cell)}"

    def actions(self) -> tuple[str, ...]:
        return tuple(MOVES)

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError(OVER)
        move, before = named(utterance, tuple(MOVES)), self.cell
        self.moves += 1
        if move is not None:
            self.cell = self.plan.beside(before, MOVES[move])
        won = self.cell == self.plan.goal
        moved = "does not move" if self.cell == before else f"moves {move.removeprefix('move ')}"
        caption = f"the walker {moved}{' and reaches the goal' if won else ''}"
        late = self.seat is None and not won
        return Step({SEAT: 1.0} if won else {}, move is not None, terminated=won, truncated=late, caption=caption)

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self.cell == self.plan.goal)}

    def closing(self) -> dict[str, str]:
        return {SEAT: self.observe()} if self.cell is not None and self.seat is None else {}

    def save(self) -> dict[str, Any]:
        return {} if self.cell is None else {"cell": list(self.cell), "moves": self.moves}

    def restore(self, saved: dict[str, Any]) -> None:
        self.cell = tuple(saved["cell"]) if saved else None
        self.moves = saved.get("moves", 0)

    @classmethod
    def gist(cls, utterance: str) -> str:
        return gist(utterance)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"expert": Expert, "mediocre": Mediocre, "random": Random}

    @classmethod
    def trials(cls) -> list[Trial]:
        return [Trial("full view"), Trial("partial view", {"view": "partial"})]

    def language(self) -> Iterable[str]:
        cells = sorted(self.plan.free)
        yield from (*MOVES, "you have reached the goal.", *(self.plan.walls(cell) for cell in cells))
        if self.full:
            yield from (f"the goal is at {row} , {column} . you are at" for row, column in cells)


class Walker:
    """Knows the maze, and keeps the cells where it may stand."""

    def __init__(self, maze: str = "double_t", **_options):
        self.plan = plan_of(maze)
        self.distances = self.plan.distances()

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"walker {seed}")
        self.maybe, self.moved = self.plan.free - {self.plan.goal}, ""

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        if self.moved:
            self.maybe = {self.plan.beside(cell, MOVES[self.moved]) for cell in self.maybe}
        self.maybe = {cell for cell in self.maybe if self.plan.walls(cell) in observation and cell != self.plan.goal}
        if " you are at " in observation:
            row, column = observation.partition(" you are at ")[2].split(" . ")[0].split(" , ")
            self.maybe = {(int(row), int(column))}
        self.maybe = self.maybe or self.plan.free - {self.plan.goal}
        self.moved = self.choose()
        return self.moved

    def best(self) -> str:
        """The way from the cell, of those where it may stand, that is nearest to the goal: either it gets there, or
        what it sees on the way tells that it stands elsewhere."""
        here = min(self.maybe, key=lambda cell: (self.distances[cell], cell))
        return min(MOVES, key=lambda move: self.distances[self.plan.beside(here, MOVES[move])])

    def choose(self) -> str:
        raise NotImplementedError


class Expert(Walker):
    """The shortest way. Always gets there, in 7.7 moves on average, 8.1 in the partial view."""

    def choose(self) -> str:
        return self.best()


class Mediocre(Walker):
    """The right move in one turn of ten, else any: gets there in 66 % of games, in 64 moves on average."""

    def choose(self) -> str:
        return self.best() if self.random.random() < 0.1 else self.random.choice(tuple(MOVES))


class Random(Walker):
    """Any move: gets there in 25 % of games."""

    def choose(self) -> str:
        return self.random.choice(tuple(MOVES))
