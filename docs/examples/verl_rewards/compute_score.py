"""A reward function for verl that pays what the reward service says a response is worth.

    PARLEY_URL=http://host:8400 PARLEY_API_KEY=... python -m verl.trainer.main_ppo \
        custom_reward_function.path=docs/examples/verl_rewards/compute_score.py ...

The data set's `data_source` is the game; its `extra_info` should hold the `question`, for verl gives a
reward function the response alone. verl takes "score" as the reward and logs the rest, with "acc" as
the first metric of its validation. Samples whose `extra_info` has the `split` "test" count nowhere.
Run by itself it asks for three samples:

    python docs/examples/verl_rewards/compute_score.py
"""

from __future__ import annotations

import json
import os
from typing import Any

from reward_service.service.client import RewardClient

CLIENT = RewardClient(os.environ.get("PARLEY_URL", "http://127.0.0.1:8400"), os.environ.get("PARLEY_API_KEY", ""))
READ = ("prompt", "question", "num_turns", "outcome", "split")  # of extra_info, what the service reads


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict | None = None, **kwargs
) -> dict[str, float]:
    sample = {
        "data_source": data_source,
        "solution_str": solution_str,
        "ground_truth": plain(ground_truth),
        "extra_info": {name: plain(extra_info[name]) for name in READ if name in (extra_info or {})},
    }
    answer = CLIENT.send("/v1/verl", sample)
    return {name: answer[name] for name in ("score", "acc", "outcome", "version")}


def plain(value: Any) -> Any:
    """Of numpy values, as they come out of a data set, plain ones."""
    return value.tolist() if hasattr(value, "tolist") else value


if __name__ == "__main__":
    COUNTRIES = {"France": ("It is Paris.", "Paris"), "Italy": ("Rome.", "Rome"), "Spain": ("No idea.", "Madrid")}
    for country, (answer, right) in COUNTRIES.items():
        question = {"question": f"What is the capital of {country}?", "num_turns": 2}
        print(json.dumps(compute_score("geography", answer, right, question)))
