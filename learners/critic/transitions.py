"""A batch as transitions between turns, in features: what critics of whole utterances learn from.

    observed   where the observation ends, before the first trained token        o
    said       at the utterance's last token                                     o, a
    after      where the seat's next utterance begins, or at the end of what
               it would have been shown next, if the game was cut off            o'

A feature is the last hidden state at that place. Turns without trained tokens lie inside the
transition before them, as in `credit.steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from learners.batch.crediting import turns_of
from learners.batch.trajectories import Trajectory
from learners.credit.overlong import Overlong
from learners.credit.ragged import backward_sums
from learners.credit.steps import spoken_turns
from learners.critic.tokens import States


@dataclass(slots=True)
class Transitions:
    """One entry of each array for every transition."""

    said: np.ndarray  # float32 [n, width]
    after: np.ndarray  # float32 [n, width]; zeros after a true end
    rewards: np.ndarray  # float64 [n]: paid until the next turn that is spoken
    discounts: np.ndarray  # float64 [n]: of what the next one is worth
    ended: np.ndarray  # bool [n]: a true end

    def __len__(self) -> int:
        return len(self.rewards)

    def __getitem__(self, which: np.ndarray | slice) -> Transitions:
        return Transitions(*(array[which] for array in self.arrays().values()))

    def arrays(self) -> dict[str, np.ndarray]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(slots=True)
class UtteranceBatch:
    """The spoken turns of a whole batch, in its order."""

    turns: np.ndarray  # int64 [n]: which turns of the batch they are
    final: np.ndarray  # bool [n]: the last of its game
    observed: np.ndarray  # float32 [n, width]
    transitions: Transitions

    def __len__(self) -> int:
        return len(self.turns)

    def returns(self, after: np.ndarray) -> np.ndarray:
        """float64 [n]: what was paid from here on, with what comes `after` games that were cut off."""
        steps = self.transitions
        beyond = np.where(self.final & ~steps.ended, steps.discounts * after, 0.0)
        return backward_sums(steps.rewards + beyond, np.where(self.final, 0.0, steps.discounts))


def features(states: States, trajectories: Sequence[Trajectory]) -> list[dict[str, np.ndarray]]:
    """Of each game that one pass has read, float32 [turns, width]: `observed` and `said` of its
    spoken turns, and `closing` if it was cut off."""
    tokens = np.concatenate([trajectory.turn_tokens for trajectory in trajectories])
    tokens = tokens[tokens > 0]
    spoken = [np.count_nonzero(trajectory.turn_tokens) for trajectory in trajectories]
    cut_off = [int(not trajectory.terminated) for trajectory in trajectories]
    first, ends = np.cumsum(tokens) - tokens, states.tokens + np.arange(sum(cut_off) + len(tokens))
    rows = states.hidden[np.concatenate([first, ends])].float().cpu().numpy()
    observed, closing, said = np.split(rows, np.cumsum([len(tokens), sum(cut_off)]))
    parts = {"observed": (observed, spoken), "closing": (closing, cut_off), "said": (said, spoken)}
    cut = {name: np.split(array, np.cumsum(sizes)[:-1]) for name, (array, sizes) in parts.items()}
    return [{name: of_games[i] for name, of_games in cut.items()} for i in range(len(trajectories))]


def utterance_batch(
    trajectories: Sequence[Trajectory],
    observed: np.ndarray,
    said: np.ndarray,
    closing: np.ndarray,
    gamma: float,
    overlong: Overlong | None = None,
) -> UtteranceBatch:
    """`features` of the whole batch, game after game, with what was paid, and what long utterances are charged."""
    turns = turns_of(trajectories)
    if overlong is not None:
        turns.rewards = turns.rewards + overlong.rewards(turns.tokens)
    spoken = spoken_turns(turns, turns.paid, gamma)
    after = np.zeros_like(observed)
    goes_on, last = np.flatnonzero(~spoken.final), np.flatnonzero(spoken.final)
    after[goes_on] = observed[goes_on + 1]
    game = spoken.trajectory[last]
    place = np.cumsum(~turns.terminated) - 1  # of each game in `closing`
    cut_off = ~turns.terminated[game]
    after[last[cut_off]] = closing[place[game[cut_off]]]
    ended = spoken.final & turns.terminated[spoken.trajectory]
    transitions = Transitions(said, after, spoken.rewards, spoken.discounts, ended)
    return UtteranceBatch(spoken.turn, spoken.final, observed, transitions)
