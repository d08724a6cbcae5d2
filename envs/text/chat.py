"""A client of one OpenAI-compatible server, with a time limit, retries and a bill.

    requests = answers + failures;   tries = requests + retries

Used by seats that a server plays and by oracles that ask one. Safe to share between threads: all requests of a
process wait in one event loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import httpx

from envs.coroutines import finish
from envs.outside import OutsideError
from envs.settings import EndpointSettings

CLOSE_SECONDS = 10.0
RETRY_SECONDS = 0.5  # pause before a failed request is tried again; doubles each time
WORTH_RETRYING = {408, 409, 429, 500, 502, 503, 504}
COUNTED = ("requests", "answers", "failures", "retries", "prompt_tokens", "answer_tokens")


class EndpointError(OutsideError):
    """A server did not answer a request, all tries used."""


def headers_with_key(name: str, key_variable: str) -> dict[str, str]:
    """`name`: of the section of settings; the key is the environment's, and never in a recipe."""
    if not key_variable:
        return {}
    key = os.environ.get(key_variable)
    if not key:
        raise ValueError(f"{name}.key_variable={key_variable}: that environment variable is not set")
    return {"Authorization": f"Bearer {key}"}


class ChatClient:
    """`name` is the setting it was made from, as messages call it."""

    def __init__(self, name: str, settings: EndpointSettings):
        self.name, self.settings = name, settings
        self.client = httpx.AsyncClient(
            headers=headers_with_key(name, settings.key_variable),
            timeout=None,  # `_post` has one
            limits=httpx.Limits(max_connections=settings.connections, max_keepalive_connections=settings.connections),
        )
        self.places = asyncio.Semaphore(settings.connections)
        self.lock = threading.Lock()
        self.counters = dict.fromkeys(COUNTED, 0)

    def complete(self, messages: list[dict[str, str]], seed: int = 0, **extra: Any) -> str:
        """The answer's text, for a thread that waits for it."""
        return finish(self.ask(messages, seed, **extra), f"a request to endpoint {self.name!r}")

    async def ask(
        self,
        messages: list[dict[str, str]],
        seed: int = 0,
        *,
        begun: Callable[[], Any] = lambda: None,
        **extra: Any,
    ) -> str:
        """The answer's text. `begun` is called once a connection is there for it. `extra` goes into the request's
        body as it is, for what a server offers beyond the common ground."""
        settings = self.settings
        body = {
            "model": settings.model,
            "messages": messages,
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "seed": seed % 2**31,
            **extra,
        }
        self._count(requests=1)
        for attempt in range(settings.retries + 1):
            if attempt:
                self._count(retries=1)
                await asyncio.sleep(RETRY_SECONDS * 2 ** (attempt - 1))
            try:
                response = await self._post(body, begun)
                response.raise_for_status()
                return self._read(response.json())
            except httpx.HTTPStatusError as error:
                failure = f"HTTP {error.response.status_code}"
                if error.response.status_code not in WORTH_RETRYING:
                    break
            except httpx.RequestError as error:
                failure = f"{type(error).__name__}: {error}"
            except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
                failure = f"not a chat completion ({type(error).__name__}: {error})"
                break
        self._count(failures=1)
        raise EndpointError(f"endpoint {self.name!r} at {settings.url}: {failure}")

    async def _post(self, body: dict[str, Any], begun: Callable[[], Any]) -> httpx.Response:
        """All of the answer has to come in time; waiting for a connection is no request yet."""
        seconds = self.settings.timeout_seconds
        async with self.places:
            begun()
            try:
                async with asyncio.timeout(seconds):
                    return await self.client.post(f"{self.settings.url.rstrip('/')}/chat/completions", json=body)
            except TimeoutError:
                raise httpx.ReadTimeout(f"no whole answer in {seconds:g} s") from None

    def _read(self, answer: dict[str, Any]) -> str:
        text = (answer["choices"][0]["message"]["content"] or "").strip()  # as the text of a policy is
        usage = answer.get("usage") or {}
        spent = {"prompt_tokens": usage.get("prompt_tokens", 0), "answer_tokens": usage.get("completion_tokens", 0)}
        self._count(answers=1, **{name: int(count or 0) for name, count in spent.items()})
        return text

    def _count(self, **more: int) -> None:
        with self.lock:
            for name, count in more.items():
                self.counters[name] += count

    @property
    def cost(self) -> float:
        """What the tokens so far cost, in the currency of the settings' prices."""
        settings, counters = self.settings, self.counters
        prompt, answer = counters["prompt_tokens"], counters["answer_tokens"]
        return (prompt * settings.prompt_price + answer * settings.answer_price) / 1e6

    def close(self) -> None:
        finish(self.client.aclose(), f"closing of endpoint {self.name!r}", CLOSE_SECONDS)
