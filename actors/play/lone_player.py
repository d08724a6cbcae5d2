"""A trained policy as a plain Player: one game at a time, in this process, without Ray.

For sitting down against a policy at the terminal. It runs on the plain engine, which
starts in seconds; games in bulk belong to rollout workers.
"""

from __future__ import annotations

import copy
from pathlib import Path

from transformers import AutoConfig, AutoTokenizer

from actors.engines.architectures import sliding_window
from actors.engines.contract import Request
from actors.engines.transformers_engine import TransformersEngine
from actors.play.players import Policy, PolicySeat, stable_seed
from actors.settings import EngineSettings
from envs.text.dialogue import Dialogue

MAX_CONTEXT = 4096


class LonePlayer:
    """`briefing` is what its seat is told of the rules before the first observation."""

    def __init__(
        self,
        model: str | Path,
        max_context: int = MAX_CONTEXT,
        max_utterance_tokens: int = 256,
        on_gpu: bool = False,
    ):
        """`max_context`: at most; a model that reaches fewer positions has those."""
        path, dtype = str(model), "bfloat16" if on_gpu else "float32"
        config = AutoConfig.from_pretrained(path)
        limits = getattr(config, "max_position_embeddings", None), sliding_window(config)
        self.max_context = min([max_context, *(limit for limit in limits if limit is not None)])
        self.max_utterance_tokens = max_utterance_tokens
        settings = EngineSettings(kind="transformers", dtype=dtype, max_context=self.max_context, max_sequences=1)
        dialogue = Dialogue(AutoTokenizer.from_pretrained(path))
        engine = TransformersEngine(settings, path, on_gpu=on_gpu)
        self.policy = Policy(engine, dialogue, trained=False)
        self.briefing = ""

    def __deepcopy__(self, memo: dict) -> LonePlayer:
        """Its seat at the table again, with the same model: for going back to an earlier turn."""
        memo[id(self.policy)] = self.policy
        twin = copy.copy(self)
        twin.seat = copy.deepcopy(self.seat, memo)
        return twin

    def reset(self, seed: int) -> None:
        self.seat, self.seed, self.turn = PolicySeat(self.policy, "seat", self.briefing), seed, 0

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        """An empty utterance once its context is full."""
        seat, engine = self.seat, self.policy.engine
        seat.see(observation)
        room = min(self.max_utterance_tokens, seat.room(self.max_context))
        if room < 1:
            return ""
        self.turn += 1
        seed, ends = stable_seed(self.seed, self.turn), self.policy.dialogue.end_ids
        engine.submit(Request(f"turn {self.turn}", seat.asked(), room, 1.0, seed, ends))
        while True:
            for completion in engine.step():
                return seat.said(completion).text

    def close(self) -> None:
        self.policy.engine.close()
