"""Environments of OpenEnv, on a server of their own: `openenv` with `url=http://host:8000`.

    seed, utterance --> {"type": "reset" | "step", "data": ...}  over one websocket, URL/ws
    observation, reward, done <-- {"type": "observation", "data": ...}

The protocol's plain HTTP calls have no memory, so an episode is a websocket session; this is
the client of it, on the `websockets` package alone. One game object is one session, which
lasts over many episodes. It waits as a coroutine, so a rollout worker plays thousands of them at once.

The utterance is a field of the action: `action` names it, or the server's schema is asked, which has to
have exactly one field for text that is required. The outcome is the sum of rewards, put from
`returns` = [worst, best] to [0, 1].

Every wait has a time limit. Asking for the schema, connecting and resetting are tried again, as
they are safe to repeat; a step never is, since the server may have taken it. A server that is gone, full or
late is an EndpointError. An action that the server cannot make sense of is not executable
and costs a turn.
"""

from __future__ import annotations

import asyncio
import json
import random
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx

from envs.coroutines import finish, submit
from envs.doors.inward.imported import ImportedGame, library, paid_by, returns_of, settings_of, share_of
from envs.game import Step
from envs.options import Returns, whole_number, words
from envs.text.chat import EndpointError

SEAT = "agent"
RETRY_SECONDS = 0.5  # pause before connecting again; doubles each time
LARGEST = 2**24  # bytes of one message
START = "; start the server there, or name another with url="
REFUSALS = ("VALIDATION_ERROR", "EXECUTION_ERROR")  # of an action, by a server that is well


