"""An episode as it stands between two turns, so that it can go on elsewhere when its worker is lost.

    take --> the fleet keeps the newest --> the worker is lost --> with the ticket's next attempt to another worker
         --> restored: the game, go_back: the seats --> the next turn

What was sampled is not sampled again. An episode begins anew if there is any doubt: if the game cannot be restored, if
it then shows or lists something else, or if a scripted player, which is asked everything again, answers otherwise.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from actors.play.live import Live
from actors.play.players import EndpointSeat, PolicySeat
from envs.episode import Ticket, Turn
from envs.game import Game

log = logging.getLogger("parley.play")
LOOK_SECONDS = 1.0  # from one look for episodes whose snapshot is due to the next


@dataclass(frozen=True, slots=True)
class Snapshot:
    ticket: Ticket
    tokens: int  # that the policy has sampled for the episode
    data: bytes  # pickled when it was taken: turns may be paid later

    @property
    def next_ticket(self) -> Ticket:
        """The one that goes on with it."""
        return replace(self.ticket, attempt=self.ticket.attempt + 1)

    def standing(self) -> Standing | None:
        """None if it cannot be read: a game may save what it likes."""
        try:
            return pickle.loads(self.data)
        except (Exception, SystemExit):
            log.exception("the snapshot of episode %d (%s) cannot be read", self.ticket.number, self.ticket.game)
            return None


@dataclass(slots=True)
class Standing:
    game: dict[str, Any]  # as it saved itself
    shown: tuple[str | None, str, tuple[str, ...]]  # the acting seat, what it sees, what is listed for it
    turns: list[Turn]
    owed: dict[str, float]
    seconds: float  # that it has taken
    temperature: float
    tokens: int
    prompts: dict[str, np.ndarray]  # of policies: int32
    recorded: dict[str, list[np.ndarray]]  # of policies: experts


class Keeper:
    """Takes the snapshots that are due."""

    def __init__(self, seconds: float | None):
        """`seconds`: from one of an episode to the next; None: there are none."""
        self.seconds = seconds
        self.looked = time.monotonic()
        self.unkept: set[str] = set()  # games that cannot say how they stand

    def hurry(self) -> None:
        """The worker may be gone at any moment: from now on one is due with each turn."""
        if self.seconds is not None:
            self.seconds = 0.0

    def new(self, lives: Iterable[Live]) -> dict[Ticket, Snapshot]:
        """Of those that wait for an engine; their games are at rest."""
        now, found = time.monotonic(), {}
        if self.seconds is None or now - self.looked < min(self.seconds, LOOK_SECONDS):
            return found
        self.looked = now
        for live in lives:
            due = live.request is not None and len(live.turns) > live.kept and now - live.kept_at >= self.seconds
            if due and live.ticket.game not in self.unkept:
                try:
                    found[live.ticket] = take(live, now)
                except (Exception, SystemExit):
                    log.exception("%s cannot be saved: its episodes begin anew if a worker is lost", live.ticket.game)
                    self.unkept.add(live.ticket.game)
                live.kept, live.kept_at = len(live.turns), now
        return found


def take(live: Live, now: float) -> Snapshot:
    """Of an episode whose game is at rest. Raises what the game raises."""
    policies = {name: seat for name, seat in live.seats.items() if isinstance(seat, PolicySeat)}
    standing = Standing(
        game=live.game.save(),
        shown=(live.game.seat, live.observation, live.actions),
        turns=live.turns,
        owed=live.owed,
        seconds=now - live.started,
        temperature=live.temperature,
        tokens=live.tokens,
        prompts={name: np.asarray(seat.prompt, np.int32) for name, seat in policies.items()},
        recorded={name: seat.recorded for name, seat in policies.items()},
    )
    return Snapshot(live.ticket, live.tokens, pickle.dumps(standing))


def restored(game: Game, saved: dict[str, Any]) -> bool:
    try:
        game.restore(saved)
        return True
    except (Exception, SystemExit):
        log.exception("%s cannot be restored", game.name)
        return False


def go_back(live: Live, standing: Standing, now: float) -> bool:
    """Give newly seated players what they have seen and said. False if the episode is not as it was."""
    if live.temperature != standing.temperature:
        return False
    try:
        for turn in standing.turns:
            seat = live.seats[turn.seat]
            if isinstance(seat, EndpointSeat):
                seat.recall(turn.observation, turn.utterance)
            elif not isinstance(seat, PolicySeat) and seat.reply(turn.observation, turn.actions) != turn.utterance:
                return False
        if (live.game.seat, live.game.observe(), tuple(live.game.actions())) != standing.shown:
            return False
    except (Exception, SystemExit):
        log.exception("episode %d", live.ticket.number)
        return False
    for name, prompt in standing.prompts.items():
        live.seats[name].prompt, live.seats[name].recorded = prompt.tolist(), standing.recorded[name]
    live.wasted = 0
    live.turns, live.owed, live.tokens = standing.turns, standing.owed, standing.tokens
    for turn in live.turns:
        live.latest[turn.seat] = turn
        live.spoken[turn.seat] = live.spoken.get(turn.seat, 0) + 1
    live.started, live.kept, live.kept_at = now - standing.seconds, len(live.turns), now
    return True
