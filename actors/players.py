"""Who sits at a seat, and how that seat is asked for its next utterance.

    policy, frozen:NAME   tokens in, tokens out, through an engine
    scripted:NAME         the game's own player; answers at once
    endpoint:NAME         an OpenAI-compatible server; answers from a thread

Each kind sees exactly what its seat sees: the briefing once, then each observation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from actors.engine import Completion, Engine
from envs.chat import ChatClient
from envs.dialogue import Dialogue
from envs.episode import TurnTokens
from envs.settings import EndpointSettings

ENDPOINT_THREADS = 64


def stable_seed(*parts: object) -> int:
    """The same 63-bit number for the same parts, in every process and Python version."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class UnknownPlayer(ValueError):
    """A ticket names a player that this worker was not given."""


@dataclass(frozen=True)
class Policy:
    """An engine, the dialogue of its tokenizer, and whether its tokens are kept for training."""

    engine: Engine
    dialogue: Dialogue
    trained: bool


@dataclass
class PolicySeat:
    """One growing prompt of exact ids: what was sampled is appended as it was sampled."""

    policy: Policy
    name: str
    briefing: str
    prompt: list[int] = field(default_factory=list)
    new_ids: tuple[int, ...] = ()

    def see(self, observation: str) -> None:
        self.new_ids = self.would_see(observation)

    def would_see(self, observation: str) -> tuple[int, ...]:
        dialogue = self.policy.dialogue
        if self.prompt:
            return dialogue.reply(observation, self.prompt[-1])
        return dialogue.opening(self.briefing, observation)

    def room(self, max_context: int) -> int:
        """Tokens left for an utterance after what was just seen."""
        return max_context - len(self.prompt) - len(self.new_ids)

    def asked(self) -> tuple[int, ...]:
        """The whole prompt, with what was just seen."""
        return (*self.prompt, *self.new_ids)

    def said(self, completion: Completion) -> tuple[str, TurnTokens | None]:
        tokens = TurnTokens(
            observation_ids=np.asarray(self.new_ids, np.int32),
            utterance_ids=completion.token_ids,
            logprobs=completion.logprobs,
            versions=completion.versions,
            finish=completion.finish,
        )
        self.prompt += self.new_ids
        self.prompt += completion.token_ids.tolist()
        return self.policy.dialogue.text(completion.token_ids), tokens if self.policy.trained else None


@dataclass
class EndpointSeat:
    endpoint: Endpoint
    name: str
    messages: list[dict[str, str]]

    def ask(self, observation: str, seed: int) -> Future[str]:
        self.messages.append({"role": "user", "content": observation})
        return self.endpoint.ask(list(self.messages), seed)

    def said(self, utterance: str) -> None:
        self.messages.append({"role": "assistant", "content": utterance})


class Endpoint:
    """One server, asked from threads of its own."""

    def __init__(self, name: str, settings: EndpointSettings):
        self.client = ChatClient(f"rollout.endpoints.{name}", settings)
        self.threads = ThreadPoolExecutor(ENDPOINT_THREADS, thread_name_prefix=f"endpoint-{name}")

    def ask(self, messages: list[dict[str, str]], seed: int) -> Future[str]:
        return self.threads.submit(self.client.complete, messages, seed)

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)
        self.client.close()


@dataclass
class Cast:
    """Everyone who can be put on a seat, by the name that a ticket uses."""

    policies: dict[str, Policy]  # "policy", "frozen:NAME"
    endpoints: dict[str, Endpoint] = field(default_factory=dict)  # "endpoint:NAME"
    new_scripted: Callable[[str, str], object] | None = None  # (game, NAME) -> the game's scripted player

    def check(self, player: str) -> None:
        if player in self.policies or player in self.endpoints:
            return
        if player.startswith("scripted:") and self.new_scripted is not None:
            return
        known = ", ".join([*self.policies, *self.endpoints, "scripted:NAME"])
        raise UnknownPlayer(f"no player {player!r} on this worker; it has: {known}")
