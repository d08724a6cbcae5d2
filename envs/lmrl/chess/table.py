"""How every endgame of a lone black king goes when both sides play best: a table of all its positions.

The white king has one or two pieces with it, queens or rooks. A table is made by going backwards from mate: white wins
in n moves if a move leads to where black is lost in n - 1, and black is lost in n if every move leads to where white
wins in n at most. Lines and king's moves are those of the package `chess`. A board is turned and mirrored until the
black king is on one of ten squares, so ten slices hold them all.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from envs.worlds.package import package

LONGEST = 20  # moves: no such endgame takes as many
NEVER = 127  # no win
PIECES = ("Q", "R", "QR", "RR")
SQUARES = np.arange(64)
HOME = [rank * 8 + file for file in range(4) for rank in range(file + 1)]  # where the black king stands in a slice


def _turns() -> list[np.ndarray]:
    """The eight symmetries of the board, each as where a square goes."""
    found = []
    for which in range(8):
        rank, file = SQUARES // 8, SQUARES % 8
        rank, file = (7 - rank if which & 1 else rank), (7 - file if which & 2 else file)
        found.append(file * 8 + rank if which & 4 else rank * 8 + file)
    return found


TURNS = _turns()
TURN_OF = [next(turn for turn in TURNS if turn[square] in HOME) for square in range(64)]  # that brings it home


@lru_cache(maxsize=1)
def _geometry() -> tuple[list[list[int]], dict[str, list[list[int]]]]:
    """Where a king goes from each square, and the lines of each piece, in both directions."""
    chess = package("chess")
    lines = {chess.ray(one, other) for one in range(64) for other in range(64) if one != other} - {0}
    found: dict[str, list[list[int]]] = {"Q": [], "R": []}
    for line in sorted(lines):
        squares = list(chess.SquareSet(line))
        straight = squares[0] // 8 == squares[-1] // 8 or squares[0] % 8 == squares[-1] % 8
        for piece in "QR" if straight else "Q":
            found[piece] += [squares, squares[::-1]]
    return [list(chess.SquareSet(each)) for each in chess.BB_KING_ATTACKS], found


class Table:
    """`white` and `black`: in how many of white's moves it is mate with that side to move, or NEVER. Axes: the slice,
    the white king, its pieces."""

    def __init__(self, pieces: str):
        self.pieces, (self.kings, self.lines) = pieces, _geometry()
        self.shape = (64,) * (1 + len(pieces))
        away = SQUARES[:, None] != SQUARES
        self.free = away if len(pieces) == 1 else away[:, :, None] & away[:, None, :]  # [square]: nobody else there
        self.rest = [table_of(pieces[:at] + pieces[at + 1 :]) for at in range(len(pieces))] if len(pieces) > 1 else []
        self._solve()

    def _solve(self) -> None:
        apart = np.stack([self._apart(square) for square in HOME])
        attacked = np.stack([self._attacks(square) for square in HOME])
        self.white = np.full(apart.shape, NEVER, dtype=np.int8)
        self.legal = apart & ~attacked  # with white to move
        flights = [self._flights(square) for square in HOME]
        flees, taking = (np.stack(each) for each in zip(*flights, strict=True))
        self.black = np.where(apart & ~flees & attacked, 0, NEVER).astype(np.int8)
        for moves in range(1, LONGEST):
            won = self._reaching(self.black == moves - 1) & self.legal & (self.white == NEVER)
            if won.any() or moves == 1:
                self.white[won] = moves
                flees_safely = self._fleeing(self.legal & (self.white == NEVER))
            lost = apart & flees & ~flees_safely & (taking <= moves) & (self.black == NEVER)
            self.black[lost] = moves

    def _fleeing(self, safe: np.ndarray) -> np.ndarray:
        """From where a black king's move that takes nothing leads to safety."""
        found = np.zeros_like(safe)
        for number, square in enumerate(HOME):
            for near in self.kings[square]:
                found[number] |= self._at(safe, near)
        return found

    def _at(self, slices: np.ndarray, square: int) -> np.ndarray:
        """The slice of a black king anywhere."""
        turn = TURN_OF[square]
        found = slices[HOME.index(turn[square])]
        return found if square in HOME else found[np.ix_(*[turn] * len(self.shape))]

    def _apart(self, square: int) -> np.ndarray:
        """No two on one square, and the kings not side by side."""
        ok = np.ones(self.shape, dtype=bool)
        ok[[*self.kings[square], square]] = False
        for at in range(len(self.shape)):
            for other in range(64):
                ok[self._where(at, other)] &= self.free[other] & (other != square)
        return ok

    def _where(self, at: int, square: int) -> tuple:
        return tuple(square if axis == at else slice(None) for axis in range(len(self.shape)))

    def _attacks(self, square: int) -> np.ndarray:
        """A piece attacks that square, on which the black king stands."""
        hit = np.zeros(self.shape, dtype=bool)
        for at, piece in enumerate(self.pieces, 1):
            for line in self.lines[piece]:
                clear = True
                for start in line[line.index(square) + 1 :] if square in line else ():
                    hit[self._where(at, start)] |= clear
                    clear = self.free[start] & clear
        return hit

    def _flights(self, square: int) -> tuple[np.ndarray, np.ndarray]:
        """Whether the black king there has a legal move, and how long white needs if it takes a piece: NEVER where
        that is a draw, 0 where it cannot take any."""
        some, taking = np.zeros(self.shape, dtype=bool), np.zeros(self.shape, dtype=np.int8)
        for near in self.kings[square]:
            some |= self._at(self.legal, near)
            for at in range(1, len(self.shape)):
                where = self._where(at, near)
                if self.rest:
                    rest = self.rest[at - 1]
                    legal, needs = rest._at(rest.legal, near), rest._at(rest.white, near)
                else:
                    legal, needs = ~np.isin(SQUARES, [*self.kings[near], near]), NEVER
                some[where] |= legal
                taking[where] = np.maximum(taking[where], np.where(legal, needs, 0))
        return some, taking

    def _reaching(self, goal: np.ndarray) -> np.ndarray:
        """From where a move of white leads to a goal. The black king stops no line: where one would cross it, it is in
        check before the move, which is not legal."""
        found = np.zeros_like(goal)
        if not goal.any():
            return found
        for square, near in enumerate(self.kings):
            found[:, square] = goal[:, near].any(axis=1)
        for at, piece in enumerate(self.pieces, 2):
            goals, starts = np.ascontiguousarray(np.moveaxis(goal, at, 0)), np.moveaxis(found, at, 0)
            for line in self.lines[piece]:
                reached: Any = False  # a goal further on, with nobody between
                for end, start in pairwise(line):
                    reached = goals[end] | (self.free[end] & reached)
                    starts[start] |= reached
        return found

    def moves_to_mate(self, board: Any) -> int | None:
        """Of a position of these pieces; None where it is no win."""
        king, pieces = _squares(board)
        turn = TURN_OF[board.king(False)]
        place = HOME.index(turn[board.king(False)]), turn[king], *(turn[square] for square in pieces)
        found = int((self.white if board.turn else self.black)[place])
        return None if found == NEVER else found


@lru_cache(maxsize=len(PIECES))
def table_of(pieces: str) -> Table:
    return Table(pieces)


def pieces_of(board: Any) -> str | None:
    """The white pieces of an endgame that has a table, else None."""
    if board.occupied_co[False].bit_count() != 1 or board.occupied_co[True].bit_count() > 3:
        return None
    found = "".join(
        sorted(piece.symbol() for piece in board.piece_map().values() if piece.color and piece.symbol() != "K")
    )
    return found if found in PIECES else None


def _squares(board: Any) -> tuple[int, list[int]]:
    pieces = [(piece.symbol(), square) for square, piece in board.piece_map().items() if piece.color]
    return board.king(True), [square for symbol, square in sorted(pieces) if symbol != "K"]
