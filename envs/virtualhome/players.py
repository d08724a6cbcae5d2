"""Scripted robots of stated strength, for any task.

    expert     the shortest way to the goal
    mediocre   knows the way, but mostly wanders: the one the embedded policy is cloned from
    random     any listed action

The home is the same in every episode and does nothing by itself, so the expert needs no eyes:
it knows the task, by what it is first told to do, and remembers what it has done.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.text.listed import Chooser
from envs.virtualhome.home import actions_of, after, start_of
from envs.virtualhome.plan import best_actions
from envs.virtualhome.task import Task, tasks_named


class Robot(Chooser):
    def __init__(self, task: str | Sequence[str] = "food_preparation", **options):
        self.tasks = tasks_named(task)

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.task: Task | None = None

    def begin(self, observation: str) -> None:
        self.task = max((task for task in self.tasks if task.aim in observation), key=lambda task: len(task.aim))
        self.actions = {action.phrase: action for action in actions_of(self.task)}
        self.home = start_of(self.task)

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        if self.task is None:
            self.begin(observation)
        return super().reply(observation, actions)

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        best = best_actions(self.task).get(self.home)  # none in a dead end, both hands full of the wrong things
        return best[1].phrase if best else self.random.choice(actions)

    def said(self, action: str) -> None:
        self.home = after(self.task, self.home, self.actions[action]) or self.home


class Expert(Robot):
    """The optimum: always done, in 6 turns; entertainment in 12."""


class Mediocre(Robot):
    """Knows what to do, but is restless: in many a turn it would walk to some other room, and
    in 1 of 10 it takes any listed action. The more turns the task leaves it, the more restless
    it is. Does 38 % of food preparation and its variants, 34 % of entertainment."""

    wisdom = 0.9

    def __init__(self, task: str | Sequence[str] = "food_preparation", turns: int = 50, **options):
        super().__init__(task, **options)
        needed = {task: best_actions(task)[start_of(task)][0] for task in self.tasks}
        self.restlessness = {task: max(0.1, 0.72 - turns_needed / turns) for task, turns_needed in needed.items()}

    def begin(self, observation: str) -> None:
        super().begin(observation)
        self.walks = {f"walk to the {room}" for room in self.task.rooms}
        self.restless = self.restlessness[self.task]

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        if self.random.random() < self.restless:
            # whoever sits may have no walk listed
            return self.random.choice([action for action in actions if action in self.walks] or actions)
        return super().advice(observation, actions)


class Random(Chooser):
    """Any listed action: 2 % of food preparation and its variants, nothing of entertainment."""


PLAYERS: dict[str, type[Chooser]] = {"expert": Expert, "mediocre": Mediocre, "random": Random}
