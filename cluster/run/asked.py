"""What a run that plays its own games asks of a recipe, before anything starts."""

from __future__ import annotations

from cluster.errors import ConfigError
from cluster.recipe.config import RunConfig
from cluster.record.loggers.logger import check as check_loggers
from learners.loss.loss import LOSS


def check_online(config: RunConfig) -> None:
    if LOSS.name_of(config.learner.loss) == "likelihood":
        raise ConfigError(
            "learner.loss.kind=likelihood is for recorded games (parley offline): a run knows who played its games, "
            "and weighs them by it with policy_gradient, ppo or decoupled"
        )
    check_loggers(config.loggers)
