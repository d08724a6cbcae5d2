"""Intention credit by regression: what a turn is worth, learned from what situations and utterances mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from envs.settings import GameSettings
from reward_service.shaper import ShaperSettings

if TYPE_CHECKING:
    from reward_service.shapers.regressed.shaper import RegressedShaper


class Regressed(ShaperSettings):
    model: str | None = Field(
        None, description="sentence-transformers model (folder or hub name); null: the MiniLM that comes packaged"
    )
    observations: Literal["game", "text", "labels", "none"] = Field(
        "game",
        description="what is read of what a seat hears; text: its embedding; labels: yes, no or other; none: nothing; "
        "game: what the game asks for, or text",
    )
    components: int = Field(24, ge=1, description="principal components of an utterance's embedding that are used")
    batches: int = Field(6, ge=1, description="past batches that the regressions are fitted on")
    gives: Literal["advantage", "outcome"] = Field(
        "advantage",
        description="advantage: by the shaper's own values of situations. outcome: turns are paid the outcome at the "
        "end, learner.credit makes advantages of that, with its critic if it has one, and what turns like it gained "
        "before goes on top",
    )
    gamma: float = Field(0.97, gt=0, le=1, description="discount per turn of a seat")
    trace: float = Field(
        0.95, ge=0, le=1, description="GAE's lambda: 1 trusts what happened, 0 the values of the next situation"
    )
    own: float = Field(
        0.5,
        ge=0,
        le=1,
        description="weight of what happened in the turn's own game; the rest is what turns gained before that mean "
        "the same in such a situation. 1: no smoothing",
    )

    @model_validator(mode="after")
    def something_of_its_own(self) -> Regressed:
        if self.gives == "outcome" and not self.own:
            raise ValueError("own=0 leaves nothing of the advantages that gives=outcome has learner.credit make")
        return self

    def make(self, game: GameSettings) -> RegressedShaper:
        from reward_service.shapers.regressed.shaper import RegressedShaper

        return RegressedShaper(self)

    @property
    def gives_advantages(self) -> bool:
        return self.gives == "advantage"
