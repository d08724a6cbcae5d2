"""Who may come in, and with how much: before anything is read into memory or understood.

So many requests may be on their way in at once; with one more, the one that has been on its way longest is let go.
Callers that send slowly, or never, so cannot keep the others out.

The key comes as `Authorization: Bearer KEY`, or, from callers that can only be given a URL, as the
password of HTTP basic authentication (http://anything:KEY@host:port/...).
"""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from reward_service.service.errors import CallerError

OPEN = {"/health", "/docs", "/openapi.json"}  # what says nothing about anybody's games
READ_SECONDS = 60.0  # for a request to arrive
ARRIVING = 500  # requests of one ingress that arrive at once; it has room for more than these

Asgi = Callable[[dict, Callable, Callable], Awaitable[None]]
Answer = Callable[[CallerError], Awaitable[Asgi]]


class Gate:
    """ASGI middleware. `key` None: anybody may. `answer` makes a response of an error, and counts it."""

    def __init__(self, app: Asgi, *, key: str | None, request_bytes: int, answer: Answer):
        self.app, self.key, self.request_bytes, self.answer = app, key, request_bytes, answer
        self.arriving: dict[asyncio.Timeout, None] = {}  # the limits of those that arrive, oldest first

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        try:
            if self.key is not None and not fits(headers.get(b"authorization", b"").decode("latin-1"), self.key):
                raise CallerError(401, "unauthorized", "the API key is missing or wrong")
            body = await self._body(headers, receive)
        except CallerError as error:
            await (await self.answer(error))(scope, receive, send)
            return
        await self.app(scope, _replaying(body, receive), send)

    async def _body(self, headers: dict[bytes, bytes], receive: Callable) -> bytes:
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self.request_bytes:
            raise self._too_large()
        try:
            async with asyncio.timeout(READ_SECONDS) as limit:
                self._make_room()
                self.arriving[limit] = None
                return await self._read(receive)
        except TimeoutError:
            late = f"the request did not arrive within {READ_SECONDS:g} s, or held up {ARRIVING} later ones"
            raise CallerError(408, "slow_request", late) from None
        finally:
            self.arriving.pop(limit, None)

    def _make_room(self) -> None:
        if len(self.arriving) >= ARRIVING:
            oldest = next(iter(self.arriving))
            del self.arriving[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())

    async def _read(self, receive: Callable) -> bytes:
        parts, size, more = [], 0, True
        while more:
            message: dict[str, Any] = await receive()
            if message["type"] != "http.request":
                raise CallerError(400, "gone", "the caller went away")
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
            if size > self.request_bytes:
                raise self._too_large()
        return b"".join(parts)

    def _too_large(self) -> CallerError:
        return CallerError(413, "too_large", f"the request is larger than {self.request_bytes} bytes")


def fits(authorization: str, key: str) -> bool:
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode("utf-8").partition(":")[2]
        except ValueError:  # not of base 64, or not of ASCII, or not of UTF-8
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(), key.encode())


def _replaying(body: bytes, receive: Callable) -> Callable:
    """The body once; after it whatever the server says, such as that the caller went away."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> dict[str, Any]:
        return waiting.pop() if waiting else await receive()

    return again
