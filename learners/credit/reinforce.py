"""REINFORCE on turns: reward-to-go minus a baseline (Williams 1992; leave-one-out: Kool et al. 2019).

    G[t] = r[t] + gamma * G[t + 1]          advantage of every token of turn t = G[t] - b

Discounting is between turns: all tokens of an utterance are one action and share its
advantage. The method has no value estimate, so an episode cut off by the horizon counts
what it was paid until then. Only the running baseline survives an update; it is read
before this batch is added to it, so a batch never lowers its own advantages with it.
"""

from __future__ import annotations

import numpy as np

from learners.credit import Credit, Turns
from learners.credit.steps import rewards_to_go
from learners.settings import CreditSettings


def leave_one_out(returns: np.ndarray, episode: np.ndarray) -> np.ndarray:
    """Mean return over the turns of all other episodes. Seats of one game are one
    episode: their results depend on each other."""
    _, group = np.unique(episode, return_inverse=True)
    total, count = np.bincount(group, returns), np.bincount(group)
    if len(total) < 2:
        raise ValueError("the leave_one_out baseline needs at least two episodes in a batch")
    return ((returns.sum() - total) / (len(returns) - count))[group]


def reinforce(turns: Turns, settings: CreditSettings, state: dict[str, float]) -> Credit:
    returns = rewards_to_go(turns, settings.gamma)
    state = dict(state)
    if len(returns) == 0:
        return Credit(np.zeros(0, np.float32), returns, state)
    if settings.baseline == "none":
        baseline = np.zeros_like(returns)
    elif settings.baseline == "batch":
        baseline = np.full_like(returns, returns.mean())
    elif settings.baseline == "turn":
        index = turns.index
        baseline = (np.bincount(index, returns) / np.bincount(index))[index]
    elif settings.baseline == "leave_one_out":
        baseline = leave_one_out(returns, turns.episode[turns.trajectory])
    else:  # running; the first batch has no history and is its own
        before = state.get("running_return", returns.mean())
        baseline = np.full_like(returns, before)
        state["running_return"] = settings.running_decay * before + (1 - settings.running_decay) * returns.mean()
    advantages = np.repeat(returns - baseline, turns.tokens).astype(np.float32)
    return Credit(advantages, returns, state)
