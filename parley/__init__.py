"""Parley from Python: what the commands do, and what a game of one's own is made of.

    import parley

    run = parley.train("recipes/demo.yaml", updates=50, learner={"epochs": 2}, **{"rollout.workers": 2})
    run.score                                  # mean outcome on held-out games, from 0 to 1
    pandas.DataFrame(run.metrics)              # one row an update
    parley.evaluate(run.folder, evaluation={"episodes": 1000}).summary

    class HotCold(parley.Game): ...            # docs/how-to/new_game.md
    class Mine(parley.CreditMethod): ...       # a recipe names it: learner.credit: my_module:Mine

Importing it loads none of Parley's packages; each name is loaded when it is first used, and what needs torch, vllm or
ray loads them when a run starts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from parley.names import check, share

if TYPE_CHECKING:
    from cluster.api import evaluate, resume, train
    from cluster.episodes.reader import Episodes
    from cluster.errors import ParleyError
    from cluster.record.run import Run, load_run
    from envs.episode import Episode
    from envs.game import Game, Player, Step, Trial
    from learners.credit.method import CreditMethod
    from learners.credit.turns import Credit, Turns
    from learners.loss.loss import Loss, SamplerLoss
    from reward_service.shaper import RewardFunction, ShaperSettings

__all__ = [
    "Credit",
    "CreditMethod",
    "Episode",
    "Episodes",
    "Game",
    "Loss",
    "ParleyError",
    "Player",
    "RewardFunction",
    "Run",
    "SamplerLoss",
    "ShaperSettings",
    "Step",
    "Trial",
    "Turns",
    "evaluate",
    "load_run",
    "resume",
    "train",
]

_WHERE = {
    "Credit": "learners.credit.turns",
    "CreditMethod": "learners.credit.method",
    "Episode": "envs.episode",
    "Episodes": "cluster.episodes.reader",
    "Game": "envs.game",
    "Loss": "learners.loss.loss",
    "ParleyError": "cluster.errors",
    "Player": "envs.game",
    "RewardFunction": "reward_service.shaper",
    "Run": "cluster.record.run",
    "SamplerLoss": "learners.loss.loss",
    "ShaperSettings": "reward_service.shaper",
    "Step": "envs.game",
    "Trial": "envs.game",
    "Turns": "learners.credit.turns",
    "evaluate": "cluster.api",
    "load_run": "cluster.record.run",
    "resume": "cluster.api",
    "train": "cluster.api",
}


share()


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'parley' has no attribute {name!r}; it has: {', '.join(__all__)}")
    check()
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
