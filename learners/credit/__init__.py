"""Credit: per-turn rewards in, per-token advantages out; pure functions of ragged arrays.

A method is a file of its name with a function of its name, and one line in METHODS. It takes

    method(turns: Turns, settings: CreditSettings, state: dict[str, float]) -> Credit

and returns one advantage for every trained token of the batch, in batch order: trajectory
after trajectory, turn after turn, token after token. What it must remember between updates
is in `state`, which is saved with the run; it never changes the dictionary it was given, so
an update that fails leaves no trace.

What a method needs beyond rewards is named in METHODS and stands in the optional fields of
Turns; whoever holds the model reads them off it and hands them to `assign_credit` by name.
A trained token is a sampled one (`SeatSequence.mask`), never the first of its sequence. If
it stands at position p, then its log-prob comes from the logits at p - 1 and its value is
read from the hidden state at p - 1, before the token is known:

    V[t, j] = V(o_t, w_<j)      everything up to observation t and the tokens of utterance t
                                before its j-th; V[t, 1] = V(o_t) is read where the
                                observation ends, which is the value of the turn

One forward pass thus gives log-probs and values at the same positions, in the order of the
advantages. A trajectory that was cut off goes on in a state nobody acted in: its bootstrap
value is V(next observation), read at the last token of what its seat would have been shown
next (`Episode.closing`). A true end is worth 0, and a bootstrap value there is not looked at.

Everything is computed in float64; only what goes to the loss is rounded to float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

from learners.batch.trajectories import Trajectory
from learners.credit.anchors import observation_anchors, task_groups
from learners.credit.ragged import segment_sums
from learners.credit.soft import token_penalties
from learners.settings import CreditSettings

# method -> the optional fields of Turns it cannot do without
METHODS: dict[str, tuple[str, ...]] = {
    "reinforce": (),
    "rloo": ("group",),
    "grpo": ("group",),
    "gigpo": ("group", "anchor"),
    "gae": ("values", "bootstrap"),
    "twosome": ("values", "bootstrap"),
    "poad": ("values", "bootstrap"),
    "ntpo": ("values", "bootstrap"),
    "vtrace": ("values", "bootstrap", "logprobs", "sampler_logprobs"),
    "archer": ("turn_values", "action_values"),
}

# optional field of Turns -> what it has one entry for
FIELDS = {
    "values": "trained token",
    "bootstrap": "trajectory",
    "logprobs": "trained token",
    "sampler_logprobs": "trained token",
    "reference": "trained token",
    "token_rewards": "trained token",
    "group": "trajectory",
    "anchor": "turn",
    "turn_values": "turn",
    "action_values": "turn",
}


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
    sampler_logprobs: np.ndarray | None = None  # [trained tokens]: the weights that sampled the token
    reference: np.ndarray | None = None  # [trained tokens]: the policy that the soft form stays close to

    # of groups: equal numbers belong together
    group: np.ndarray | None = None  # int64 [trajectories]: the same seat of the same task
    anchor: np.ndarray | None = None  # int64 [turns]: turns that stand in the same state

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
            array = np.asarray(given, np.int64 if name in ("group", "anchor") else np.float64)
            _check_size(name, array, unit, sizes)
            if not np.isfinite(array).all():
                where = int(np.flatnonzero(~np.isfinite(array))[0])
                raise ValueError(f"credit: {name} of {unit} {where} is {array[where]}, not a finite number")
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
    returns: np.ndarray  # float64 [turns]: discounted rewards-to-go, whatever the method makes of them
    state: dict[str, float] = field(default_factory=dict)
    targets: np.ndarray | None = None  # float32 [trained tokens]: what the critic should have said
    valued: np.ndarray | None = None  # bool [trained tokens]: where it is trained on them; None: everywhere
    alone: int = 0  # trajectories that had nobody in their group to be compared with


Method = Callable[[Turns, CreditSettings, dict[str, float]], Credit]


def needs(settings: CreditSettings) -> tuple[str, ...]:
    """The optional fields of Turns that the method cannot do without. `assign_credit` itself
    reads `sampler_logprobs`, `group` and anchors that are observations off the trajectories."""
    return METHODS[settings.method] + (("logprobs", "reference") if settings.kl_penalty else ())


def wants_critic(settings: CreditSettings) -> bool:
    return not {"values", "turn_values"}.isdisjoint(needs(settings))


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
    settings: CreditSettings,
    state: dict[str, float],
    **readings: np.ndarray | None,
) -> Credit:
    """Credit by the configured method, from what `needs` names, and on top of it what the shaper
    foresaw. Rewards that already are advantages are only spread over their turns' tokens."""
    if trajectories[0].kind == "advantage":
        turns = turns_of(trajectories)
        advantages = np.repeat(turns.rewards, turns.tokens).astype(np.float32)
        return whitened(Credit(advantages, turns.rewards, dict(state)), settings)
    needed = needs(settings)
    if "sampler_logprobs" in needed and readings.get("sampler_logprobs") is None:
        readings["sampler_logprobs"] = np.concatenate([t.sequence.logprobs[t.sequence.mask] for t in trajectories])
    if "group" in needed and readings.get("group") is None:
        readings["group"] = task_groups(trajectories)
    if "anchor" in needed and settings.anchor == "observation" and readings.get("anchor") is None:
        readings["anchor"] = observation_anchors(trajectories)
    turns = turns_of(trajectories, **readings)
    for name in needed:
        # a batch of finished games has nothing to bootstrap
        if getattr(turns, name) is None and not (name == "bootstrap" and turns.terminated.all()):
            raise ValueError(f"credit method {settings.method!r} needs {name}, one for each {FIELDS[name]}")
    if settings.kl_penalty:
        turns.token_rewards = token_penalties(turns.logprobs, turns.reference, settings.kl_penalty)
    method: Method = getattr(import_module(f"learners.credit.{settings.method}"), settings.method)
    credit = method(turns, settings, state)
    if trajectories[0].foreseen is not None:
        foreseen = np.concatenate([trajectory.foreseen for trajectory in trajectories])
        credit.advantages = (credit.advantages + np.repeat(foreseen, turns.tokens)).astype(np.float32)
    credit = whitened(credit, settings)
    if "group" in needed:
        credit.alone = int((np.unique(turns.group, return_counts=True)[1] == 1).sum())
    return credit


def whitened(credit: Credit, settings: CreditSettings) -> Credit:
    """Mean 0 and standard deviation 1 over the trained tokens of the whole batch, if asked."""
    if settings.whiten and len(credit.advantages):
        exact = credit.advantages.astype(np.float64)
        credit.advantages = ((exact - exact.mean()) / (exact.std() + 1e-8)).astype(np.float32)
    return credit


def _check_size(name: str, array: np.ndarray, unit: str, sizes: dict[str, int]) -> None:
    if np.shape(array) != (sizes[unit],):
        raise ValueError(f"credit: {name} has shape {np.shape(array)}, but there are {sizes[unit]} of {unit}")
