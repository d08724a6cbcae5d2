"""Settings of the critics that credit methods learn from: learners/critic has the networks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from envs.settings import Settings

Schedule = Literal["constant", "linear", "cosine"]


class CriticSettings(Settings):
    learning_rate: float = Field(1e-3, gt=0, description="AdamW step size of the critic")
    schedule: Schedule = Field("constant", description="how its step size falls")
    schedule_updates: int | None = Field(
        None, ge=1, description="updates by which its step size has fallen to 0; default: all of the run's"
    )
    gradient_clip: float = Field(1.0, gt=0, description="largest gradient norm of the critic")
    warmup_updates: int = Field(
        0, ge=0, description="first updates in which only the critic learns and the policy stays as it is"
    )

    @model_validator(mode="after")
    def schedule_is_read(self) -> CriticSettings:
        if self.schedule == "constant" and self.schedule_updates is not None:
            raise ValueError(f"schedule=constant does not read schedule_updates={self.schedule_updates}")
        return self


class TokenCriticSettings(CriticSettings):
    """A value for every token."""

    states: Literal["policy", "base"] = Field(
        "policy", description="whose hidden states it reads: the policy's, or those of the weights the run started from"
    )
    epochs: int = Field(4, ge=1, description="critic steps on each batch")
    value_clip: float | None = Field(
        None, gt=0, description="how far one update may profit from moving a value; POAD's authors ran 0.2"
    )


class ReplaySettings(Settings):
    """What critics of whole utterances learn from. The defaults are those of ArCHer's authors in Twenty Questions."""

    turns: int = Field(10_000, ge=1, description="newest turns that are kept")
    steps: int = Field(20, ge=1, description="critic steps after each update")
    draws: int = Field(256, ge=1, description="turns drawn for each critic step")


class UtteranceCriticSettings(CriticSettings):
    """Values of observations and of whole utterances, learned from past updates too."""

    states: Literal["base"] = Field(
        "base",
        description="whose hidden states it reads: those of the weights the run started from, for states of a moving "
        "policy would be others when they are learned from again",
    )
    tau: float = Field(0.1, gt=0, le=1, description="how far the slow copies follow in one step")
    replay: ReplaySettings = Field(default_factory=ReplaySettings)
