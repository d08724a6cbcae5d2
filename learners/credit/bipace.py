"""BiPACE: states are what the policy itself holds alike, and an utterance is as good as those that begin like it
(arXiv 2606.25556).

    A[t]   = A_episode + step_weight * A_step[t]
    A_step = Q - V             difference=opening:  what turns in this state returned that began alike, less all of them
             G[t] - others     difference=peers:    the own return, less what the turns that began otherwise returned
    G[t]   = r[t] + gamma * G[t + 1]

V, Q and others are means over the turns of the task in the same state: with anchor=states those whose last hidden
states, where the observation ends, lie within `state_distance` of their mean (learners/batch/anchors.py). A turn that
is alone in its state, or in a state in which all begin alike, has A_step 0, which no deviation divides. A_episode
compares games as grpo does. So a state met once in other words still gives credit, and what was said is judged by all
who said it.

The authors ran layers 8 and 12 from the end, of models of 7B and 1.5B, with distances .1 and .05; here it is the last
state, and the policy's as it is before the update. The distance is another one for each model: where `learner/states`
is no more than the number of tasks, lower it. They take the text inside an action tag, where there is one, for the
beginning. What their text leaves open, and is decided here: clusters are made in the order of games and turns around
the mean of their members, Q counts the turn itself, and step_weight is 1.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from learners.credit.groups import Anchored, Stepped, compared, step_groups
from learners.credit.steps import rewards_to_go
from learners.credit.turns import Turns


class Bipace(Anchored, Stepped):
    needs = ("group", "anchor", "opening")

    anchor: Literal["observation", "labels", "states"] = Field(
        "states", description=Anchored.model_fields["anchor"].description
    )
    opening_tokens: int = Field(8, ge=1, description="utterances are alike if so many first tokens of them are")
    difference: Literal["opening", "peers"] = Field("opening", description="what a turn's step advantage compares")

    def steps(self, turns: Turns) -> np.ndarray:
        returns, where = rewards_to_go(turns, self.gamma), step_groups(turns)
        alike = where * (turns.opening.max(initial=0) + 1) + turns.opening
        of_all, of_alike = compared(returns, where, False), compared(returns, alike, False)
        if self.difference == "opening":
            return of_all - of_alike
        every, same = members(where), members(alike)
        return (every * of_all - same * of_alike) / np.maximum(every - same, 1)


def members(group: np.ndarray) -> np.ndarray:
    """int64: how many are in each one's group."""
    _, place, count = np.unique(group, return_inverse=True, return_counts=True)
    return count[place]
