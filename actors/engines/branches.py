"""Scoring several continuations of one prompt in its own cache row.

Each listed utterance is a branch: its tokens stand in the places after the prompt, one branch
behind the other, as if each came right after the prompt, and see the prompt and their own
branch only:

    place     0 1 2 3 4 | 5 6 | 7 8 9      prompt of 5, branches of 3 and 4 tokens
    position  0 1 2 3 4 | 5 6 | 5 6 7      (a branch's last token is not fed: nobody asks what follows)

The prompt is thus computed once, however many utterances are listed, and what it left in the
cache serves the next turn; the branches are written over. Branches that do not fit behind the
prompt together take further passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(slots=True)
class Pass:
    """One row's part of a forward pass, int64, one entry for each fed token. `wanted` says what
    is read off it: at which of them, of which utterance, which of its tokens."""

    ids: np.ndarray
    places: np.ndarray
    positions: np.ndarray
    begins: np.ndarray  # place at which the token's own branch begins; 0 for the prompt's
    wanted: np.ndarray  # int64 [read, 3]

    def __len__(self) -> int:
        return len(self.ids)


def passes(prompt: np.ndarray, computed: int, listed: Sequence[Sequence[int]], width: int) -> list[Pass]:
    """What a row of `width` places has to be fed to score all that is listed, where the prompt's
    first `computed` tokens are in the cache. The first pass finishes the prompt."""
    size = len(prompt)
    made = [[(int(prompt[place]), place, place, 0) for place in range(computed, size)]]
    wanted = [[(size - computed - 1, index, 0) for index in range(len(listed))]]
    end = size
    for index, said in enumerate(listed):
        if end + len(said) - 1 > width:
            made.append([])
            wanted.append([])
            end = size
        fed = len(made[-1])
        made[-1] += [(token, end + i, size + i, end) for i, token in enumerate(said[:-1])]
        wanted[-1] += [(fed + i, index, i + 1) for i in range(len(said) - 1)]
        end += len(said) - 1
    return [
        Pass(*np.array(fed, np.int64).reshape(-1, 4).T, np.array(read, np.int64).reshape(-1, 3))
        for fed, read in zip(made, wanted, strict=True)
    ]


class Whose(NamedTuple):
    """Which token a log-prob is of."""

    row: int
    utterance: int  # of those listed for the row
    token: int  # of the utterance


@dataclass(slots=True)
class Feed:
    """Passes of several rows as one, aligned at the right. Of what is read: on which line, how
    many queries before the last, which token; and whose log-prob that is."""

    rows: np.ndarray  # int64 [rows]
    owners: np.ndarray  # int64 [rows, queries]: the row that a query is cached in; of padding, `idle`
    ids: np.ndarray  # int64 [rows, queries], like the next three
    places: np.ndarray
    positions: np.ndarray
    begins: np.ndarray
    line: np.ndarray  # int64 [read], like the next two
    back: np.ndarray
    target: np.ndarray
    whose: list[Whose]

    def hand_out(self, values: np.ndarray, found: dict[int, list[np.ndarray]]) -> None:
        for (row, utterance, token), value in zip(self.whose, values, strict=True):
            found[row][utterance][token] = value


def feed(batch: Sequence[tuple[int, Pass]], listed: dict[int, Sequence[Sequence[int]]], idle: int) -> Feed:
    """`batch`: rows, each with its pass."""
    queries = max(len(part) for _, part in batch)
    ids, places, positions, begins, owners = np.zeros((5, len(batch), queries), np.int64)
    owners[:] = idle
    line, back, whose = [], [], []
    for number, (row, part) in enumerate(batch):
        own = number, slice(queries - len(part), queries)
        ids[own], places[own], positions[own] = part.ids, part.places, part.positions
        begins[own], owners[own] = part.begins, row
        line += [number] * len(part.wanted)
        back += (len(part) - 1 - part.wanted[:, 0]).tolist()
        whose += [Whose(row, utterance, token) for _, utterance, token in part.wanted.tolist()]
    target = [listed[row][utterance][token] for row, utterance, token in whose]
    rows = np.array([row for row, _ in batch], np.int64)
    read = np.array(line, np.int64), np.array(back, np.int64), np.array(target, np.int64)
    return Feed(rows, owners, ids, places, positions, begins, *read, whose)
