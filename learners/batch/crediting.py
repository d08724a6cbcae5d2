"""The credit of a batch: its trajectories as the ragged arrays that methods compute on, and what they make of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from learners.batch.anchors import observation_anchors, state_anchors, task_groups, utterance_openings
from learners.batch.trajectories import Trajectory
from learners.credit.groups import step_groups
from learners.credit.method import CREDIT, ActorCritic, CreditMethod
from learners.credit.soft import token_penalties
from learners.credit.steps import rewards_to_go
from learners.credit.turns import FIELDS, Credit, Turns


def turns_of(trajectories: Sequence[Trajectory], **readings: np.ndarray | None) -> Turns:
    """`readings`: optional fields of Turns, each in batch order."""
    unknown = sorted(set(readings) - set(FIELDS))
    if unknown:
        raise ValueError(f"credit: there is no reading {unknown[0]!r}; there are: {', '.join(FIELDS)}")
    sizes = [len(trajectory.rewards) for trajectory in trajectories]
    return Turns(
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        rewards=np.concatenate([trajectory.rewards for trajectory in trajectories]),
        tokens=np.concatenate([trajectory.turn_tokens for trajectory in trajectories]),
        episode=np.array([trajectory.number for trajectory in trajectories], np.int64),
        terminated=np.array([trajectory.terminated for trajectory in trajectories], bool),
        **readings,
    )


def assign_credit(
    trajectories: Sequence[Trajectory],
    method: CreditMethod,
    state: dict[str, float],
    **readings: np.ndarray | None,
) -> Credit:
    """Credit by the configured method, from what it needs, and on top of it the advantages that the
    shaper expected. Rewards that already are advantages are only spread over their turns' tokens."""
    if trajectories[0].kind == "advantage":
        turns = turns_of(trajectories)
        advantages = np.repeat(turns.rewards, turns.tokens).astype(np.float32)
        credit = Credit(advantages, dict(state))
        credit.returns = turns.rewards
        return scaled(credit, method)
    needed = method.readings
    if "sampler_logprobs" in needed and readings.get("sampler_logprobs") is None:
        readings["sampler_logprobs"] = np.concatenate([t.sequence.logprobs[t.sequence.mask] for t in trajectories])
    if "group" in needed and readings.get("group") is None:
        readings["group"] = task_groups(trajectories)
    if "seat" in needed and readings.get("seat") is None:
        readings["seat"] = [trajectory.seat for trajectory in trajectories]
    if "anchor" in needed and not method.by_labels and readings.get("anchor") is None:
        readings["anchor"] = observation_anchors(trajectories)
    if "opening" in needed and readings.get("opening") is None:
        readings["opening"] = utterance_openings(trajectories, method.tokens_of_opening)
    turns = turns_of(trajectories, **readings)
    for name in needed:
        # a batch of finished games has nothing to bootstrap
        if getattr(turns, name) is None and not (name == "bootstrap" and turns.terminated.all()):
            raise ValueError(f"credit method {CREDIT.name_of(method)!r} needs {name}, one for each {FIELDS[name]}")
    if method.by_states:
        turns.anchor = state_anchors(turns.group[turns.trajectory], turns.states, method.state_distance)
    if method.overlong is not None:
        turns.rewards = turns.rewards + method.overlong.rewards(turns.tokens)
    if method.penalty:
        turns.token_rewards = token_penalties(turns.logprobs, turns.reference, method.penalty)
    credit = checked(method.credit(turns, state), turns, CREDIT.name_of(method))
    if isinstance(method, ActorCritic) and credit.targets is None:
        raise ValueError(f"credit method {CREDIT.name_of(method)!r} has a critic and gave it no targets")
    credit.returns = rewards_to_go(turns, method.gamma)
    if trajectories[0].expected_advantages is not None:
        expected = np.concatenate([trajectory.expected_advantages for trajectory in trajectories])
        credit.advantages = (credit.advantages + np.repeat(expected, turns.tokens)).astype(np.float32)
    credit = scaled(credit, method)
    if "group" in needed:
        credit.alone = int((np.unique(turns.group, return_counts=True)[1] == 1).sum())
    if "group" in needed and turns.anchor is not None:
        turns_in = np.unique(step_groups(turns), return_counts=True)[1]
        alone = float((turns_in == 1).sum() / len(turns.rewards))
        credit.figures |= {"states": float(len(turns_in)), "alone_in_state": alone}
    return credit


def checked(credit: Credit, turns: Turns, name: str) -> Credit:
    """As the learner reads it, whoever wrote the method."""
    if not isinstance(credit, Credit):
        raise TypeError(f"credit method {name!r} has to return a Credit, not {type(credit).__name__}")
    if not isinstance(credit.state, dict):
        raise TypeError(f"credit method {name!r} has to give a dict as state, not {type(credit.state).__name__}")
    try:
        json.dumps(credit.state)
    except (TypeError, ValueError) as error:
        raise TypeError(f"credit method {name!r} gave a state that a checkpoint cannot hold as JSON: {error}") from None
    tokens = int(turns.tokens.sum())
    for what in ("advantages", "targets"):
        if what == "targets" and credit.targets is None:
            continue
        found = np.asarray(getattr(credit, what), np.float32)
        if found.shape != (tokens,):
            raise ValueError(f"credit method {name!r} gave {what} of shape {found.shape} for {tokens} trained tokens")
        if not np.isfinite(found).all():
            place = int(np.flatnonzero(~np.isfinite(found))[0])
            raise ValueError(f"credit method {name!r} gave trained token {place} of {tokens} {what} of {found[place]}")
        setattr(credit, what, found)
    return credit


def scaled(credit: Credit, method: CreditMethod) -> Credit:
    """Mean 0 and standard deviation 1 over the trained tokens of the whole batch, and then without what is negative, if
    asked. Targets of a critic stay as they are."""
    if method.whiten and len(credit.advantages):
        exact = credit.advantages.astype(np.float64)
        credit.advantages = ((exact - exact.mean()) / (exact.std() + 1e-8)).astype(np.float32)
    if method.positive_only:
        credit.advantages = np.maximum(credit.advantages, 0)
    return credit
