"""A game whose turns wait for a world as slow as those behind a network: log-normal, with a long tail."""

from __future__ import annotations

import asyncio
import math
import random

from envs.game import Step
from envs.parrot import Parrot

MEDIAN_SECONDS, SIGMA, CAP_SECONDS, TURNS = 0.3, 1.0, 5.0, 5


def waits(seed: int, turns: int = TURNS) -> list[float]:
    """Seconds of each turn; a task waits the same whoever plays it, and whenever."""
    rng = random.Random(f"waits {seed}")
    return [min(CAP_SECONDS, MEDIAN_SECONDS * math.exp(rng.gauss(0.0, SIGMA))) for _ in range(turns)]


class WaitingParrot(Parrot):
    name = "waiting_parrot"

    def __init__(self, rounds: int = TURNS):
        super().__init__(rounds=rounds)

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self._waits = waits(seed, self.horizon)

    async def step(self, utterance: str) -> Step:
        await asyncio.sleep(self._waits[self._turn])
        return super().step(utterance)
