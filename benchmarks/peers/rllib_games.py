"""RLlib's PPO on one of Parley's games. A program of its own, as trl_games.py is; RLlib is in Parley's environment.

    python rllib_games.py ASKED.json ANSWER.json

RLlib knows steps of an environment, and no sequences that grow: a step is a token, the observation all tokens before
it, and the network reads all of them anew at every step, when it plays as when it learns. There is no baseline by
group, so a value head beside the policy is learned with it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from envs.registry import make_game
from envs.text.dialogue import Dialogue

TASKS = 10_000


class Tokens(gymnasium.Env):
    """A game, token by token. The observation: how many tokens there are, and all of them, filled up with 0."""

    ended: list[tuple[float, int]] = []  # of this process: outcome and tokens of each game that is over

    def __init__(self, asked: dict[str, Any]):
        self.asked, self.width = asked, asked["window"]
        self.dialogue = Dialogue(AutoTokenizer.from_pretrained(asked["model"]))
        self.game = make_game(asked["game"], asked["options"])
        self.observation_space = gymnasium.spaces.Box(0, 2**31 - 1, (self.width + 1,), np.int64)
        self.action_space = gymnasium.spaces.Discrete(asked["vocabulary"])
        self.tasks = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        if seed is not None:
            self.tasks = np.random.default_rng((self.asked["seed"], seed))
        self.game.reset(self.asked["first_task"] + int(self.tasks.integers(TASKS)))
        self.ids = list(self.dialogue.opening(self.game.briefing(self.game.seat), self.game.observe()))
        self.said: list[int] = []
        self.spoken = 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.ids.append(int(action))
        self.said.append(int(action))
        self.spoken += 1
        ended = action in self.dialogue.end_ids or len(self.said) == self.asked["utterance_tokens"]
        if not ended:
            return self._seen(), 0.0, False, False, {}
        step = self.game.step(self.dialogue.text(self.said))
        self.said = []
        if step.terminated or step.truncated or self.game.seat is None:
            (outcome,) = self.game.outcome().values()
            Tokens.ended.append((outcome, self.spoken))
            return self._seen(), outcome, True, False, {}
        self.ids += self.dialogue.reply(self.game.observe(), self.ids[-1])
        return self._seen(), 0.0, False, False, {}

    def _seen(self) -> np.ndarray:
        if len(self.ids) > self.width:
            raise ValueError(f"a game of {len(self.ids)} tokens does not fit a window of {self.width}")
        return np.array([len(self.ids), *self.ids] + [0] * (self.width - len(self.ids)), np.int64)


class LanguageModel(TorchRLModule, ValueFunctionAPI):
    def setup(self) -> None:
        self.language_model = AutoModelForCausalLM.from_pretrained(self.model_config["model"], dtype=torch.float32)
        self.value = nn.Linear(self.language_model.config.hidden_size, 1)
        nn.init.zeros_(self.value.weight)

    def _state(self, batch: dict[str, Any]) -> torch.Tensor:
        """Of each row's last token. What a row is filled up with is behind it, and a causal model does not see it."""
        seen = batch[Columns.OBS].long()
        count = seen[:, 0]
        ids = seen[:, 1 : 1 + int(count.max())]
        states = self.language_model.model(input_ids=ids, use_cache=False).last_hidden_state
        return states[torch.arange(len(ids)), count - 1]

    def _forward(self, batch: dict[str, Any], **named: Any) -> dict[str, torch.Tensor]:
        state = self._state(batch)
        return {Columns.ACTION_DIST_INPUTS: self.language_model.lm_head(state), Columns.EMBEDDINGS: state}

    def compute_values(self, batch: dict[str, Any], embeddings: torch.Tensor | None = None) -> torch.Tensor:
        return self.value(self._state(batch) if embeddings is None else embeddings)[:, 0]


def main(asked: dict[str, Any]) -> dict[str, Any]:
    asked["vocabulary"] = AutoModelForCausalLM.from_pretrained(asked["model"]).config.vocab_size
    config = (
        PPOConfig()
        .environment(Tokens, env_config=asked)
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=asked["batch"],
            batch_mode="complete_episodes",
            rollout_fragment_length="auto",
        )
        .learners(num_learners=0)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=LanguageModel, model_config={"model": asked["model"]}))
        .training(
            train_batch_size_per_learner=asked["tokens"],
            minibatch_size=asked["tokens"] // asked["minibatches"],
            num_epochs=asked["epochs"],
            lr=asked["learning_rate"],
            grad_clip=asked["max_grad_norm"],
            gamma=1.0,
            clip_param=0.2,
            use_kl_loss=False,
            entropy_coeff=0.0,
        )
        .debugging(seed=asked["seed"], log_level="ERROR")
    )
    algorithm = config.build_algo()
    found: dict[str, list[float]] = {name: [] for name in ("update", "play", "tokens", "scores", "games")}
    for _ in range(asked["updates"]):
        began, before = time.perf_counter(), len(Tokens.ended)
        result = algorithm.train()
        games = Tokens.ended[before:]  # what RLlib throws away with its unfinished games is counted nowhere
        found["update"].append(time.perf_counter() - began)
        found["play"].append(float(result["timers"]["env_runner_sampling_timer"]))
        found["tokens"].append(float(sum(spoken for _, spoken in games)))
        found["scores"].append(float(np.mean([outcome for outcome, _ in games])))
        found["games"].append(len(games))
    model = algorithm.get_module().language_model
    model.save_pretrained(asked["output"])
    AutoTokenizer.from_pretrained(asked["model"]).save_pretrained(asked["output"])
    algorithm.stop()
    return found | {"threads": torch.get_num_threads()}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
