"""Who sits at a seat, and how that seat is asked for its next utterance.

    policy, frozen:NAME   tokens in, tokens out, through an engine
    scripted:NAME         the game's own player; answers at once
    endpoint:NAME         an OpenAI-compatible server; answers later

Each kind sees exactly what its seat sees: the briefing once, then each observation.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from actors.engines.contract import Completion, Engine, Scored
from actors.play import choice
from actors.play.outside_work import Queued
from envs import coroutines
from envs.episode import TurnTokens
from envs.settings import EndpointSettings
from envs.text.chat import ChatClient
from envs.text.dialogue import Dialogue


def stable_seed(*parts: object) -> int:
    """The same 63-bit number for the same parts, in every process and Python version."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class Said(NamedTuple):
    """An utterance, with its tokens where they are kept for training."""

    text: str
    tokens: TurnTokens | None = None


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
    listed: tuple[tuple[int, ...], ...] = ()  # what may be said next; empty where speech is free
    recorded: list[np.ndarray] = field(default_factory=list)  # experts of what each turn fed for the first time

    def see(self, observation: str, listed: tuple[str, ...] = ()) -> None:
        self.new_ids = self.would_see(observation)
        self.listed = tuple(self.policy.dialogue.utterance(action) for action in listed)

    def would_see(self, observation: str) -> tuple[int, ...]:
        dialogue = self.policy.dialogue
        if self.prompt:
            return dialogue.reply(observation, self.prompt[-1])
        return dialogue.opening(self.briefing, observation)

    def room(self, max_context: int) -> int:
        """Tokens left for an utterance after what was just seen; 0 if not all that is listed fits."""
        left = max_context - len(self.prompt) - len(self.new_ids)
        longest = max((len(ids) for ids in self.listed), default=0)
        return left if longest < left else 0  # vLLM makes a token after what it scores

    def too_long(self, game: str) -> str:
        """Why there is no room."""
        tokens = len(self.prompt) + len(self.new_ids)
        return f"{game} shows {self.name} {tokens} tokens at once: raise rollout.engine.max_context"

    def asked(self) -> tuple[int, ...]:
        """The whole prompt, with what was just seen."""
        return (*self.prompt, *self.new_ids)

    def experts_from(self) -> int:
        """How much of the prompt has its experts recorded."""
        return sum(len(experts) for experts in self.recorded)

    def said(self, completion: Completion) -> Said:
        tokens = TurnTokens(
            observation_ids=np.asarray(self.new_ids, np.int32),
            utterance_ids=completion.token_ids,
            logprobs=completion.logprobs,
            versions=completion.versions,
            finish=completion.finish,
        )
        if completion.experts is not None:
            self.recorded.append(completion.experts)
        return self._spoken(self.policy.dialogue.text(completion.token_ids), tokens)

    def chose(self, actions: tuple[str, ...], scored: Scored, counted: str, temperature: float, draw: float) -> Said:
        """`draw`: a uniform number in [0, 1)."""
        chosen, logprob = choice.drawn(actions, self.listed, scored.logprobs, counted, temperature, draw)
        said = np.asarray(self.listed[chosen.chosen], np.int32)
        tokens = TurnTokens(
            observation_ids=np.asarray(self.new_ids, np.int32),
            utterance_ids=said,
            logprobs=np.where(np.arange(len(said)) == 0, logprob, 0.0).astype(np.float32),
            versions=np.full(len(said), scored.version, np.int32),
            choice=chosen,
        )
        return self._spoken(actions[chosen.chosen], tokens)

    def _spoken(self, text: str, tokens: TurnTokens) -> Said:
        self.prompt += self.new_ids
        self.prompt += tokens.utterance_ids.tolist()
        return Said(text, tokens if self.policy.trained else None)


@dataclass
class EndpointSeat:
    endpoint: Endpoint
    name: str
    messages: list[dict[str, str]]

    def ask(self, observation: str, seed: int) -> Queued:
        self._shown(observation)
        return self.endpoint.ask(list(self.messages), seed)

    def _shown(self, observation: str) -> None:
        self.messages.append({"role": "user", "content": observation})

    def recall(self, observation: str, utterance: str) -> None:
        """A turn that was played before."""
        self._shown(observation)
        self.said(utterance)

    def said(self, utterance: str) -> None:
        self.messages.append({"role": "assistant", "content": utterance})


class Endpoint:
    """One server, asked by many seats at once."""

    def __init__(self, name: str, settings: EndpointSettings):
        self.client = ChatClient(f"rollout.endpoints.{name}", settings)

    def ask(self, messages: list[dict[str, str]], seed: int) -> Queued:
        """It waits for one of the connections first."""
        begun = threading.Event()
        return Queued(coroutines.submit(self.client.ask(messages, seed, begun=begun.set)), begun.is_set)

    def close(self) -> None:
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
