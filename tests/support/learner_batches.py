"""Batches for the learner's tests: random tokens in real Episodes."""

from __future__ import annotations

import numpy as np

from envs.episode import Episode, Ticket, Turn, TurnTokens
from reward_service.shaper import ShapedRewards

VOCABULARY = 64  # ids below this exist in every test model
MADE_UP = {"logprob_gap_stop": 1e6}  # for a learner of these batches: their log-probs are no engine's


def make_batch(
    episodes: int, seed: int, version: int = 0, most_turns: int = 4, seats: tuple[str, ...] = ("guesser",)
) -> tuple[list[Episode], list[ShapedRewards]]:
    rng = np.random.default_rng(seed)
    batch, rewards = [], []
    for number in range(episodes):
        turns: list[Turn] = []
        for seat in seats:
            played = int(rng.integers(1, most_turns + 1))
            turns += [_turn(rng, seat, version) for _ in range(played)]
            rewards.append(ShapedRewards(number, seat, rng.random(played).astype(np.float32), version=0))
        ticket = Ticket("run", "game", number, seed=number, players=tuple((seat, "policy") for seat in seats))
        batch.append(Episode(ticket, turns, {seat: 1.0 for seat in seats}, terminated=True))
    return batch, rewards


def _turn(rng: np.random.Generator, seat: str, version: int) -> Turn:
    seen, said = (int(n) for n in rng.integers(1, 10, 2))
    tokens = TurnTokens(
        observation_ids=rng.integers(0, VOCABULARY, seen).astype(np.int32),
        utterance_ids=rng.integers(0, VOCABULARY, said).astype(np.int32),
        logprobs=rng.normal(-4, 0.5, said).astype(np.float32),
        versions=np.full(said, version, np.int32),
    )
    return Turn(seat, "policy", "seen", "said", tokens=tokens)
