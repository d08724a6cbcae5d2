"""Settings of intention credit by regression. Plain pydantic."""

from __future__ import annotations

from pydantic import Field

from envs.settings import Settings


class RegressedSettings(Settings):
    components: int = Field(24, ge=1, description="principal components of an utterance's embedding that are used")
    batches: int = Field(6, ge=1, description="past batches that the regressions are fitted on")
    gamma: float = Field(0.97, gt=0, le=1, description="discount per turn of a seat")
    trace: float = Field(
        0.95, ge=0, le=1, description="GAE's lambda: 1 trusts what happened, 0 the values of the next situation"
    )
    own: float = Field(
        0.5,
        ge=0,
        le=1,
        description="weight of what happened in the turn's own game; the rest is what is foreseen for turns that mean "
        "the same in such a situation. 1: no smoothing",
    )
