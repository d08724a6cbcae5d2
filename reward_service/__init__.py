"""Finished episodes in, per-turn rewards out. A shaper is one file and one line here."""

from __future__ import annotations

from importlib import import_module

from envs.settings import GameSettings
from reward_service.settings.rewards import RewardSettings
from reward_service.shaper import Shaper

SHAPERS = {
    "aria": "reward_service.shapers.aria:AriaShaper",
    "aria_rm": "reward_service.shapers.aria_rm:AriaRmShaper",
    "game": "reward_service.shapers.paid:PaidShaper",
    "oni": "reward_service.shapers.oni.shaper:OniShaper",
    "outcome": "reward_service.shapers.outcome:OutcomeShaper",
    "regressed": "reward_service.shapers.regressed.shaper:RegressedShaper",
    "spa": "reward_service.shapers.spa:SpaShaper",
}


def make_shaper(settings: RewardSettings, game: GameSettings) -> Shaper:
    module, _, name = SHAPERS[settings.shaper].partition(":")
    return getattr(import_module(module), name).made(settings, game)
