"""Why a caller gets no values: a status, a word for the counter, and one line that names what is wrong."""

from __future__ import annotations

from dataclasses import dataclass

STATUS = {  # of what the stream refuses; anything else about an episode is 422
    "unknown_game": 404,
    "sent_twice": 409,
    "other_content": 409,
    "too_many": 413,
    "busy": 429,
    "failed": 500,
    "late": 504,
    "stopped": 503,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer without values, as plain data: exceptions with arguments do not travel well."""

    kind: str
    message: str
    retry_seconds: float = 0.0  # 0: trying again is no use

    @property
    def status(self) -> int:
        return STATUS.get(self.kind, 422)


class CallerError(Exception):
    """The request is answered with this status and line."""

    def __init__(self, status: int, kind: str, message: str, retry_seconds: float = 0.0):
        super().__init__(" ".join(message.split()).encode("utf-8", "backslashreplace").decode())
        self.status, self.kind, self.retry_seconds = status, kind, retry_seconds


def bad_sample(what: str, problem: str) -> CallerError:
    return CallerError(422, "bad_sample", f"{what}: {problem}")
