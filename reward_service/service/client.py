"""A client of the reward service: episodes in, numpy arrays out.

    with RewardClient("http://host:8400", key) as client:
        for episode in client.rewards(episodes):
            episode.seats["alice"].values        # float32, one for each of her turns

Every request carries an id of its own, so sending it again is safe: whatever was lost on the way, it
is counted once and answered alike. What may pass (a busy service, one that restarts, a broken
connection) is tried again, as often and after as long as is said here; what cannot is an exception of
its own kind, with the service's one line.

Plain Python and httpx: this file and `httpx`, `numpy` are all that a training script needs.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

PASSING = {408, 429, 502, 503, 504}
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0  # where the service does not say; doubles each time


class RewardServiceError(RuntimeError):
    """No values. `kind` is the service's word for why."""

    def __init__(self, message: str, kind: str = ""):
        super().__init__(message)
        self.kind = kind


class Unauthorized(RewardServiceError):
    """The API key is missing or wrong."""


class Refused(RewardServiceError):
    """The service does not take these episodes; sending them again is no use."""


class UnknownGame(Refused):
    """Neither Parley nor the service's settings know the game."""


class SentTwice(Refused):
    """An episode was counted before, by another request; or this request's id was used for others."""


class TooLarge(Refused):
    """The request is too large: send fewer episodes at once."""


class Unavailable(RewardServiceError):
    """Busy, restarting or not reached for all of the client's patience. The same request may be sent later."""


class BadAnswer(RewardServiceError):
    """Whatever is at this address, it does not answer as the service does."""


REFUSALS = {401: Unauthorized, 409: SentTwice, 413: TooLarge}


@dataclass(frozen=True, slots=True, eq=False)
class SeatValues:
    values: np.ndarray  # float32 [turns of the seat]
    version: int  # of the state that made them
    kind: str  # "advantage", or "reward": advantages are yours to make
    anchors: np.ndarray | None = None  # int64 [turns of the seat]: turns of one answer in the same state share a number
    # float32 [turns of the seat]: on top of those that are made of rewards
    expected_advantages: np.ndarray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeValues:
    run: str
    game: str
    number: int
    attempt: int
    seats: dict[str, SeatValues]


class RewardClient:
    """Threads may share it. `seconds`: time limit of one try; `patience`: seconds for which a request is tried again
    while the service is busy, restarts or cannot be reached."""

    def __init__(self, url: str, key: str = "", *, seconds: float = 90.0, patience: float = 300.0):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=seconds)
        self.patience = patience

    def rewards(self, episodes: Sequence[dict[str, Any]], request_id: str = "") -> list[EpisodeValues]:
        """Of plain episodes, all of one game, in their order. `request_id`: one that a caller keeps,
        to ask again after its own restart; by default a new one."""
        answer = self.send("/v1/rewards", {"episodes": list(episodes)}, request_id)
        try:
            return [episode_values(each) for each in answer["rewards"]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadAnswer(f"{self.http.base_url} sent no rewards: {type(error).__name__}: {error}") from error

    def send(self, path: str, content: dict[str, Any], request_id: str = "") -> dict[str, Any]:
        """Any endpoint's JSON answer."""
        headers = {"Idempotency-Key": request_id or uuid.uuid4().hex}
        until, pause = time.monotonic() + self.patience, FIRST_PAUSE_SECONDS
        while True:
            asked = 0.0  # seconds
            try:
                response = self.http.post(path, json=content, headers=headers)
            except httpx.TransportError as error:
                problem = Unavailable(f"{self.http.base_url}: {type(error).__name__}: {error}", "unreached")
            else:
                if response.status_code == 200:
                    return _json(response)
                problem, after = _problem(response), response.headers.get("Retry-After", "")
                if response.status_code not in PASSING:
                    raise problem
                asked = float(after) if after.isdigit() else 0.0
            # who is busy knows how long; who restarts does not
            wait = min(asked if asked and problem.kind == "busy" else max(asked, pause), LONGEST_PAUSE_SECONDS)
            if time.monotonic() + wait > until:
                raise problem
            time.sleep(wait)
            pause *= 2

    def health(self) -> dict[str, Any]:
        """{"ready": bool, ...}; one try."""
        try:
            return _json(self.http.get("/health"))
        except httpx.TransportError as error:
            raise Unavailable(f"{self.http.base_url}: {type(error).__name__}: {error}", "unreached") from error

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> RewardClient:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadAnswer(f"{response.url} answered {response.status_code} without a JSON object")
    return found


def _problem(response: httpx.Response) -> RewardServiceError:
    status = response.status_code
    try:
        error = _json(response).get("error")
        if not isinstance(error, dict):
            raise BadAnswer(f"{response.url} answered {status} in a form of its own")
    except BadAnswer as other:
        if status not in PASSING:
            raise
        return Unavailable(str(other), "unreached")  # a proxy's page, before a service that is away
    kind, message = str(error.get("kind", "")), f"{status} {error.get('message', '')}"
    if status in PASSING:
        return Unavailable(message, kind)
    if kind == "unknown_game":
        return UnknownGame(message, kind)
    return REFUSALS.get(status, Refused if status < 500 else RewardServiceError)(message, kind)


def episode_values(plain: dict[str, Any]) -> EpisodeValues:
    seats = {seat: _seat(each) for seat, each in plain["seats"].items()}
    return EpisodeValues(plain["run"], plain["game"], plain["number"], plain["attempt"], seats)


def _seat(plain: dict[str, Any]) -> SeatValues:
    def array(name: str, kind: type) -> np.ndarray | None:
        return None if plain.get(name) is None else np.array(plain[name], kind)

    values = np.array(plain["values"], np.float32)
    more = array("anchors", np.int64), array("expected_advantages", np.float32)
    return SeatValues(values, int(plain["version"]), str(plain["kind"]), *more)
