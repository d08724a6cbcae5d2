"""Overcooked: one cook, one bowl, one salad, by macro actions and with a narrow view.

`rules` is "own", the kitchen of `kitchen`, `macros` and `words`, or "published", that of
`published`, where nothing is told but the observation.

The actions listed in a state are the macro actions of `macros`, all of them, under the names
they have in that state; saying anything else waits one step. Rewards are those of `kitchen`,
summed over a macro's steps with `discount` between them, so one turn pays

    sum over its steps n = 0, 1, ... of discount^n * (reward of step n)

`executable` is whether anything in the kitchen, the cook's place included, has changed.

The episode ends with the right dish (terminated, outcome 1) or after `steps` primitive
steps, of which the cook is not told how many are left (truncated, outcome 0). A seed decides
nothing but the order in which the actions are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple

from envs.game import OVER, Game, Player, Step, Trial
from envs.options import Menu, Shuffle, one_of, whole_number
from envs.overcooked import macros, published, words
from envs.overcooked.kitchen import TASKS, WAIT, Kitchen, room_of
from envs.overcooked.players import PLAYERS
from envs.text.listed import gist, menu_of, named, order_of, yes_or_no

SEAT = "agent"


class Rules(NamedTuple):
    kitchen: type[Kitchen]
    moves_of: Callable[[Kitchen, macros.Macro], tuple[int, ...]]
    phrase: Callable[[Kitchen, macros.Macro], str]
    description: Callable[[Kitchen], str]
    told: bool  # what the cook has to do, before the first observation
    cut_off: bool  # a macro, by the last primitive step


RULES = {
    "own": Rules(Kitchen, macros.moves_of, macros.phrase, words.description_of, told=True, cut_off=True),
    "published": Rules(
        published.PublishedKitchen, published.moves_of, published.phrase, published.description, False, False
    ),
}


class Overcooked(Game):
    name = "overcooked"
    seats = (SEAT,)

    def __init__(
        self,
        task: Annotated[str, "tomato_salad or tomato_lettuce_salad"] = "tomato_salad",
        steps: Annotated[int, "primitive steps until it is truncated"] = 200,
        discount: Annotated[float, "between the primitive steps of one turn; 1.0 turns it off"] = 0.99,
        shuffle: Shuffle = True,
        menu: Menu = False,
        rules: Annotated[
            str, "own, or published: then nothing but the wording departs from the published kitchen"
        ] = "own",
    ):
        self.rules = RULES[one_of("rules", rules, tuple(RULES))]
        self.room = room_of(one_of("task", task, TASKS))
        self.horizon = self.most_steps = whole_number("steps", steps, 1, 100_000)
        if isinstance(discount, bool) or not isinstance(discount, int | float) or not 0 < discount <= 1:
            raise ValueError(f"game option discount={discount!r} must be a number above 0 and up to 1")
        self.discount = float(discount)
        self.shuffle, self.menu = yes_or_no("shuffle", shuffle), yes_or_no("menu", menu)
        self.goal = words.goal_of(self.room)
        self.kitchen = self.rules.kitchen(self.room)
        self._seed: int | None = None

    def reset(self, seed: int) -> None:
        self.kitchen.begin()
        self._order_by(seed)

    def _order_by(self, seed: int | None) -> None:
        every = macros.macros_of(self.room)
        self._seed = seed
        if seed is not None:
            self._macros = [every[place] for place in order_of(len(every), seed, self.shuffle)]

    @property
    def seat(self) -> str | None:
        if self._seed is None or self.kitchen.served or self.kitchen.steps >= self.most_steps:
            return None
        return SEAT

    def briefing(self, seat: str) -> str:
        return words.briefing(self.room, words.every_phrase(self.room)) if self.rules.told else ""

    def observe(self) -> str:
        seen = self.rules.description(self.kitchen)
        return f"{seen} {menu_of(self.actions())} {self.goal}" if self.menu else f"{seen} {self.goal}"

    def actions(self) -> tuple[str, ...]:
        return tuple(self.rules.phrase(self.kitchen, macro) for macro in self._macros)

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError(OVER)
        kitchen, listed = self.kitchen, self.actions()
        before, action = kitchen.situation(), named(utterance, listed)
        if action is None:
            reward = kitchen.act(WAIT)
        else:
            moves = self.rules.moves_of(kitchen, self._macros[listed.index(action)])
            left = self.most_steps - kitchen.steps if self.rules.cut_off else len(moves)
            reward = macros.perform(kitchen, moves[:left], self.discount)
        changed = kitchen.situation() != before
        return Step(
            rewards={SEAT: reward},
            executable=changed,
            terminated=kitchen.served,
            truncated=not kitchen.served and kitchen.steps >= self.most_steps,
            caption=self._caption(action, changed),
        )

    def _caption(self, action: str | None, changed: bool) -> str:
        if action is None:
            return "the agent says nothing that could be done in the kitchen, and waits"
        if self.kitchen.served:
            return "the agent serves the dish, and it is the right one"
        return f"the agent chooses to {action}" + ("" if changed else ", and nothing comes of it")

    def helpful(self, caption: str) -> float:
        """Of what `step` says: 1 for the right dish, for taking the bowl, and for what was done to food that
        the dish needs; else 0."""
        if caption == "the agent serves the dish, and it is the right one":
            return 1.0
        done = caption.removeprefix("the agent chooses to ")
        needed = [self.room.things[food] for food in self.room.needed]
        of_use = {
            "take the bowl",
            "take the empty bowl",
            *(f"{what} the {food}" for food in needed for what in ("pick up", "chop")),
        }
        puts = tuple(f"put the {food} " for food in needed)
        nothing = caption.endswith(", and nothing comes of it")
        return float(done != caption and not nothing and (done in of_use or done.startswith(puts)))

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self.kitchen.served)}

    def closing(self) -> dict[str, str]:
        if self._seed is None or self.seat is not None:
            return {}
        return {SEAT: self.observe()}

    def save(self) -> dict[str, Any]:
        return {"seed": self._seed, **self.kitchen.save()}

    def restore(self, saved: dict[str, Any]) -> None:
        self.kitchen.restore(saved)
        self._order_by(saved["seed"])

    def language(self) -> Iterable[str]:
        """Of both tasks, so that what learned one can be tried on the other."""
        for room in map(room_of, TASKS):
            yield from words.every_sentence(room)
            phrases = (*words.every_phrase(room), *(() if self.rules.told else published.every_phrase(room)))
            yield from phrases
            if self.menu:
                yield from (menu_of((said, said)) for said in phrases)

    @classmethod
    def gist(cls, utterance: str) -> str:
        return gist(utterance)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS

    @classmethod
    def trials(cls) -> list[Trial]:
        return [Trial(task, {"task": task}) for task in TASKS]
