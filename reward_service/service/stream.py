"""A shaper for callers who have no numbered batches: episodes in, a future of their values out.

    submit -> admitted? -> queue -> micro-batch -> shape -> journal -> answer
                |            |                       |
             refused       Busy         publish before; refit and snapshot after, in threads beside the traffic

One thread takes requests from the queue, as many as fit a micro-batch or as come within a few
milliseconds. What holds at every moment:

    submitted = waiting + answered + failed(reason)

- An answer is given when its episodes are in the journal, and never before. A process that is killed
  leaves a folder from which the next one goes on: nothing that was answered is lost, nothing is
  counted twice. An episode may be counted whose answer was on its way; a request with an id gets it
  by being sent again.
- A refit's result is on the disk before it is published, and the journal says where in the traffic
  that was, before anybody is answered by it. So the journal, shaped again, gives the same answers,
  version by version, and no number ever stands for two versions.
- Nobody waits for a snapshot: it only makes the journal shorter. The stream's thread copies references
  and begins the next journal; a thread of its own makes the state of them and writes it down.
- A bad request fails alone: `shape` is all or nothing, so where a micro-batch fails its requests are
  shaped one by one.
- A request with the id of an earlier one gets that one's answer if it is the same, else an error.
- The queue is bounded: beyond that a request is refused as Busy, at once.
- What cannot be written down cannot be answered: if the journal fails the stream stops, and says why.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from envs.episode import Episode, Identity
from envs.registry import is_game
from reward_service.intentions.reading import EpisodeRefused
from reward_service.service.admission import admit
from reward_service.service.journal import Journal, JournalError, Snapshot, published
from reward_service.service.plain import plain_of
from reward_service.service.requests import (
    Busy,
    OtherContent,
    Request,
    Stopped,
    StreamError,
    TooMany,
    answered,
    episodes_of,
    kept,
    read,
    request_of,
    shares_of,
)
from reward_service.settings import StreamSettings
from reward_service.shaper import ShapedRewards, Shaper, frozen
from reward_service.threads import short_switch_interval

log = logging.getLogger("parley.rewards")
LATENCIES = 4096  # the latest ones, of which the quantiles are
CLOSE_SECONDS = 30.0  # for the micro-batch under way
SNAPSHOT_SECONDS = 30.0  # and then for the snapshot
PUBLISHED = 8  # versions in a journal: each takes space, and time when it is read


class RewardStream:
    """`journal`: where to go on from, and to keep what is answered; None: in memory only. `register` makes games known
    that the settings named when they were written there."""

    def __init__(
        self,
        shaper: Shaper,
        settings: StreamSettings | None = None,
        journal: Journal | None = None,
        register: Callable[[Iterable[str]], None] = lambda names: None,
    ):
        self.register = register
        self.shaper, self.settings, self.journal = shaper, settings or StreamSettings(), journal
        self.change = threading.Condition()  # guards what follows
        self.queue: deque[Request] = deque()
        self.waiting = 0  # episodes in the queue or being shaped
        self.known: OrderedDict[Identity, bool] = OrderedDict()  # episodes, and whether they are counted yet
        self.asked: OrderedDict[str, Request] = OrderedDict()  # requests with an id, answered or waiting
        self.held = 0  # episodes of these requests
        self.stopped = ""  # why
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.latencies: deque[float] = deque(maxlen=LATENCIES)
        self.job: Future | None = None  # the refit under way: its result, and the name of that in the journal
        self.refits = ThreadPoolExecutor(1, thread_name_prefix="refit")
        self.writing: Future | None = None  # the snapshot under way
        self.snapshots = ThreadPoolExecutor(1, thread_name_prefix="snapshot")
        self.since_snapshot = self.published = 0  # episodes and versions in the journal since the last one began
        if journal is not None:
            try:
                self._recover(*journal.open())
            except BaseException:
                journal.close()
                raise
        self.thread = threading.Thread(target=self._work, name="reward-stream", daemon=True)
        self.thread.start()

    # Requests

    def submit(self, episodes: Sequence[Episode], request_id: str = "") -> Future:
        """A future of list[ShapedRewards]: of each episode in turn, one for each policy seat that
        spoke. What can be refused at once is raised here, the rest by the future."""
        try:
            return self._submit(list(episodes), request_id)
        except (EpisodeRefused, StreamError) as error:
            with self.change:
                self.refused[error.reason] += 1
            raise

    def _submit(self, episodes: list[Episode], request_id: str) -> Future:
        for episode in episodes:
            admit(episode, self.settings)
        if not episodes:
            raise StreamError("a request without episodes")
        request = request_of(request_id, episodes, [plain_of(episode) for episode in episodes])
        with self.change:
            if self.stopped:
                raise Stopped(self.stopped)
            if request_id and (earlier := self.asked.get(request_id)):
                if earlier.digest != request.digest:
                    raise OtherContent(f"request {request_id!r} was sent before with other episodes")
                self.counts["asked_again"] += 1
                return earlier.future
            if len(episodes) > self.settings.queue_episodes:
                raise TooMany(f"a request may have {self.settings.queue_episodes} episodes, not {len(episodes)}")
            if self.waiting + len(episodes) > self.settings.queue_episodes:
                raise Busy(f"{self.waiting} episodes are waiting already", self._wait_seconds())
            self._know(episodes)
            self._remember(request)
            self.queue.append(request)
            self.waiting += len(episodes)
            self.counts["requests"] += 1
            request.future.set_running_or_notify_cancel()  # nobody may cancel what others may wait for, too
            self.change.notify_all()
        return request.future

    def _know(self, episodes: Sequence[Episode]) -> None:
        coming: set[Identity] = set()
        for episode in episodes:
            identity = episode.ticket.identity
            if identity in self.known or identity in coming:
                raise EpisodeRefused(episode, "sent_twice", "it was sent before")
            coming.add(identity)
        self.known |= dict.fromkeys(coming, False)

    def _remember(self, request: Request) -> None:
        if request.id:
            self.asked[request.id] = request
            self.held += request.size

    def _wait_seconds(self) -> float:
        """How long what waits now may take, by what requests took of late."""
        return round(max(float(np.median(self.latencies)), 0.1), 1) if self.latencies else 1.0

    # Micro-batches

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            try:
                moved = self._publish()
                shaped = self._shape(taken)
                shares = [(requests, shares_of(requests, rewards)) for requests, rewards in shaped]
                self._keep([requests for requests, _ in shaped])
                for requests, values in shares:
                    self._answer(requests, values)
                self._snapshot()
                if taken or moved:  # else the same would be tried again, with nothing new to it
                    self._refit()
            except Exception as error:
                log.exception("the reward stream stops")
                self._stop(f"the reward stream stopped: {type(error).__name__}: {error}", taken)

    def _take(self) -> list[Request] | None:
        """The next micro-batch; an empty one where only a refit is to be published; None at the end."""
        with self.change:
            self.change.wait_for(lambda: self.queue or self.stopped or self._fitted())
            if self.stopped:
                return None
            if not self.queue:
                return []
            until = self.queue[0].arrived + self.settings.milliseconds / 1000
            self.change.wait_for(
                lambda: self.stopped or self._ready() >= self.settings.episodes, timeout=until - time.monotonic()
            )
            taken, size = [], 0
            while self.queue and (not taken or size + self.queue[0].size <= self.settings.episodes):
                taken.append(self.queue.popleft())
                size += taken[-1].size
            return taken

    def _ready(self) -> int:
        return sum(request.size for request in self.queue)

    def _shape(self, taken: list[Request]) -> list[tuple[list[Request], list[ShapedRewards]]]:
        """Requests that were shaped together, and their values; those that fail are told so."""
        if not taken:
            return []
        try:
            return [(taken, self.shaper.shape(episodes_of(taken)))]
        except Exception as error:
            if len(taken) == 1:
                self._fail(taken[0], error)
                return []
        return [shaped for request in taken for shaped in self._shape([request])]

    def _fail(self, request: Request, error: Exception) -> None:
        if not isinstance(error, EpisodeRefused):
            log.error("a request could not be shaped", exc_info=error)
            error = StreamError(f"the request could not be shaped: {type(error).__name__}: {error}")
        with self.change:
            self.refused[error.reason] += 1
            self.waiting -= request.size
            for episode in request.episodes:
                self.known.pop(episode.ticket.identity, None)
            if self.asked.pop(request.id, None):
                self.held -= request.size
        request.future.set_exception(error)

    def _keep(self, shaped: list[list[Request]]) -> None:
        """Before anybody is answered."""
        if self.journal is not None and shaped:
            self.journal.append([[[request.id, request.plain] for request in requests] for requests in shaped])
            self.since_snapshot += sum(request.size for requests in shaped for request in requests)

    def _answer(self, requests: Sequence[Request], shares: Sequence[list[ShapedRewards]]) -> None:
        for request, values in zip(requests, shares, strict=True):
            with self.change:
                self.waiting -= request.size
                self.counts["episodes"] += request.size
                self.latencies.append(time.monotonic() - request.arrived)
                self.known |= {episode.ticket.identity: True for episode in request.episodes}
                request.episodes, request.plain = [], []
                request.kept = kept(request, values) if request.id and self.journal else ""
                self._forget()
            request.future.set_result(values)

    def _forget(self) -> None:
        """The oldest episodes and requests, beyond what is remembered; none that waits."""
        while len(self.known) > self.settings.remembered_episodes + self.waiting:
            self.known.popitem(last=False)
        while self.held > self.settings.remembered_episodes + self.waiting:
            self.held -= self.asked.popitem(last=False)[1].size

    # Refits

    def _refit(self) -> None:
        if self.job is None and (work := self.shaper.refit()) is not None:
            self.job = self.refits.submit(self._refitted, work)
            self.job.add_done_callback(self._wake)

    def _refitted(self, work: Callable[[], Any]) -> tuple[Any, str]:
        result = work()
        if self.journal is None:
            return result, ""
        with short_switch_interval():
            return result, self.journal.keep(self.shaper.saved(result))

    def _wake(self, job: Future) -> None:
        with self.change:
            self.change.notify_all()

    def _fitted(self) -> bool:
        return self.job is not None and self.job.done()

    def _publish(self) -> bool:
        """Take over a refit that is done, between two micro-batches; whether it made another version. One that failed
        is counted, and tried again with the next micro-batch. One that the journal names is published, or nothing
        goes on."""
        if not self._fitted():
            return False
        job, self.job = self.job, None
        try:
            result, name = job.result()
        except Exception:
            log.exception("a refit failed")
            self.counts["failed_refits"] += 1
            return False
        if self.journal is not None:
            self.journal.publish(name)
            self.published += 1
        before = getattr(self.shaper, "version", 0)
        self.shaper.publish(result)
        self.counts["refits"] += 1
        return getattr(self.shaper, "version", 0) > before

    # What outlives the process

    def _snapshot(self) -> None:
        """When there is much to shape again, and the one before is done."""
        if self.journal is None or (self.writing is not None and not self.writing.done()):
            return
        many = self.since_snapshot >= self.settings.snapshot_episodes or self.published >= PUBLISHED
        if not (many or self.journal.full):
            return
        with self.change:
            answers = [request.kept for request in self.asked.values() if request.kept]
            known = [identity for identity, counted in self.known.items() if counted]
        state = frozen(self.shaper)
        generation = self.journal.rotate()
        self.since_snapshot = self.published = 0
        self.writing = self.snapshots.submit(self._write, generation, state, {"known": known, "answers": answers})

    def _write(self, generation: int, state: Callable[[], dict[str, Any]], stream: dict[str, Any]) -> None:
        """One that fails is counted, and tried again when the next is due: nothing is lost with it."""
        try:
            with short_switch_interval():
                self.journal.snapshot(generation, state(), stream)
            self.counts["snapshots"] += 1
        except Exception:
            log.exception("a snapshot failed")
            self.counts["failed_snapshots"] += 1

    def _recover(self, snapshot: Snapshot | None, entries: list[Any]) -> None:
        if snapshot is not None:
            state, stream = snapshot
            self.shaper.restore(state)
            self.known = OrderedDict(((run, number, attempt), True) for run, number, attempt in stream["known"])
            for answer in stream["answers"]:
                self._remember(answered(answer))
        for number, entry in enumerate(entries, start=1):
            try:
                self._again(entry)
            except JournalError:
                raise
            except Exception as error:
                where = f"{self.journal.folder}: entry {number} of the journal"
                raise JournalError(f"{where} cannot be shaped again: {type(error).__name__}: {error}") from error
        self.counts["recovered"], self.counts["episodes"] = self.since_snapshot, 0
        self.latencies.clear()

    def _again(self, entry: Any) -> None:
        if name := published(entry):
            self.shaper.publish(self.shaper.result_of(self.journal.result(name)))
            self.published += 1
            return
        requests = [request_of(name, [read(each) for each in plain], plain) for name, plain in entry]
        self.register({each.ticket.game for each in episodes_of(requests) if not is_game(each.ticket.game)})
        shares = shares_of(requests, self.shaper.shape(episodes_of(requests)))
        for request in requests:
            self._remember(request)
            self.waiting += request.size
            self.since_snapshot += request.size
        self._answer(requests, shares)

    # The end

    def _stop(self, why: str, taken: Sequence[Request] = ()) -> None:
        """`taken`: the micro-batch that cannot be answered."""
        with self.change:
            self.stopped = self.stopped or why
            left = [*taken, *self.queue]
            self.queue.clear()
            self.waiting -= sum(request.size for request in left if not request.future.done())
            self.change.notify_all()
        for request in left:
            if not request.future.done():
                request.future.set_exception(Stopped(why))

    def close(self) -> None:
        """What waits is told that the stream is closed; the micro-batch under way is answered."""
        self._stop("the reward stream is closed")
        self.thread.join(CLOSE_SECONDS)
        self.refits.shutdown(wait=False, cancel_futures=True)
        self.snapshots.shutdown(wait=False)
        if self.writing is not None:
            wait([self.writing], SNAPSHOT_SECONDS)
        if self.journal is not None:
            self.journal.close()

    def metrics(self) -> dict[str, float]:
        with self.change:
            taken = {"latency": np.array(self.latencies)}
            found = {name: float(self.counts[name]) for name in COUNTED}
            found |= {f"refused/{reason}": float(count) for reason, count in sorted(self.refused.items())}
            found |= {"waiting": float(self.waiting), "ready": float(not self.stopped)}
        if self.journal is not None:
            taken["disk"] = np.array(tuple(self.journal.seconds))  # at once: its thread goes on appending
        for name, seconds in taken.items():
            for quantile in QUANTILES if len(seconds) else ():
                found[f"{name}_p{quantile}"] = float(np.percentile(seconds, quantile))
        found["refitting"] = float(self.job is not None)
        return {f"stream/{name}": value for name, value in found.items()} | self.shaper.metrics()


COUNTED = (
    *("requests", "episodes", "asked_again", "recovered"),
    *("refits", "failed_refits", "snapshots", "failed_snapshots"),
)
QUANTILES = (50, 90, 99, 100)
