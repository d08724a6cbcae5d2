"""Whole sequences into micro-batches without padding, evenly over the ranks.

    plan[rank][micro_batch] = trajectory indices

Every trajectory is in the plan exactly once; no micro-batch holds more tokens than the
budget; every rank has the same number of micro-batches (ZeRO-3 gathers weights in every
forward pass, so ranks must run in lockstep). A rank with less work has empty ones at
the end, which it runs on some sequence with all loss weights zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from learners.batch import Trajectory

Plan = list[list[list[int]]]


def balance(lengths: Sequence[int], ranks: int) -> list[list[int]]:
    """Sequence indices per rank, about equal in tokens: longest first, each to the rank
    that has least so far."""
    shares: list[list[int]] = [[] for _ in range(ranks)]
    load = np.zeros(ranks, np.int64)
    for index in np.argsort(-np.asarray(lengths), kind="stable"):
        rank = int(load.argmin())
        shares[rank].append(int(index))
        load[rank] += lengths[index]
    return shares


def fill(lengths: Sequence[int], share: Sequence[int], budget: int) -> list[list[int]]:
    """Micro-batches of one rank. `share` comes longest first, so neighbours have similar
    lengths: that keeps the attention over a micro-batch near its useful work."""
    packs: list[list[int]] = []
    room = 0
    for index in share:
        if lengths[index] > room:
            packs.append([])
            room = budget
        packs[-1].append(index)
        room -= lengths[index]
    return packs


def plan(trajectories: Sequence[Trajectory], ranks: int, budget: int) -> Plan:
    lengths = [len(trajectory) for trajectory in trajectories]
    longest = int(np.argmax(lengths))
    if lengths[longest] > budget:
        long = trajectories[longest]
        raise ValueError(
            f"episode {long.number}: seat {long.seat!r} has {lengths[longest]} tokens, more than "
            f"learner.tokens_per_micro_batch={budget}; raise it, or lower rollout.engine.max_context"
        )
    packs = [fill(lengths, share, budget) for share in balance(lengths, ranks)]
    most = max(len(rank) for rank in packs)
    return [rank + [[] for _ in range(most - len(rank))] for rank in packs]


@dataclass(slots=True)
class Pack:
    """One forward pass: sequences end to end. The last five arrays have one entry per
    predicted token; `keep` is the position whose logits predict it."""

    ids: np.ndarray  # int64 [tokens]
    positions: np.ndarray  # int64 [tokens], from 0 in each sequence
    lengths: np.ndarray  # int64 [sequences]
    keep: np.ndarray  # int64 [predicted]
    targets: np.ndarray  # int64 [predicted]
    advantages: np.ndarray  # float32 [predicted]
    behaviour: np.ndarray  # float32 [predicted]: log-prob when it was sampled
    fresh: np.ndarray  # bool [predicted]: sampled by the very weights being updated


def pack_sequences(sequences: Sequence[np.ndarray], predicted: Sequence[np.ndarray]) -> Pack:
    """Sequences of ids, and for each which of its tokens are predicted (never the first).
    Advantages and behaviour log-probs are zero, so the pack alone has no loss."""
    lengths = np.array([len(ids) for ids in sequences], np.int64)
    ids = np.concatenate(sequences).astype(np.int64)
    positions = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    token = np.flatnonzero(np.concatenate(predicted))
    zeros = np.zeros(len(token), np.float32)
    return Pack(ids, positions, lengths, token - 1, ids[token], zeros, zeros, np.ones(len(token), bool))


def pack_trajectories(
    trajectories: Sequence[Trajectory], advantages: Sequence[np.ndarray], version: int | None
) -> Pack:
    """`advantages` per trajectory, one per trained token; `version` is that of the weights
    being updated, None if no engine has them."""
    pack = pack_sequences(
        [trajectory.sequence.ids for trajectory in trajectories],
        [trajectory.sequence.mask for trajectory in trajectories],
    )
    pack.advantages = np.concatenate(advantages).astype(np.float32)
    pack.behaviour = np.concatenate([t.sequence.logprobs[t.sequence.mask] for t in trajectories])
    versions = np.concatenate([t.sequence.versions[t.sequence.mask] for t in trajectories])
    pack.fresh = np.zeros(len(versions), bool) if version is None else versions == version
    return pack


def pack_to_read(trajectories: Sequence[Trajectory]) -> Pack:
    """For reading values: a game that was cut off goes on with what its seat would have been
    shown next. `keep` has the trained tokens' places first, then the end of each of these
    games, with no target."""
    whole = [np.concatenate([t.sequence.ids, t.closing_ids]) for t in trajectories]
    predicted = [np.concatenate([t.sequence.mask, np.zeros(len(t.closing_ids), bool)]) for t in trajectories]
    pack = pack_sequences(whole, predicted)
    ends = np.cumsum(pack.lengths)[[not t.terminated for t in trajectories]] - 1
    pack.keep = np.concatenate([pack.keep, ends])
    pack.targets = np.concatenate([pack.targets, np.zeros(len(ends), np.int64)])
    return pack
