"""Settings of the games floor. Plain pydantic: no torch, vllm or ray."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """Base of every settings model: unknown keys are errors, values are checked on assignment
    too, and every number is finite."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)


class GameSettings(Settings):
    name: str = Field("twenty_questions", description="registered name of the game (`parley games` lists them)")
    options: dict[str, Any] = Field(default_factory=dict, description="keyword arguments of the game class")
    players: dict[str, str] = Field(
        default_factory=dict,
        description="who sits where: seat -> 'policy', 'scripted:NAME', 'frozen:NAME' or 'endpoint:NAME'; "
        "seats left out are played by the policy",
    )


class EndpointSettings(Settings):
    """An OpenAI-compatible server: for a seat of a game, or for an oracle."""

    url: str = Field(description="base URL, e.g. http://host:8000/v1")
    model: str = Field(description="model name the server knows")
    key_variable: str = Field("", description="environment variable that holds the API key; empty: no key")
    temperature: float = Field(1.0, ge=0, description="sampling temperature")
    max_tokens: int = Field(256, ge=1, description="longest answer, in tokens")
    timeout_seconds: float = Field(60.0, gt=0, description="time limit of one request")
    retries: int = Field(2, ge=0, description="further tries after a failed request")
    prompt_price: float = Field(0.0, ge=0, description="what a million prompt tokens cost; for the cost counter")
    answer_price: float = Field(0.0, ge=0, description="what a million answer tokens cost; for the cost counter")
