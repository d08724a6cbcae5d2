"""What a run that plays its own games asks of a recipe, before anything starts."""

from __future__ import annotations

from cluster.errors import ConfigError
from cluster.plan.shape import language_of
from cluster.recipe.config import RunConfig
from cluster.record.loggers.logger import check as check_loggers
from envs.registry import make_game
from learners.loss.loss import LOSS


def check_online(config: RunConfig) -> None:
    if LOSS.name_of(config.learner.loss) == "likelihood":
        raise ConfigError(
            "learner.loss.kind=likelihood is for recorded games (parley offline): a run knows who played its games, "
            "and weighs them by it with policy_gradient, ppo or decoupled"
        )
    check_loggers(config.loggers)
    with_policy(seats_and_players(config), "trained")
    if config.model.path == "embedded":
        language_of(config.game)


def seats_and_players(config: RunConfig) -> tuple[tuple[str, str], ...]:
    """Who sits where: the config's choice for each seat of the game, else the policy."""
    seats = make_game(config.game.name, config.game.options).seats
    unknown = set(config.game.players) - set(seats)
    if unknown:
        raise ConfigError(f"game.players names seat {sorted(unknown)[0]!r}; {config.game.name} has: {', '.join(seats)}")
    return tuple((seat, config.game.players.get(seat, "policy")) for seat in seats)


def with_policy(players: tuple[tuple[str, str], ...], what: str) -> tuple[tuple[str, str], ...]:
    if "policy" not in dict(players).values():
        raise ConfigError(f"game.players leaves no seat to the policy: nothing would be {what}")
    return players
