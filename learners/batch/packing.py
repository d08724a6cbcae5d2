"""Whole sequences into micro-batches without padding, evenly over the ranks.

    plan[rank][micro_batch] = trajectory indices

Every trajectory is in the plan exactly once; no micro-batch holds more tokens than the
budget, but for a game alone in one, whose listed actions go beyond it; every rank has the
same number of micro-batches (ZeRO-3 gathers weights in every forward pass, so ranks must
run in lockstep). A rank with less work has empty ones at the end, which it runs on some
sequence with all loss weights zero.

Where openings may be shared (learners/batch/openings.py) and a batch has enough in common, sequences
are planned in the order of their openings, and count without what the one before them has computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from envs.episode import Choice
from learners.batch.choices import Listed, listed_behind
from learners.batch.openings import WORTH, common_blocks, segments
from learners.batch.trajectories import Trajectory

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


def fill(
    lengths: Sequence[int], share: Sequence[int], budget: int, common: Sequence[int] | None = None
) -> list[list[int]]:
    """Micro-batches of one rank. `share` comes longest first, so neighbours have similar
    lengths: that keeps the attention over a micro-batch near its useful work. `common`: tokens
    that each of the share need not compute behind the one before it."""
    packs: list[list[int]] = []
    room = 0
    for index, known in zip(share, [0] * len(share) if common is None else common, strict=True):
        if lengths[index] - known > room or not packs:
            packs.append([])
            room, known = budget, 0
        packs[-1].append(index)
        room -= lengths[index] - known
    return packs


def plan(
    trajectories: Sequence[Trajectory],
    ranks: int,
    budget: int,
    most: int = 0,
    shared: bool = False,
    hindsight: bool = False,
) -> Plan:
    """`most`: what follows a cut-off game is to be read too, in sequences of so many tokens. `shared`: openings may
    be computed once. `hindsight`: in place of what follows it, its end is to be read before each game."""
    more = told_before if hindsight else shown_after
    lengths = [len(trajectory) + len(more(trajectory, most)) for trajectory in trajectories]
    own = [len(trajectory.sequence.ids) for trajectory in trajectories]
    longest = int(np.argmax(own))
    if own[longest] > budget:
        long = trajectories[longest]
        raise ValueError(
            f"episode {long.number}: seat {long.seat!r} has {own[longest]} tokens, more than "
            f"learner.tokens_per_micro_batch={budget}; raise it, or lower rollout.engine.max_context"
        )
    if shared and (in_order := by_opening(trajectories, lengths)) is not None:
        order, common = in_order
        of_ranks = divide(lengths, order, ranks, common)
        known = dict(zip(order, common, strict=True))
        packs = [fill(lengths, share, budget, [known[index] for index in share]) for share in of_ranks]
    else:
        packs = [fill(lengths, share, budget) for share in balance(lengths, ranks)]
    most = max(len(rank) for rank in packs)
    return [rank + [[] for _ in range(most - len(rank))] for rank in packs]


def divide(lengths: Sequence[int], order: Sequence[int], ranks: int, common: Sequence[int]) -> list[list[int]]:
    """Sequence indices per rank, in order, so that the rank with most tokens to compute has as few as can be."""
    least, most = 0, sum(lengths)
    while least < most:
        limit = (least + most) // 2
        if len(fill(lengths, order, limit, common)) > ranks:
            least = limit + 1
        else:
            most = limit
    shares = fill(lengths, order, most, common)
    return shares + [[] for _ in range(ranks - len(shares))]


def by_opening(trajectories: Sequence[Trajectory], lengths: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """The order in which as much as possible is computed once, and how much that is of each; None if it is little."""
    if (openings := openings_of(trajectories)) is None:
        return None
    order = sorted(range(len(openings)), key=lambda index: (openings[index].astype(">i4").tobytes(), -lengths[index]))
    common = common_blocks([openings[index] for index in order])
    return (order, common.tolist()) if common.sum() >= WORTH * sum(lengths) else None


def openings_of(trajectories: Sequence[Trajectory]) -> list[np.ndarray] | None:
    """What each of them begins with, up to the token that predicts the first trained one; None where tokens have more
    to them than what is before them."""
    if any(each.sequence.choices or each.sequence.experts is not None for each in trajectories):
        return None
    return [each.sequence.ids[: max(0, int(each.sequence.mask.argmax()) - 1)] for each in trajectories]


@dataclass(slots=True)
class Pack:
    """One forward pass: sequences end to end. From `keep` on, arrays have one entry per
    predicted token; `keep` is the position whose logits predict it."""

    ids: np.ndarray  # int64 [tokens]
    positions: np.ndarray  # int64 [tokens], from 0 in each sequence
    lengths: np.ndarray  # int64 [segments]: a sequence each, but for what sequences have in common
    keep: np.ndarray  # int64 [predicted]
    targets: np.ndarray  # int64 [predicted]
    advantages: np.ndarray  # float32 [predicted]
    sampler_logprobs: np.ndarray | None  # float32 [predicted]: log-prob when it was sampled; None: nobody knows
    on_policy: np.ndarray | None  # bool [predicted]: sampled by the very weights being updated
    old_logprobs: np.ndarray | None = None  # float32 [predicted]: by the weights at the start of the update
    reference: np.ndarray | None = None  # float32 [predicted]: log-prob by the weights the run started from
    trained_lengths: np.ndarray | None = None  # int64 [sequences]: predicted tokens of each
    listed: Listed | None = None  # where choices were made; what is listed is fed behind its sequence
    experts: np.ndarray | None = None  # int16 [tokens, layers, choices]: those of the engine, -1 without a record
    begins: np.ndarray | None = None  # int64 [sequences]: where its first token would be, were all of it in one place
    until: np.ndarray | None = None  # int64 [segments]: the segment behind all that go on from it; None: none does


def pack_sequences(
    sequences: Sequence[np.ndarray],
    predicted: Sequence[np.ndarray],
    choices: Sequence[dict[int, Choice]] = (),
    openings: Sequence[np.ndarray] | None = None,
) -> Pack:
    """Sequences of ids, for each which of its tokens are predicted (never the first), and the
    choices made in it, by place. Advantages and sampler log-probs are zero, so the pack alone
    has no loss. `openings`: what may be computed once for neighbours that have it in common."""
    if any(choices):
        return _with_listed(sequences, predicted, choices)
    common = np.zeros(len(sequences), np.int64) if openings is None else common_blocks(openings)
    laid = segments([len(ids) for ids in sequences], common)
    pieces = list(zip(laid.sequence, laid.begin, laid.end, strict=True))
    ids = np.concatenate([sequences[number][begin:end] for number, begin, end in pieces]).astype(np.int64)
    starts = np.cumsum(laid.lengths) - laid.lengths - laid.begin
    positions = np.arange(len(ids)) - np.repeat(starts, laid.lengths)
    token = np.flatnonzero(np.concatenate([predicted[number][begin:end] for number, begin, end in pieces]))
    zeros = np.zeros(len(token), np.float32)
    pack = Pack(ids, positions, laid.lengths, token - 1, ids[token], zeros, zeros, np.ones(len(token), bool))
    pack.begins = starts[laid.own]
    pack.until = laid.until if common.any() else None
    return pack


def _with_listed(
    sequences: Sequence[np.ndarray], predicted: Sequence[np.ndarray], choices: Sequence[dict[int, Choice]]
) -> Pack:
    behind, listed = listed_behind(sequences, choices)
    pack = pack_sequences(
        [np.concatenate([ids, branch.ids]) for ids, branch in zip(sequences, behind, strict=True)],
        [np.append(own, np.zeros(len(branch.ids), bool)) for own, branch in zip(predicted, behind, strict=True)],
    )
    pack.positions[listed.begin > 0] = np.concatenate([branch.positions for branch in behind])
    listed.decision = np.searchsorted(pack.keep, listed.decision - 1)
    pack.listed = listed
    return pack


def pack_trajectories(
    trajectories: Sequence[Trajectory],
    advantages: Sequence[np.ndarray],
    version: int | None,
    old_logprobs: Sequence[np.ndarray] | None = None,
    reference: Sequence[np.ndarray] | None = None,
    shared: bool = False,
) -> Pack:
    """`advantages`, and log-probs that have been read, per trajectory, one per trained token;
    `version` is that of the weights being updated, None if no engine has them. `shared`: openings may be."""
    pack = pack_sequences(
        [trajectory.sequence.ids for trajectory in trajectories],
        [trajectory.sequence.mask for trajectory in trajectories],
        [trajectory.sequence.choices for trajectory in trajectories],
        openings_of(trajectories) if shared else None,
    )
    pack.advantages = np.concatenate(advantages).astype(np.float32)
    pack.sampler_logprobs = pack.on_policy = None
    if all(trajectory.sequence.logprobs is not None for trajectory in trajectories):
        pack.sampler_logprobs = np.concatenate([t.sequence.logprobs[t.sequence.mask] for t in trajectories])
        versions = np.concatenate([t.sequence.versions[t.sequence.mask] for t in trajectories])
        pack.on_policy = np.zeros(len(versions), bool) if version is None else versions == version
    pack.experts = recorded_experts(trajectories, pack.lengths)
    pack.trained_lengths = np.array([int(trajectory.turn_tokens.sum()) for trajectory in trajectories], np.int64)
    if old_logprobs is not None:
        pack.old_logprobs = np.concatenate(old_logprobs).astype(np.float32)
    if reference is not None:
        pack.reference = np.concatenate(reference).astype(np.float32)
    return pack


def recorded_experts(trajectories: Sequence[Trajectory], lengths: np.ndarray) -> np.ndarray | None:
    """Each sequence's own, then nothing for the rest of the `lengths` that are fed of it."""
    recorded = [trajectory.sequence.experts for trajectory in trajectories]
    if any(each is None for each in recorded):
        return None
    experts = np.full((int(lengths.sum()), *recorded[0].shape[1:]), -1, np.int16)
    for start, each in zip(np.cumsum(lengths) - lengths, recorded, strict=True):
        experts[start : start + len(each)] = each
    return experts


