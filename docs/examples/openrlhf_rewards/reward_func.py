"""A reward function for OpenRLHF that pays what the reward service says an answer is worth.

    PARLEY_URL=http://host:8400 PARLEY_API_KEY=... python -m openrlhf.cli.train_ppo_ray \
        --reward.remote_url docs/examples/openrlhf_rewards/reward_func.py ...

Whether an answer is right is decided here; what it is worth, among all answers of its kind to
questions of its kind, is decided by the service. A label of the evaluation's data set is an object,
{"answer": "Paris", "split": "test"}: such answers are paid their outcome and count nowhere.
Run by itself it asks for three samples:

    python docs/examples/openrlhf_rewards/reward_func.py
"""

from __future__ import annotations

import json
import os

from reward_service.service.client import RewardClient

GAME = "capitals"
CLIENT = RewardClient(os.environ.get("PARLEY_URL", "http://127.0.0.1:8400"), os.environ.get("PARLEY_API_KEY", ""))


def outcome(answer: str, city: str) -> float:
    """1 if the right city is named and no other, .5 if it is named among others."""
    named = {each for each in ("paris", "rome", "madrid", "berlin") if each in answer.lower()}
    if city.lower() not in named:
        return 0.0
    return 1.0 if len(named) == 1 else 0.5


def judged(answer: str, label: str | dict) -> float | dict:
    """What the service is told of an answer: its outcome, and if it is of an evaluation, that."""
    if isinstance(label, str) and label.lstrip().startswith("{"):
        label = json.loads(label)
    if isinstance(label, str):
        return outcome(answer, label)
    return {"outcome": outcome(answer, label["answer"]), "split": label["split"]}


def reward_func(queries: list[str], prompts: list[str], labels: list[str | dict], **kwargs) -> dict:
    """Called by OpenRLHF: `queries` are prompts with their responses, special tokens included."""
    answers = [query.removeprefix(prompt) for query, prompt in zip(queries, prompts, strict=True)]
    told = [judged(answer, label) for answer, label in zip(answers, labels, strict=True)]
    samples = {"query": queries, "prompts": prompts, "labels": told}
    return CLIENT.send(f"/v1/openrlhf?game={GAME}", samples)


if __name__ == "__main__":
    PROMPT = "<|im_start|>user\nWhat is the capital of {}?<|im_end|>\n<|im_start|>assistant\n"
    asked = [PROMPT.format(country) for country in ("France", "Italy", "Spain")]
    said = ["It is Paris.", "I think it is Rome, or is it Madrid?", "No idea."]
    queries = [f"{prompt}{answer}<|im_end|>" for prompt, answer in zip(asked, said, strict=True)]
    print(json.dumps(reward_func(queries, asked, ["Paris", "Rome", "Madrid"])))
