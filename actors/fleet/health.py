"""Which workers may be given work: a state machine without Ray.

    starting --ready--> joining --joined--> live <--late / answered--> suspect
        ^                  |                  |                          |
        +------ lost ------+------ lost ------+---------- lost ----------+      (a new incarnation)
        |                                     |                          |
        +------ due ----- resting <-- lost ---+---------- lost ----------+      (too often within an hour)

    pending --placed--> starting     live, suspect --told_to_leave--> leaving     any of them --left--> pending

A worker is pending while Ray has no room for it. It leaves when its node is gone, which is not held against it. When
its node is to go, it gets no new work, and leaves when it has none left or when its time is nearly over: then with
its next answer, which tells how its episodes stand, and if there is none, without it.
A suspect is late with its answer: it is given no new work, keeps what it has, and gets the same weights as the
live ones, so that it may be live again as soon as it answers.
A worker that is lost again and again rests, and the others go on; when all rest, the fleet is exhausted.
There is no way from starting to live: an engine that has just loaded holds the weights of
its model folder, and must not play before it was given the current ones. There is no way
back from lost either: a worker that was given up is never heard again, only replaced.

Silence counts from the moment a worker was asked, not from the last time it spoke: a
driver that is busy elsewhere and asks nothing finds its workers as it left them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

WINDOW_SECONDS = 3600.0
SUSPECT_SHARE = 0.25  # of the silence that makes a worker lost
LEAVE_SECONDS = 10.0  # before its node goes, a worker that still plays is asked for the last time
LATEST_SECONDS = 5.0  # before its node goes, one that has not answered leaves, too
FORGIVEN_SECONDS = 120.0  # before a node is known to be gone, its workers are lost because of it


class State(Enum):
    PENDING = "pending"  # there is no place for it
    STARTING = "starting"
    JOINING = "joining"
    LIVE = "live"
    SUSPECT = "suspect"  # live, but late with its answer
    LEAVING = "leaving"  # its node is about to go
    RESTING = "resting"  # there is none in its place


UP = State.LIVE, State.SUSPECT, State.LEAVING, State.JOINING  # it has an engine that takes calls and weights


class FleetExhausted(RuntimeError):
    """Every worker was lost more often than the settings allow to replace."""


@dataclass(slots=True)
class Member:
    state: State
    since: float  # start of this incarnation
    incarnation: int = 0
    asked: float | None = None  # when the unanswered question was put
    answered: float | None = None  # when the question was put that it answered last
    until: float | None = None  # when the node of one that is leaving goes, if that is known
    lost: list[float] = field(default_factory=list)  # when its incarnations were, within the window

    def is_out_of_time(self, now: float) -> bool:
        """It was asked for the last time and has answered, or its node is nearly gone."""
        if self.until is None:
            return False
        told = self.answered is not None and self.answered > self.until - LEAVE_SECONDS
        return told or now > self.until - LATEST_SECONDS


class FleetHealth:
    """`restarts`: lost workers that were replaced; of one worker never more than `max_restarts` within the window.
    `gone`: workers that were lost or left. All times are seconds on one clock that the caller reads."""

    def __init__(
        self,
        workers: int,
        *,
        start_seconds: float,
        silence_seconds: float,
        max_restarts: int,
        now: float,
        pending: int = 0,
    ):
        """`workers` are starting, and `pending` more wait for a place."""
        self.start_seconds, self.silence_seconds, self.max_restarts = start_seconds, silence_seconds, max_restarts
        self.suspect_seconds = SUSPECT_SHARE * silence_seconds
        self.members = [Member(State.STARTING, now) for _ in range(workers)]
        self.members += [Member(State.PENDING, now, -1) for _ in range(pending)]
        self.restarts = self.left_count = self.gone = 0

    def in_state(self, *states: State) -> list[int]:
        return [index for index, member in enumerate(self.members) if member.state in states]

    def ready(self, index: int) -> None:
        self._expect(index, State.STARTING)
        self.members[index].state = State.JOINING

    def joined(self, index: int) -> None:
        self._expect(index, State.JOINING)
        self.members[index].state = State.LIVE

    def asked(self, index: int, now: float) -> None:
        self._expect(index, *UP)
        if self.members[index].asked is None:
            self.members[index].asked = now

    def answered(self, index: int, silent_seconds: float = 0.0) -> None:
        """`silent_seconds`: for how long what it answers for has not gone on."""
        member = self.members[index]
        member.answered, member.asked = member.asked, None
        if member.state in (State.LIVE, State.SUSPECT):
            member.state = State.SUSPECT if silent_seconds > self.suspect_seconds else State.LIVE

    def suspect(self, now: float) -> list[int]:
        """Live workers that are late from now on."""
        late = [
            index
            for index in self.in_state(State.LIVE)
            if (asked := self.members[index].asked) is not None and now - asked > self.suspect_seconds
        ]
        for index in late:
            self.members[index].state = State.SUSPECT
        return late

    def overdue(self, now: float) -> list[tuple[int, str]]:
        """Workers to give up, each with the reason that its tickets come back with."""
        late = []
        for index, member in enumerate(self.members):
            if member.state in (State.RESTING, State.PENDING):
                continue
            if member.state is State.STARTING:
                if now - member.since > self.start_seconds:
                    late.append((index, "worker_start_timeout"))
            elif member.asked is not None and now - member.asked > self.silence_seconds:
                late.append((index, "worker_silent"))
        return late

    def lost(self, index: int, why: str, now: float) -> int | None:
        """Give up a worker in whatever state it is; returns the incarnation that replaces it, None if it rests."""
        before = self.members[index]
        self.gone += 1
        lost = [then for then in before.lost if now - then < WINDOW_SECONDS] + [now]
        if len(lost) > self.max_restarts:
            self.members[index] = Member(State.RESTING, now, before.incarnation, lost=lost)
            if len(self.in_state(State.RESTING, State.PENDING)) == len(self.members):
                raise FleetExhausted(
                    "every rollout worker that had a place was lost more than rollout.max_worker_restarts="
                    f"{self.max_restarts} times within an hour, the last one ({index}) of: {why}"
                )
            return None
        return self._replaced(index, now, lost)

    def due(self, now: float) -> list[tuple[int, int]]:
        """Workers that have rested long enough, each with the incarnation to start."""
        found = []
        for index in self.in_state(State.RESTING):
            lost = [then for then in self.members[index].lost if now - then < WINDOW_SECONDS]
            if len(lost) <= self.max_restarts:
                found.append((index, self._replaced(index, now, lost)))
        return found

    def placed(self, index: int, now: float) -> int:
        """There is room for it; returns the incarnation to start."""
        self._expect(index, State.PENDING)
        before = self.members[index]
        self.members[index] = Member(State.STARTING, now, before.incarnation + 1, lost=before.lost)
        return self.members[index].incarnation

    def told_to_leave(self, index: int, until: float | None) -> bool:
        """Its node goes at `until`, or some time. True if it is told for the first time, while it plays."""
        member = self.members[index]
        if first := member.state in (State.LIVE, State.SUSPECT):
            member.state = State.LEAVING
        if member.state is State.LEAVING:
            member.until = until
        return first

    def leaving(self, now: float, works: Callable[[int], bool]) -> list[int]:
        """Those that leave now: that have nothing to end, or no more time for it."""
        there = self.in_state(State.LEAVING)
        return [index for index in there if not works(index) or self.members[index].is_out_of_time(now)]

    def left(self, index: int, now: float) -> None:
        """It is gone with its node, whatever state it was in; it waits for another place."""
        before = self.members[index]
        self.gone, self.left_count = self.gone + 1, self.left_count + 1
        lost = [then for then in before.lost if now - then > FORGIVEN_SECONDS]
        self.members[index] = Member(State.PENDING, now, before.incarnation, lost=lost)

    def _replaced(self, index: int, now: float, lost: list[float]) -> int:
        self.restarts += 1
        self.members[index] = Member(State.STARTING, now, self.members[index].incarnation + 1, lost=lost)
        return self.members[index].incarnation

    def put_off(self, index: int, now: float) -> None:
        """Its replacement has begun to start only now."""
        self._expect(index, State.STARTING)
        self.members[index].since = now

    def _expect(self, index: int, *states: State) -> None:
        if self.members[index].state not in states:
            raise ValueError(f"rollout worker {index} is {self.members[index].state.value}, not {states[0].value}")
