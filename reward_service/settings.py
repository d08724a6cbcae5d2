"""Settings of the reward service floor. Plain pydantic: no torch, vllm or ray."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from envs.settings import Settings
from reward_service.intentions.settings import IntentionSettings


class RewardSettings(Settings):
    shaper: Literal["outcome", "game", "aria"] = Field(
        "outcome",
        description="how finished episodes become per-turn rewards; outcome: the result, at the last turn; "
        "game: what the game paid each turn; aria: the mean return of all turns that mean the same in the same "
        "situation, as advantages",
    )
    cpus: float = Field(0.0, ge=0, description="CPUs that the reward service reserves from Ray")
    batch_seconds: float = Field(300.0, gt=0, description="longest wait for the rewards of a batch")
    refit_seconds: float = Field(600.0, gt=0, description="time limit of a refit, where a batch waits for it")
    max_restarts: int = Field(5, ge=0, description="times the reward service is replaced before the run stops")
    intentions: IntentionSettings = Field(default_factory=IntentionSettings)
