"""A game's own evaluation: its trials, one line of a table each.

Which trials a game has is the game's to say (`trials()`): several tasks, opponents of
different strength, both roles. All are played by one fleet, one trial after the other, with
the same held-out seeds in each, so that opponents and roles are compared on the same games.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import asdict

from cluster.errors import ConfigError
from cluster.recipe.config import RunConfig
from cluster.run.evaluate import Evaluation, discounted_return, measure, play_held_out
from cluster.run.playing import Playing
from envs.episode import Episode
from envs.game import Trial
from envs.registry import make_game, trials_of
from envs.settings import GameSettings

Seats = tuple[tuple[str, str], ...]


def chosen_trials(config: RunConfig, pattern: str, episodes: int | None) -> dict[str, tuple[GameSettings, Trial]]:
    """The trials of the config's game whose names match, by the name that tickets use. What
    a trial leaves open is as the config says."""
    every = trials_of(config.game.name)
    matching = [trial for trial in every if fnmatch.fnmatchcase(trial.name, pattern)]
    if not matching:
        raise ConfigError(
            f"no trial of {config.game.name} matches {pattern!r}; it has: {', '.join(trial.name for trial in every)}"
        )
    chosen = {}
    for trial in matching:
        options = {**config.game.options, **trial.options}
        settings = GameSettings(name=config.game.name, options=options, players=trial.players)
        make_game(settings.name, settings.options)  # refuses options that do not go together
        count = trial.episodes if episodes is None else episodes
        chosen[f"{settings.name}/{trial.name}"] = settings, Trial(trial.name, options, trial.players, count)
    return chosen


def play_trials(
    playing: Playing,
    config: RunConfig,
    run: str,
    trials: dict[str, tuple[GameSettings, Trial]],
    keep: Callable[[str, list[Episode]], None],
) -> dict[str, Evaluation]:
    """`keep` is given each trial's name and episodes as soon as they are played."""
    found, first = {}, 0
    for ticket_name, (settings, trial) in trials.items():
        seats = make_game(settings.name, settings.options).seats
        players: Seats = tuple((seat, trial.players.get(seat, "policy")) for seat in seats)
        episodes = play_held_out(playing, config, run, ticket_name, players, trial.episodes, first)
        first += trial.episodes
        found[trial.name] = measure(episodes, 0, config.learner.credit.gamma)
        keep(trial.name, episodes)
    return found


def episode_line(trial: str, episode: Episode, gamma: float) -> dict:
    """One line of episodes.jsonl: what statistics of one's own need."""
    seats = episode.policy_seats()
    return {
        "trial": trial,
        "seed": episode.ticket.seed,
        "players": dict(episode.ticket.players),
        "outcome": episode.outcome,
        "return": {seat: discounted_return(episode, seat, gamma) for seat in seats},
        "money": {seat: episode.money.get(seat) for seat in episode.outcome},
        "turns": len(episode.turns),
        "executable": sum(turn.executable for turn in episode.turns if turn.seat in seats),
        "terminated": episode.terminated,
        "facts": episode.facts,
    }


def trial_figures(found: dict[str, Evaluation]) -> dict[str, dict]:
    return {name: {key: v for key, v in asdict(each).items() if key != "version"} for name, each in found.items()}