def by_trajectory(values: np.ndarray, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
    """What has an entry for each trained token of a batch, cut at the trajectories' ends."""
    return np.split(values, np.cumsum([int(trajectory.turn_tokens.sum()) for trajectory in trajectories])[:-1])


def shown_after(trajectory: Trajectory, most: int) -> np.ndarray:
    """What its seat would have been shown next, had the game not been cut off: the newest of it, where a sequence would
    have more than so many tokens."""
    room = 0 if trajectory.terminated else max(0, most - len(trajectory))
    return trajectory.closing_ids[max(0, len(trajectory.closing_ids) - room) :]


def pack_to_read(trajectories: Sequence[Trajectory], most: int, said: bool = False, shared: bool = False) -> Pack:
    """For reading values: a game that was cut off goes on with what its seat would have been
    shown next (`shown_after`). `keep` has the trained tokens' places first, then the end of each of these
    games, with no target; and then, if `said`, the last token of each utterance, with none."""
    whole, predicted = [], []
    for each in trajectories:
        after = shown_after(each, most)
        whole.append(np.append(each.sequence.ids, after))
        predicted.append(np.append(each.sequence.mask, np.zeros(len(after), bool)))
    openings = openings_of(trajectories) if shared else None
    pack = pack_sequences(whole, predicted, [t.sequence.choices for t in trajectories], openings)
    pack.experts = recorded_experts(trajectories, pack.lengths)
    sizes = np.array([len(ids) for ids in whole])
    ends = (pack.begins + sizes)[[not t.terminated for t in trajectories]] - 1
    if said:
        of_utterances = [start + utterance_ends(t) for start, t in zip(pack.begins, trajectories, strict=True)]
        ends = np.concatenate([ends, *of_utterances])
    pack.keep = np.concatenate([pack.keep, ends])
    pack.targets = np.concatenate([pack.targets, np.zeros(len(ends), np.int64)])
    return pack


def pack_in_hindsight(trajectories: Sequence[Trajectory], places: int) -> Pack:
    """For reading the trained tokens' log-probs as if the end of each game had been told before it, in sequences of at
    most so many places."""
    sequences, predicted, choices = [], [], []
    for each in trajectories:
        end = told_before(each, places)
        sequences.append(np.append(end, each.sequence.ids))
        predicted.append(np.append(np.zeros(len(end), bool), each.sequence.mask))
        choices.append({place + len(end): choice for place, choice in each.sequence.choices.items()})
    return pack_sequences(sequences, predicted, choices)


def told_before(trajectory: Trajectory, places: int) -> np.ndarray:
    """The end of a game: what its seat was shown at its last turn and after it, without what it said there, which would
    make that certain; the newest of it, where the sequence would go beyond so many places."""
    ids, turn, versions = trajectory.sequence.ids, trajectory.sequence.turn, trajectory.sequence.versions
    end = np.append(ids[(turn == turn[-1]) & (versions == -1)], trajectory.closing_ids)
    return end[max(0, len(end) + len(ids) - places) :]


def utterance_ends(trajectory: Trajectory) -> np.ndarray:
    """int64 [turns that have trained tokens]: the place of the utterance's last token. Of one that
    was chosen from a list that is not the trained token, which is its first."""
    spoken = np.flatnonzero(trajectory.turn_tokens)
    return np.searchsorted(trajectory.sequence.turn, spoken, side="right") - 1
