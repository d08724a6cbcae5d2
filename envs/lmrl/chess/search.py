"""Alpha-beta search: who plays positions that no table holds. It plays the same move by the same draws."""

from __future__ import annotations

import random
from typing import Any

VALUES = (0, 100, 320, 330, 500, 900, 0)  # of pawn, knight, bishop, rook, queen, king, in hundredths of a pawn
MATE = 100_000
CENTRE = tuple(int(14 - 4 * max(abs(square % 8 - 3.5), abs(square // 8 - 3.5))) for square in range(64))
DEEPEST = 6  # takings in a row that are followed beyond the depth


def best_move(board: Any, depth: int, draws: random.Random) -> Any:
    """The move that is best `depth` half-moves on; of several such, any."""
    moves = list(board.legal_moves)
    draws.shuffle(moves)
    best, highest = moves[0], -2 * MATE
    for move in _ordered(board, moves):
        board.push(move)
        value = -_value(board, depth - 1, -2 * MATE, -highest)
        board.pop()
        if value > highest:
            best, highest = move, value
    return best


def _value(board: Any, depth: int, low: int, high: int) -> int:
    """For the side to move, exact between `low` and `high`."""
    if depth <= 0:
        return _settled(board, low, high, DEEPEST)
    moves = list(board.legal_moves)
    if not moves:
        return -MATE - depth if board.is_check() else 0
    if board.is_insufficient_material() or board.halfmove_clock >= 100 or board.is_repetition(3):
        return 0
    for move in _ordered(board, moves):
        board.push(move)
        value = -_value(board, depth - 1, -high, -low)
        board.pop()
        low = max(low, value)
        if low >= high:
            break
    return low


def _settled(board: Any, low: int, high: int, left: int) -> int:
    """What a position is worth once the pieces that hang are taken."""
    if board.is_check() and not any(board.generate_legal_moves()):
        return -MATE
    low = max(low, _standing(board))
    if left and low < high:
        for move in _ordered(board, list(board.generate_legal_captures())):
            board.push(move)
            value = -_settled(board, -high, -low, left - 1)
            board.pop()
            low = max(low, value)
            if low >= high:
                break
    return low


def _ordered(board: Any, moves: list) -> list:
    """The best takings first: the dearest piece, by the cheapest."""

    def gain(move: Any) -> int:
        taken = board.piece_type_at(move.to_square) or int(board.is_en_passant(move))
        return 16 * taken - board.piece_type_at(move.from_square) if taken else -100 + 16 * (move.promotion or 0)

    return sorted(moves, key=gain, reverse=True)


def _standing(board: Any) -> int:
    """Material, pieces towards the middle, pawns forward and kings away while there are queens."""
    total, queens = 0, board.queens.bit_count()
    for square, piece in board.piece_map().items():
        kind, white = piece.piece_type, piece.color
        if kind == 1:
            place = 4 * (square // 8 - 1 if white else 6 - square // 8) + CENTRE[square] // 2
        elif kind == 6:
            place = -CENTRE[square] if queens else CENTRE[square]
        else:
            place = CENTRE[square]
        total += VALUES[kind] + place if white else -VALUES[kind] - place
    return total if board.turn else -total
