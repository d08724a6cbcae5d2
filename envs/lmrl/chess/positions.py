"""Where a game of chess begins, and how a position is put in words.

endgames   one of LMRL-Gym's four sets of pieces on squares drawn by seed, white to move and able to win
full       the first position
a file     of positions in Forsyth-Edwards Notation (FEN), one a line, in quotes or without; the seed picks one
"""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path
from typing import Any

from envs.lmrl.chess.table import PIECES, table_of
from envs.worlds.package import package

LONGEST_WINS = {"Q": 10, "R": 16, "QR": 6, "RR": 7}  # moves, of the position that takes longest
MOST_POSITIONS = 100_000


def endgame(pieces: tuple[str, ...], least: int, seed: int) -> Any:
    """A position that white wins in `least` moves at best, or more."""
    chess, draws = package("chess"), random.Random(f"position {seed}")
    kind = draws.choice(pieces)
    while True:
        board = chess.Board(None)
        squares = draws.sample(range(64), 2 + len(kind))
        for symbol, square in zip("Kk" + kind, squares, strict=True):
            board.set_piece_at(square, chess.Piece.from_symbol(symbol))
        if board.is_valid() and (table_of(kind).moves_to_mate(board) or 0) >= least:
            return board


def kinds_of(pieces: str, least: int) -> tuple[str, ...]:
    """The sets of pieces that have a position which takes so many moves."""
    found = tuple(each for each in PIECES if pieces in ("all", each) and LONGEST_WINS[each] >= least)
    if not found:
        longest = max(LONGEST_WINS[each] for each in PIECES if pieces in ("all", each))
        raise ValueError(f"game option least={least}: with pieces={pieces!r} no win takes longer than {longest} moves")
    return found


@lru_cache(maxsize=8)
def positions_in(file: str) -> tuple[str, ...]:
    chess, named = package("chess"), f"game option start={file[-100:]!r}"
    try:
        lines = Path(file).expanduser().read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{named} is neither endgames nor full nor a file of positions: {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        fen = line.strip().strip('"').strip()
        if not fen:
            continue
        try:
            board = chess.Board(fen)
        except ValueError:
            raise ValueError(f"{named}: line {number} is no position in FEN: {fen[:80]!r}") from None
        if not board.is_valid() or not board.turn or board.is_game_over():
            raise ValueError(f"{named}: line {number} is no position in which white is to move: {fen[:80]!r}")
        found.append(fen)
    if not 1 <= len(found) <= MOST_POSITIONS:
        raise ValueError(f"{named}: it has {len(found)} positions, not 1 to {MOST_POSITIONS:,}")
    return tuple(found)


def spaced(text: str) -> str:
    """With a space between any two signs, as LMRL-Gym does: a word for each, and three spaces where one was."""
    return " ".join(text)


def unspaced(text: str) -> str:
    return " ".join(part.replace(" ", "") for part in text.split("   ")) if " / " in text else text
