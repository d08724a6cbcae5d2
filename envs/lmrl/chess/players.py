"""Scripted players of chess, for white. They see the position in FEN and the legal moves."""

from __future__ import annotations

import random
from typing import Any

from envs.game import Player
from envs.lmrl.chess.opponents import own_move
from envs.lmrl.chess.positions import spaced, unspaced
from envs.worlds.package import package


class Mover:
    wisdom = 1.0  # the share of moves that are the best it knows

    def __init__(self, depth: int = 2, text: str = "spaced", **_options):
        self.depth, self.spaced = depth + 1, text == "spaced"

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"{type(self).__name__} {seed}")

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        board = package("chess").Board(unspaced(observation.split("\n")[-1]))
        said = board.san(self.choose(board))
        return spaced(said) if self.spaced else said

    def choose(self, board: Any) -> Any:
        if self.random.random() < self.wisdom:
            return own_move(board, self.depth, self.random)
        return self.random.choice(list(board.legal_moves))


class Expert(Mover):
    """The shortest way to mate where a table knows it, so it wins every endgame; else a search that is deeper than the
    opponent's by one half-move."""


class Mediocre(Mover):
    """The best move in nine turns of twenty, else any. Wins 40 % of endgames."""

    wisdom = 0.45


class Random(Mover):
    """Any legal move: wins 1 % of endgames."""

    wisdom = 0.0


PLAYERS: dict[str, type[Player]] = {"expert": Expert, "mediocre": Mediocre, "random": Random}
