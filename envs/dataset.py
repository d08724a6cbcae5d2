"""Questions of one's own, with answers: a data set of prompts as a game.

    {"question": "What is 6 times 7?", "answer": "42"}          one a line, in the file that `tasks` names

The seat is told the question and says its answer: what follows the last `Answer:` that begins a line, on that line or
on the next one, or all that it said. `check` judges it from 0 to 1. Where there are several tries, the game goes on
until an answer is worth 1, and the last answer is paid.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import Annotated, Any

from envs.coroutines import finish
from envs.game import Game, Player, Step
from envs.kinds import see_current_folder
from envs.options import whole_number
from envs.text.tasks import share_of, task_of, tasks_in
from envs.tools.calls import ANSWER, MARKS, plain_answer, same

SEAT = "solver"
RULES = "Answer the question. End with a line `Answer: ...` that holds the answer and nothing else."
NUMBER = re.compile(r"[-\u2212]?(?:\d[\d,]*(?:\.\d+)?|(?<!\d)\.\d+)(?:[eE][-+]?\d{1,4}(?!\d))?")
WRONG, RIGHT = "that is wrong ; try again", "right"

Check = Callable[[str, str, dict[str, Any]], float]  # what was said, the right answer, the whole task


class Dataset(Game):
    name = "dataset"
    seats = (SEAT,)

    def __init__(
        self,
        tasks: Annotated[str | Sequence[dict], "a file with one {question, answer} a line (JSON), or a list of them"],
        question: Annotated[str, "the key of a task's question"] = "question",
        answer: Annotated[str, "the key of its answer"] = "answer",
        check: Annotated[
            str,
            "same: as the right answer, but for case, space and marks; number: its last number is that of the right "
            "answer; or module:function of your own, called with what was answered, the right answer and the task; it "
            "may be async",
        ] = "same",
        tries: Annotated[int, "answers that may be given"] = 1,
        held_out: Annotated[
            float, "share of the tasks, the last ones, that held-out games alone have; 0: all have all"
        ] = 0.1,
        rules: Annotated[str, "what the seat is told first"] = RULES,
    ):
        self.horizon = whole_number("tries", tries, 1, 100)
        self.tasks, self.keys = questions_in(tasks, question, answer), (question, answer)
        self.held_out, self.rules = share_of("held_out", held_out), rules
        self.check, self.judged_by = check_of(check), check
        self.slow = check not in CHECKS  # one's own may ask a server or run code

    def reset(self, seed: int) -> None:
        self.task = task_of(seed, self.tasks, self.held_out, "dataset")
        self.shown, self.worth, self.tried = self.task[self.keys[0]], 0.0, 0

    def briefing(self, seat: str) -> str:
        return self.rules

    def observe(self) -> str:
        return self.shown

    def step(self, utterance: str) -> Step:
        said = answer_in(utterance)
        self.worth = self._judged(said)
        self.tried += 1
        over = self.worth == 1 or self.tried >= self.horizon
        self.shown = WRONG
        caption = f"the solver answers {said[:100]}, which is worth {self.worth:g}"
        return Step(rewards={SEAT: self.worth} if over else {}, terminated=over, caption=caption)

    def _judged(self, said: str) -> float:
        worth = finish(self.check(said, self.task[self.keys[1]], dict(self.task)), f"check={self.judged_by}")
        if not isinstance(worth, Real) or not math.isfinite(worth) or not 0 <= worth <= 1:
            raise ValueError(
                f"game option check={self.judged_by}: has to return a number from 0 to 1, not {worth!r:.80}"
            )
        return float(worth)

    def closing(self) -> dict[str, str]:
        return {SEAT: RIGHT if self.worth == 1 else f"wrong ; the answer is {self.task[self.keys[1]]}"}

    def facts(self) -> dict[str, str]:
        return {"answer": self.task[self.keys[1]]}

    def answers(self) -> dict[str, str]:
        return {SEAT: self.task[self.keys[1]]}

    def language(self) -> Iterator[str]:
        yield from (WRONG, "right wrong ; the answer is")
        for task in self.tasks:
            yield from (task[key] for key in self.keys)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"expert": Expert, "mediocre": Mediocre, "random": Random}


def questions_in(tasks: Any, question: str, answer: str) -> tuple[dict[str, Any], ...]:
    """Each as it was given, with its question and its answer as text."""
    return tasks_in(tasks, "game option tasks", _whole, question, answer)


def _whole(where: str, task: Any, *keys: str) -> dict[str, Any]:
    if not isinstance(task, dict):
        raise ValueError(f"{where} must be like {{{': ..., '.join(keys)}: ...}}")
    texts = {}
    for key in keys:
        given = task.get(key)
        if isinstance(given, bool) or not isinstance(given, str | int | float) or not str(given).strip():
            there = ", ".join(map(str, task)) or "nothing"
            raise ValueError(f"{where} has no {key!r} that is a text or a number; it has: {there}")
        texts[key] = str(given)
    return task | texts


def answer_in(utterance: str) -> str:
    """What follows the last `Answer:`, on its line or on the next one that says something."""
    lines = [line for line in utterance.splitlines() if line.strip(MARKS)]
    found = [(number, said[1]) for number, line in enumerate(lines) if (said := ANSWER.match(line))]
    if not found:
        return utterance.strip()
    number, said = found[-1]
    return said.strip() if said.strip(MARKS) else "".join(lines[number + 1 : number + 2]).strip()


def as_it_is(said: str, answer: str, task: dict[str, Any]) -> float:
    return float(same(said, answer) if plain_answer(answer) else said.strip() == answer.strip())  # of marks alone


def by_number(said: str, answer: str, task: dict[str, Any]) -> float:
    found, right = (NUMBER.findall(text) for text in (said, answer))
    return float(bool(found and right) and _number(found[-1]) == _number(right[-1]))


def _number(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace("\u2212", "-"))


CHECKS: dict[str, Check] = {"same": as_it_is, "number": by_number}


def check_of(name: Any) -> Check:
    if name in CHECKS:
        return CHECKS[name]
    module, colon, function = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not module or not colon:
        raise ValueError(f"game option check={name!r} must be {', '.join(CHECKS)}, or module:function of your own")
    see_current_folder()
    try:
        found = getattr(import_module(module), function)
    except Exception as error:  # of whoever wrote the module
        raise ValueError(f"game option check={name!r} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ValueError(f"game option check={name!r} is no function")
    return found


class Knowing:
    """`wisdom`: the share of tries in which the right answer is said; else it is that of any task."""

    wisdom = 1.0

    def __init__(self, tasks: Any, question: str = "question", answer: str = "answer", **options: Any):
        found = questions_in(tasks, question, answer)
        self.answers = {task[question]: task[answer] for task in found}
        self.others = [task[answer] for task in found]

    def reset(self, seed: int) -> None:
        self.random, self.answer = random.Random(f"knowing {seed}"), ""

    def reply(self, observation: str, actions: tuple[str, ...] = ()) -> str:
        self.answer = self.answers.get(observation, self.answer)
        return self.answer if self.random.random() < self.wisdom else self.random.choice(self.others)


class Expert(Knowing):
    """Knows every answer."""


class Mediocre(Knowing):
    """Says the right answer in half of its tries, and else that of any task."""

    wisdom = 0.5


class Random(Knowing):
    """Says the answer of any task."""

    wisdom = 0.0
