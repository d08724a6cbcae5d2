"""VirtualHome: household tasks in a text graph, with one reward at the end.

The right state of the home pays 1 and ends the episode (terminated, outcome 1); after `turns`
it is cut off (truncated, outcome 0). There is no other reward: what cannot be done, or is not
listed, changes nothing and costs the turn. Listed is what is in sight or close enough for it
(`listing: reach`), whether or not it works just now.

A seed decides nothing but the order in which actions are listed, and which of several tasks it is:
the tasks themselves are fixed, see `task`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial
from envs.options import Menu, Shuffle, one_of, whole_number
from envs.text.listed import gist, menu_of, named, order_of, yes_or_no
from envs.virtualhome.home import Action, State, achieved, actions_of, after, start_of, within_reach
from envs.virtualhome.plan import phrases_of_plan
from envs.virtualhome.players import PLAYERS
from envs.virtualhome.task import shipped, task_named, tasks_named
from envs.virtualhome.words import briefing, description, every_sentence

SEAT = "agent"
LISTINGS = ("reach", "executable", "all")
TRIALS = ("food_preparation", "cheese", "hamburger", "apple_pie", "pizza", "dishes", "laundry", "entertainment")


class VirtualHome(Game):
    name = "virtualhome"
    seats = (SEAT,)

    def __init__(
        self,
        task: Annotated[
            str | Sequence[str],
            "of those that ship, or the path of a TOML file; of a list the seed of the episode chooses one",
        ] = "food_preparation",
        turns: Annotated[int, "until it is truncated"] = 50,
        listing: Annotated[
            str, "reach: the actions near enough to try; executable: those that work now; all"
        ] = "reach",
        shuffle: Shuffle = True,
        menu: Menu = False,
    ):
        self.tasks = tasks_named(task)
        self.task = self.tasks[0]
        self.horizon = whole_number("turns", turns, 1, 100_000)
        self.listing = one_of("listing", listing, LISTINGS)
        self.shuffle, self.menu = yes_or_no("shuffle", shuffle), yes_or_no("menu", menu)
        self._seed: int | None = None
        self._done, self._turn = False, 0

    def reset(self, seed: int) -> None:
        self._choose_by(seed)
        self._home, self._done, self._turn = start_of(self.task), False, 0

    def _choose_by(self, seed: int | None) -> None:
        self._seed = seed
        if seed is not None:
            self.task = random.Random(f"task {seed}").choice(self.tasks)
            actions = actions_of(self.task)
            self._actions = [actions[place] for place in order_of(len(actions), seed, self.shuffle)]

    @property
    def seat(self) -> str | None:
        return None if self._seed is None or self._done or self._turn >= self.horizon else SEAT

    def briefing(self, seat: str) -> str:
        return briefing(self.task)

    def observe(self) -> str:
        seen = description(self.task, self._home)
        return f"{menu_of(self.actions())} {seen}" if self.menu else seen

    def _listed(self) -> list[Action]:
        if self.listing == "all":
            return self._actions
        task, home = self.task, self._home
        if self.listing == "executable":
            return [action for action in self._actions if after(task, home, action) is not None]
        return [action for action in self._actions if within_reach(task, home, action)]

    def actions(self) -> tuple[str, ...]:
        return tuple(action.phrase for action in self._listed())

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError(OVER)
        listed = {action.phrase: action for action in self._listed()}
        said = named(utterance, tuple(listed))
        then = after(self.task, self._home, listed[said]) if said is not None else None
        self._turn += 1
        if then is not None:
            self._home = then
            self._done = achieved(self.task, then)
        if said is None:
            caption = "the agent says nothing that could be done"
        else:
            caption = f"the agent chooses to {said}" + (", which cannot be done" if then is None else "")
        return Step(
            rewards={SEAT: 1.0} if self._done else {},
            executable=then is not None,
            terminated=self._done,
            truncated=not self._done and self._turn >= self.horizon,
            caption=f"{caption}, and the task is done" if self._done else caption,
        )

    def helpful(self, caption: str) -> float:
        """Of what `step` says: 1 for what was done and lies on one shortest way to the goal, else 0."""
        done = caption.removesuffix(", and the task is done")
        return float(any(done == f"the agent chooses to {phrase}" for phrase in phrases_of_plan(self.task)))

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self._done)}

    def closing(self) -> dict[str, str]:
        return {} if self._seed is None or self.seat is not None else {SEAT: self.observe()}

    def save(self) -> dict[str, Any]:
        home = None if self._seed is None else self._home._asdict()
        return {"seed": self._seed, "turn": self._turn, "done": self._done, "home": home}

    def restore(self, saved: dict[str, Any]) -> None:
        self._turn, self._done = saved["turn"], saved["done"]
        self._choose_by(saved["seed"])
        if saved["home"] is not None:
            values = {key: tuple(value) if isinstance(value, list) else value for key, value in saved["home"].items()}
            self._home = State(**values)

    def language(self) -> Iterable[str]:
        """Of all tasks that ship with the game, so that what learned one can be tried on the
        others, and of its own."""
        for task in (*map(task_named, shipped()), *self.tasks):
            yield from every_sentence(task)
            if self.menu:
                yield from (menu_of((action.phrase,) * 2) for action in actions_of(task))

    @classmethod
    def gist(cls, utterance: str) -> str:
        return gist(utterance)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS

    @classmethod
    def trials(cls) -> list[Trial]:
        """Food preparation and its variants on which what learned it is tried, and the other task."""
        return [Trial(task, {"task": task}) for task in TRIALS]
