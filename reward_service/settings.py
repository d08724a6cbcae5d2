"""Settings of the reward service floor. Plain pydantic: no torch, vllm or ray."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from envs.settings import Settings


class RewardSettings(Settings):
    shaper: Literal["outcome", "game"] = Field(
        "outcome",
        description="how finished episodes become per-turn rewards; outcome: the result, at the last turn; "
        "game: what the game paid each turn",
    )
