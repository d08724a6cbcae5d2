"""Held-out games: the same seeds each time, by the rollout workers, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from cluster.recipe.config import RunConfig
from cluster.record.statistics import mean_interval, wilson_interval
from cluster.run.playing import Playing
from envs.episode import Episode, Ticket

HELD_OUT_NUMBERS = 10**9  # ticket numbers of held-out games start here, far above any training ticket


@dataclass(slots=True)
class Evaluation:
    """`win_rate` is the share of policy seats whose outcome is 1; `outcome` is the mean;
    `discounted_return` of a seat is the sum of gamma^t times the reward of its turn t."""

    version: int
    episodes: int
    win_rate: float
    win_low: float
    win_high: float
    outcome: float
    outcome_low: float
    outcome_high: float
    turns: float
    discounted_return: float
    money: float | None = None  # what a policy seat earned, in games that pay

    def metrics(self) -> dict[str, float]:
        values = asdict(self)
        return {f"evaluation/{name}": v for name, v in values.items() if name != "version" and v is not None}


def measure(episodes: Sequence[Episode], version: int, gamma: float) -> Evaluation:
    seats = [(episode, seat) for episode in episodes for seat in episode.policy_seats()]
    outcomes = [episode.outcome[seat] for episode, seat in seats]
    wins = sum(outcome >= 1.0 for outcome in outcomes)
    win_low, win_high = wilson_interval(wins, len(outcomes))
    outcome_low, outcome_high = mean_interval(outcomes)
    earned = [episode.money.get(seat) for episode, seat in seats]
    return Evaluation(
        version=version,
        episodes=len(episodes),
        win_rate=wins / len(outcomes),
        win_low=win_low,
        win_high=win_high,
        outcome=fmean(outcomes),
        outcome_low=outcome_low,
        outcome_high=outcome_high,
        turns=fmean(len(episode.turns) for episode in episodes),
        discounted_return=fmean(discounted_return(episode, seat, gamma) for episode, seat in seats),
        money=fmean(earned) if None not in earned else None,
    )


def discounted_return(episode: Episode, seat: str, gamma: float) -> float:
    return sum(gamma**t * turn.reward for t, turn in enumerate(episode.turns_of(seat)))


def play_held_out(
    playing: Playing,
    config: RunConfig,
    run: str,
    game: str,
    players: tuple[tuple[str, str], ...],
    episodes: int,
    first: int = 0,
) -> list[Episode]:
    """`episodes` held-out games with consecutive seeds. `first` counts the held-out games of
    this run that were played under other names before: what is sampled depends on the number."""
    tickets = [
        Ticket(run, game, HELD_OUT_NUMBERS + first + i, config.evaluation.seed + i, players) for i in range(episodes)
    ]
    return playing.play(tickets, config.evaluation.temperature)


def evaluate(
    playing: Playing,
    config: RunConfig,
    run: str,
    players: tuple[tuple[str, str], ...],
    version: int,
    keep_transcripts: Callable[[list[Episode]], None],
) -> Evaluation:
    episodes = play_held_out(playing, config, run, config.game.name, players, config.evaluation.episodes)
    keep_transcripts(episodes)
    return measure(episodes, version, config.learner.credit.gamma)
