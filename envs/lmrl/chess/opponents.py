"""Who plays black.

own         exactly, where a table holds the position (a lone king); else alpha-beta search, `depth` half-moves deep
random      any move
stockfish   the program `stockfish` of the PATH, at `elo`, SECONDS for each move; an elo beyond what it knows is the
            nearest that it knows, so LMRL-Gym's 1200 is 1350 with Stockfish 15.1, which knows none below
"""

from __future__ import annotations

import random
import shutil
import threading
from typing import Any

from envs.lmrl.chess.search import best_move
from envs.lmrl.chess.table import NEVER, pieces_of, table_of
from envs.worlds.package import package

SECONDS = 0.1
PATIENCE = 30.0  # seconds, for anything that the program is asked


def own_move(board: Any, depth: int, draws: random.Random) -> Any:
    """For either side."""
    if pieces_of(board) is None:
        return best_move(board, depth, draws)
    moves = list(board.legal_moves)
    draws.shuffle(moves)
    return (min if board.turn else max)(moves, key=lambda move: _moves_to_mate(board, move))


def _moves_to_mate(board: Any, move: Any) -> int:
    board.push(move)
    pieces = pieces_of(board)
    found = None if pieces is None else table_of(pieces).moves_to_mate(board)
    board.pop()
    return NEVER if found is None else found


class Stockfish:
    """One program for a process: it is asked by one game at a time, and started anew when it has failed."""

    def __init__(self, elo: int):
        self.elo, self.path = elo, shutil.which("stockfish")
        if self.path is None:
            raise ValueError(
                "game option opponent='stockfish': the PATH has no program stockfish: apt-get install stockfish "
                "(Debian puts it into /usr/games)"
            )
        self._lock, self._program = threading.Lock(), None

    def move(self, board: Any) -> Any:
        engine = package("chess.engine", "chess")
        with self._lock:
            try:
                program = self._program = self._program or self._started(engine)
                found = program.play(board, engine.Limit(time=SECONDS)).move
            except (engine.EngineError, OSError, TimeoutError) as error:
                self._stop()
                raise RuntimeError(f"stockfish failed: {type(error).__name__}: {str(error)[:150]}") from error
        if found is None:
            raise RuntimeError("stockfish answered with no move")
        return found

    def _started(self, engine: Any) -> Any:
        program = engine.SimpleEngine.popen_uci(self.path, timeout=PATIENCE)
        limits = program.options.get("UCI_Elo")
        if limits is None:
            program.close()
            raise RuntimeError(f"{self.path} has no option UCI_Elo, so it plays no lower strength")
        program.configure(
            {"Threads": 1, "UCI_LimitStrength": True, "UCI_Elo": max(limits.min, min(limits.max, self.elo))}
        )
        return program

    def _stop(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            program.close()


_programs: dict[int, Stockfish] = {}  # by elo
_guard = threading.Lock()


def stockfish_of(elo: int) -> Stockfish:
    with _guard:
        if elo not in _programs:
            _programs[elo] = Stockfish(elo)
        return _programs[elo]
