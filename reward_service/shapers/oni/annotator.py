"""Who answers the questions: the game's own rule, or a language model behind an endpoint.

    annotate(questions) -> for each an answer in [0, 1], or Failed(reason)

A call that fails is an answer too: it is counted by its reason and says nothing about the others, and no
exception leaves `annotate`. Answers are read strictly, the whole text must be one of the choices:

    helpfulness   yes 1, no 0
    comparison    first 1, second 0, tie .5

The rule is a method of the game, `helpful(caption) -> float`: from 0 to 1, how far what the caption
says brings the seat that did it nearer to its goal. It may look at the game's options, and at nothing
of the episode: whoever asks has a game that was never reset.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from envs.game import hook
from envs.registry import make_game
from envs.settings import GameSettings
from envs.text.chat import ChatClient, EndpointError
from envs.text.thinking import spoken
from reward_service.shapers.oni.queue import Question
from reward_service.shapers.oni.settings import AnnotatorEndpoint, OniSettings

log = logging.getLogger("parley.rewards")

HELPFULNESS = {"yes": 1.0, "no": 0.0}
COMPARISON = {"first": 1.0, "second": 0.0, "tie": 0.5}


@dataclass(frozen=True, slots=True)
class Failed:
    reason: str  # a word or two for the counter


Verdict = float | Failed


def verdict(said: str, choices: dict[str, float]) -> Verdict:
    """Thoughts before the answer, quotes around it and a full stop after it may be there, nothing else."""
    return choices.get(spoken(said).strip().strip("\"'.").lower(), Failed("unreadable"))


class Annotator(Protocol):
    def annotate(self, questions: Sequence[Question]) -> list[Verdict]: ...

    def metrics(self) -> dict[str, float]: ...


class RuleAnnotator:
    def __init__(self, game: GameSettings):
        self.rule = hook(make_game(game.name, game.options), "helpful")
        if self.rule is None:
            raise ValueError(
                f"reward.shaper.annotator=rule: game {game.name!r} has no method `helpful`; "
                "give reward.shaper.annotator=endpoint, or a game that has one"
            )

    def annotate(self, questions: Sequence[Question]) -> list[Verdict]:
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Verdict:
        try:
            found = [self.rule(caption) for caption in question]
        except Exception as error:
            log.warning("the game's rule failed at %r: %s: %s", question, type(error).__name__, error)
            return Failed("rule_raised")
        if not all(isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= 1 for value in found):
            return Failed("not_from_0_to_1")
        return float(found[0]) if len(found) == 1 else 0.5 + ((found[0] > found[1]) - (found[0] < found[1])) / 2

    def metrics(self) -> dict[str, float]:
        return {}


class EndpointAnnotator:
    """Asks `parallel` questions at a time. Every request has a time limit, so a batch has one too."""

    def __init__(self, settings: AnnotatorEndpoint, game: GameSettings):
        self.settings, self.game = settings, game
        self.client = ChatClient("reward.shaper.endpoint", settings)
        self.goal = settings.goal or goal_of(game)
        self.logged: Counter[str] = Counter()  # failures that the log has

    def annotate(self, questions: Sequence[Question]) -> list[Verdict]:
        with ThreadPoolExecutor(self.settings.parallel, thread_name_prefix="annotator") as threads:
            return list(threads.map(self._answer, questions))

    def _answer(self, question: Question) -> Verdict:
        if len(question) == 1:
            prompt, choices = self.settings.helpful.format(goal=self.goal, caption=question[0]), HELPFULNESS
        else:
            prompt = self.settings.better.format(goal=self.goal, first=question[0], second=question[1])
            choices = COMPARISON
        extra = {"structured_outputs": {"choice": list(choices)}} if self.settings.constrained else {}
        try:
            said = self.client.complete([{"role": "user", "content": prompt}], **extra, **self.settings.body)
        except EndpointError as error:
            return self._failed(_kind(error, self.settings.url), error)
        except Exception as error:
            return self._failed(type(error).__name__, error)
        return verdict(said, choices)

    def _failed(self, reason: str, error: Exception) -> Failed:
        self.logged[reason] += 1
        if self.logged[reason] == 1:
            log.warning("an annotation failed (further ones are counted only): %s", error)
        return Failed(reason)

    def metrics(self) -> dict[str, float]:
        spent = {name: float(count) for name, count in self.client.counters.items()} | {"cost": self.client.cost}
        return {f"endpoint/{name}": value for name, value in spent.items()}


def make_annotator(settings: OniSettings, game: GameSettings) -> Annotator:
    if settings.annotator == "endpoint":
        return EndpointAnnotator(settings.endpoint, game)
    return RuleAnnotator(game)


def goal_of(game: GameSettings) -> str:
    """What the first seat that the policy plays is told before the first turn."""
    made = make_game(game.name, game.options)
    made.reset(0)
    seats = [seat for seat in made.seats if game.players.get(seat, "policy") == "policy"]
    return made.briefing((seats or made.seats)[0])


def _kind(error: EndpointError, url: str) -> str:
    """HTTP_500, ReadTimeout, ...: the client's message without place and particulars."""
    what = re.split(r"[:(]", str(error).rpartition(f" at {url}: ")[2], maxsplit=1)[0]
    return re.sub(r"\W+", "_", what.strip())
