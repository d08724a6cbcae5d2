"""A policy that plays and learns in one process, on one thread.

    play(tickets) -> episodes        the project's sampler and games
    update() -> figures              shaper -> credit -> loss -> AdamW: the learner's own, in one rank

Sampler and learner share the weights, so a sync is to forget what was cached; the reward
service's desk works without an actor around it, and waits for its refits.
"""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from actors.engines.transformers_engine import TransformersEngine
from benchmarks.games import new_play, play_out
from cluster.recipe.config import RunConfig
from cluster.run.session import seats_and_players
from envs.episode import Episode, Ticket
from learners.batch.trajectories import Trajectory, collect
from learners.model.load import load_model
from learners.model.reference import Reference, reads_base
from learners.optimiser import GuardedAdamW, make_optimiser
from learners.update.learning import Learning, make_critic
from reward_service.desk import RewardDesk, name_of

FIRST_HELD_OUT = 1_000_000  # so many seeds from here on are never trained on
TASKS = 10_000  # task seeds of one run
DEVICE = torch.device("cpu")


def first_task(seed: int) -> int:
    """The tasks of a run with this seed are from here on, before or behind those that are held out."""
    first = TASKS * seed
    return first if first < FIRST_HELD_OUT else first + FIRST_HELD_OUT


def alone() -> None:
    """Join a process group of one, which is what learners sum over."""
    if not dist.is_initialized():
        rendezvous = Path(tempfile.mkdtemp(prefix="parley-lab-")) / "group"
        dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=0, world_size=1)


@dataclass
class Clock:
    """Seconds of CPU time by what they were spent on: it tells the same whoever else computes."""

    seconds: dict[str, float] = field(default_factory=dict)
    since: float = 0.0

    def start(self) -> None:
        self.since = time.process_time()

    def stop(self, what: str) -> None:
        now = time.process_time()
        self.seconds[what] = self.seconds.get(what, 0.0) + now - self.since
        self.since = now


class Driver:
    """Moves the weights as DeepSpeed's engine does, in one process and without ZeRO."""

    def __init__(self, module: torch.nn.Module, optimizer: GuardedAdamW):
        self.module, self.optimizer = module, optimizer
        self.held = False  # gradients stay to be looked at, and no step is made

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.module(*arguments, **named)

    def train(self, mode: bool = True) -> None:
        self.module.train(mode)

    def eval(self) -> None:
        self.module.eval()

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def step(self) -> None:
        if not self.held:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)

    def was_step_applied(self) -> bool:
        return not self.optimizer.overflow


class Trainee:
    def __init__(
        self,
        config: RunConfig,
        model: Path,
        group_size: int = 1,
        discount: float | None = None,
        staleness: int = 0,  # updates behind the learner at which every batch is played
    ):
        alone()
        torch.set_num_threads(1)
        torch.manual_seed(config.seed)
        self.config, self.group_size, self.discount = config, group_size, discount
        self.players = seats_and_players(config)
        learner = config.learner
        self.model = load_model(str(model), learner, config.seed)
        self.sampler = TransformersEngine(config.rollout.engine, str(model))
        played = dict(self.sampler.model.named_parameters())
        for name, parameter in self.model.named_parameters():  # one set of weights, seen from both sides
            played[name].data = parameter.data
        self.model_path = model
        self.games = new_play(config, model, self.sampler)
        optimiser = make_optimiser([parameter for parameter in self.model.parameters()], learner)
        self.driver = Driver(self.model, optimiser)
        width = self.model.get_output_embeddings().in_features
        critic = make_critic(learner, width, DEVICE, config.seed)
        reference = Reference(self.driver, learner, DEVICE, str(model)) if reads_base(learner) else None
        made = self.driver, optimiser, learner, config.rollout.temperature, DEVICE, config.seed, 0
        self.learning = Learning(*made, critic, reference)
        self.desk = RewardDesk(config.reward.shaper.make(config.game), steady=True)
        self.version = self.batches = self.played = 0
        self.staleness, self.waiting = staleness, deque()
        self.clock = Clock()

    def tickets(self, count: int, first: int, held_out: bool = False) -> list[Ticket]:
        """A task is a seed of the game; `group_size` tickets share it."""
        start = FIRST_HELD_OUT if held_out else first_task(self.config.seed)
        size = 1 if held_out else self.group_size
        return [
            Ticket("lab", self.config.game.name, number, start + number // size, self.players)
            for number in range(first, first + count)
        ]

    def play(self, tickets: Sequence[Ticket]) -> list[Episode]:
        return play_out(self.games, list(tickets))

    def score(self, episodes: Sequence[Episode]) -> float:
        """Mean over seats of the policy."""
        return float(np.mean([self._score(episode, seat) for episode in episodes for seat in episode.policy_seats()]))

    def _score(self, episode: Episode, seat: str) -> float:
        if self.discount is None:
            return episode.outcome[seat]
        return sum(self.discount**number * turn.reward for number, turn in enumerate(episode.turns_of(seat)))

    def next_batch(self) -> list[Episode]:
        size = self.config.batch_episodes
        while len(self.waiting) <= self.staleness:
            self.waiting.append(self.play(self.tickets(size, self.played * size)))
            self.played += 1
        return self.waiting.popleft()

    def held_out(self, count: int, config: RunConfig | None = None) -> float:
        """By sampling, as it was trained. `config`: of another game."""
        games = self.games if config is None else new_play(config, self.model_path, self.sampler)
        return self.score(play_out(games, self.tickets(count, 0, held_out=True)))

    def outcomes(self, count: int) -> np.ndarray:
        """float64 [count]: of each held-out game, the mean over seats of the policy."""
        return np.array([self.score([episode]) for episode in self.play(self.tickets(count, 0, held_out=True))])

    def update(self) -> dict[str, float]:
        self.clock.start()
        episodes = self.next_batch()
        self.clock.stop("play")
        trajectories = self.shaped(episodes)
        self.clock.stop("shape")
        figures = self.learning.update(trajectories, self.version)
        self.version += 1
        self.sampler.version = self.version
        self.sampler.forget()
        self.clock.stop("learn")
        turns = sum(len(trajectory.rewards) for trajectory in trajectories)
        return figures | {"score": self.score(episodes), "turns": turns}

    def shaped(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        for episode in episodes:
            self.desk.receive(episode)
        rewards = self.desk.shape(self.batches, [name_of(episode) for episode in episodes])
        self.batches += 1
        return collect(episodes, rewards)

    def gradient(self, episodes: Sequence[Episode]) -> np.ndarray:
        """Of the policy's loss over all of them. The policy stays; the critic learns, and credit remembers."""
        credited = self.learning.credit_of(self.shaped(episodes))
        self.driver.held = True
        self.learning.steps.take(
            self.learning.batch(credited, self.version), [[*range(len(credited.trajectories))]], 0.0
        )
        found = torch.cat([p.grad.flatten() for p in self.model.parameters() if p.grad is not None]).double().numpy()
        self.model.zero_grad(set_to_none=True)
        self.learning.criticise(credited)
        self.learning.credit_state = credited.credit.state
        return found
