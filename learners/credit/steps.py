"""A batch as steps: the places where a value is read, with what lies between two of them.

    token step   every trained token
    turn step    the first token of every turn that has one

    delta[k] = rewards[k] + discounts[k] * following[k] - values[k]
    g[k]     = delta[k] + discounts[k] * traces[k] * g[k + 1]           (g: advantages)

A turn without trained tokens is a place where nobody chose anything: it lies inside the step
before it, whose reward grows by gamma_a * (its reward) and whose discount by another gamma_a.
Before the first step of a trajectory there is nobody to credit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from learners.credit.ragged import backward_sums
from learners.credit.turns import Turns


@dataclass(slots=True)
class Steps:
    """All float64 [steps], trajectory after trajectory."""

    rewards: np.ndarray  # paid from this step until the next
    values: np.ndarray
    following: np.ndarray  # the next step's value; bootstrap value where cut off, 0 at a true end
    discounts: np.ndarray  # of `following`
    traces: np.ndarray  # lambda; 0 at the last step of a trajectory
    first: np.ndarray  # int64 [steps]: its first trained token
    tokens: np.ndarray  # int64 [steps]: its trained tokens

    def backups(self) -> np.ndarray:
        """One-step targets: reward and discounted next value."""
        return self.rewards + self.discounts * self.following

    def advantages(self) -> np.ndarray:
        """Generalised advantage estimates (Schulman et al. 2016)."""
        return backward_sums(self.backups() - self.values, self.discounts * self.traces)


def rewards_to_go(turns: Turns, gamma: float) -> np.ndarray:
    """float64 [turns]: G[t] = r[t] + gamma * G[t + 1]."""
    decay = np.full(len(turns.rewards), gamma)
    decay[turns.offsets[1:][np.diff(turns.offsets) > 0] - 1] = 0.0
    return backward_sums(turns.paid, decay)


def turn_steps(turns: Turns, gamma: float, lambda_a: float) -> Steps:
    spoken = spoken_turns(turns, turns.paid, gamma)
    tokens = turns.tokens[spoken.turn]
    first = np.cumsum(tokens) - tokens
    values = turns.values[first]
    following = _following(turns, values, np.flatnonzero(spoken.final), spoken.trajectory[spoken.final])
    traces = np.where(spoken.final, 0.0, lambda_a)
    return Steps(spoken.rewards, values, following, spoken.discounts, traces, first, tokens)


def token_steps(turns: Turns, gamma: float, gamma_w: float, lambda_a: float, lambda_w: float) -> Steps:
    spoken = spoken_turns(turns, turns.rewards, gamma)
    last = np.cumsum(turns.tokens[spoken.turn]) - 1
    count = len(turns.values)
    rewards = np.zeros(count) if turns.token_rewards is None else turns.token_rewards.copy()
    discounts, traces = np.full(count, gamma_w), np.full(count, lambda_w)
    rewards[last] += spoken.rewards
    discounts[last] = spoken.discounts
    traces[last] = np.where(spoken.final, 0.0, lambda_a)
    following = _following(turns, turns.values, last[spoken.final], spoken.trajectory[spoken.final])
    return Steps(rewards, turns.values, following, discounts, traces, np.arange(count), np.ones(count, np.int64))


@dataclass(slots=True)
class Spoken:
    """The turns that have trained tokens, and what lies between each and the next of them."""

    turn: np.ndarray  # int64: which turns they are
    trajectory: np.ndarray  # int64
    rewards: np.ndarray  # float64: paid until the next one, discounted to here
    discounts: np.ndarray  # float64: of what the next one is worth
    final: np.ndarray  # bool: the trajectory has no next one


def spoken_turns(turns: Turns, paid: np.ndarray, gamma: float) -> Spoken:
    turn, silent, trajectory = np.flatnonzero(turns.tokens > 0), np.flatnonzero(turns.tokens == 0), turns.trajectory
    owner = trajectory[turn]
    final = np.append(owner[1:] != owner[:-1], True)[: len(owner)]
    rewards, discounts = paid[turn], np.full(len(turn), gamma)
    before = np.searchsorted(turn, silent) - 1
    silent, before = silent[before >= 0], before[before >= 0]
    inside = owner[before] == trajectory[silent]
    silent, before = silent[inside], before[inside]
    np.add.at(rewards, before, paid[silent] * gamma ** (silent - turn[before]))
    np.multiply.at(discounts, before, gamma)
    return Spoken(turn, owner, rewards, discounts, final)


def _following(turns: Turns, values: np.ndarray, last: np.ndarray, trajectory: np.ndarray) -> np.ndarray:
    """The value after each step. `last`: the steps that end a trajectory, and which one."""
    following = np.append(values[1:], 0.0)[: len(values)]
    ended = turns.terminated[trajectory]
    if turns.bootstrap is None:
        if not ended.all():
            number = turns.episode[trajectory[~ended][0]]
            raise ValueError(f"credit: episode {number} was cut off, so its trajectories need a bootstrap value")
        following[last] = 0.0
    else:
        following[last] = np.where(ended, 0.0, turns.bootstrap[trajectory])
    return following
