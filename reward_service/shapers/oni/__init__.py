"""Intrinsic reward from feedback on what happened, annotated beside the traffic. See `shaper`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.settings import GameSettings
from reward_service.shaper import ShaperSettings
from reward_service.shapers.oni.settings import OniSettings

if TYPE_CHECKING:
    from reward_service.shapers.oni.shaper import OniShaper


class Oni(OniSettings, ShaperSettings):
    def make(self, game: GameSettings) -> OniShaper:
        from reward_service.shapers.oni.shaper import OniShaper

        return OniShaper(self, game)
