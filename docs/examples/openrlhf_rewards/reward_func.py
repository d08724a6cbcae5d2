"""A reward function for OpenRLHF that pays what the reward service says an answer is worth.

    PARLEY_URL=http://host:8400 PARLEY_API_KEY=... python -m openrlhf.cli.train_ppo_ray \
        --reward.remote_url docs/examples/openrlhf_rewards/reward_func.py ...

Whether an answer is right is decided here; what it is worth, among all answers of its kind to
questions of its kind, is decided by the service. Run by itself it asks for three samples:

    python docs/examples/openrlhf_rewards/reward_func.py
"""

from __future__ import annotations

import json
import os

from reward_service.service.client import RewardClient

GAME = "capitals"
CLIENT = RewardClient(os.environ.get("PARLEY_URL", "http://127.0.0.1:8400"), os.environ.get("PARLEY_API_KEY", ""))


def outcome(answer: str, label: str) -> float:
    """1 if the right city is named and no other, .5 if it is named among others."""
    named = {city for city in ("paris", "rome", "madrid", "berlin") if city in answer.lower()}
    if label.lower() not in named:
        return 0.0
    return 1.0 if len(named) == 1 else 0.5


def reward_func(queries: list[str], prompts: list[str], labels: list[str], **kwargs) -> dict:
    """Called by OpenRLHF: `queries` are prompts with their responses, special tokens included."""
    answers = [query.removeprefix(prompt) for query, prompt in zip(queries, prompts, strict=True)]
    outcomes = [outcome(answer, label) for answer, label in zip(answers, labels, strict=True)]
    samples = {"query": queries, "prompts": prompts, "labels": outcomes}
    return CLIENT.send(f"/v1/openrlhf?game={GAME}", samples)


if __name__ == "__main__":
    PROMPT = "<|im_start|>user\nWhat is the capital of {}?<|im_end|>\n<|im_start|>assistant\n"
    asked = [PROMPT.format(country) for country in ("France", "Italy", "Spain")]
    said = ["It is Paris.", "I think it is Rome, or is it Madrid?", "No idea."]
    queries = [f"{prompt}{answer}<|im_end|>" for prompt, answer in zip(asked, said, strict=True)]
    print(json.dumps(reward_func(queries, asked, ["Paris", "Rome", "Madrid"])))