class OpenEnvGame(ImportedGame):
    name = "openenv"
    seats = (SEAT,)

    def __init__(
        self,
        url: Annotated[str, "of the server"] = "http://127.0.0.1:8000",
        action: Annotated[
            str, "the field of the action that holds the utterance; empty: the one text field that is required"
        ] = "",
        extra: Annotated[dict | None, "other fields of the action, the same each turn"] = None,
        observation: Annotated[
            str, "the field that is shown; empty: the one text field there is, or else the whole as JSON"
        ] = "",
        returns: Returns = (0.0, 1.0),
        briefing: Annotated[str, "what the seat is told before the first turn"] = "",
        turns: Annotated[int, "until it is truncated"] = 50,
        seconds: Annotated[float, "time limit of every wait"] = 60.0,
        retries: Annotated[int, "how often connecting, the schema and a reset are tried again; a step never is"] = 2,
    ):
        super().__init__(turns)
        self.url = _address(url)
        for option, value in (("action", action), ("observation", observation), ("briefing", briefing)):
            words(option, value)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 86400:
            raise ValueError(f"game option seconds={seconds!r} must be a number of seconds above 0")
        self.action, self.extra, self.observation = action, settings_of("extra", extra), observation
        self.returns = returns_of(returns)
        self.rules, self.seconds = briefing, float(seconds)
        self.retries = whole_number("retries", retries, 0, 20)
        self._session = Session(self.url, self.seconds)
        weakref.finalize(self, leave, self._session).atexit = False  # a process that ends hangs up by itself
        self._field = action

    async def reset(self, seed: int) -> None:
        self._seed = None  # no seat may act if the beginning fails
        self._field = self._field or await self._tried(self._text_field)
        number = random.Random(f"openenv {seed}").getrandbits(31)
        data = await self._tried(partial(self._session.ask, "reset", {"seed": number}))
        self._return, self._done = 0.0, False
        self._take(data)
        self._begun(seed)

    async def step(self, utterance: str) -> Step:
        said = self._heard(utterance)
        return self._written(
            said, self._taken(said, await self._session.ask("step", {**self.extra, self._field: said}))
        )

    async def _tried(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        for attempt in range(self.retries + 1):
            if attempt:
                await asyncio.sleep(RETRY_SECONDS * 2 ** (attempt - 1))
            try:
                return await ask()
            except EndpointError as error:
                failure = error
        raise failure

    def close(self) -> None:
        """End the session, so that the server may give its place to another."""
        finish(self._session.hang_up(), f"the end of a session with {self.url}", self.seconds)

    async def _text_field(self) -> str:
        """The one field of the action that has to be given and is text."""
        try:
            async with httpx.AsyncClient(timeout=self.seconds) as client:
                answer = await client.get(f"{self.url}/schema")
            answer.raise_for_status()
            schema = answer.json()["action"]
            required = schema.get("required", ())
            fields = [name for name in required if schema["properties"][name].get("type") == "string"]
        except (httpx.HTTPError, AttributeError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            hint = START if isinstance(error, httpx.ConnectError) else ""
            raise EndpointError(f"environment at {self.url}: its schema cannot be read: {reason}{hint}") from None
        if len(fields) != 1:
            found = ", ".join(fields) or "none"
            raise ValueError(f"game option action='' needs one text field in the action of {self.url}; it has: {found}")
        return fields[0]

    def _take(self, data: dict[str, Any]) -> None:
        self._shown = self._text(data["observation"])
        self._done = data["done"]

    def _text(self, seen: Any) -> str:
        if isinstance(seen, dict):
            texts = [value for value in seen.values() if isinstance(value, str)]
            if self.observation:
                if self.observation not in seen:
                    raise ValueError(
                        f"game option observation={self.observation!r}: the observation has: {', '.join(seen)}"
                    )
                seen = seen[self.observation]
            elif len(texts) == 1:
                seen = texts[0]
        text = seen if isinstance(seen, str) else json.dumps(seen, sort_keys=True)
        return text.strip() or "nothing"

    def _acting(self) -> str | None:
        return None if self._done else SEAT

    def _taken(self, utterance: str, data: dict[str, Any]) -> Step:
        if "refused" in data:
            self._shown = f"The environment refused that: {data['refused']}"
            return Step(executable=False, caption="the agent says something that the environment refuses")
        reward = paid_by(f"environment at {self.url}", data["reward"] or 0.0)
        self._return += reward
        self._take(data)
        return Step(
            rewards={SEAT: reward} if reward else {},
            terminated=self._done,
            caption=f"the agent says: {utterance[:200]}",
        )

    def briefing(self, seat: str) -> str:
        return self.rules or (
            "You act in an environment. Each time you are told what happened; answer with your next action "
            f"and nothing else. You have {self.horizon} turns."
        )

    def observe(self) -> str:
        return self._shown

    def outcome(self) -> dict[str, float]:
        over = self._seed is not None and self.seat is None
        return {SEAT: share_of(self._return, self.returns) if over else 0.0}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._shown} if self._seed is not None and self.seat is None else {}

    def _options(self) -> dict[str, Any]:
        return {"url": self.url}


class Session:
    """One websocket: opened when it is first asked something, and again after it broke. An answer that nobody waits
    for any more would be taken for the next one's, so the socket goes with whoever gave it up."""

    def __init__(self, url: str, seconds: float):
        self.url, self.seconds = url, seconds
        self.connect = library("websockets.asyncio.client", OpenEnvGame.name).connect
        self.broken = (OSError, library("websockets.exceptions", OpenEnvGame.name).WebSocketException)
        self.socket = None

    async def ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """What came of a "reset" or a "step": observation, reward, done; or {"refused": why}."""
        try:
            async with asyncio.timeout(self.seconds):
                return self._read(kind, await self._exchange(json.dumps({"type": kind, "data": data})))
        except TimeoutError:
            failure = f"no answer to a {kind} within {self.seconds:g} s"
        except self.broken as error:
            failure = f"{type(error).__name__}: {error}{START if isinstance(error, OSError) else ''}"
        except EndpointError as error:
            failure = str(error)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            failure = f"not the protocol of OpenEnv ({type(error).__name__}: {error})"
        except asyncio.CancelledError:
            leave(self)
            raise
        await self.hang_up()
        raise EndpointError(f"environment at {self.url}: {failure}")

    async def _exchange(self, message: str) -> dict[str, Any]:
        if self.socket is None:
            address = f"ws{self.url.removeprefix('http')}/ws"
            self.socket = await self.connect(
                address, open_timeout=self.seconds, close_timeout=1, max_size=LARGEST, proxy=None
            )
        with suppress(*self.broken):  # a server that is full says so and hangs up before it is asked
            await self.socket.send(message)
        return json.loads(await self.socket.recv())

    @staticmethod
    def _read(kind: str, answer: dict[str, Any]) -> dict[str, Any]:
        said, data = answer["type"], answer["data"]
        if said == "error" and kind == "step" and data.get("code") in REFUSALS:
            return {"refused": str(data.get("message", "refused"))}
        if said != "observation":
            raise EndpointError(f"{data.get('code', said)}: {data.get('message', 'no observation')}")
        return {"observation": data["observation"], "reward": data.get("reward"), "done": bool(data.get("done"))}

    async def hang_up(self) -> None:
        socket, self.socket = self.socket, None
        if socket is not None:
            await socket.close()


def leave(session: Session) -> None:
    """Hang up; nobody waits for it."""
    if session.socket is not None:
        submit(session.hang_up())


def _address(url: Any) -> str:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"game option url={url!r} must be like http://host:8000")
    return url.rstrip("/")
