"""Chess as in LMRL-Gym: endgames, and the whole game, against a program.

The player has the white pieces. It sees the position in Forsyth-Edwards Notation (FEN) and says one legal move in short
algebraic notation (SAN); black answers at once. The published rewards: 1 for mate, -1 for being mated, 0 for a draw and
for every other move; -1 for what is no legal move, after which the position stands and white is to move again. Their
sum is the return, not discounted. A draw is a stalemate, too few pieces, the same position five times, or 75 moves
without a capture or a move of a pawn. After `turns` moves the game is cut off. The outcome is 1 for a win and 0
otherwise; only in the whole game a draw is worth 0.5.

An endgame is `pieces` against a lone king, on squares drawn by seed. A file of positions may be the test positions of
LMRL-Gym. The published test leaves out what Stockfish wins in fewer than 15 moves, half-moves as we read it, which is
`least: 8`. Stockfish takes 0.1 s for each move and does not play the same in every run. We add one line after what is
no legal move. Published games have up to 400 moves, those of GPT-4 50.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial
from envs.lmrl.chess.opponents import own_move, stockfish_of
from envs.lmrl.chess.players import PLAYERS
from envs.lmrl.chess.positions import endgame, kinds_of, positions_in, spaced
from envs.lmrl.chess.speech import NO_MOVE, SIGNS, legal_move, said_move
from envs.lmrl.chess.table import PIECES
from envs.options import one_of, whole_number
from envs.worlds.package import package

SEAT = "white"
DRAW = "1/2-1/2"
ENDINGS = {"1-0": "white wins.", "0-1": "black wins.", DRAW: "it is a draw."}
REWARDS = {"1-0": 1.0, "0-1": -1.0}


class Chess(Game):
    seats = (SEAT,)

    def __init__(
        self,
        start: Annotated[
            str, "endgames (by seed, always won for white), full, or the path of a file with one FEN in each line"
        ] = "endgames",
        pieces: Annotated[
            str, "of white in endgames: Q (a queen), R (a rook), QR, RR, or all of these, by seed"
        ] = "all",
        least: Annotated[int, "leave out endgames that can be won in fewer moves"] = 1,
        opponent: Annotated[
            str, "own: loses an endgame as late as it can; stockfish: the published one; or random"
        ] = "own",
        depth: Annotated[int, "half-moves that `own` searches outside of endgames, 1 to 5"] = 2,
        elo: Annotated[int, "of stockfish; beyond what it knows, the nearest that it knows"] = 1200,
        text: Annotated[str, "spaced: the published form with a space between any two signs; or plain"] = "spaced",
        turns: Annotated[int, "moves of white until it is truncated"] = 50,
    ):
        self.chess = package("chess")
        if not isinstance(start, str) or not start:
            raise ValueError(f"game option start={start!r} must be endgames, full or the path of a file")
        self.start = start
        one_of("pieces", pieces, ("all", *PIECES))
        self.kinds = kinds_of(pieces, whole_number("least", least, 1, 16))
        self.least = least
        if start != "endgames" and (pieces != "all" or least != 1):
            raise ValueError("game options pieces and least are for start='endgames'")
        self.positions = () if start in ("endgames", "full") else positions_in(start)
        one_of("opponent", opponent, ("own", "random", "stockfish"))
        self.depth, self.opponent = whole_number("depth", depth, 1, 5), opponent
        self.program = stockfish_of(whole_number("elo", elo, 1, 4000)) if opponent == "stockfish" else None
        self.spaced = one_of("text", text, ("spaced", "plain")) == "spaced"
        self.horizon = whole_number("turns", turns, 1, 10_000)
        self.slow = start != "endgames" or self.program is not None
        self._board: Any = None

    def reset(self, seed: int) -> None:
        if self.start == "endgames":
            self._begin(seed, endgame(self.kinds, self.least, seed).fen())
        else:
            fens = self.positions or (self.chess.STARTING_FEN,)
            self._begin(seed, fens[seed % len(fens)])

    def _begin(self, seed: int, fen: str) -> None:
        self._seed, self._first, self._tried, self._refused = seed, fen, 0, False
        self._board = self.chess.Board(fen)
        self._result, self._shown = "", self._put(fen)

    @property
    def seat(self) -> str | None:
        return None if self._board is None or self._result or self._tried >= self.horizon else SEAT

    def briefing(self, seat: str) -> str:
        form = ", with a space between any two signs" if self.spaced else ""
        return (
            f"You play chess and have the white pieces. You are shown each position in FEN{form}. Say one legal move "
            "in short algebraic notation (SAN) and nothing else; black then moves at once. Mate wins. What is no legal "
            f"move costs a point, and it is your move again. You have {self.horizon} moves."
        )

    def observe(self) -> str:
        return f"{NO_MOVE}\n{self._shown}" if self._refused else self._shown

    def _put(self, text: str) -> str:
        return spaced(text) if self.spaced else text

    def actions(self) -> tuple[str, ...]:
        return () if self.seat is None else tuple(self._put(move) for move in legal_moves(self._board.fen()))

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError(OVER)
        move = legal_move(self._board, utterance)
        self._tried, self._refused = self._tried + 1, move is None
        if move is None:
            step = Step({SEAT: -1.0}, executable=False, caption="white says no legal move")
        else:
            step = Step(caption=f"white plays {self._play(move)}")
            if self._board.is_game_over():
                self._result = self._board.result()
            else:
                step.caption += f", black plays {self._play(self._answer())}"
                self._result = self._board.result() if self._board.is_game_over() else ""
            if self._result:
                step.caption += f": {ENDINGS[self._result].removesuffix('.')}"
                step.rewards, step.terminated = {SEAT: REWARDS.get(self._result, 0.0)}, True
            self._shown = self._put(self._board.fen())
        step.truncated = self.seat is None and not step.terminated
        return step

    def _play(self, move: Any) -> str:
        said = self._board.san(move)
        self._board.push(move)
        return said

    def _answer(self) -> Any:
        draws = random.Random(f"black {self._seed} {len(self._board.move_stack)}")
        if self.program is not None:
            return self.program.move(self._board)
        if self.opponent == "random":
            return draws.choice(list(self._board.legal_moves))
        return own_move(self._board, self.depth, draws)

    def outcome(self) -> dict[str, float]:
        won = self._board is not None and self._result == "1-0"
        drawn = self._board is not None and self._result == DRAW and self.start == "full"
        return {SEAT: 1.0 if won else 0.5 if drawn else 0.0}

    def closing(self) -> dict[str, str]:
        if self._board is None or self.seat is not None:
            return {}
        return {SEAT: f"{self._shown}\n{ENDINGS[self._result]}" if self._result else self.observe()}

    def facts(self) -> dict[str, str]:
        if self._board is None or self.seat is not None:
            return {}
        return {"position": self._first, "result": self._result or "cut off"}

    def save(self) -> dict[str, Any]:
        if self._board is None:
            return {}
        moves = " ".join(move.uci() for move in self._board.move_stack)
        counts = {"tried": self._tried, "refused": self._refused}
        return {"seed": self._seed, "position": self._first, "moves": moves, **counts}

    def restore(self, saved: dict[str, Any]) -> None:
        self._board = None
        if saved:
            self._begin(saved["seed"], saved["position"])
            for move in saved["moves"].split():
                self._board.push_uci(move)
            self._shown = self._put(self._board.fen())
            self._tried, self._refused = saved["tried"], saved["refused"]
            self._result = self._board.result() if self._board.is_game_over() else ""

    @classmethod
    def gist(cls, utterance: str) -> str:
        return said_move(utterance) or utterance

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS

    @classmethod
    def trials(cls) -> list[Trial]:
        published = {"turns": 400}
        return [
            Trial("endgames"),
            Trial("endgames as published", {"least": 8, **published}, episodes=645),
            Trial("full", {"start": "full", **published}, episodes=20),
        ]

    def language(self) -> Iterable[str]:
        """Of spaced text: plain positions are words without end, for language models only."""
        yield from (SIGNS, NO_MOVE, *ENDINGS.values())


@lru_cache(maxsize=256)
def legal_moves(fen: str) -> tuple[str, ...]:
    """In SAN."""
    board = package("chess").Board(fen)
    return tuple(sorted(board.san(move) for move in board.legal_moves))
