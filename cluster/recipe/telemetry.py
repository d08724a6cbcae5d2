"""Whether a run sends spans to an OpenTelemetry collector."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from envs.settings import Settings


class TelemetrySettings(Settings):
    endpoint: str | None = Field(
        None,
        description="OTLP/HTTP collector that gets spans of updates, stages, episodes, turns and requests, e.g. "
        "http://localhost:4318; null: none. Headers, such as a key: the variable OTEL_EXPORTER_OTLP_HEADERS",
    )
    episodes: Literal["all"] | Annotated[int, Field(ge=0)] = Field(
        16, description="of each update's games that record.episodes keeps, so many have spans"
    )

    @field_validator("endpoint")
    @classmethod
    def is_an_address(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not endpoint.startswith(("http://", "https://")):
            raise ValueError(f"{endpoint!r} does not begin with http:// or https://")
        return endpoint
