"""Trajectories, the learner's unit of work: each is one policy seat's whole game.

    collect     of episodes and their shaped rewards
    recorded    of a recorded game: its tokens, and the advantage of each turn

Trajectories of a batch are put in the order of (ticket number, seat), so a batch gives the
same update whatever order its episodes arrived in. Every reward finds its seat and every
policy seat finds its reward; what does not match is an error that names the episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from envs.episode import Episode, SeatSequence
from learners.batch.choices import branch_tokens
from reward_service.shaper import ShapedRewards


@dataclass(slots=True)
class Trajectory:
    """`turn_tokens` counts each turn's trained tokens: those that were sampled, or of an
    utterance that was chosen from a list the first. In sequence order they are exactly the
    tokens where `sequence.mask` is set."""

    number: int
    seat: str
    task: int  # the seed of its game: seats of one task are comparable
    sequence: SeatSequence
    rewards: np.ndarray  # float64 [turns]
    turn_tokens: np.ndarray  # int64 [turns]
    kind: str  # of the rewards: "reward" or "advantage"
    terminated: bool
    closing_ids: np.ndarray  # int32: what the seat was shown after its last turn, or would have been
    anchors: np.ndarray | None = None  # int64 [turns]: turns of equal label histories share a number
    # float32 [turns]: on top of those that credit makes of the rewards
    expected_advantages: np.ndarray | None = None

    def __len__(self) -> int:
        """Tokens of its forward pass."""
        return len(self.sequence.ids) + branch_tokens(self.sequence)


def collect(episodes: Iterable[Episode], rewards: Iterable[ShapedRewards]) -> list[Trajectory]:
    """The batch's trajectories, sorted; raises ValueError naming what does not fit."""
    shaped: dict[tuple[int, str], ShapedRewards] = {}
    for reward in rewards:
        if (reward.number, reward.seat) in shaped:
            raise ValueError(f"episode {reward.number}: seat {reward.seat!r} was rewarded twice")
        shaped[reward.number, reward.seat] = reward
    trajectories, seen = [], set()
    for episode in episodes:
        number = episode.ticket.number
        if number in seen:
            raise ValueError(f"episode {number} is in the batch twice")
        seen.add(number)
        for seat in episode.policy_seats():
            if not episode.turns_of(seat):  # the game ended before this seat spoke
                shaped.pop((number, seat), None)
                continue
            if (number, seat) not in shaped:
                raise ValueError(f"episode {number}: seat {seat!r} has no reward")
            trajectories.append(_trajectory(episode, seat, shaped.pop((number, seat))))
    if shaped:
        number, seat = min(shaped)
        raise ValueError(f"a reward names episode {number}, seat {seat!r}, which the batch does not hold")
    return batch_of(trajectories)


def batch_of(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """In the learner's order; raises ValueError if they cannot be learned from together."""
    if not trajectories:
        raise ValueError("the batch holds no turn of the policy, so there is nothing to learn from")
    if len({(trajectory.number, trajectory.seat) for trajectory in trajectories}) < len(trajectories):
        raise ValueError("a seat's game is in the batch twice")
    check_together(trajectories)
    return sorted(trajectories, key=lambda trajectory: (trajectory.number, trajectory.seat))


def check_together(trajectories: Sequence[Trajectory]) -> None:
    """ValueError if credit cannot be made of all of them in one way."""
    kinds = sorted({trajectory.kind for trajectory in trajectories})
    if len(kinds) > 1 or kinds[0] not in ("reward", "advantage"):
        raise ValueError(f"rewards of one batch must all be 'reward' or all 'advantage', not {kinds}")
    expected = {trajectory.expected_advantages is not None for trajectory in trajectories}
    if len(expected) > 1 or (expected == {True} and kinds == ["advantage"]):
        raise ValueError(
            "expected advantages go on top of those that credit makes of rewards, for all of a batch or for none"
        )


def _trajectory(episode: Episode, seat: str, shaped: ShapedRewards) -> Trajectory:
    where = f"episode {episode.ticket.number}: seat {seat!r}"
    turns = episode.turns_of(seat)
    if any(turn.tokens is None for turn in turns):
        raise ValueError(f"{where} has a turn without token ids, though the policy played it")
    sequence = episode.sequence(seat)
    if not {len(sequence.mask), len(sequence.logprobs), len(sequence.versions)} == {len(sequence.ids)}:
        raise ValueError(f"{where} has token ids, log-probs and versions of different lengths")
    values = _checked(where, sequence, shaped.rewards, len(turns))
    if sequence.experts is not None and len(sequence.experts) != len(sequence.ids) - 1:
        raise ValueError(f"{where} has {len(sequence.ids)} tokens, but experts of {len(sequence.experts)}")
    turn_tokens = np.bincount(sequence.turn[sequence.mask], minlength=len(turns))
    closing = episode.closing_ids.get(seat, np.empty(0, np.int32))
    for name in ("anchors", "expected_advantages"):
        given = getattr(shaped, name)
        if given is not None and len(given) != len(turns):
            raise ValueError(f"{where} has {len(turns)} turns but {len(given)} {name}")
    if shaped.expected_advantages is not None and not np.isfinite(shaped.expected_advantages).all():
        raise ValueError(f"{where} has an expected advantage that is not finite: {shaped.expected_advantages.tolist()}")
    return Trajectory(
        number=episode.ticket.number,
        seat=seat,
        task=episode.ticket.seed,
        sequence=sequence,
        rewards=values,
        turn_tokens=turn_tokens,
        kind=shaped.kind,
        terminated=episode.terminated,
        closing_ids=closing,
        anchors=shaped.anchors,
        expected_advantages=shaped.expected_advantages,
    )


def recorded(number: int, turns: Sequence[tuple[np.ndarray, np.ndarray]], advantages: Sequence[float]) -> Trajectory:
    """Of one seat's game, whoever played it: of each turn the tokens that are new before the utterance, and the
    utterance's. It is number `number` of the games that are learned from."""
    parts = [part for turn in turns for part in turn]
    place = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    ids, mask = np.concatenate(parts).astype(np.int32), place % 2 == 1
    sequence = SeatSequence(ids, mask, logprobs=None, versions=None, turn=place // 2)
    values = _checked(f"recorded game {number}", sequence, advantages, len(turns))
    turn_tokens, closing = np.bincount(sequence.turn[mask], minlength=len(turns)), np.empty(0, np.int32)
    return Trajectory(number, "", number, sequence, values, turn_tokens, "advantage", True, closing)


def _checked(where: str, sequence: SeatSequence, rewards: Sequence[float], turns: int) -> np.ndarray:
    """float64 [turns]: the rewards, if the sequence can be trained on with them."""
    if len(rewards) != turns:
        raise ValueError(f"{where} has {turns} turns but {len(rewards)} rewards")
    values = np.asarray(rewards, np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"{where} has a reward that is not finite: {values.tolist()}")
    if sequence.mask[0]:
        raise ValueError(f"{where} starts with a sampled token: there is no prompt to predict it from")
    return values


def label_anchors(trajectories: Sequence[Trajectory]) -> np.ndarray:
    """int64 [turns], as the reward shaper numbered them."""
    for each in trajectories:
        if each.anchors is None:
            raise ValueError(
                f"episode {each.number}: seat {each.seat!r} has no anchors; learner.credit.anchor=labels needs rewards "
                "that know label histories, such as reward.shaper=aria's"
            )
    return np.concatenate([each.anchors for each in trajectories])
