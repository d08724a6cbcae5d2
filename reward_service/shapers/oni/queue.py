"""What waits for the annotator: a state machine that asks nobody, waits for nobody and owns no thread.

             see                take                answered
    (new) --------> queued ----------------> pending ---------> labelled
                    |    ^                   |
                    |    +-------------------+ failed, attempts left
                    v  backlog full          v failed, none left
                 dropped                  given up, and rests

A question is one caption (is it helpful?) or two (which is better?). At every moment

    seen = labelled + pending + queued + dropped + given_up

where `seen` counts what was let in. Nothing is let in that is queued, pending or resting, so nothing
is ever asked twice at the same time; being seen again makes a queued question the newest. There is no
way out of pending but an answer or a failure with a reason: `lost` fails what nobody will answer.
A question that failed waits behind all others. Dropped ones are forgotten, and those given up rest
for `rest` updates: seen again later they count as new. Memory is bounded by the backlog, one
annotator's work and what failed within `rest` updates.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Any

Question = tuple[str, ...]  # one caption, or two to compare


class Queue:
    def __init__(self, backlog: int, attempts: int, rest: int):
        self.backlog, self.attempts, self.rest = backlog, attempts, rest
        self.queued: OrderedDict[Question, int] = OrderedDict()  # -> failed attempts; the newest last
        self.pending: OrderedDict[Question, int] = OrderedDict()  # likewise; in the order they were taken
        self.resting: OrderedDict[Question, int] = OrderedDict()  # -> the update at which it may be seen again
        self.update = 0
        self.counts: Counter[str] = Counter()  # seen, labelled, dropped, given_up
        self.failures: Counter[str] = Counter()  # failed attempts by reason

    def see(self, question: Question) -> None:
        if question in self.queued:
            self.queued.move_to_end(question)
        elif question not in self.pending and question not in self.resting:
            self.counts["seen"] += 1
            self.queued[question] = 0
            self._bound()

    def take(self, most: int) -> list[Question]:
        """The newest, newest first; from now on they are pending."""
        taken = [self.queued.popitem() for _ in range(min(most, len(self.queued)))]
        self.pending.update(taken)
        return [question for question, _ in taken]

    def claim(self, questions: Iterable[Question]) -> None:
        """They are pending, wherever they are now: somebody has asked them already. One that is not
        here, or rests, was let in elsewhere and is counted here."""
        for question in questions:
            if question in self.pending:
                continue
            if question not in self.queued:
                self.resting.pop(question, None)
                self.counts["seen"] += 1
            self.pending[question] = self.queued.pop(question, 0)

    def answered(self, question: Question) -> None:
        del self.pending[question]
        self.counts["labelled"] += 1

    def failed(self, question: Question, reason: str) -> None:
        failed = self.pending.pop(question) + 1
        self.failures[reason] += 1
        if failed >= self.attempts:
            self.counts["given_up"] += 1
            self.resting[question] = self.update + self.rest
        else:
            self.queued[question] = failed
            self.queued.move_to_end(question, last=False)
            self._bound()

    def lost(self) -> None:
        """Whoever took what is pending has gone without a word."""
        for question in list(self.pending):
            self.failed(question, "lost")

    def tick(self) -> None:
        """A policy update has passed."""
        self.update += 1
        while self.resting and next(iter(self.resting.values())) <= self.update:
            self.resting.popitem(last=False)

    def _bound(self) -> None:
        while len(self.queued) > self.backlog:
            self.queued.popitem(last=False)
            self.counts["dropped"] += 1

    def metrics(self) -> dict[str, float]:
        counted = {name: float(self.counts[name]) for name in ("seen", "labelled", "dropped", "given_up")}
        sizes = {"pending": float(len(self.pending)), "queued": float(len(self.queued))}
        return counted | sizes | {f"failed/{reason}": float(count) for reason, count in sorted(self.failures.items())}

    def state(self) -> dict[str, Any]:
        """Whoever restores it asks again what is pending now: those are the newest in its queue."""
        waiting = [*self.queued.items(), *reversed(self.pending.items())]
        return {
            "waiting": [[list(question), failed] for question, failed in waiting],
            "resting": [[list(question), until] for question, until in self.resting.items()],
            "update": self.update,
            "counts": dict(sorted(self.counts.items())),
            "failures": dict(sorted(self.failures.items())),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.queued = OrderedDict((tuple(question), failed) for question, failed in state["waiting"])
        self.pending = OrderedDict()
        self.resting = OrderedDict((tuple(question), until) for question, until in state["resting"])
        self.update = state["update"]
        self.counts, self.failures = Counter(state["counts"]), Counter(state["failures"])
        self._bound()
