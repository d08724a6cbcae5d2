"""Settings of the reward service floor. Plain pydantic: no torch, vllm or ray."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from envs.settings import Settings
from reward_service.settings.intentions import IntentionSettings
from reward_service.settings.models import AriaRmSettings, SpaSettings
from reward_service.settings.oni import OniSettings
from reward_service.settings.regressed import RegressedSettings
from reward_service.settings.service import HttpSettings


class RewardSettings(Settings):
    shaper: Literal["outcome", "game", "aria", "aria_rm", "spa", "oni", "regressed"] = Field(
        "outcome",
        description="how finished episodes become per-turn rewards; outcome: the result, at the last turn; "
        "game: what the game paid each turn; aria: the mean return of all turns that mean the same in the same "
        "situation, as advantages; aria_rm: a model of these, trained on the latest games; spa: what each turn "
        "contributed to the result, as learned from the latest games; oni: pay for what an annotator finds helpful, "
        "beside the game's own; regressed: how much better a turn did than its situation promised, by regressions over "
        "what was meant, as advantages",
    )
    cpus: float = Field(0.0, ge=0, description="CPUs that the reward service reserves from Ray")
    batch_seconds: float = Field(300.0, gt=0, description="longest wait for the rewards of a batch")
    refit_seconds: float = Field(600.0, gt=0, description="time limit of a refit, where a batch waits for it")
    max_restarts: int = Field(5, ge=0, description="times the reward service is replaced before the run stops")
    http: HttpSettings = Field(default_factory=HttpSettings)
    intentions: IntentionSettings = Field(default_factory=IntentionSettings)
    aria_rm: AriaRmSettings = Field(default_factory=AriaRmSettings)
    spa: SpaSettings = Field(default_factory=SpaSettings)
    oni: OniSettings = Field(default_factory=OniSettings)
    regressed: RegressedSettings = Field(default_factory=RegressedSettings)

    @property
    def gives_advantages(self) -> bool:
        """Credit has nothing left to make of them."""
        if self.shaper == "aria":
            return self.intentions.gives == "advantage"
        if self.shaper == "regressed":
            return self.regressed.gives == "advantage"
        return self.shaper == "aria_rm"

    @model_validator(mode="after")
    def a_reward_model_learns_advantages(self) -> RewardSettings:
        if self.shaper == "aria_rm" and self.intentions.gives == "outcome":
            raise ValueError("shaper=aria_rm learns what intentions say a turn is worth, not intentions.gives=outcome")
        return self
