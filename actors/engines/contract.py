"""The contract of an inference engine inside a rollout worker.

An engine is driven from one thread, one step at a time:

    engine.submit(Request(...))          # tokens in
    for completion in engine.step(): ...  # tokens out, with log-probs and weight versions

Between two steps the caller may update its weights; requests in flight stay where they
are, and every key and value computed with older weights is thrown away, so the next
token of each request is made wholly by the new weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from actors.transport.receipt import Receipt


@dataclass(frozen=True, slots=True)
class Request:
    id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    temperature: float
    seed: int
    stop_ids: tuple[int, ...]
    listed: tuple[tuple[int, ...], ...] = ()  # if any: score these after the prompt, and sample nothing
    order: int = 0  # where there is no room for all, the lowest goes first: the games that began first
    experts_from: int = 0  # place in the prompt from which on experts are asked for, if the engine records them


@dataclass(slots=True)
class Completion:
    """`token_ids` includes the end token if one was sampled. One log-prob (of the
    tempered distribution that was sampled from) and one weight version per token. An engine
    that records experts gives those of every token that was fed, from `experts_from` on: of the
    prompt and of all that was sampled but the last. Where a token was fed again, as after a
    weight update, those of the first time count: what followed it was sampled after them."""

    id: str
    token_ids: np.ndarray  # int32
    logprobs: np.ndarray  # float32
    versions: np.ndarray  # int32
    finish: str  # "stop" or "length"
    experts: np.ndarray | None = None  # uint8 or uint16 [tokens, layers, choices]


@dataclass(slots=True)
class Scored:
    """Answers a request that listed utterances: the log-prob at temperature 1 of each token of
    each of them after the prompt, all by the same weights."""

    id: str
    logprobs: list[np.ndarray]  # float32, one array for each
    version: int


Part = Literal["weights", "cache"]  # of what an engine keeps on its card


class EngineProcessLost(RuntimeError):
    """A process of the engine was ended from outside while it started. Another try may work."""


class Engine(Protocol):
    version: int  # of the weights that will make the next token
    receipt: Receipt  # for the last whole weight update
    updating: bool  # a weight update has begun and is not finished: no step may be taken
    unusable: str  # why no token may be made until a whole update has gone through: one broke off
    asleep: set[Part]  # what is not on the card now; no step may be taken before all of it is back

    def submit(self, request: Request) -> None: ...

    def step(self) -> list[Completion | Scored]:
        """Advance every request by about one token; return those that finished."""

    def abort(self, ids: list[str]) -> None: ...

    def busy(self) -> bool:
        """Whether any request is unfinished."""

    def room(self) -> int:
        """How many more requests the next step would take up: none if the last one left any waiting."""

    def score(self, sequences: list[list[int]]) -> list[np.ndarray]:
        """Log-prob (temperature 1) of each token after the first, computed afresh with
        the current weights: what the parity probe compares. May be called between steps.
        Requests in flight stay; vLLM, which scores in steps of its own, goes on with them meanwhile."""

    def metrics(self) -> dict[str, float]:
        """Counters since the start, e.g. prefix cache hits."""

    def forget(self) -> None:
        """Drop every cached key and value, so that what follows does not depend on what was
        played before. Requests in flight are computed again from their tokens."""

    def sleep(self) -> None:
        """Give the card's memory back. Requests in flight stay and are computed again from their
        tokens once everything has been woken; the weights come back as they were."""

    def wake(self, part: Part) -> None:
        """Take this part's memory again; nothing where it is there. A weight update needs only
        the weights."""

    # vLLM's weight-sync surface; the learner's side drives it.
    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None: ...

    def start_weight_update(self) -> None: ...

    def update_weights(self, update_info: dict[str, Any]) -> None: ...

    def finish_weight_update(self, weight_version: str | None = None) -> None: ...

    def broken(self) -> str:
        """Why it will never compute again; empty while it can. Asked from any thread."""

    def close(self) -> None: ...


def counted(counters: dict[str, int]) -> dict[str, float]:
    prompt = counters["prompt_tokens"]
    hit_rate = counters["cached_tokens"] / prompt if prompt else 0.0
    return {**{name: float(value) for name, value in counters.items()}, "prefix_cache_hit_rate": hit_rate}
