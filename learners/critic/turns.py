"""ArCHer's critics: twin Q and twin V of whole utterances, learned off-policy (Zhou et al. 2024).

    Q_i(o, a)  <-  r + gamma * V_i'(o')     transitions of any age, drawn from the replay
    V_i(o)     <-  Q_i'(o, a)               turns of the present batch
    X'         <-  X' + tau * (X - X')      after every critic step

Each is an MLP as in `critic`, on last hidden states (`transitions` says where). They are those of
the weights that the run started from: a state of the moving policy would be another one by the
time it is drawn again.

V's target wants an utterance of the present policy. The learner samples none: the turns of the
batch that is being learned from are such utterances, at the very observations that the policy
meets. With `max_staleness` above 0 some were sampled by weights that many updates older, and V is
the value of that mixture. Because V is of the present policy, so is Q, however old the transition.

Every rank holds all critics, knows the features of the whole batch and draws with the same seed,
so all ranks take the same steps and nothing has to be summed. After each update they hold the first one's.

    read    before credit: min(Q1, Q2) and min(V1, V2) of the batch's turns
    learn   after the policy's steps: into the replay, then `steps` critic steps

Credit is thus of critics that have not seen the batch. V is fitted to the Q of the batch's own
utterances; read after that, it would know what it is to be compared with.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from learners.batch.trajectories import Trajectory
from learners.credit.archer import action_value_targets, followed
from learners.credit.critics import UtteranceCriticSettings
from learners.critic.replay import Replay
from learners.critic.tokens import Critic, States, explained, value_net
from learners.critic.transitions import Transitions, UtteranceBatch, features


class Twins(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.both = nn.ModuleList([value_net(width), value_net(width)])

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[2, states]."""
        return torch.stack([net(states).squeeze(-1) for net in self.both])


class TurnCritics:
    def __init__(self, settings: UtteranceCriticSettings, width: int, device: torch.device, seed: int):
        self.settings, self.device, self.seed = settings, device, seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.nets = nn.ModuleDict({"q": Twins(width), "v": Twins(width)}).to(device)
        self.slow = deepcopy(self.nets).requires_grad_(False)
        self.optimiser = torch.optim.AdamW(self.nets.parameters(), lr=settings.learning_rate, weight_decay=0.0)
        self.replay = Replay(settings.replay.turns, width)
        self.learned = 0  # batches

    def of_games(self, states: States, trajectories: list[Trajectory]) -> list[dict[str, np.ndarray]]:
        return features(states, trajectories)

    def read(self, batch: UtteranceBatch, turns: int) -> dict[str, np.ndarray]:
        """float64 [turns]: the smaller of each pair; 0 where nobody spoke."""
        found = {"turn_values": np.zeros(turns), "action_values": np.zeros(turns)}
        found["turn_values"][batch.turns] = self._smaller("v", batch.observed)
        found["action_values"][batch.turns] = self._smaller("q", batch.transitions.said)
        return found

    def learn(self, batch: UtteranceBatch, rate: float | None = None) -> dict[str, float]:
        """Errors are means over the critic steps; the rest is of the critics before them.
        `rate` is this update's step size."""
        if not len(batch):
            return {}
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate if rate is None else rate
        figures = self._predicted(batch)
        self.replay.add(batch.transitions)
        rng, draws = np.random.default_rng((self.seed, self.learned)), self.settings.replay.draws
        self.learned += 1
        errors = []
        for _ in range(self.settings.replay.steps):
            present = rng.integers(len(batch), size=draws)
            old = self.replay.draw(draws, rng)
            errors.append(self._step(old, batch.observed[present], batch.transitions.said[present]))
        self._agree()
        q, v = np.mean(errors, axis=0).tolist()
        return figures | {"critic_loss_q": q, "critic_loss_v": v, "replay_turns": float(len(self.replay))}

    @torch.no_grad()
    def _agree(self) -> None:
        """Cards may round otherwise: what the first rank has learned counts."""
        if dist.is_initialized():
            for parameter in (*self.nets.parameters(), *self.slow.parameters()):
                dist.broadcast(parameter, 0)

    def _predicted(self, batch: UtteranceBatch) -> dict[str, float]:
        """How much of what came the critics had predicted. Targets are the critics' own estimates, so
        they are measured by the returns."""
        values, actions = self._smaller("v", batch.observed), self._smaller("q", batch.transitions.said)
        returns = batch.returns(self._smaller("v", batch.transitions.after))
        return {
            "value_mean": float(values.mean()),
            "value_explained": explained(values, returns),
            "action_value_explained": explained(actions, returns),
        }

    def _step(self, old: Transitions, observed: np.ndarray, said: np.ndarray) -> tuple[float, float]:
        """One step of all four; the mean squared errors before it."""
        q_targets, v_targets = self.targets(old, said)
        losses = [
            (twins(self._placed(states)) - targets).square().mean(1).sum()
            for twins, states, targets in (
                (self.nets["q"], old.said, q_targets),
                (self.nets["v"], observed, v_targets),
            )
        ]
        self.optimiser.zero_grad()
        sum(losses).backward()
        for twins in self.nets.values():  # each pair by itself: the error of one does not shorten the other's step
            nn.utils.clip_grad_norm_(twins.parameters(), self.settings.gradient_clip)
        self.optimiser.step()
        with torch.no_grad():
            for slow, present in zip(self.slow.parameters(), self.nets.parameters(), strict=True):
                slow.copy_(followed(slow, present, self.settings.tau))
        return tuple(loss.item() / 2 for loss in losses)

    def targets(self, old: Transitions, said: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """[2, transitions] of Q, and [2, turns] of V."""
        with torch.no_grad():
            following = self.slow["v"](self._placed(old.after)).double().cpu().numpy()
            of_turns = self.slow["q"](self._placed(said))
        of_actions = action_value_targets(old.rewards, following, old.ended, old.discounts)
        return torch.from_numpy(of_actions).float().to(self.device), of_turns

    def _smaller(self, name: str, states: np.ndarray) -> np.ndarray:
        """float64 [states]: of the pair."""
        with torch.no_grad():
            return self.nets[name](self._placed(states)).amin(0).double().cpu().numpy()

    def _placed(self, states: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(states).to(self.device)

    def state(self) -> dict[str, Any]:
        """`learned` stands for the generator too, which is made of it anew for every batch."""
        return {
            "nets": self.nets.state_dict(),
            "slow": self.slow.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "replay": self.replay.state(),
            "learned": self.learned,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.nets.load_state_dict(state["nets"])
        self.slow.load_state_dict(state["slow"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.replay.restore(state["replay"])
        self.learned = state["learned"]


AnyCritic = Critic | TurnCritics
