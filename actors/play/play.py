"""Many episodes at once over the engines of one worker: a state machine without Ray.

    admit(tickets) --> queue --> live --step()--> Finished episode | named failure
                                  |  ^
                    request to an |  | completion, answer
                    engine/server v  |

A live episode is always waiting for exactly one thing: an engine's completion, a server's answer, or a slow game's own
work in a thread or as a coroutine. Scripted players answer on the spot. An episode begins when the policy's engine has
room for it: before that its clock stands, and it holds no game. Every admitted ticket comes back from `step` once:

    admitted = queued + live + returned

What an episode samples depends on its ticket's seed and number, not on the attempt or its neighbours: two tickets with
one seed play the same game in different ways. Tickets admitted to an idle Play start from empty caches, so the same set
of tickets gives the same bytes - unless something waits for a server or a slow game, whose timing decides what the
engine computes together.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from inspect import isawaitable, iscoroutinefunction
from itertools import islice
from typing import Any

from actors.engines.contract import Completion, Request, Scored
from actors.play.answers import ask, write_down
from actors.play.live import (
    Ending,
    EpisodeFailed,
    FailingAs,
    Failure,
    Live,
    Returned,
    closing_ids,
    ending_of,
    experts_of,
)
from actors.play.outside_work import OutsideWork, Queued
from actors.play.players import Cast, EndpointSeat, PolicySeat, Said, stable_seed
from actors.play.snapshots import Keeper, Snapshot, Standing, go_back, restored
from actors.settings import RolloutSettings
from envs import coroutines
from envs.episode import Episode, Ticket, Turn
from envs.game import Game, Player, Step, at_once_of, hook
from envs.text.chat import EndpointError
from envs.well_formed import good_outcome, good_sight, good_step

log = logging.getLogger("parley.play")
IDLE_WAIT_SECONDS = 0.05  # longest step when only servers and threads have something to say


class Play:
    def __init__(self, cast: Cast, settings: RolloutSettings, new_game: Callable[[str], Game]):
        self.cast, self.settings, self.new_game = cast, settings, new_game
        self.queue: deque[tuple[Ticket, float, Snapshot | None]] = deque()
        self.live: dict[int, Live] = {}
        self.waiting_for: dict[str, Live] = {}  # request id -> episode
        self.finished: list[Returned] = []
        self.spare_games: dict[str, list[Game]] = {}
        self.at_once: dict[str, int | None] = {}  # of games that were made
        self.spare_players: dict[tuple[str, str], list[Player]] = {}
        self.admitted = self.sampled = 0  # tickets; tokens of the policy that is trained
        self.outside = OutsideWork(settings.game_threads)
        self.keeper = Keeper(settings.snapshot_seconds)

    def admit(
        self, tickets: list[Ticket], temperature: float | None = None, snapshots: Sequence[Snapshot] = ()
    ) -> None:
        """`snapshots`: of episodes that some of these tickets go on with."""
        if not self.busy():
            for policy in self.cast.policies.values():
                policy.engine.forget()
        chosen = self.settings.temperature if temperature is None else temperature
        known = {snapshot.next_ticket: snapshot for snapshot in snapshots}
        self.queue += [(ticket, chosen, known.get(ticket)) for ticket in tickets]

    def busy(self) -> bool:
        return bool(self.queue or self.live or self.finished)

    def rested(self, seconds: float) -> None:
        """Time in which nothing could move counts for no episode."""
        for live in self.live.values():
            live.started += seconds

    def step(self) -> list[Returned]:
        """Advance every episode as far as it goes without waiting for more than one engine step."""
        rooms = [policy.engine.room() for policy in self.cast.policies.values() if policy.trained]
        for waiting in islice(iter(self._next, None), min([self.settings.episodes_in_flight - len(self.live), *rooms])):
            self._begin(*waiting)
        stepped = False
        for policy in self.cast.policies.values():
            if policy.engine.busy():
                stepped = True
                for completion in policy.engine.step():
                    self._completed(self.waiting_for.pop(completion.id), completion)
        self._collect_work(wait_seconds=0.0 if stepped or self.finished else IDLE_WAIT_SECONDS)
        self._end_overdue()
        finished, self.finished = self.finished, []
        return finished

    def new_snapshots(self) -> dict[Ticket, Snapshot]:
        """Those that are due after a step."""
        return self.keeper.new(self.live.values())

    def _next(self) -> tuple[Ticket, float, Snapshot | None] | None:
        """The first in the queue whose game has room: who has to wait for it waits there, where no clock runs."""
        playing = Counter(live.ticket.game for live in self.live.values())
        playing += self.outside.still_played(self.settings.episode_seconds)
        for place, waiting in enumerate(self.queue):
            game = waiting[0].game
            most = self.at_once.get(game)
            if most is None or playing[game] < most:
                del self.queue[place]
                return waiting
        return None

    def _begin(self, ticket: Ticket, temperature: float, snapshot: Snapshot | None) -> None:
        self.admitted += 1
        try:
            with FailingAs("game_error", ticket):
                spare = self.spare_games.setdefault(ticket.game, [])
                game = spare.pop() if spare else self.new_game(ticket.game)
                self.at_once[ticket.game] = at_once_of(game)
        except EpisodeFailed as failure:
            self.finished.append(Returned(ticket, failure.result(), snapshot.tokens if snapshot else 0))
            return
        live = Live(self.admitted, ticket, game, dict(ticket.players), {}, temperature, time.monotonic())
        self.live[live.serial] = live
        live.wasted = snapshot.tokens if snapshot else 0  # until it has gone back
        self._set_up(live, snapshot and snapshot.standing())

    def _set_up(self, live: Live, standing: Standing | None) -> None:
        """Begin the game, or bring it to where it stood."""
        try:
            with FailingAs("game_error", live.ticket):
                if standing is None:
                    work = self._work(live, live.game.reset, live.ticket.seed)
                else:
                    work = self._restore(live.game, standing)
        except EpisodeFailed as failure:
            self._fail(live, failure)
            return
        if isinstance(work, Future | Queued):
            whole_turns = standing is not None  # which may take long to be played again
            self.outside.begin(live.serial, work, lambda found: self._open(live, standing, found), not whole_turns)
        else:
            self._open(live, standing, work)

    def _work(self, live: Live, call: Callable[..., Any], argument: Any) -> Any:
        """What a method of the game returns, or a future of it where other games need not wait for that."""
        if hook(live.game, "slow") and not iscoroutinefunction(call):
            return self.outside.in_thread(call, argument)
        found = call(argument)
        return coroutines.submit(found) if isawaitable(found) else found

    def _restore(self, game: Game, standing: Standing) -> bool | Queued:
        """A game may be played again for it."""
        if hook(game, "slow") or coroutines.has_coroutines(game):
            return self.outside.in_thread(restored, game, standing.game)
        return restored(game, standing.game)

    def _open(self, live: Live, standing: Standing | None, found: bool | None) -> None:
        """Seat the players of a game that is set up, and begin, or go on if the game was `found` as it stood."""
        ticket, game = live.ticket, live.game
        if standing is not None and not found:
            return self._begin_anew(live)
        try:
            if set(live.players) != set(game.seats):
                raise EpisodeFailed("wrong_seats", f"{sorted(live.players)} are to be filled, of {sorted(game.seats)}")
            live.seats = {seat: self._seat(ticket, game, seat, player) for seat, player in live.players.items()}
        except EpisodeFailed as failure:
            self._fail(live, failure)
            return
        if standing is None or go_back(live, standing, time.monotonic()):
            self._go_on(live)
        else:
            self._begin_anew(live)

    def _begin_anew(self, live: Live) -> None:
        """Nobody knows what state the game is in that could not be restored."""
        ticket = live.ticket
        log.warning("episode %d (%s) cannot go on from its snapshot: it begins anew", ticket.number, ticket.game)
        try:
            with FailingAs("game_error", ticket):
                live.game = self.new_game(ticket.game)
        except EpisodeFailed as failure:
            self._fail(live, failure)
            return
        self._set_up(live, None)

    def _seat(self, ticket: Ticket, game: Game, seat: str, player: str) -> PolicySeat | EndpointSeat | Player:
        with FailingAs("unknown_player", ticket, bare=True):
            self.cast.check(player)
        with FailingAs("game_error", ticket):
            briefing = game.briefing(seat)
        if player in self.cast.policies:
            return PolicySeat(self.cast.policies[player], seat, briefing)
        if player in self.cast.endpoints:
            rules = [{"role": "system", "content": briefing}] if briefing else []
            return EndpointSeat(self.cast.endpoints[player], seat, rules)
        with FailingAs("player_error", ticket):
            spare = self.spare_players.setdefault((ticket.game, player), [])
            scripted = spare.pop() if spare else self.cast.new_scripted(ticket.game, player.partition(":")[2])
            scripted.reset(stable_seed(ticket.seed, ticket.number, seat, "player"))
        return scripted

    def _go_on(self, live: Live, said: Said | None = None) -> None:
        """Hand over what was said, if anything, then play until the episode waits or is over."""
        try:
            while said is None or self._hear(live, said):
                with FailingAs("game_error", live.ticket):
                    live.observation, live.actions = good_sight(live.game)
                said = self._ask(live)
                if said is None:
                    return
                if live.seconds > self.settings.episode_seconds:
                    raise EpisodeFailed("timeout")
        except EpisodeFailed as failure:
            self._fail(live, failure)

    def _hear(self, live: Live, said: Said) -> bool:
        """Let the game hear an utterance. False if the episode now waits for it, or is over."""
        live.answered = live.seconds
        with FailingAs("game_error", live.ticket):
            seat, step = live.game.seat, self._work(live, live.game.step, said.text)
        if isinstance(step, Future | Queued):
            self.outside.begin(live.serial, step, lambda step: self._stepped(live, seat, said, step))
            return False
        return self._record(live, seat, said, step)

    def _stepped(self, live: Live, seat: str, said: Said, step: Step) -> None:
        try:
            if self._record(live, seat, said, step):
                self._go_on(live)
        except EpisodeFailed as failure:
            self._fail(live, failure)

    def _record(self, live: Live, seat: str, said: Said, step: Step) -> bool:
        """Write down one turn. False once the episode is over."""
        with FailingAs("game_error", live.ticket):
            good_step(live.game, step, said.text)
        turn = Turn(
            seat,
            live.players[seat],
            live.observation,
            said.text,
            step.executable,
            live.owed.pop(seat, 0.0),
            step.caption,
            live.actions,
            said.tokens,
            (live.asked, live.answered, live.seconds),
        )
        live.turns.append(turn)
        live.latest[seat] = turn
        live.spoken[seat] = live.spoken.get(seat, 0) + 1
        for paid, reward in step.rewards.items():
            if paid in live.latest:
                live.latest[paid].reward += reward
            else:
                live.owed[paid] = live.owed.get(paid, 0.0) + reward
        with FailingAs("game_error", live.ticket):
            over = step.terminated or step.truncated or live.game.seat is None
            if over:
                scores = self.settings.score_answers and not live.ticket.held_out
                ending = ending_of(live.game, step.terminated, scores)
        if over:
            self._finish(live, ending)
        return not over

    def _ask(self, live: Live) -> Said | None:
        """Ask the acting seat. A scripted player's utterance comes back at once; for the
        others None, and the answer arrives in a later step."""
        live.asked = live.seconds
        name = live.game.seat
        seat, turn = live.seats[name], live.spoken.get(name, 0)
        seed = stable_seed(live.ticket.seed, live.ticket.number, name, turn)
        if isinstance(seat, PolicySeat):
            with FailingAs("game_error", live.ticket):  # a tokenizer or its template may refuse a text
                seat.see(live.observation, live.actions if self.settings.choose_listed else ())
            room = seat.room(self.settings.engine.max_context)
            if room < 1:
                if not live.spoken.get(name):
                    raise EpisodeFailed("context_too_small", seat.too_long(live.ticket.game))
                self._finish(live, Ending(False, {name: live.observation}, {}, {}))
                return None
            live.request = f"{live.serial}.{name}.{turn}"
            self.waiting_for[live.request] = live
            seat.policy.engine.submit(
                Request(
                    live.request,
                    seat.asked(),
                    min(self.settings.max_utterance_tokens, room),
                    live.temperature,
                    seed,
                    seat.policy.dialogue.end_ids,
                    seat.listed,
                    live.serial,
                    seat.experts_from(),
                )
            )
            return None
        if isinstance(seat, EndpointSeat):
            answer = seat.ask(live.observation, seed)
            self.outside.begin(live.serial, answer, lambda answer: self._answered(live, seat, answer))
            return None
        with FailingAs("player_error", live.ticket):
            return Said(seat.reply(live.observation, live.actions))

    def _completed(self, live: Live, answer: Completion | Scored) -> None:
        if live.scored:
            if write_down(live, answer):
                self._leave(live, live.episode)
            return
        live.request = None
        name = live.game.seat
        seat, turn = live.seats[name], live.spoken.get(name, 0)
        if isinstance(answer, Completion):
            said = seat.said(answer)
        else:
            draw = random.Random(stable_seed(live.ticket.seed, live.ticket.number, name, turn)).random()
            said = seat.chose(live.actions, answer, self.settings.choice_length, live.temperature, draw)
        if said.tokens is not None:
            live.tokens += len(said.tokens.utterance_ids)
            self.sampled += len(said.tokens.utterance_ids)
        self._go_on(live, said)

    def _answered(self, live: Live, seat: EndpointSeat, answer: str) -> None:
        seat.said(answer)
        self._go_on(live, Said(answer))

    def _collect_work(self, wait_seconds: float) -> None:
        """Go on with the episodes whose server has answered, or whose game is done."""
        for serial, work, then in self.outside.finished(wait_seconds):
            live = self.live[serial]
            error = CancelledError() if work.cancelled() else work.exception()
            if error is None:
                then(work.result())
                continue
            log.error("episode %d: %s: %s", live.ticket.number, type(error).__name__, error)
            reason = "endpoint_error" if isinstance(error, EndpointError) else f"game_error:{type(error).__name__}"
            self._fail(live, EpisodeFailed(reason, error))

    def _end_overdue(self) -> None:
        oldest = time.monotonic() - self.settings.episode_seconds
        for live in [live for live in self.live.values() if live.started < oldest and live.episode is None]:
            self._fail(live, EpisodeFailed("timeout"))
        if self.settings.turn_seconds is not None:
            for serial in self.outside.overdue(self.settings.turn_seconds):
                self._fail(self.live[serial], EpisodeFailed("turn_timeout"))

    def _finish(self, live: Live, ending: Ending) -> None:
        with FailingAs("game_error", live.ticket):
            outcome = good_outcome(live.game)
            ids = closing_ids(live, ending.closing)
            live.scored = ask(live, ending.answers, self.settings.engine.max_context)
        self.waiting_for |= dict.fromkeys(live.scored, live)
        live.episode = Episode(
            live.ticket,
            live.turns,
            outcome,
            ending.terminated,
            ending.closing,
            closing_ids=ids,
            facts=ending.facts,
            seconds=live.seconds,
            experts=experts_of(live),
            money=ending.money,
        )
        if live.game.seat is None:  # one that was cut off may still hold what others wait for
            self.spare_games[live.ticket.game].append(live.game)
        for seat, player in live.players.items():
            if player.startswith("scripted:"):
                self.spare_players[live.ticket.game, player].append(live.seats[seat])
        if not live.scored:
            self._leave(live, live.episode)

    def _fail(self, live: Live, failure: EpisodeFailed) -> None:
        """The game and its scripted players are not used again: nobody knows what state they are in."""
        asked = [*live.scored] if live.request is None else [live.request]
        for policy in self.cast.policies.values() if asked else ():
            policy.engine.abort(asked)
        for request in asked:
            del self.waiting_for[request]
        self.outside.give_up(live.serial, live.ticket.game)
        self._leave(live, failure.result(live.tokens))

    def _leave(self, live: Live, result: Episode | Failure) -> None:
        del self.live[live.serial]
        self.finished.append(Returned(live.ticket, result, live.wasted))

    def close(self) -> None:
        self.outside.close()
