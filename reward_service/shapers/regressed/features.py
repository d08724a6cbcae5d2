"""Turns as numbers: the situation a seat stood in, and what its utterance meant there.

    gist -> embedding, its leading components + parsed amounts = u, a point in intention space

    situation(t)   turn, seat, what was heard last, the utterance before, all utterances before,
                   and those that were affirmed less those that were denied
    meaning(t)     u, its products with the situation, amounts against amounts, a repetition

A linear function of both is a model that generalises over (history, action): two turns that
no label history would ever put into one group are near each other here. Products are there
because what an utterance is worth depends on what was said before: the same demand after a
soft answer, the same question asked twice.

The axes are found once, from the utterances of the first games, and stay; so do the names of the amounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from reward_service.intentions.corpus import Embed
from reward_service.intentions.gist import NO, YES, Gist
from reward_service.intentions.reading import Reading

TURNS = 12  # turns told apart; later ones count as the last


@dataclass(frozen=True, eq=False)
class Axes:
    """How gists become points: principal components of unit embeddings, then named amounts."""

    mean: np.ndarray  # float32 [dimension]
    directions: np.ndarray  # float32 [dimension, components]: the first has unit spread
    amounts: tuple[str, ...]
    players: tuple[tuple[str, str], ...]

    @classmethod
    def found(cls, gists: Iterable[Gist], players: Iterable[tuple[str, str]], components: int, embed: Embed) -> Axes:
        gists = sorted(set(gists))
        rows = embed([gist.text for gist in gists])
        mean = rows.mean(axis=0)
        _, spread, directions = np.linalg.svd(rows - mean, full_matrices=False)
        unit = max(float(spread[0]) / np.sqrt(len(rows)), 1e-6)
        return cls(
            mean,
            (directions[:components].T / unit).astype(np.float32),
            tuple(sorted({name for gist in gists for name, _ in gist.amounts})),
            tuple(sorted(set(players))),
        )

    @property
    def width(self) -> int:
        """Of a point; its last 2 * amounts columns are the amounts, and which of them were named."""
        return self.directions.shape[1] + 2 * len(self.amounts)

    def points(self, gists: Sequence[Gist], embed: Embed) -> np.ndarray:
        """float64 [gists, width]"""
        if not gists:
            return np.zeros((0, self.width))
        named = np.zeros((len(gists), 2 * len(self.amounts)))
        place = {name: column for column, name in enumerate(self.amounts)}
        for row, gist in enumerate(gists):
            for name, amount in gist.amounts:
                if name in place:
                    named[row, place[name]] = amount
                    named[row, len(place) + place[name]] = 1.0
        return np.hstack([(embed([gist.text for gist in gists]) - self.mean) @ self.directions, named])


def features(readings: Sequence[Reading], axes: Axes, embed: Embed) -> tuple[np.ndarray, np.ndarray]:
    """Situation and meaning of every turn: float32 [turns, ...], reading after reading."""
    gists = list(dict.fromkeys(gist for reading in readings for gist in reading.clustered))
    row = {gist: number for number, gist in enumerate(gists)}
    points = np.vstack([axes.points(gists, embed), np.zeros((1, axes.width))])  # the last: nothing
    lengths = [reading.turns for reading in readings]
    said = points[[row[gist] for reading in readings for gist in reading.said]]
    heard_labels = [heard for reading in readings for heard in reading.heard]
    heard = points[[row.get(each, len(gists)) if isinstance(each, Gist) else len(gists) for each in heard_labels]]
    turn = np.concatenate([np.arange(length) for length in lengths])
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)

    before = np.where(turn[:, None] > 0, np.roll(said, 1, axis=0), 0.0)
    answer = np.array([1.0 if each == YES else -1.0 if each == NO else 0.0 for each in heard_labels])
    earlier = _since(before, first) / np.maximum(turn, 1)[:, None]
    affirmed = _since(before * answer[:, None], first)
    late = turn[:, None] / 10

    which = np.zeros((len(turn), TURNS))
    which[np.arange(len(turn)), np.minimum(turn, TURNS - 1)] = 1.0
    seat = np.repeat([[float(reading.player == player) for player in axes.players] for reading in readings], lengths, 0)
    named = 2 * len(axes.amounts)
    amounts, amounts_heard, amounts_before = (each[:, axes.width - named :] for each in (said, heard, before))
    yes_no = np.stack([answer > 0, answer < 0], axis=1).astype(float)
    situation = [which, seat, late, yes_no, heard, amounts_heard**2, before, amounts_before**2, earlier, affirmed]
    meaning = [
        *(said, amounts**2, said * affirmed, said * heard, said * before, said * late),
        *(_products(amounts, amounts_heard), _products(amounts, amounts_before)),
        _repeated(readings)[:, None],
    ]
    return np.hstack(situation).astype(np.float32), np.hstack(meaning).astype(np.float32)


def _since(rows: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Sum of the rows from each one's `first` to itself."""
    total = np.vstack([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
    return total[1:] - total[first]


def _products(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one[:, :, None] * other[:, None, :]).reshape(len(one), -1)


def _repeated(readings: Sequence[Reading]) -> np.ndarray:
    """1 where the seat has said the same before."""
    return np.array(
        [float(gist in reading.said[:turn]) for reading in readings for turn, gist in enumerate(reading.said)]
    )
