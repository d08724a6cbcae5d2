"""Finished episodes in, per-turn rewards out. A shaper is one file and one line here."""

from __future__ import annotations

from importlib import import_module

from envs.settings import GameSettings
from reward_service.settings import RewardSettings
from reward_service.shaper import Shaper

SHAPERS = {
    "aria": "reward_service.aria:AriaShaper",
    "game": "reward_service.paid:PaidShaper",
    "outcome": "reward_service.outcome:OutcomeShaper",
}


def make_shaper(settings: RewardSettings, game: GameSettings) -> Shaper:
    module, _, name = SHAPERS[settings.shaper].partition(":")
    return getattr(import_module(module), name).made(settings, game)
