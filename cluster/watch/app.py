"""The page and what it asks for, over HTTP: everything is read-only.

    GET /                                    the page
    GET /runs                                [{name, state, ...}]
    GET /compared                            the runs side by side
    GET /runs/N                              figures of run N
    GET /runs/N/results                      how its games went
    GET /runs/N/intentions                   what was meant in them
    GET /runs/N/games?where=&by=&skip=&count=
    GET /runs/N/games.csv?where=             all of them, without their turns
    GET /runs/N/game?update=&number=&attempt=&held_out=&newest=
    GET /events                              server-sent events: which of it has changed

A token is asked for where more than this machine can reach the page: in the first address, then in a cookie.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from cluster.errors import ConfigError, ParleyError
from cluster.report.words import tokenizer_of
from cluster.watch.followed import Followed, side_by_side
from cluster.watch.games import finite, lines, one, table
from cluster.watch.page import live_page

LOOK_SECONDS = 0.5  # between two looks at the folders
COOKIE = "parley_watch"


def application(runs: Sequence[Followed], token: str | None, hosts: Sequence[str]) -> Starlette:
    """`hosts`: names under which it may be asked for; a page of somebody else's cannot use another one for this
    machine."""
    html, headers = live_page(", ".join(run.name for run in runs))

    def page(request: Request) -> Response:
        return HTMLResponse(html, headers=headers)

    def listed(request: Request) -> Response:
        return JSONResponse([{"name": run.name, "state": run.state(), "now": run.now()} for run in runs])

    def together(request: Request) -> Response:
        return JSONResponse(finite(side_by_side(runs)))

    def figures(request: Request) -> Response:
        return JSONResponse(finite(chosen(request).figures()))

    def results(request: Request) -> Response:
        return JSONResponse(finite(chosen(request).results()))

    def intentions(request: Request) -> Response:
        return JSONResponse(finite(chosen(request).intentions()))

    def games(request: Request) -> Response:
        asked = request.query_params
        kept = stored(chosen(request), asked.get("where") or None)
        return JSONResponse(
            table(kept, asked.get("by", "-update"), number(asked, "skip", 0), number(asked, "count", 100))
        )

    def all_games(request: Request) -> Response:
        run = chosen(request)
        kept = stored(run, request.query_params.get("where") or None)
        name = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(run.name)}.csv"}
        return StreamingResponse(lines(kept), media_type="text/csv", headers=name)

    def game(request: Request) -> Response:
        asked = request.query_params
        names = ["update", "number", "attempt", *(["newest"] if "newest" in asked else [])]
        keys = " and ".join(f"{key} == {number(asked, key)}" for key in names)
        kept = stored(chosen(request), f"{keys} and held_out == {asked.get('held_out') == 'true'}")
        return JSONResponse(one(kept, tokenizer_of(chosen(request).folder)))

    def chosen(request: Request) -> Followed:
        which = request.path_params["run"]
        if which >= len(runs):
            raise ConfigError(f"there is no run {which}; {len(runs)} are watched")
        return runs[which]

    async def events(request: Request) -> Response:
        return StreamingResponse(changes(runs), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    routes = [
        Route("/", page),
        Route("/runs", listed),
        Route("/compared", together),
        Route("/runs/{run:int}", figures),
        Route("/runs/{run:int}/results", results),
        Route("/runs/{run:int}/intentions", intentions),
        Route("/runs/{run:int}/games", games),
        Route("/runs/{run:int}/games.csv", all_games),
        Route("/runs/{run:int}/game", game),
        Route("/events", events),
    ]
    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))]
    if token is not None:
        middleware.append(Middleware(Token, token=token))
    return Starlette(routes=routes, middleware=middleware, exception_handlers={ParleyError: refused})


def stored(run: Followed, where: str | None) -> Any:
    kept = run.kept(where)
    if kept is None:
        raise ConfigError(f"{run.name} keeps no games (record.episodes=none), or is of a version without a store")
    return kept


def number(asked: Any, key: str, default: int | None = None) -> int:
    given = asked.get(key)
    if given is None and default is not None:
        return default
    if given is None or not given.isdecimal() or len(given) > 18:
        raise ConfigError(f"{key}={given!r} must be a whole number")
    return int(given)


async def changes(runs: Sequence[Followed]) -> AsyncIterator[str]:
    """One event at the beginning, and one for each run whenever something of it has changed."""
    seen: list[dict[str, Any]] = [{} for _ in runs]
    while True:
        for which, run in enumerate(runs):
            marks = await asyncio.to_thread(run.marks)
            changed = [what for what, mark in marks.items() if mark != seen[which].get(what)]
            if changed:
                told = {"run": which, "changed": changed, "state": run.state(), "now": run.now()}
                yield f"data: {json.dumps(told)}\n\n"
            seen[which] = marks
        yield ": nothing new\n\n"  # so that a viewer who has gone is noticed
        await asyncio.sleep(LOOK_SECONDS)


def refused(request: Request, error: Exception) -> Response:
    """An answer like others, for the page shows it: a browser counts any other status as an error of the page."""
    return JSONResponse({"error": str(error)})


def _cookie(request: Request) -> str:
    """A browser sends a host's cookies to all of its ports, where other runs may be watched."""
    return f"{COOKIE}_{request.url.port}"


class Token:
    """Nobody without the token sees anything."""

    def __init__(self, app: Callable, token: str):
        self.app, self.token = app, token

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request = Request(scope)
        if self._fits(request.cookies.get(_cookie(request))):
            return await self.app(scope, receive, send)
        if self._fits(request.query_params.get("token")):
            answer: Response = RedirectResponse(request.url.path, status_code=303)
            answer.set_cookie(_cookie(request), self.token, httponly=True, samesite="strict")
        else:
            answer = PlainTextResponse("This page needs the token that `parley watch` printed.\n", status_code=401)
        return await answer(scope, receive, send)

    def _fits(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())
