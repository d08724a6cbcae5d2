"""A session with one MCP server: started or connected to, asked for its tools, called, and left.

    open() ---> [task of its own] connects, lists the tools ---> ready, or one line on why not
    call()      asks; whichever comes first: the answer, the server's end, the time limit
    leave()     tells the task to hang up; nobody waits for it

The SDK of MCP wants to be left where it was entered, so one task of the loop of envs/coroutines owns the session, and
calls are made from others. A call that is given up may leave the server working on it, so the session goes with it:
a process that was started is ended, by force after a few seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from envs.text.chat import EndpointError
from envs.tools.tool import Tool
from envs.worlds.package import package, text_of

CLOSED = -32000  # code of an error: the connection is closed
MOST_TOOLS = 200
LONGEST_RESULT = 4000  # characters
ENDING_SECONDS = 15.0  # until a process that does not end by itself has been ended


class Session:
    """`where`: as messages name the server. `connect`: the SDK's client, as a context."""

    def __init__(self, where: str, connect: Callable[[], AbstractAsyncContextManager], seconds: float):
        self.where, self.connect, self.seconds = where, connect, seconds
        self.owner: asyncio.Task | None = None

    @property
    def over(self) -> bool:
        return self.owner is None or self.owner.done() or self.leaving.is_set()

    async def open(self) -> list[Tool]:
        self.ready: asyncio.Future = asyncio.get_running_loop().create_future()
        self.leaving, self.beginning = asyncio.Event(), package("anyio", "mcp").CancelScope()
        self.owner = asyncio.create_task(self._own())
        self.owner.add_done_callback(lambda owner: owner.cancelled() or owner.exception())  # or it is logged
        await self._first(self.ready, "to begin")
        return self.ready.result()

    async def _own(self) -> None:
        with self.beginning:
            async with self.connect() as self.client:
                self.ready.set_result(await self._listed())
                await self.leaving.wait()

    async def _listed(self) -> list[Tool]:
        found, cursor = [], None
        while True:
            page = await self.client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor or len(found) > MOST_TOOLS:
                return [tool_of(each) for each in found[:MOST_TOOLS]]

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """(what came back, whether it is an error that the tool told)"""
        if self.owner is None or self.owner.done():
            raise self._gone()
        call = asyncio.create_task(self.client.call_tool(name, arguments))
        try:
            await self._first(call, f"to tool {name!r}")
            result = call.result()
        except package("mcp").MCPError as error:
            if error.error.code == CLOSED:
                self.leave()
                raise self._gone() from None
            return text_of(str(error), LONGEST_RESULT), True  # of the protocol: no such tool, wrong arguments
        except EndpointError:
            raise
        except RuntimeError:  # what it returned is not what its own schema promises
            return f"the tool {name!r} returned something else than it says", True
        except Exception as error:
            self.leave()
            raise EndpointError(f"{self.where}: tool {name!r}: {type(error).__name__}: {error}") from error
        finally:
            call.cancel()
        return result_text(result), bool(result.is_error)

    async def _first(self, asked: asyncio.Future, of: str) -> None:
        """Until the answer is there. Else the session is over."""
        try:
            await asyncio.wait({asked, self.owner}, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.leave()
            raise
        if asked.done() and not asked.cancelled():
            return
        if self.owner.done():
            raise self._gone()
        self.leave()
        raise EndpointError(f"{self.where}: no answer {of} within {self.seconds:g} s")

    def _gone(self) -> EndpointError:
        error = None
        if self.owner is not None and self.owner.done() and not self.owner.cancelled():
            error = self.owner.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        reason = (
            f"{type(error).__name__}: {' '.join(str(error).split())[:200]}" if error else "the connection is closed"
        )
        return EndpointError(f"{self.where}: the server has gone ({reason})")

    def leave(self) -> None:
        if self.owner is not None:
            self.leaving.set()
            if not self.ready.done():
                self.beginning.cancel()  # of a server that does not answer

    async def left(self) -> None:
        """Leave, and wait until the server's process has ended."""
        self.leave()
        if self.owner is not None:
            await asyncio.wait({self.owner}, timeout=ENDING_SECONDS)


def started(command: list[str], environment: dict[str, str], seconds: float) -> Session:
    """A server of one's own, a process that is talked to over its standard input and output. What it tells on its
    standard error is for nobody."""
    stdio = package("mcp.client.stdio", "mcp")

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        settings = stdio.StdioServerParameters(command=command[0], args=command[1:], env=environment or None)
        with open(os.devnull, "w") as silent:
            async with package("mcp").Client(stdio.stdio_client(settings, errlog=silent), cache=None) as client:
                yield client

    return Session(f"MCP server `{shlex.join(command)[:100]}`", connect, seconds)


def connected(url: str, headers: dict[str, str], seconds: float) -> Session:
    """A server somewhere, over streamable HTTP."""
    http, shared = package("mcp.client.streamable_http", "mcp"), package("mcp.shared._httpx_utils", "mcp")

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        async with shared.create_mcp_http_client(headers=headers) as asking:
            transport = http.streamable_http_client(url, http_client=asking)
            async with package("mcp").Client(transport, cache=None) as client:
                yield client

    return Session(f"MCP server at {url}", connect, seconds)


def tool_of(listed: Any) -> Tool:
    schema = listed.input_schema if isinstance(listed.input_schema, dict) else {}
    schema = {"type": "object", "properties": {}, **schema}
    text = " ".join(text_of(listed.description or listed.title or listed.name, 1000).split())
    return Tool(listed.name, text, schema, checker(schema))


def checker(schema: dict[str, Any]) -> Callable[[dict[str, Any]], str]:
    """Against any JSON schema. Where it cannot be checked here, the server will do it; nothing is fetched for it."""
    jsonschema, registry = package("jsonschema"), package("referencing").Registry()
    made_by = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    validator = made_by(schema, registry=registry)

    def fault(arguments: dict[str, Any]) -> str:
        try:
            found = jsonschema.exceptions.best_match(validator.iter_errors(arguments))
        except Exception:  # of a schema that is wrong itself, or names one that is elsewhere
            return ""
        if found is None:
            return ""
        where = ".".join(map(str, found.absolute_path))
        return " ".join(f"{f'{where}: ' if where else ''}{found.message}".split())[:300]

    return fault


def result_text(result: Any) -> str:
    """Of all kinds of content as text: what is a picture or a sound is called so."""
    parts = []
    for each in result.content:
        kind = each.type
        if kind == "text":
            parts.append(each.text)
        elif kind == "resource" and hasattr(each.resource, "text"):
            parts.append(each.resource.text)
        elif kind == "resource_link":
            parts.append(f"(a resource: {each.uri})")
        else:
            parts.append(f"({'an' if kind[0] in 'aeiou' else 'a'} {kind})")
    if not parts and result.structured_content is not None:
        parts.append(json.dumps(result.structured_content))
    return text_of("\n".join(parts), LONGEST_RESULT)
