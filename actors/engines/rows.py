"""Which rows of the plain engine are free, and what the free ones still hold.

    cold --take--> in use --give_back--> warm --take--> in use
      ^                         |          |
      +---- nothing to keep ----+          +-- forget --> cold

A warm row holds the keys and values of the tokens that were computed in it: a prompt that
continues them need not compute them again. So where there are more games than rows, requests of games
that began first go first: none of these is pushed out by a later one.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from actors.engines.contract import Request


class Rows:
    def __init__(self, count: int):
        self.cold = list(range(count - 1, -1, -1))  # the lowest number is last
        self.warm: dict[bytes, int] = {}  # computed tokens of a finished row -> the row; oldest first
        self.warm_lengths: dict[int, int] = {}  # how many warm rows have each length

    def free(self) -> int:
        return len(self.cold) + len(self.warm)

    def take(self, prompt: np.ndarray) -> tuple[int, int]:
        """A row for a prompt and how much of it the row holds already: the warm row with the
        longest beginning of the prompt, else a cold row, else the row that has been warm longest."""
        for length in sorted(self.warm_lengths, reverse=True):
            if length < len(prompt):
                row = self._cool(prompt[:length].tobytes(), length)
                if row is not None:
                    return row, length
        if self.cold:
            return self.cold.pop(), 0
        oldest = next(iter(self.warm))
        return self._cool(oldest, len(oldest) // prompt.itemsize), 0

    def give_back(self, row: int, computed: np.ndarray) -> None:
        """`computed`: the tokens whose keys and values are worth keeping, if any."""
        key = computed.tobytes()
        if key and key not in self.warm:
            self.warm[key] = row
            self.warm_lengths[len(computed)] = self.warm_lengths.get(len(computed), 0) + 1
        else:
            self.cold.append(row)

    def forget(self) -> None:
        """What warm rows hold is worth nothing any more."""
        self.cold += self.warm.values()
        self.cold.sort(reverse=True)
        self.warm.clear()
        self.warm_lengths.clear()

    def _cool(self, key: bytes, length: int) -> int | None:
        row = self.warm.pop(key, None)
        if row is not None:
            self.warm_lengths[length] -= 1
            if not self.warm_lengths[length]:
                del self.warm_lengths[length]
        return row


class Waiting:
    """Requests without a row, in the order in which they get one: by their own, then as they came."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Request]] = []
        self.came = 0  # so far

    def __bool__(self) -> bool:
        return bool(self.heap)

    def add(self, request: Request) -> None:
        self.came += 1
        heappush(self.heap, (request.order, self.came, request))

    def next(self) -> Request:
        return heappop(self.heap)[-1]

    def drop(self, ids: set[str]) -> None:
        self.heap = [waiting for waiting in self.heap if waiting[-1].id not in ids]
        heapify(self.heap)
