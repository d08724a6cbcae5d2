"""A session with one MCP server: started or connected to, asked for its tools, called, and left.

    open() ---> [task of its own] connects, lists the tools ---> ready, or one line on why not
    call()      asks; whichever comes first: the answer, the server's end, the time limit
    leave()     tells the task to hang up; nobody waits for it

The SDK of MCP wants to be left where it was entered, so one task of the loop of envs/coroutines owns the session, and
calls are made from others. A call that is given up may leave the server working on it, so the session goes with it:
a process that was started is ended, by force after a moment. So it is when the program ends, however that happens: see
envs/processes/command.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import weakref
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

from envs.coroutines import finish
from envs.processes.serving import line_of
from envs.text.chat import EndpointError
from envs.tools.hearing import Hearing
from envs.tools.tool import Tool
from envs.worlds.package import package, text_of

MOST_TOOLS = 200
LONGEST_RESULT = 4000  # characters
ENDING_SECONDS = 15.0  # until a process that does not end by itself has been ended
LAST_SECONDS = 3.0  # the same when the whole program ends; then its guard ends it


class Session:
    """`connect`: the SDK's client, as a context. `hearing`: what comes from the server passes it."""

    def __init__(self, hearing: Hearing, connect: Callable[[], AbstractAsyncContextManager], seconds: float):
        self.hearing, self.connect, self.seconds = hearing, connect, seconds
        self.where = hearing.where
        self.owner: asyncio.Task | None = None

    @property
    def over(self) -> bool:
        return self.owner is None or self.owner.done() or self.leaving.is_set()

    @property
    def lives(self) -> bool:
        """Whether there still is a process of it, or a connection."""
        return self.owner is not None and not self.owner.done()

    async def open(self) -> list[Tool]:
        self.ready: asyncio.Future = asyncio.get_running_loop().create_future()
        self.leaving, self.beginning = asyncio.Event(), package("anyio", "mcp").CancelScope()
        self.owner = asyncio.create_task(self._own())
        _begun.add(self)
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
            if self.hearing.is_over(error):
                await self.left()  # what it told last is known then
                raise self._gone(error) from None
            return text_of(str(error), LONGEST_RESULT), True  # of the protocol: no such tool, wrong arguments
        except EndpointError:
            raise
        except RuntimeError:  # what it returned is not what its own schema promises
            return f"the tool {name!r} returned something else than it says", True
        except Exception as error:
            self.leave()
            raise EndpointError(f"{self.where}: tool {name!r}: {line_of(error)}") from error
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

    def _gone(self, error: BaseException | None = None) -> EndpointError:
        """`error`: that a call met."""
        if self.owner is not None and self.owner.done() and not self.owner.cancelled():
            error = self.owner.exception() or error
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        of_protocol = isinstance(error, package("mcp").MCPError)
        if of_protocol and (refusal := self.hearing.refusal(error.message)):
            return EndpointError(f"{self.where}: it answered {refusal}")
        closed = error is None or (of_protocol and error.message == "Connection closed")
        return EndpointError(
            f"{self.where}: the server has gone ({'the connection is closed' if closed else line_of(error)})"
        )

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


_begun: weakref.WeakSet[Session] = weakref.WeakSet()
_process = os.getpid()


@atexit.register
def _leave_all() -> None:
    with suppress(Exception):
        if os.getpid() == _process and (there := [each for each in _begun if each.lives]):
            finish(_all_left(there), "the end of sessions with MCP servers", LAST_SECONDS)


async def _all_left(sessions: list[Session]) -> None:
    await asyncio.gather(*(each.left() for each in sessions))


def tool_of(listed: Any) -> Tool:
    schema = listed.input_schema if isinstance(listed.input_schema, dict) else {}
    schema = {"type": "object", "properties": {}, **schema}
    if not isinstance(schema["properties"], dict):
        schema["properties"] = {}
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
