"""Held-out games: the same seeds each time, by the rollout workers, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import ray

from cluster.config import RunConfig
from cluster.play_through import HELD_OUT_NUMBERS, Playing
from cluster.statistics import mean_interval, wilson_interval
from envs.episode import Episode, Ticket


@dataclass(slots=True)
class Evaluation:
    """`win_rate` is the share of policy seats whose outcome is 1; `outcome` is the mean."""

    version: int
    episodes: int
    win_rate: float
    win_low: float
    win_high: float
    outcome: float
    outcome_low: float
    outcome_high: float
    turns: float

    def metrics(self) -> dict[str, float]:
        return {f"evaluation/{name}": value for name, value in asdict(self).items() if name != "version"}


def held_out_tickets(config: RunConfig, run: str, players: tuple[tuple[str, str], ...], episodes: int) -> list[Ticket]:
    return [
        Ticket(run, config.game.name, HELD_OUT_NUMBERS + i, config.evaluation.seed + i, players)
        for i in range(episodes)
    ]


def evaluate(
    playing: Playing,
    config: RunConfig,
    run: str,
    players: tuple[tuple[str, str], ...],
    version: int,
    keep_transcripts: Callable[[list[Episode]], None],
) -> Evaluation:
    tickets = held_out_tickets(config, run, players, config.evaluation.episodes)
    results = playing.play_held_out(tickets, config.rollout.max_attempts, config.evaluation.temperature)
    episodes = ray.get([result.ref for result in results], timeout=config.rollout.batch_seconds)
    keep_transcripts(episodes)
    outcomes = np.array([episode.outcome[seat] for episode in episodes for seat in episode.policy_seats()])
    wins = int((outcomes >= 1.0).sum())
    win_low, win_high = wilson_interval(wins, len(outcomes))
    outcome_low, outcome_high = mean_interval(outcomes)
    return Evaluation(
        version=version,
        episodes=len(episodes),
        win_rate=wins / len(outcomes),
        win_low=win_low,
        win_high=win_high,
        outcome=float(outcomes.mean()),
        outcome_low=outcome_low,
        outcome_high=outcome_high,
        turns=float(np.mean([len(episode.turns) for episode in episodes])),
    )
