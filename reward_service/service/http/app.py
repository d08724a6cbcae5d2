"""The service's endpoints, as one ASGI application over the shards' actors.

    POST /v1/rewards    episodes as plain JSON -> per-turn values of each valued seat
    POST /v1/openrlhf   OpenRLHF's remote reward request
    POST /v1/verl       one sample of a verl reward function
    GET  /health        200 when every shard is ready, else 503
    GET  /metrics       Prometheus text
    GET  /docs          all this, to try out

An error is {"error": {"kind": WORD, "message": LINE}}, counted by its kind. `Idempotency-Key: ID`
makes a request one that may be sent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from fastapi import FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from pydantic import Field
from ray.exceptions import ActorUnavailableError, OutOfMemoryError, RayActorError, RayTaskError
from starlette.exceptions import HTTPException

from envs.episode import Episode
from envs.registry import game_class, game_names
from reward_service.service.errors import CallerError, Refusal
from reward_service.service.http import openrlhf, prometheus, verl
from reward_service.service.http.dialogue import Sample, register
from reward_service.service.http.gate import Gate
from reward_service.service.http.shard import RESTART_SECONDS, shard_of
from reward_service.service.plain import Plain, PlainEpisode, episode_of
from reward_service.service.requests import listed
from reward_service.settings import DialogueSettings, HttpSettings
from reward_service.shaper import ShapedRewards

HEALTH_SECONDS = 5.0  # for a shard to say how it is
GRACE_SECONDS = 5.0  # beyond a shard's own limit
DOCS = (Path(__file__).parent / "docs.html").read_text(encoding="utf-8")
DOCS_HEADERS = {  # the page asks this service, and nobody else
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'"
}

RequestId = Annotated[
    str, Header(alias="Idempotency-Key", max_length=200, description="the same request sent again has the same")
]


class RewardsRequest(Plain):
    episodes: list[PlainEpisode] = Field(min_length=1, description="finished episodes, all of one game")


class SeatValues(Plain):
    values: list[float] = Field(description="of each of the seat's turns")
    version: int = Field(description="of the state that made them")
    kind: str = Field(description="advantage, or reward: advantages are yours to make")
    anchors: list[int] | None = Field(None, description="turns of one answer in the same state share a number")
    expected_advantages: list[float] | None = Field(None, description="go on top of those that are made of rewards")


class EpisodeValues(Plain):
    run: str
    game: str
    number: int
    attempt: int
    seats: dict[str, SeatValues] = Field(description="of each valued seat that spoke")


class RewardsAnswer(Plain):
    rewards: list[EpisodeValues] = Field(description="in the order of the episodes")


class Service:
    """What the endpoints do, beside HTTP."""

    def __init__(self, shards: Sequence[Any], settings: HttpSettings):
        self.shards, self.settings = list(shards), settings
        register(settings.games)

    async def values(self, game: str, episodes: list[Episode], request_id: str) -> list[ShapedRewards]:
        known(game)
        shard = self.shards[shard_of(game, len(self.shards))]
        request_id = request_id or uuid4().hex  # by which a shard that starts anew knows what it has answered
        limit = self.settings.answer_seconds
        until = time.monotonic() + limit
        while True:
            try:
                answer = await self._ask(shard.rewards.remote(episodes, request_id), limit)
                break
            except CallerError as error:
                if not isinstance(error.__cause__, ActorUnavailableError) or time.monotonic() > until:
                    raise
            await asyncio.sleep(RESTART_SECONDS)
        if isinstance(answer, Refusal):
            raise CallerError(answer.status, answer.kind, answer.message, answer.retry_seconds)
        return answer

    async def _ask(self, reference: Any, seconds: float) -> Any:
        try:
            return await asyncio.wait_for(reference, seconds + GRACE_SECONDS)
        except RayTaskError as error:
            raise CallerError(500, "failed", f"the shard failed: {error.cause or error}") from error
        except (RayActorError, OutOfMemoryError) as error:
            reason = str(error).strip().splitlines()[0]
            raise CallerError(503, "unready", f"the shard is not there: {reason}", RESTART_SECONDS) from error
        except TimeoutError:
            raise CallerError(504, "late", "the shard did not answer in time", RESTART_SECONDS) from None

    async def health(self) -> list[dict[str, Any]]:
        return [await self._ask(shard.health.remote(), HEALTH_SECONDS) for shard in self.shards]

    async def metrics(self) -> list[dict[str, float]]:
        return [await self._ask(shard.metrics.remote(), HEALTH_SECONDS) for shard in self.shards]

    async def sampled(self, game: str, samples: Sequence[Sample], request_id: str) -> list[ShapedRewards]:
        """Of those that count what the shard says, of the others how they were played."""
        counted = [sample.episode for sample in samples if sample.counts]
        values = iter(await self.values(game, counted, request_id) if counted else ())
        return [next(values) if sample.counts else sample.as_played() for sample in samples]

    def reading(self, game: str, request_id: str) -> tuple[DialogueSettings, str, int]:
        """What samples of a game are read by."""
        judged = self.settings.games.get(game) or DialogueSettings()
        return judged, request_id, self.settings.stream.longest_text

    async def answer(self, error: CallerError) -> JSONResponse:
        self.shards[0].count.remote(str(error.kind))
        content = {"error": {"kind": error.kind, "message": str(error)}}
        headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
        if error.retry_seconds:
            headers["Retry-After"] = str(max(1, round(error.retry_seconds)))
        return JSONResponse(content, error.status, headers)


def known(game: str) -> None:
    """Callers name games, not classes: nothing is imported because they ask for it."""
    try:
        if ":" in game:
            raise ValueError(f"unknown game {game!r}; known: {', '.join(game_names())}")
        game_class(game)
    except ValueError as error:
        message = f"{error}; games that are played elsewhere are named by reward.http.games"
        raise CallerError(404, "unknown_game", message) from None


def make_app(shards: Sequence[Any], settings: HttpSettings, key: str | None) -> FastAPI:
    service = Service(shards, settings)
    app = FastAPI(title="Parley rewards", description=__doc__, docs_url=None, redoc_url=None)
    app.add_middleware(Gate, key=key, request_bytes=settings.request_bytes, answer=service.answer)

    @app.post("/v1/rewards", response_model_exclude_none=True)
    async def rewards(body: RewardsRequest, request_id: RequestId = "") -> RewardsAnswer:
        """Values of finished episodes. A request is taken whole or not at all."""
        game = body.episodes[0].game
        for place, plain in enumerate(body.episodes):
            if plain.game != game:
                raise CallerError(422, "bad_request", f"episodes[{place}].game is {plain.game!r}, the first's {game!r}")
        episodes = [episode_of(plain) for plain in body.episodes]
        return answer_of(episodes, await service.values(game, episodes, request_id))

    @app.post("/v1/openrlhf")
    async def for_openrlhf(
        body: openrlhf.OpenRlhfRequest,
        game: Annotated[str, Query(description="which game these are samples of")],
        request_id: RequestId = "",
    ) -> openrlhf.OpenRlhfAnswer:
        """The remote reward of OpenRLHF."""
        known(game)
        samples = openrlhf.samples_of(body, game, *service.reading(game, request_id))
        return openrlhf.answer_of(samples, await service.sampled(game, samples, request_id))

    @app.post("/v1/verl")
    async def for_verl(body: verl.VerlRequest, request_id: RequestId = "") -> verl.VerlAnswer:
        """One sample of a custom reward function of verl."""
        known(body.data_source)
        sample = verl.sample_of(body, *service.reading(body.data_source, request_id))
        (values,) = await service.sampled(body.data_source, [sample], request_id)
        return verl.answer_of(sample, values)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        """The browser makes it of /openapi.json, and asks nobody else: FastAPI's own page loads scripts of others."""
        return HTMLResponse(DOCS, headers=DOCS_HEADERS)

    @app.get("/health")
    async def health() -> JSONResponse:
        """Whether every shard is ready, and the version of its state."""
        try:
            shards = await service.health()
        except CallerError as error:
            return JSONResponse({"ready": False, "reason": str(error)}, 503)
        stopped = [each["stopped"] for each in shards if each["stopped"]]
        if stopped:
            return JSONResponse({"ready": False, "reason": stopped[0]}, 503)
        return JSONResponse({"ready": True, "versions": [each["version"] for each in shards]})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """For Prometheus."""
        return PlainTextResponse(prometheus.text_of(await service.metrics()), media_type="text/plain; version=0.0.4")

    @app.exception_handler(CallerError)
    async def refused(request: Request, error: CallerError) -> JSONResponse:
        return await service.answer(error)

    @app.exception_handler(RequestValidationError)
    async def misshapen(request: Request, error: RequestValidationError) -> JSONResponse:
        return await service.answer(explained(error))

    @app.exception_handler(HTTPException)
    async def elsewhere(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # of bytes that are no text, of brackets in brackets without end
            return await service.answer(CallerError(400, "not_json", "the request's body is not JSON that can be read"))
        return await service.answer(
            CallerError(error.status_code, "no_endpoint", f"{request.url.path}: {error.detail}")
        )

    return app


PROBLEMS = {"missing": "has to be given", "extra_forbidden": "unknown key", "too_short": "is empty"}


def explained(error: RequestValidationError) -> CallerError:
    """pydantic's account of the first problem, as one line that names the field."""
    problems = error.errors()
    first, more = problems[0], f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if isinstance(first.get("input"), bytes) or first["loc"] == ("body",) and first["type"] == "missing":
        return CallerError(400, "not_json", "the request should be JSON, with Content-Type: application/json")
    if first["type"] == "json_invalid":
        return CallerError(400, "not_json", f"the request is not JSON: {first['ctx']['error']}")
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"][1:]).lstrip(".")
    problem = PROBLEMS.get(first["type"], first["msg"].removeprefix("Input "))
    given = "" if first["type"] in PROBLEMS else f", not {_short(first.get('input'))}"
    return CallerError(422, "bad_request", f"{where or 'the request'}: {problem}{given}{more}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def answer_of(episodes: Sequence[Episode], values: Sequence[ShapedRewards]) -> RewardsAnswer:
    given, found = iter(values), []
    for episode in episodes:
        seats = {}
        for seat in episode.policy_seats():
            if episode.turns_of(seat):
                each = next(given)
                seats[seat] = SeatValues(
                    values=each.rewards.tolist(),
                    version=each.version,
                    kind=each.kind,
                    anchors=listed(each.anchors),
                    expected_advantages=listed(each.expected_advantages),
                )
        ticket = episode.ticket
        found.append(
            EpisodeValues(run=ticket.run, game=ticket.game, number=ticket.number, attempt=ticket.attempt, seats=seats)
        )
    return RewardsAnswer(rewards=found)
