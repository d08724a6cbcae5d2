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
