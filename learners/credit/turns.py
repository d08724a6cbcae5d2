"""What a credit method is given, all turns of a batch, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from learners.credit.ragged import segment_sums

# optional field of Turns -> what it has one entry for
FIELDS = {
    "values": "trained token",
    "bootstrap": "trajectory",
    "logprobs": "trained token",
    "best_logprobs": "trained token",
    "sampler_logprobs": "trained token",
    "hindsight": "trained token",
    "reference": "trained token",
    "token_rewards": "trained token",
    "group": "trajectory",
    "seat": "trajectory",
    "anchor": "turn",
    "opening": "turn",
    "states": "turn",
    "turn_values": "turn",
    "action_values": "turn",
}

TYPES = {"group": np.int64, "anchor": np.int64, "opening": np.int64, "seat": np.str_, "states": np.float32}
WIDE = ("states",)  # their entries are rows


@dataclass(slots=True)
class Turns:
    """All turns of a batch, trajectory after trajectory. A turn may have no trained token: it
    has no credit then, but what it was paid and the time it took still count."""

    offsets: np.ndarray  # int64 [trajectories + 1]: trajectory i has turns offsets[i]:offsets[i + 1]
    rewards: np.ndarray  # float64 [turns]
    tokens: np.ndarray  # int64 [turns]: trained tokens in each turn
    episode: np.ndarray  # int64 [trajectories]: seats of one game share it
    terminated: np.ndarray  # bool [trajectories]; False: cut off by the horizon

    # of critics
    values: np.ndarray | None = None  # [trained tokens]: V(o_t, w_<j), read before each token
    bootstrap: np.ndarray | None = None  # [trajectories]: V(next observation) of those cut off
    turn_values: np.ndarray | None = None  # [turns]: the smaller of twin V(o_t)
    action_values: np.ndarray | None = None  # [turns]: the smaller of twin Q(o_t, utterance)

    # of policies: log-probs of the trained tokens, at the temperature they were sampled at
    logprobs: np.ndarray | None = None  # [trained tokens]: the weights that are about to be updated
    best_logprobs: np.ndarray | None = None  # [trained tokens]: those weights, of the likeliest token at each place
    sampler_logprobs: np.ndarray | None = None  # [trained tokens]: the weights that sampled the token
    hindsight: np.ndarray | None = None  # [trained tokens]: those about to be updated, told how the game ends
    reference: np.ndarray | None = None  # [trained tokens]: the policy that the soft form stays close to

    # of groups: equal numbers belong together
    group: np.ndarray | None = None  # int64 [trajectories]: the same seat of the same task
    anchor: np.ndarray | None = None  # int64 [turns]: turns that stand in the same state
    opening: np.ndarray | None = None  # int64 [turns]: turns whose utterances begin alike
    seat: np.ndarray | None = None  # str [trajectories]: its name, the same in every batch

    states: np.ndarray | None = None  # float32 [turns, width]: the policy's where the observation ends; else zeros
    token_rewards: np.ndarray | None = None  # [trained tokens]: paid at the token, beside the turn's reward

    def __post_init__(self) -> None:
        sizes = {
            "turn": len(self.rewards),
            "trajectory": len(self.offsets) - 1,
            "trained token": int(self.tokens.sum()),
        }
        for name, unit in {"tokens": "turn", "episode": "trajectory", "terminated": "trajectory"}.items():
            _check_size(name, getattr(self, name), unit, sizes)
        if int(self.offsets[-1]) != sizes["turn"]:
            raise ValueError(f"credit: offsets end at turn {self.offsets[-1]}, but there are {sizes['turn']} rewards")
        for name, unit in FIELDS.items():
            given = getattr(self, name)
            if given is None:
                continue
            array = np.asarray(given, TYPES.get(name, np.float64))
            _check_size(name, array, unit, sizes)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                place = tuple(np.argwhere(~np.isfinite(array))[0])
                raise ValueError(f"credit: {name} of {unit} {place[0]} is {array[place]}, not a finite number")
            setattr(self, name, array)

    @property
    def trajectory(self) -> np.ndarray:
        """int64 [turns]: the trajectory of each turn."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def index(self) -> np.ndarray:
        """int64 [turns]: the place of each turn in its trajectory."""
        return np.arange(len(self.rewards)) - self.offsets[self.trajectory]

    @property
    def paid(self) -> np.ndarray:
        """float64 [turns]: the turn's reward and those of its tokens."""
        if self.token_rewards is None:
            return self.rewards
        return self.rewards + segment_sums(self.token_rewards, self.tokens)


@dataclass(slots=True)
class Credit:
    advantages: np.ndarray  # float32 [trained tokens]
    state: dict[str, float] = field(default_factory=dict)
    targets: np.ndarray | None = None  # float32 [trained tokens]: what the critic should have said
    valued: np.ndarray | None = None  # bool [trained tokens]: where it is trained on them; None: everywhere
    alone: int = 0  # trajectories that had nobody in their group to be compared with
    figures: dict[str, float] = field(default_factory=dict)  # metrics of the method's own
    returns: np.ndarray = field(init=False)  # float64 [turns]: discounted rewards-to-go; assign_credit fills them in


def _check_size(name: str, array: np.ndarray, unit: str, sizes: dict[str, int]) -> None:
    if np.shape(array)[: 1 if name in WIDE else None] != (sizes[unit],):
        raise ValueError(f"credit: {name} has shape {np.shape(array)}, but there are {sizes[unit]} of {unit}")
