"""A policy that plays and learns in one process, on one thread.

    play(tickets) -> episodes        the project's sampler and games
    update(episodes) -> figures      shaper -> credit -> loss -> AdamW, as a learner rank does it

Sampler and learner share the weights, so a sync is to forget what was cached; the reward
service's desk works without an actor around it, and waits for its refits.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from actors.transformers_engine import TransformersEngine
from benchmarks.games import new_play, play_out
from cluster.config import RunConfig
from cluster.session import seats_and_players
from envs.episode import Episode, Ticket
from learners.batch import Trajectory, collect
from learners.credit import Credit, assign_credit, needs
from learners.critic import Critic, States, explained, head_inputs
from learners.loss import batch_scale, importance_weights, policy_loss
from learners.model import load_model, pack_logprobs
from learners.packing import fill, pack_to_read, pack_trajectories
from reward_service import make_shaper
from reward_service.desk import RewardDesk, name_of

HELD_OUT = 1_000_000  # seeds from here on are never trained on
TASKS = 10_000  # task seeds of one run; run seeds stay below HELD_OUT / TASKS
DEVICE = torch.device("cpu")


def alone() -> None:
    """Join a process group of one, which is what the critic sums its gradients over."""
    if not dist.is_initialized():
        rendezvous = Path(tempfile.mkdtemp(prefix="parley-lab-")) / "group"
        dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=0, world_size=1)


@dataclass
class Clock:
    """Seconds by what they were spent on."""

    seconds: dict[str, float] = field(default_factory=dict)
    since: float = 0.0

    def start(self) -> None:
        self.since = time.perf_counter()

    def stop(self, what: str) -> None:
        now = time.perf_counter()
        self.seconds[what] = self.seconds.get(what, 0.0) + now - self.since
        self.since = now


class Trainee:
    def __init__(self, config: RunConfig, model: Path, group_size: int = 1):
        alone()
        torch.set_num_threads(1)
        torch.manual_seed(config.seed)
        self.config, self.group_size = config, group_size
        self.players = seats_and_players(config)
        self.model = load_model(str(model), config.learner, config.seed)
        self.engine = TransformersEngine(config.rollout.engine, str(model))
        played = dict(self.engine.model.named_parameters())
        for name, parameter in self.model.named_parameters():  # one set of weights, seen from both sides
            played[name].data = parameter.data
        self.games = new_play(config, model, self.engine)
        learner = config.learner
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=learner.learning_rate, betas=learner.betas, weight_decay=learner.weight_decay
        )
        width = self.model.get_output_embeddings().in_features
        wanted = "values" in needs(learner.credit)
        self.critic = Critic(learner.critic, width, DEVICE, config.seed) if wanted else None
        self.desk = RewardDesk(make_shaper(config.reward, config.game), steady=True)
        self.credit_state: dict[str, float] = {}
        self.version = self.batches = 0
        self.clock = Clock()

    def tickets(self, count: int, first: int, held_out: bool = False) -> list[Ticket]:
        """A task is a seed of the game; `group_size` tickets share it."""
        start = HELD_OUT if held_out else TASKS * self.config.seed
        size = 1 if held_out else self.group_size
        return [
            Ticket("lab", self.config.game.name, number, start + number // size, self.players)
            for number in range(first, first + count)
        ]

    def play(self, tickets: Sequence[Ticket]) -> list[Episode]:
        return play_out(self.games, list(tickets))

    def outcome(self, episodes: Sequence[Episode]) -> float:
        return float(np.mean([episode.outcome[seat] for episode in episodes for seat in episode.policy_seats()]))

    def next_batch(self) -> list[Episode]:
        size = self.config.batch_episodes
        return self.play(self.tickets(size, self.batches * size))

    def held_out(self, count: int) -> float:
        return self.outcome(self.play(self.tickets(count, 0, held_out=True)))

    def update(self) -> dict[str, float]:
        self.clock.start()
        episodes = self.next_batch()
        self.clock.stop("play")
        trajectories, credit, figures = self.credit(episodes)
        self.model.zero_grad(set_to_none=True)
        loss = self.backward(trajectories, credit.advantages)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.learner.gradient_clip)
        self.optimiser.step()
        self.version += 1
        self.engine.version = self.version
        self.engine.forget()
        self.clock.stop("learn")
        return figures | {"outcome": self.outcome(episodes), "loss": loss, "grad_norm": float(norm)}

    def credit(self, episodes: Sequence[Episode]) -> tuple[list[Trajectory], Credit, dict[str, float]]:
        """What each trained token gets, and the critic trained on what it should have said."""
        for episode in episodes:
            self.desk.receive(episode)
        rewards = self.desk.shape(self.batches, [name_of(episode) for episode in episodes])
        self.batches += 1
        self.clock.stop("shape")
        trajectories = collect(episodes, rewards)
        readings, states = self._read(trajectories)
        credit = assign_credit(trajectories, self.config.learner.credit, self.credit_state, **readings)
        self.credit_state = credit.state
        figures = self._criticise(trajectories, states, credit, readings)
        self.clock.stop("credit")
        return trajectories, credit, figures

    def packs(self, trajectories: Sequence[Trajectory]) -> list[list[int]]:
        lengths = [len(trajectory) for trajectory in trajectories]
        order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
        return fill(lengths, order, self.config.learner.tokens_per_micro_batch)

    def backward(self, trajectories: Sequence[Trajectory], advantages: np.ndarray) -> float:
        """Gradients of the policy loss into the model; they are added to what is there."""
        each = np.split(advantages, np.cumsum([int(t.turn_tokens.sum()) for t in trajectories])[:-1])
        scale = batch_scale(trajectories, self.config.learner.loss_aggregation)
        total = 0.0
        self.model.train()
        for chosen in self.packs(trajectories):
            pack = pack_trajectories([trajectories[i] for i in chosen], [each[i] for i in chosen], self.version)
            weights, behaviour, fresh = (torch.from_numpy(a) for a in (pack.advantages, pack.behaviour, pack.fresh))
            logprobs = pack_logprobs(self.model, pack, self.config.rollout.temperature, DEVICE)
            importance = importance_weights(logprobs, behaviour, fresh, self.config.learner.importance_cap)
            loss = policy_loss(logprobs, weights, importance, scale)
            loss.backward()
            total += float(loss.detach())
        return total

    def _read(self, trajectories: list[Trajectory]) -> tuple[dict[str, Any], list[tuple[list[int], States]]]:
        groups = np.unique([t.number // self.group_size for t in trajectories], return_inverse=True)[1]
        readings: dict[str, Any] = {"group": groups} if self.group_size > 1 else {}
        if any(getattr(trajectory, "anchors", None) is not None for trajectory in trajectories):
            readings["anchor"] = np.concatenate([trajectory.anchors for trajectory in trajectories])
        if self.critic is None:
            return readings, []
        kept, values, ends = [], {}, {}
        self.model.eval()
        with torch.no_grad():
            for chosen in self.packs(trajectories):
                picked = [trajectories[i] for i in chosen]
                with head_inputs(self.model) as caught:
                    pack_logprobs(self.model, pack_to_read(picked), self.config.rollout.temperature, DEVICE)
                sizes = [int(trajectory.turn_tokens.sum()) for trajectory in picked]
                states = States(caught[0][0], tokens=sum(sizes))
                kept.append((chosen, states))
                read = self.critic.read(states)
                after = iter(read[sum(sizes) :])
                for index, value in zip(chosen, np.split(read[: sum(sizes)], np.cumsum(sizes)[:-1]), strict=True):
                    values[index] = value
                    ends[index] = 0.0 if trajectories[index].terminated else float(next(after))
        order = range(len(trajectories))
        readings |= {
            "values": np.concatenate([values[i] for i in order]),
            "bootstrap": np.array([ends[i] for i in order]),
        }
        return readings, kept

    def _criticise(self, trajectories: list[Trajectory], states: list, credit: Credit, readings: dict) -> dict:
        if self.critic is None:
            return {}
        cuts = np.cumsum([int(trajectory.turn_tokens.sum()) for trajectory in trajectories])[:-1]
        used = np.ones(len(credit.targets), bool) if credit.valued is None else credit.valued
        targets, valued = np.split(credit.targets, cuts), np.split(used, cuts)
        self.critic.learn(
            [each for _, each in states],
            [np.concatenate([targets[i] for i in chosen]) for chosen, _ in states],
            [np.concatenate([valued[i] for i in chosen]) for chosen, _ in states],
        )
        return {"value_explained": explained(readings["values"][used], credit.targets[used])}
