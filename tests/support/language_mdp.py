"""Language games small enough to be solved exactly, at the level of utterances.

A state offers a few utterances: sequences of word tokens closed by an end token, so none is the
beginning of another. Saying one pays a reward and leads to a state or, with what is left of the
probability, to the end. Everything here knows utterances only; the token level is what the
credit methods make of `experience`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from learners.credit.turns import Turns

END = 9
Utterance = tuple[int, ...]
Place = tuple[int, Utterance]  # a state and what has been said of an utterance
Policy = list[np.ndarray]  # per state, a probability for each utterance


@dataclass
class LanguageMDP:
    utterances: list[list[Utterance]]
    rewards: list[np.ndarray]  # per state [utterances]
    moves: list[np.ndarray]  # per state [utterances, states]; rows sum to at most 1
    gamma: float

    def action_values(self, values: np.ndarray) -> list[np.ndarray]:
        return [pay + self.gamma * move @ values for pay, move in zip(self.rewards, self.moves, strict=True)]

    def solved(self, backup: Callable[[int, np.ndarray], float]) -> np.ndarray:
        """The fixed point of V(s) = backup(s, Q(s, .))."""
        values = np.zeros(len(self.utterances))
        for _ in range(5000):
            found = np.array([backup(state, q) for state, q in enumerate(self.action_values(values))])
            if np.abs(found - values).max() < 1e-13:
                return found
            values = found
        raise AssertionError("value iteration did not converge")

    def evaluated(self, policy: Policy) -> np.ndarray:
        """V of a policy: solves V = r + gamma P V."""
        pay = np.array([p @ r for p, r in zip(policy, self.rewards, strict=True)])
        move = np.array([p @ m for p, m in zip(policy, self.moves, strict=True)])
        return np.linalg.solve(np.eye(len(pay)) - self.gamma * move, pay)

    def places(self) -> list[Place]:
        """Every place where a token is chosen."""
        return sorted(
            {(s, said[:j]) for s, every in enumerate(self.utterances) for said in every for j in range(len(said))}
        )

    def reached(self, policy: Policy, place: Place) -> float:
        """Probability that an utterance from the place's state begins like this."""
        state, begun = place
        every = zip(self.utterances[state], policy[state], strict=True)
        return sum(p for said, p in every if said[: len(begun)] == begun)

    def next_tokens(self, policy: Policy, place: Place) -> dict[int, float]:
        """The token policy at a place, as the utterance policy implies it."""
        state, begun = place
        words = sorted({said[len(begun)] for said in self.utterances[state] if said[: len(begun)] == begun})
        return {w: self.reached(policy, (state, (*begun, w))) / self.reached(policy, place) for w in words}


def random_mdp(seed: int, gamma: float = 0.9, longest: int = 4, states: int = 3, positive: bool = False) -> LanguageMDP:
    rng = np.random.default_rng(seed)
    utterances, rewards, moves = [], [], []
    for _ in range(states):
        every: list[Utterance] = []
        while len(every) < 3:
            said = (*rng.integers(0, 2, rng.integers(0, longest)).tolist(), END)
            if said not in every:
                every.append(said)
        utterances.append(every)
        rewards.append(rng.uniform(0.1 if positive else -1.0, 1.0, 3))
        moves.append(rng.dirichlet(np.ones(states + 1), 3)[:, :states])
    return LanguageMDP(utterances, rewards, moves, gamma)


def random_policy(mdp: LanguageMDP, seed: int) -> Policy:
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.full(len(every), 2.0)) for every in mdp.utterances]


def lengthened(mdp: LanguageMDP, lengths: list[list[int]]) -> LanguageMDP:
    """The same game with other words: utterance a of state s takes lengths[s][a] tokens."""
    utterances = [[(a, *[8] * (n - 2), END) if n > 1 else (a,) for a, n in enumerate(row)] for row in lengths]
    return LanguageMDP(utterances, mdp.rewards, mdp.moves, mdp.gamma)


class Experience:
    """Every one-turn game there is, with its probability: a batch whose weighted means are
    expectations. A move to a state is a cut-off there, so its value is the bootstrap value."""

    def __init__(self, mdp: LanguageMDP, policy: Policy):
        self.mdp, self.places = mdp, mdp.places()
        number = {place: i for i, place in enumerate(self.places)}
        rows = []
        for state, every in enumerate(mdp.utterances):
            for a, said in enumerate(every):
                ahead = [*mdp.moves[state][a], 1 - mdp.moves[state][a].sum()]
                rows += [(state, a, said, to, policy[state][a] * p) for to, p in enumerate(ahead)]
        self.place = np.array([number[state, said[:j]] for state, _, said, _, _ in rows for j in range(len(said))])
        self.tokens = np.array([len(said) for _, _, said, _, _ in rows])
        self.weight = np.repeat([p for *_, p in rows], self.tokens)
        self.rewards = np.array([mdp.rewards[state][a] for state, a, *_ in rows])
        self.to = np.array([to for *_, to, _ in rows])
        self.start = np.array([number[state, ()] for state in range(len(mdp.utterances))])
        self.words = [(state, said[:j], said[j]) for state, _, said, _, _ in rows for j in range(len(said))]

    def turns(self, of_tokens: np.ndarray, of_states: np.ndarray, **readings: np.ndarray) -> Turns:
        """The batch with these values at its tokens and of the states it leads to."""
        games = len(self.tokens)
        return Turns(
            offsets=np.arange(games + 1),
            rewards=self.rewards,
            tokens=self.tokens,
            episode=np.arange(games),
            terminated=self.to == len(self.mdp.utterances),
            values=of_tokens,
            bootstrap=np.append(of_states, 0.0)[self.to],
            **readings,
        )

    def fixed_point(self, targets: Callable[[Turns], np.ndarray], tolerance: float, **readings) -> dict[Place, float]:
        """Where the expected targets leave every place's value as it is."""
        values = np.zeros(len(self.places))
        mass = np.bincount(self.place, self.weight)
        for _ in range(20000):
            found = targets(self.turns(values[self.place], values[self.start], **readings))
            before, values = values, np.bincount(self.place, self.weight * found) / mass
            if np.abs(values - before).max() < tolerance:
                return dict(zip(self.places, values.tolist(), strict=True))
        raise AssertionError("the backup did not converge")


# the soft form of whole distributions, log-probs along the last axis


def token_kl(logprobs: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """float64 [...]: KL(pi | reference). A token the policy never says adds nothing."""
    probability = np.exp(logprobs)
    gap = np.subtract(logprobs, reference, where=probability > 0, out=np.zeros_like(probability))
    return (probability * gap).sum(axis=-1)


def soft_values(q: np.ndarray, reference: np.ndarray, beta: float) -> np.ndarray:
    """float64 [...]: V from Q."""
    return beta * np.logaddexp.reduce(np.asarray(q, np.float64) / beta + reference, axis=-1)


def soft_policy(q: np.ndarray, reference: np.ndarray, beta: float) -> np.ndarray:
    """float64, the shape of q: log-probs of the best policy."""
    return reference + (q - soft_values(q, reference, beta)[..., None]) / beta
