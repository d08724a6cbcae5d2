"""What an MCP server says, looked at before the SDK of MCP takes it.

The SDK tells of an end of the connection by an error of its own with a code that servers use as well, and of an HTTP
status without the number; what a server prints beside the protocol it logs with a traceback for each line. Here the
errors that a server says get another code, a status its number, and prints are told of once.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

CLOSED = -32000  # code of an error: the connection is closed
SAID = -32099  # code of the same error where a server says it
LOST = "SSE stream"  # begins what the SDK says of an answer that was cut off
ONLY_A_STATUS = "Server returned an error response"  # of the SDK
FORGOTTEN = "Session terminated"
REFUSING = (401, 403)
# Loggers of the SDK; what they call errors is told here, or is the failure of a call.
LOUD = ("mcp.client.stdio", "mcp.client.streamable_http", "mcp.client.session", "mcp.shared.jsonrpc_dispatcher")

log = logging.getLogger("parley.mcp")
_told_of: set[str] = set()


class Hearing:
    """`where`: as messages name the server. `keyed`: whether it was given a key."""

    def __init__(self, where: str, keyed: bool = False):
        self.where, self.keyed = where, keyed
        self.status = 0  # of HTTP: of the latest request
        for name in LOUD:
            logging.getLogger(name).addFilter(is_quiet)

    @asynccontextmanager
    async def heard(self, transport: AbstractAsyncContextManager) -> AsyncIterator[tuple[Any, Any]]:
        async with transport as (reads, writes):
            yield Heard(reads, self._look), writes

    async def note(self, response: Any) -> None:
        """A hook of the client for HTTP."""
        if response.request.method == "POST":
            self.status = response.status_code

    def _look(self, item: Any) -> None:
        if isinstance(item, Exception):
            self._tell_of(item)
        elif (error := getattr(item.message, "error", None)) is not None:
            if error.code == CLOSED and not error.message.startswith(LOST):
                error.code = SAID
            if error.message == ONLY_A_STATUS and self.status:
                error.message = f"HTTP {self.status}"

    def _tell_of(self, item: Exception) -> None:
        if self.where in _told_of:
            return
        _told_of.add(self.where)
        said = getattr(item, "errors", list)()
        text = str(said[0].get("input")) if said else str(item)
        log.warning(
            "%s: it prints %r where only the protocol may be; that and all that follows of its kind is ignored",
            self.where,
            text[:80],
        )

    def refusal(self, message: str) -> str:
        """Why no answer came, where HTTP says it; empty where it does not."""
        if self.status < 400:
            return ""
        text = f"HTTP {self.status}"
        if self.status in REFUSING:
            return f"{text}: {'the key is refused' if self.keyed else 'it wants a key (key_variable)'}"
        return text if message == text else f"{text}: {' '.join(message.split())[:200]}"

    def is_over(self, error: Any) -> bool:
        """Whether that error of a call says that no further call will be answered."""
        if error.code == CLOSED or self.status in REFUSING:
            return True
        return self.status == 404 and error.message == FORGOTTEN


class Heard:
    """A stream of messages, each of which `look` is shown first."""

    def __init__(self, stream: Any, look: Callable[[Any], None]):
        self.stream, self.look = stream, look

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    async def receive(self) -> Any:
        item = await self.stream.receive()
        self.look(item)
        return item

    def __aiter__(self) -> Heard:
        return self

    async def __anext__(self) -> Any:
        item = await self.stream.__anext__()
        self.look(item)
        return item

    async def __aenter__(self) -> Heard:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stream.aclose()


def is_quiet(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR and not record.exc_info
