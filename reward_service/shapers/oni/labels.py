"""What the annotator has answered, and what to ask about a caption.

    helpfulness   question (caption,)        answer in [0, 1]: how helpful
    comparison    question (first, second)   answer 1: the first is better, 0: the second, .5: neither

Only the newest `kept` answers are kept. For comparisons each caption has partners, drawn among the
captions that were known when it came up; as long as it has fewer than `comparisons` it gets more
whenever it is seen. Which ones depends on the captions and their order alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from reward_service.shapers.oni.queue import Question


class KeptAnswers:
    def __init__(self, kept: int):
        self.kept = kept
        self.answers: OrderedDict[Question, float] = OrderedDict()

    def __contains__(self, question: Question) -> bool:
        return question in self.answers

    def __len__(self) -> int:
        return len(self.answers)

    def of(self, caption: str) -> float:
        return self.answers.get((caption,), 0.0)

    def add(self, answers: Iterable[tuple[Question, float]]) -> None:
        for question, answer in answers:
            self.answers[question] = answer
            self.answers.move_to_end(question)
        while len(self.answers) > self.kept:
            self.answers.popitem(last=False)

    def captions(self) -> list[str]:
        """Each once, in the order they were asked about."""
        return list(dict.fromkeys(caption for question in self.answers for caption in question))

    def state(self) -> list[Any]:
        return [[list(question), answer] for question, answer in self.answers.items()]

    def restore(self, state: list[Any]) -> None:
        self.answers = OrderedDict((tuple(question), answer) for question, answer in state)


class Helpfulness:
    """One question about each caption."""

    def questions(self, caption: str) -> list[Question]:
        return [(caption,)]

    def state(self) -> None:
        return None

    def restore(self, state: None) -> None:
        pass


class Comparisons:
    """Each caption against `comparisons` others among the `newest`."""

    def __init__(self, comparisons: int, newest: int):
        self.comparisons, self.newest = comparisons, newest
        self.partners: OrderedDict[str, list[str]] = OrderedDict()  # of each known caption; the newest last

    def questions(self, caption: str) -> list[Question]:
        chosen = [*self.partners.pop(caption, [])]
        known = list(self.partners) if len(chosen) < self.comparisons else []
        for draw in range(2 * self.comparisons if known else 0):
            partner = known[_number(caption, draw) % len(known)]
            if len(chosen) < self.comparisons and partner not in chosen and caption not in self.partners[partner]:
                chosen.append(partner)
        self.partners[caption] = chosen
        if len(self.partners) > self.newest:
            self.partners.popitem(last=False)
        return [(caption, partner) for partner in chosen]

    def state(self) -> list[Any]:
        return [[caption, list(partners)] for caption, partners in self.partners.items()]

    def restore(self, state: list[Any]) -> None:
        self.partners = OrderedDict((caption, list(partners)) for caption, partners in state)


def _number(caption: str, draw: int) -> int:
    """The same in every process."""
    return int.from_bytes(blake2b(f"{draw} {caption}".encode("utf-8", "replace"), digest_size=8).digest(), "big")
