"""A game of several turns for OpenRLHF, whose every turn the reward service knows.

    PARLEY_URL=http://host:8400 PARLEY_API_KEY=... python -m openrlhf.cli.train_ppo_ray \\
        --train.agent_func_path docs/examples/openrlhf_rewards/agent_func.py ...

The policy guesses a number and is told "higher" or "lower". When the game is over the service is sent
all turns. OpenRLHF takes one number for a game, so it is the mean of what the turns are worth; the
turns' own values are printed by a run by itself:

    python docs/examples/openrlhf_rewards/agent_func.py
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import uuid

from reward_service.service.client import RewardClient

GAME, GUESSES = "numbers", 5
CLIENT = RewardClient(os.environ.get("PARLEY_URL", "http://127.0.0.1:8400"), os.environ.get("PARLEY_API_KEY", ""))


class Guessing:
    """One game. `label`: the number, or {"answer": the number, "split": "test"} in an evaluation."""

    def __init__(self, label: int | str | dict):
        if isinstance(label, str) and label.lstrip().startswith("{"):
            label = json.loads(label)
        marked = label if isinstance(label, dict) else {"answer": label}
        self.secret, self.evaluation = int(marked["answer"]), marked.get("split", "train") != "train"
        self.turns: list[dict[str, str]] = []
        self.won = False

    def answer(self, said: str) -> str:
        """What the policy hears of what it said."""
        guess = int((re.findall(r"\d+", said) or ["0"])[-1])
        self.won = guess == self.secret
        told = "right" if self.won else "higher" if guess < self.secret else "lower"
        self.turns += [{"seat": "guesser", "utterance": said.strip() or "nothing"}, {"seat": "host", "utterance": told}]
        return told

    @property
    def over(self) -> bool:
        return self.won or len(self.turns) >= 2 * GUESSES

    def values(self) -> list[float]:
        """What each of the policy's turns was worth. An evaluation asks nobody, and so counts nowhere."""
        if self.evaluation:
            return [float(self.won)] * (len(self.turns) // 2)
        number, outcome = uuid.uuid4().int % 2**63, {"guesser": float(self.won)}
        episode = {"run": "openrlhf", "game": GAME, "number": number, "turns": self.turns, "outcome": outcome}
        (found,) = CLIENT.rewards([episode])
        return found.seats["guesser"].values.tolist()


if __name__ == "__main__":
    for secret, guesses in ((7, (5, 9, 7)), (2, (5, 9, 7, 6, 5)), ({"answer": 3, "split": "test"}, (3,))):
        game = Guessing(secret)
        heard = [game.answer(f"Is it {guess}?") for guess in guesses]
        print(json.dumps({"heard": heard, "over": game.over, "values": game.values()}))
else:  # OpenRLHF has loaded this file
    import torch
    from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

    # The action's tokens end with <|im_end|> already, where that is the model's end of a turn.
    TURN = "\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"

    class AgentInstance(AgentInstanceBase):
        def __init__(self, *args, **kwargs):
            self.game: Guessing | None = None

        async def reset(self, states: dict, **kwargs) -> dict:
            self.game = Guessing(states["label"])
            return {"observation": states["observation"]}

        async def step(self, states: dict, **kwargs) -> dict:
            told, reward = self.game.answer(states["action_text"]), 0.0
            if self.game.over:
                values = await asyncio.to_thread(self.game.values)
                reward = sum(values) / len(values)
            return {
                "rewards": torch.tensor(reward),
                "scores": torch.tensor(float(self.game.won)),
                "environment_feedback": "" if self.game.over else TURN.format(told),
                "done": self.game.over,
                "extra_logs": {},
            }

    class AgentExecutor(MultiTurnAgentExecutor):
        def __init__(self):
            super().__init__(AgentInstance)
