"""Games on the fleet, for whoever asks: tickets in, results out. It knows no ledger.

    play(tickets)           their episodes; a game that fails is played again
    begin(tickets), end     the same in two parts, for one who has something else to do meanwhile
    start(tickets, take)    the fleet plays them, and `take` is given what becomes of each
    wait, listen            in which results arrive

Several may ask at once: while one of them waits, results of the others are handed to those, so none is lost.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from actors.fleet.fleet import Finished, Fleet
from actors.settings import RolloutSettings
from cluster.errors import RunError
from cluster.record.progress import Progress
from cluster.run.securing import LOST, Holder, bring, fetch
from cluster.run.token_balance import TokenBalance
from envs.episode import Episode, Ticket

POLL_SECONDS = 1.0
HINTS = {
    "timeout": " (see rollout.episode_seconds)",
    "turn_timeout": " (see rollout.turn_seconds)",
    "worker_stuck": " (a step of the game, or the engine, takes longer than rollout.worker_silence_seconds)",
}

log = logging.getLogger("parley")

Take = Callable[[list[Finished]], None]


def in_words(reason: str, what: str) -> str:
    return f"{reason}: {what}" if what else reason + HINTS.get(reason, "")


@dataclass(slots=True, eq=False)
class Games:
    """Games that were asked for, and those that are played."""

    tickets: list[Ticket]
    temperature: float | None  # other than the settings'
    waiting: dict[int, Finished] = field(default_factory=dict)  # for the others, by the ticket's number

    def results(self) -> list[Finished]:
        """Of all of them, in the order of their tickets."""
        return [self.waiting[ticket.number] for ticket in self.tickets]

    def keep(self, ticket: Ticket, result: Finished) -> None:
        """The same result, at another place."""
        self.waiting[ticket.number] = result


class Playing:
    def __init__(self, fleet: Fleet, settings: RolloutSettings, welcome: Callable[[], None] | None = None):
        """`welcome` is called while there are workers that joined and have not played yet; it gives them
        their weights. Without it they play with those that they were started with."""
        self.fleet, self.settings = fleet, settings
        self.welcome = welcome or self._as_started
        self.takers: dict[Ticket, Take] = {}  # of the tickets that are being played
        self.holders: list[Holder] = []  # of results that were handed out
        self.failures: Counter[str] = Counter()
        self.tokens = TokenBalance(fleet.tokens)
        self.on_poll: Callable[[Progress], None] | None = None  # called after each look at the fleet
        self.on_unused: Callable[[Finished], None] | None = None  # called with each game that is of no use

    def _as_started(self) -> None:
        for worker in self.fleet.joining():
            self.fleet.joined(worker)

    def play(self, tickets: Sequence[Ticket], temperature: float | None = None) -> list[Episode]:
        """The episodes, in the order of their tickets (temperature: other than the settings'). A game that
        fails is played again; one that keeps failing stops the run: with holes nothing could be compared."""
        return self.end(self.begin(tickets, temperature))

    def begin(self, tickets: Sequence[Ticket], temperature: float | None = None) -> Games:
        games = Games(list(tickets), temperature)
        self.holders.append(games)
        self._start(games, games.tickets)
        return games

    def end(self, games: Games, older: bool = False) -> list[Episode]:
        """`older`: they are played with older weights than a worker that joins would be given."""
        count, what = len(games.tickets), "the games that were asked for"
        while True:
            self.wait(what, lambda: self.progress(None, len(games.waiting), count), older=older)
            results = games.results()
            episodes = fetch(results, self.settings.batch_seconds)
            lost = [result for result, episode in zip(results, episodes, strict=True) if episode is None]
            if not lost:
                self.holders.remove(games)
                return episodes
            for result in lost:
                self.lose(result)
                self.tokens.evaluated -= result.tokens
                del games.waiting[result.ticket.number]
            self._start(games, [self._again(replace(result, reason=LOST)) for result in lost])

    def _start(self, games: Games, tickets: list[Ticket]) -> None:
        def take(results: list[Finished]) -> None:
            self.tokens.evaluate(result for result in results if result.reason is None)
            games.waiting |= {result.ticket.number: result for result in results if result.reason is None}
            if failed := [self._again(result) for result in results if result.reason is not None]:
                self._start(games, failed)

        self.start(tickets, take, games.temperature)

    def _again(self, failed: Finished) -> Ticket:
        ticket, attempts = failed.ticket, self.settings.max_attempts
        if ticket.attempt + 1 >= attempts:
            last = in_words(failed.reason, failed.what)
            raise RunError(f"the game with seed {ticket.seed} failed {attempts} times, last: {last}")
        return replace(ticket, attempt=ticket.attempt + 1)

    def start(self, tickets: Sequence[Ticket], take: Take, temperature: float | None = None) -> None:
        """Each result goes to `take`, once."""
        self.takers |= dict.fromkeys(tickets, take)
        self.fleet.assign(list(tickets), temperature)

    def wait(
        self,
        what: str,
        progress: Callable[[], Progress],
        admit: Callable[[], None] = lambda: None,
        older: bool = False,
    ) -> None:
        """Until all games of `progress` are played; `admit` starts those that may be started now. With `older`
        weights workers that join wait, as long as there are others."""
        seconds = self.settings.batch_seconds
        deadline = time.monotonic() + seconds
        admit()
        while (now := progress()).played < now.games:
            if time.monotonic() > deadline:
                reasons = ", ".join(f"{reason}: {n}" for reason, n in self.failures.items()) or "none"
                raise RunError(
                    f"{now.games - now.played} episodes of {what} are still missing after rollout.batch_seconds="
                    f"{seconds:.0f}; failures so far: {reasons}"
                )
            if self.fleet.joining() and not (older and self.fleet.playing()):
                self.welcome()
            self.listen(POLL_SECONDS)
            if self.on_poll is not None:
                self.on_poll(progress())
            admit()

    def listen(self, seconds: float) -> None:
        """Hand out what finishes within so many seconds. Whoever waits for something else calls this
        meanwhile: workers are kept busy, and rewards are prepared before they are asked for."""
        arrived: dict[Take, list[Finished]] = {}
        for finished in self.fleet.poll(seconds):
            if finished.reason is not None:
                self._count(finished.reason, finished.what)
                self.drop(finished, finished.reason)
            arrived.setdefault(self.takers.pop(finished.ticket), []).append(finished)
        for take, results in arrived.items():
            take(results)
        if draining := self.fleet.draining:
            for holder in self.holders:
                bring(holder, draining)

    def _count(self, reason: str, what: str = "") -> None:
        self.failures[reason] += 1
        count = self.failures[reason]
        if count == 10 ** (len(str(count)) - 1):
            log.warning("failed episodes so far: %d for %s", count, in_words(reason, what))

    def lose(self, result: Finished) -> None:
        """Its episode is gone with the node that made it."""
        self._count(LOST)
        self.drop(replace(result, ref=None), LOST)

    def drop(self, result: Finished, reason: str) -> None:
        """It is of no use; its episode may be there all the same."""
        self.tokens.drop(result, reason)
        if self.on_unused is not None:
            self.on_unused(replace(result, reason=reason))

    def progress(self, batch: int | None, played: int, games: int) -> Progress:
        return Progress(batch, played, games, Counter(self.failures))
