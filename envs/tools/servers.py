"""Sessions with MCP servers, of both kinds: one that is started, and one that runs somewhere."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from envs.processes.command import guarded
from envs.tools.hearing import Hearing
from envs.tools.session import Session
from envs.worlds.package import package


def started(command: list[str], environment: dict[str, str], seconds: float) -> Session:
    """A server of one's own, a process that is talked to over its standard input and output. Of what it tells on its
    standard error only the last line is kept, for where it fails. It has a guard, which ends it however this process
    ends."""
    stdio = package("mcp.client.stdio", "mcp")
    hearing = Hearing(f"MCP server `{shlex.join(command)[:100]}`")

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        guard, *words = guarded(command)
        settings = stdio.StdioServerParameters(
            command=guard, args=words, env=environment or None, encoding_error_handler="replace"
        )
        with tempfile.TemporaryFile() as told:  # by the guard
            failure = None
            try:
                transport = hearing.heard(stdio.stdio_client(settings, errlog=told))
                async with package("mcp").Client(transport, cache=None) as client:
                    yield client
            except Exception as error:
                failure = error
            told.seek(0)
            if words := told.read().decode("utf-8", "replace").strip():
                raise OSError(words) from failure
            if failure is not None:
                raise failure

    return Session(hearing, connect, seconds)


def connected(url: str, headers: dict[str, str], seconds: float) -> Session:
    """A server somewhere, over streamable HTTP."""
    http, shared = package("mcp.client.streamable_http", "mcp"), package("mcp.shared._httpx_utils", "mcp")
    hearing = Hearing(f"MCP server at {url}", keyed=bool(headers))
    silence = max(seconds, shared.MCP_DEFAULT_SSE_READ_TIMEOUT)  # so that the session's own limit ends a wait
    patient = shared.httpx2.Timeout(shared.MCP_DEFAULT_TIMEOUT, read=silence)

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        async with shared.create_mcp_http_client(headers=headers, timeout=patient) as asking:
            asking.event_hooks = {"response": [hearing.note]}
            transport = hearing.heard(http.streamable_http_client(url, http_client=asking))
            async with package("mcp").Client(transport, cache=None) as client:
                yield client

    return Session(hearing, connect, seconds)
