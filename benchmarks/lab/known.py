"""Credit that is known and not estimated: the most that any way to share out an outcome could bring.

    V(s)            mean outcome of `more_games` games that go on from situation s, played by the same weights
    advantage(t)    V after the turn - V before it, as in VinePPO (Kazemnejad et al. 2024); at the end V is the outcome

These games cost the contest nothing and are not learned from: what is learned from stays a batch of games, each turn of
which is played once. The secret, and what a scripted opponent draws, are those of the game that is gone on with.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from actors.engines.contract import Request
from actors.play.live import Failure, Live
from actors.play.play import Play
from actors.play.players import Said, stable_seed
from actors.play.snapshots import Snapshot, take
from benchmarks.games import new_play
from benchmarks.lab.trainee import Trainee
from envs.episode import Episode, Ticket
from learners.batch.trajectories import Trajectory

Situation = tuple[int, str, int]  # number of the game, seat, turns that the seat has taken
FIRST_ATTEMPT = 1  # games that go on with another are later attempts of its ticket, for these draw alike


class OtherDraws:
    """The engine, which samples otherwise than in the game that is gone on with: in each `round` in another way."""

    def __init__(self, engine: Any):
        self.engine, self.round = engine, (0, 0)

    def submit(self, request: Request) -> None:
        self.engine.submit(replace(request, seed=stable_seed(request.seed, *self.round)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


class Keeping(Play):
    """Keeps every situation in which the policy is asked."""

    situations: dict[Situation, Snapshot]

    def _ask(self, live: Live) -> Said | None:
        said = super()._ask(live)
        if live.request is not None:
            seat = live.game.seat
            situation = live.ticket.number, seat, live.spoken.get(seat, 0)
            self.situations[situation] = take(live, time.monotonic())
        return said


class KnownCredit(Trainee):
    def __init__(self, *given: Any, more_games: int):
        super().__init__(*given)
        self.more_games = more_games
        self.draws = OtherDraws(self.sampler)
        self.onwards = new_play(self.config, self.model_path, self.draws)
        self.games = new_play(self.config, self.model_path, self.sampler, Keeping)
        self.games.situations = {}

    def play(self, tickets: Sequence[Ticket]) -> list[Episode]:
        self.games.situations = {}
        return super().play(tickets)

    def shaped(self, episodes: Sequence[Episode]) -> list[Trajectory]:
        values = self.values()
        outcomes = {(each.ticket.number, seat): each.outcome[seat] for each in episodes for seat in each.policy_seats()}
        trajectories = super().shaped(episodes)
        for each in trajectories:
            game = each.number, each.seat
            known = [values[*game, turn] for turn in range(len(each.rewards))]
            each.rewards, each.kind = np.diff([*known, outcomes[game]]), "advantage"
        return trajectories

    def values(self) -> dict[Situation, float]:
        found: dict[Situation, list[float]] = {situation: [] for situation in self.games.situations}
        for number in range(self.more_games):
            self.draws.round = self.version, number
            going_on = {}
            for attempt, (situation, snapshot) in enumerate(self.games.situations.items(), start=FIRST_ATTEMPT):
                before = replace(snapshot, ticket=replace(snapshot.ticket, attempt=attempt - 1))
                going_on[before.next_ticket] = situation, before
            self.onwards.admit([*going_on], snapshots=[snapshot for _, snapshot in going_on.values()])
            while self.onwards.busy():
                for each in self.onwards.step():
                    situation, _ = going_on[each.ticket]
                    found[situation].append(_played(*each).outcome[situation[1]])
        return {situation: float(np.mean(outcomes)) for situation, outcomes in found.items()}


def _played(ticket: Ticket, result: Episode | Failure, wasted: int) -> Episode:
    """`wasted`: tokens of the game that it was to go on with, if it could not and began anew."""
    if isinstance(result, Failure):
        raise RuntimeError(f"episode {ticket.number} failed: {result.reason}")
    if wasted:
        raise RuntimeError(f"episode {ticket.number}: {ticket.game} does not go on as it stood")
    return result
