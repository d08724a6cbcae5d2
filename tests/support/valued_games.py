"""Made-up games whose turns contribute known amounts to their outcome, and embeddings to tell them by."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b

import numpy as np
import pytest

from envs.episode import Episode, Ticket, Turn
from reward_service.desk import RewardDesk, name_of
from reward_service.models.model import RewardModel
from reward_service.models.training import TrainingFailed
from reward_service.shaper import ShapedRewards, Shaper

WORTH = {"ask price": 0.05, "ask size": 0.1, "make offer": 0.2, "refuse offer": 0.0, "small talk": 0.03, "wait": 0.12}
ASKED_FIRST = 0.1  # what an offer is worth beside its own amount, where the turn before asked for the price
WAYS = ("now", "please", "kindly", "again", "my friend", "today", "then", "well", "so", "indeed")


def embed(texts: Sequence[str]) -> np.ndarray:
    """Unit sums of fixed random vectors of the words; the first two weigh more than the manner."""
    return np.stack([_row(text) for text in texts]) if len(texts) else np.empty((0, 32), np.float32)


@cache
def _row(text: str) -> np.ndarray:
    row = np.zeros(32)
    for place, word in enumerate(text.split()):
        chance = np.random.default_rng(int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little"))
        row += chance.normal(size=32) * (1.0 if place < 2 else 0.1)
    return (row / (np.linalg.norm(row) or 1.0)).astype(np.float32)


def episode(number: int, *, ways=WAYS, context: bool = False, seed: int = 0) -> Episode:
    """One seat, 2 to 5 turns; the outcome is the sum of `worth_of`."""
    chance = random.Random(f"{seed} {number}")
    kinds = [chance.choice(list(WORTH)) for _ in range(chance.randint(2, 5))]
    turns = [
        Turn("seat", "policy", f"they {chance.choice(ways)}", f"{kind} {chance.choice(ways)} {chance.choice(ways)}")
        for kind in kinds
    ]
    for turn in turns:
        turn.executable = chance.random() < 0.8
    played = Episode(Ticket("run", "parrot", number, number, (("seat", "policy"),)), turns, {}, True)
    played.outcome = {"seat": float(worth_of(played, context).sum())}
    return played


def worth_of(played: Episode, context: bool = False) -> np.ndarray:
    kinds = [next(kind for kind in WORTH if turn.utterance.startswith(kind)) for turn in played.turns]
    worth = np.array([WORTH[kind] for kind in kinds])
    for before, (number, kind) in zip(kinds, list(enumerate(kinds))[1:], strict=False):
        if context and before == "ask price" and kind == "make offer":
            worth[number] += ASKED_FIRST
    return worth


def batch(first: int, count: int, **options) -> list[Episode]:
    return [episode(number, **options) for number in range(first, first + count)]


def plain(shaped: Sequence[ShapedRewards]) -> list:
    return [(each.number, each.seat, each.version, each.kind, each.rewards.tobytes()) for each in shaped]


def learned(shaper: Shaper, episodes: Sequence[Episode]) -> None:
    """One batch, and the model that is due after it."""
    shaper.shape(episodes)
    shaper.publish(shaper.refit()())


def shaped_by(desk: RewardDesk, number: int, episodes: Sequence[Episode]) -> list[ShapedRewards]:
    for each in episodes:
        desk.receive(each)
    return desk.shape(number, [name_of(each) for each in episodes])


def counts_nowhere(shaper: Shaper, untouched: Shaper, episodes: Sequence[Episode], monkeypatch) -> None:
    """A batch whose values a model cannot tell leaves a shaper as one that never saw it."""

    def fails(model, texts):
        raise TrainingFailed("its values are not finite numbers")

    with monkeypatch.context() as broken, pytest.raises(TrainingFailed):
        broken.setattr(RewardModel, "values", fails)
        shaper.shape(episodes)
    assert same(shaper.state(), untouched.state())
    assert plain(shaper.shape(episodes)) == plain(untouched.shape(episodes))


def same(one, other) -> bool:
    """States with arrays in them."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return one == other
