"""Who sits at a seat, and how that seat is asked for its next utterance.

    policy, frozen:NAME   tokens in, tokens out, through an engine
    scripted:NAME         the game's own player; answers at once
    endpoint:NAME         an OpenAI-compatible server; answers from a thread

Each kind sees exactly what its seat sees: the briefing once, then each observation.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import numpy as np

from actors.engine import Completion, Engine
from actors.settings import EndpointSettings
from envs.dialogue import Dialogue
from envs.episode import TurnTokens

ENDPOINT_THREADS = 64
RETRY_SECONDS = 0.5  # pause before a failed request is tried again; doubles each time
WORTH_RETRYING = {408, 409, 429, 500, 502, 503, 504}


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
        dialogue = self.policy.dialogue
        if self.prompt:
            self.new_ids = dialogue.reply(observation, self.prompt[-1])
        else:
            self.new_ids = dialogue.opening(self.briefing, observation)

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


class EndpointError(RuntimeError):
    """A server did not answer a request, all tries used."""


class Endpoint:
    """One server. Requests run on threads of their own, each with a time limit; what is
    worth it is tried again, and what still fails is the episode's named failure."""

    def __init__(self, name: str, settings: EndpointSettings):
        self.name, self.settings = name, settings
        headers = {}
        if settings.key_variable:
            key = os.environ.get(settings.key_variable)
            if not key:
                raise ValueError(
                    f"rollout.endpoints.{name}.key_variable={settings.key_variable}: "
                    "that environment variable is not set"
                )
            headers["Authorization"] = f"Bearer {key}"
        self.client = httpx.Client(headers=headers, timeout=settings.timeout_seconds)
        self.threads = ThreadPoolExecutor(ENDPOINT_THREADS, thread_name_prefix=f"endpoint-{name}")

    def ask(self, messages: list[dict[str, str]], seed: int) -> Future[str]:
        return self.threads.submit(self._answer, messages, seed)

    def _answer(self, messages: list[dict[str, str]], seed: int) -> str:
        settings = self.settings
        body = {
            "model": settings.model,
            "messages": messages,
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "seed": seed % 2**31,
        }
        for attempt in range(settings.retries + 1):
            if attempt:
                time.sleep(RETRY_SECONDS * 2 ** (attempt - 1))
            try:
                response = self.client.post(f"{settings.url.rstrip('/')}/chat/completions", json=body)
                response.raise_for_status()
                return response.json()["choices"][0]["message"]["content"] or ""
            except httpx.HTTPStatusError as error:
                failure = f"HTTP {error.response.status_code}"
                if error.response.status_code not in WORTH_RETRYING:
                    break
            except httpx.TransportError as error:
                failure = f"{type(error).__name__}: {error}"
            except (KeyError, IndexError, TypeError, ValueError) as error:
                failure = f"not a chat completion ({type(error).__name__}: {error})"
                break
        raise EndpointError(f"endpoint {self.name!r} at {settings.url}: {failure}")

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
