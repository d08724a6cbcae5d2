"""TRL's GRPOTrainer on one of Parley's games, as a user of TRL would write it. Runs in TRL's environment.

    python trl_games.py ASKED.json ANSWER.json

The rollout function plays all games of a batch in step: every turn is one batched `generate`
over the games that are not over. Games, prompts and the ids of what is said come from `envs`,
which needs neither torch nor ray. Whatever a game says is masked, so the same tokens are
trained as in Parley.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from trl import GRPOConfig, GRPOTrainer

from envs.game import Game
from envs.registry import make_game
from envs.text.dialogue import Dialogue


@dataclass
class Played:
    game: Game
    ids: list[int]  # the prompt as it grows
    opening: int  # of its ids, those before the first answer
    said: list[int] = field(default_factory=list)  # 1 for each later id that the policy said
    outcome: float | None = None


class Rollouts:
    """TRL's `rollout_func`. Notes when each batch began, and how long it took."""

    def __init__(self, asked: dict[str, Any], tokenizer: Any):
        self.asked, self.dialogue, self.pad = asked, Dialogue(tokenizer), tokenizer.pad_token_id
        self.began: list[float] = []
        self.seconds: list[float] = []
        self.tokens: list[int] = []
        self.scores: list[float] = []
        self.chosen = GenerationConfig(
            do_sample=True,
            temperature=1.0,
            top_k=0,
            max_new_tokens=asked["utterance_tokens"],
            eos_token_id=list(self.dialogue.end_ids),
            pad_token_id=self.pad,
        )

    def __call__(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, list]:
        started = time.perf_counter()
        games = [self._begin(int(prompt)) for prompt in prompts]
        model = trainer.accelerator.unwrap_model(trainer.model)
        model.eval()
        while live := [played for played in games if played.outcome is None]:
            for played, answer in zip(live, self._answers(model, live), strict=True):
                self._hear(played, answer)
        model.train()
        self.began.append(started)
        self.seconds.append(time.perf_counter() - started)
        self.tokens.append(sum(sum(played.said) for played in games))
        self.scores.append(sum(played.outcome for played in games) / len(games))
        return {
            "prompt_ids": [played.ids[: played.opening] for played in games],
            "completion_ids": [played.ids[played.opening :] for played in games],
            "env_mask": [played.said for played in games],
            "logprobs": None,
            "outcome": [played.outcome for played in games],
        }

    def _begin(self, seed: int) -> Played:
        game = make_game(self.asked["game"], self.asked["options"])
        game.reset(seed)
        ids = list(self.dialogue.opening(game.briefing(game.seat), game.observe()))
        return Played(game, ids, len(ids))

    @torch.inference_mode()
    def _answers(self, model: Any, live: list[Played]) -> list[list[int]]:
        longest = max(len(played.ids) for played in live)
        ids = torch.full((len(live), longest), self.pad)
        seen = torch.zeros((len(live), longest), dtype=torch.long)
        for row, played in enumerate(live):  # padded on the left
            ids[row, longest - len(played.ids) :] = torch.tensor(played.ids)
            seen[row, longest - len(played.ids) :] = 1
        made = model.generate(input_ids=ids, attention_mask=seen, generation_config=self.chosen)
        return [self._until_end(answer) for answer in made[:, longest:].tolist()]

    def _until_end(self, answer: list[int]) -> list[int]:
        ends = [place for place, token in enumerate(answer) if token in self.dialogue.end_ids]
        return answer[: ends[0] + 1] if ends else answer

    def _hear(self, played: Played, answer: list[int]) -> None:
        played.ids += answer
        played.said += [1] * len(answer)
        game = played.game
        step = game.step(self.dialogue.text(answer))
        if step.terminated or step.truncated or game.seat is None:
            (played.outcome,) = game.outcome().values()
            return
        heard = self.dialogue.reply(game.observe(), played.ids[-1])
        played.ids += heard
        played.said += [0] * len(heard)


def paid(completions: list, outcome: list[float], **others: Any) -> list[float]:
    return outcome


def main(asked: dict[str, Any]) -> dict[str, Any]:
    batch, epochs, minibatches = asked["batch"], asked["epochs"], asked["minibatches"]
    tokenizer = AutoTokenizer.from_pretrained(asked["model"])
    rollouts = Rollouts(asked, tokenizer)
    settings = GRPOConfig(
        output_dir=asked["output"],
        seed=asked["seed"],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        learning_rate=asked["learning_rate"],
        lr_scheduler_type="constant",
        max_grad_norm=asked["max_grad_norm"],
        per_device_train_batch_size=batch // minibatches,
        steps_per_generation=minibatches,
        num_iterations=epochs,
        num_generations=asked["group"],
        max_steps=asked["updates"] * epochs * minibatches,
        max_completion_length=asked["context"],
        loss_type="dapo",
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    tasks = asked["updates"] * batch // asked["group"]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(asked["model"], dtype=torch.float32),
        reward_funcs=paid,
        args=settings,
        train_dataset=Dataset.from_dict({"prompt": [str(asked["first_task"] + task) for task in range(tasks)]}),
        processing_class=tokenizer,
        rollout_func=rollouts,
    )
    trainer.train()
    ended = time.perf_counter()
    trainer.save_model(asked["output"])
    tokenizer.save_pretrained(asked["output"])
    ends = [*rollouts.began[1:], ended]
    return {
        "update": [end - began for began, end in zip(rollouts.began, ends, strict=True)],
        "play": rollouts.seconds,
        "tokens": rollouts.tokens,
        "scores": rollouts.scores,
        "games": [asked["batch"]] * len(rollouts.tokens),
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
