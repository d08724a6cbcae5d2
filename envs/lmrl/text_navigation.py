"""Text navigation as in LMRL-Gym: put the stale food from the living room into the fridge in the kitchen.

A house of eight rooms, which LMRL-Gym made with TextWorld; plan, things, rules and reward are the published ones, the
sentences are ours. The player begins in a room by seed. In each turn it says one of the commands that are listed: go,
take, put, insert, open, close, drop, eat. Everything else does nothing and counts as a turn. It has won when the stale
food is in the closed fridge: reward and outcome 1. Whoever eats it has lost: 0. After `turns` commands it is cut off,
with outcome 0. The reward is not discounted.

The room is described when it is entered: what stands there, what lies there, and where one can go. In the
full view it is told after every command what the player carries.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial
from envs.options import one_of, whole_number
from envs.text.listed import Chooser, gist, named

SEAT = "walker"
CARRIED, GONE = "carried", "gone"
WAYS = {  # room -> where one can go, and what is there
    "bedroom": {"west": "living room", "south": "bathroom"},
    "office": {"north": "living room", "east": "bathroom"},
    "bathroom": {"north": "bedroom", "west": "office"},
    "living room": {"east": "bedroom", "west": "dining room", "south": "office"},
    "kitchen": {"east": "dining room", "north": "garden", "west": "backyard"},
    "dining room": {"east": "living room", "west": "kitchen"},
    "garden": {"south": "kitchen"},
    "backyard": {"east": "kitchen"},
}
FURNITURE = {  # every room has one piece at most
    "bedroom": "table",
    "office": "chest",
    "living room": "table",
    "kitchen": "fridge",
    "dining room": "table",
}
CLOSED_FIRST = ("chest", "fridge")
FOOD = "stale food"
EDIBLE = (FOOD, "fresh food", "fruit")
THINGS = {  # where each lies at first: on or in the furniture of a room
    FOOD: "living room",
    "fresh food": "living room",
    "bowl": "bedroom",
    "coffee cup": "dining room",
    "plate": "dining room",
    "utensils": "office",
    "fruit": "kitchen",
}
REFUSED = "nothing happens : that is none of your commands ."
ATE = "you eat the stale food . that was not to be : you have lost ."
WON = "the stale food is in the closed fridge : you have won ."
STATE = ("room", "places", "open", "said", "ending", "seen")


class TextNavigation(Game):
    seats = (SEAT,)

    def __init__(
        self,
        view: Annotated[str, "full: which room it is and what is carried are told; partial: they are not"] = "full",
        turns: Annotated[int, "commands until it is truncated; the published data has 15"] = 20,
    ):
        self.full = one_of("view", view, ("full", "partial")) == "full"
        self.horizon = whole_number("turns", turns, 1, 10_000)
        self._room: str | None = None

    def reset(self, seed: int) -> None:
        self._room = random.Random(f"room {seed}").choice(sorted(WAYS))
        # of each thing: CARRIED, GONE, or a room and whether on (or in) its furniture, not on the floor
        self._places: dict[str, Any] = {thing: [room, True] for thing, room in THINGS.items()}
        self._open: list[str] = []
        self._said, self._ending = 0, ""
        self._seen = self._described()

    @property
    def seat(self) -> str | None:
        return None if self._room is None or self._ending or self._said >= self.horizon else SEAT

    def briefing(self, seat: str) -> str:
        return (
            "You are in a house. Put the stale food that lies on the table in the living room into the fridge in the "
            "kitchen, and close the fridge. Do not eat it. In each turn, say one of the commands that are listed and "
            f"nothing else. You have {self.horizon} turns."
        )

    # what is to be seen

    def observe(self) -> str:
        carried = self._at(CARRIED)
        inventory = f" you carry {' , '.join(carried) or 'nothing'} ." if self.full else ""
        return f"{self._seen}{inventory} you can : {' , '.join(self.actions())} ."

    def _described(self) -> str:
        told = [f"you are in the {self._room} ."] if self.full else []
        if piece := FURNITURE.get(self._room):
            told.append(f"there is a {piece} . {self._contents(piece)}")
        if lying := self._at([self._room, False]):
            told.append(f"on the floor : {' , '.join(lying)} .")
        told.append(f"ways : {' , '.join(WAYS[self._room])} .")
        return " ".join(told)

    def _contents(self, piece: str) -> str:
        if piece in CLOSED_FIRST and piece not in self._open:
            return "it is closed ."
        inside = "in it" if piece in CLOSED_FIRST else "on it"
        return f"{inside} : {' , '.join(self._at([self._room, True])) or 'nothing'} ."

    def _at(self, place: Any) -> list[str]:
        return [thing for thing in THINGS if self._places[thing] == place]

    def actions(self) -> tuple[str, ...]:
        return tuple(self._commands()) if self.seat is not None else ()

    def _commands(self) -> Iterator[str]:
        yield from (f"go {way}" for way in WAYS[self._room])
        piece, carried = FURNITURE.get(self._room), self._at(CARRIED)
        shut = piece in CLOSED_FIRST and piece not in self._open
        if piece in CLOSED_FIRST:
            yield f"open {piece}" if shut else f"close {piece}"
        if piece and not shut:
            yield from (f"take {thing} from {piece}" for thing in self._at([self._room, True]))
            put = "insert {} into {}" if piece in CLOSED_FIRST else "put {} on {}"
            yield from (put.format(thing, piece) for thing in carried)
        yield from (f"take {thing}" for thing in self._at([self._room, False]))
        yield from (f"drop {thing}" for thing in carried)
        yield from (f"eat {thing}" for thing in carried if thing in EDIBLE)

    # what is done

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError(OVER)
        command = named(utterance, self.actions())
        self._said += 1
        self._seen = REFUSED if command is None else self._done(command)
        caption = "the walker says no command" if command is None else f"the walker's command : {command}"
        won = self._ending == WON
        return Step(
            {SEAT: 1.0} if won else {},
            executable=command is not None,
            terminated=bool(self._ending),
            truncated=self.seat is None and not self._ending,
            caption=f"{caption} . {self._ending}".removesuffix(" . "),
        )

    def _done(self, command: str) -> str:
        verb, _, rest = command.partition(" ")
        thing = next((each for each in THINGS if rest == each or rest.startswith(f"{each} ")), "")
        if verb == "go":
            self._room = WAYS[self._room][rest]
            return self._described()
        if verb == "open":
            self._open.append(rest)
            return f"you open the {rest} . {self._contents(rest)}"
        if verb == "close":
            self._open.remove(rest)
            if rest == "fridge" and self._places[FOOD] == ["kitchen", True]:
                self._ending = WON
            return self._ending or f"you close the {rest} ."
        if verb == "eat" and thing == FOOD:
            self._ending = ATE
            return ATE
        self._places[thing] = {
            "take": CARRIED,
            "drop": [self._room, False],
            "eat": GONE,
            "put": [self._room, True],
            "insert": [self._room, True],
        }[verb]
        return f"you {verb} the {thing} ."

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self._room is not None and self._ending == WON)}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._seen} if self._room is not None and self.seat is None else {}

    def save(self) -> dict[str, Any]:
        return {} if self._room is None else deepcopy({name: getattr(self, f"_{name}") for name in STATE})

    def restore(self, saved: dict[str, Any]) -> None:
        self._room = None
        for name, value in deepcopy(saved).items():
            setattr(self, f"_{name}", value)

    @classmethod
    def gist(cls, utterance: str) -> str:
        return gist(utterance)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"expert": Expert, "mediocre": Mediocre, "random": Random}

    @classmethod
    def trials(cls) -> list[Trial]:
        return [Trial("full view"), Trial("partial view", {"view": "partial"})]

    def language(self) -> Iterable[str]:
        yield from (*WAYS, *THINGS, *FURNITURE.values(), "north south east west", REFUSED, ATE, WON)
        yield "you are in the . there is a it is closed in it on it : nothing on the floor : ways : , you can : carry"
        yield "go take from put on insert into open close drop eat"


class Walker(Chooser):
    """Knows the house. The ways out tell each room from all others, and the commands tell what is at hand."""

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.food = "living room"  # where it was last seen

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        ways = {action.removeprefix("go ") for action in actions if action.startswith("go ")}
        room = next(each for each in WAYS if ways == set(WAYS[each]))
        if f"eat {FOOD}" in actions:
            self.food = room
            if room != "kitchen":
                return towards(room, "kitchen")
            return "open fridge" if "open fridge" in actions else f"insert {FOOD} into fridge"
        if f"take {FOOD} from fridge" in actions:
            return "close fridge"
        for taking in actions:
            if taking.startswith(f"take {FOOD}"):
                return taking
        if room != self.food:
            return towards(room, self.food)
        return "open chest" if "open chest" in actions else self.random.choice(actions)


def towards(room: str, goal: str) -> str:
    """The first step of the shortest way."""
    first, waiting = {room: ""}, deque([room])
    while waiting:
        here = waiting.popleft()
        for way, there in WAYS[here].items():
            if there not in first:
                first[there] = first[here] or f"go {way}"
                waiting.append(there)
    return first[goal]


class Expert(Walker):
    """The shortest way. Always wins, in 7.6 turns on average."""


class Mediocre(Walker):
    """The right command in one turn of two, else any: wins 38 % of games."""

    wisdom = 0.5


class Random(Walker):
    """Any listed command: wins none of 1,000 games."""

    wisdom = 0.0
