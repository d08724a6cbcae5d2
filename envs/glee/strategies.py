"""Ways of haggling that do not depend on what is haggled over.

A strategy thinks in shares of the cake: 0 is the worst its seat should ever agree to, 1 the best
it could hope for. Which money that is, how it is put into words and what an observation says
is its Side's business; a game's players are a strategy and a side each.
"""

from __future__ import annotations

import random
import re
from typing import ClassVar

from envs.glee.manner import is_plain

REMARKS = ("this is my last word", "i come towards you, now come towards me", "i give as much as you give")
JUNK = ("i do not know", "let me think", "hello there")
_QUOTED = re.compile(r'"[^"]*"')  # a message is not the game speaking; messages hold no such marks
_ROUND = re.compile(r"round (\d+)(?: of (\d+))?\. your (\w+)\?")


class Side:
    """One seat as its player knows it, from observations alone."""

    fade = 1.0  # what a deal one round later is worth to it, in terms of one now
    may_leave = False  # whether there is an outside option

    def __init__(self, **options):
        self.plain = is_plain(**{name: options[name] for name in ("speech", "rules", "prompts") if name in options})
        self.messages = options.get("messages", True)
        self.rounds = options.get("rounds", 20)  # known to it even where its seat is not told

    def reset(self, seed: int) -> None:
        self.offered: float | None = None  # own share of the cake in the rival's latest offer

    def read(self, observation: str) -> None:
        seen = _QUOTED.sub("", observation.lower())
        number, rounds, asked = _ROUND.search(seen).groups()
        self.round, self.rounds, self.answering = int(number), int(rounds or self.rounds), asked == "answer"
        self.learn(seen)

    @property
    def last_round(self) -> bool:
        return self.round == self.rounds

    def learn(self, seen: str) -> None:
        """Take in what is at stake, and the offer if there is a new one."""
        raise NotImplementedError

    def demand(self, share: float, remark: str) -> str:
        """An offer, in whole percents, that leaves this share of the cake to its seat."""
        raise NotImplementedError

    def answer(self, decision: str) -> str:
        """Say "accept", "reject" or, where it may leave, "john"."""
        if not self.plain:
            return f'{{"decision": "{decision}"}}'
        return "i deal with john" if decision == "john" else f"i {decision}"


class Strategy(Side):
    remark = ""  # goes with its offers in JSON, where messages are delivered

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.random = random.Random(f"{type(self).__name__} {seed}")

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        self.read(observation)
        return self.answer(self.decide()) if self.answering else self.demand(self.wish(), self.remark)

    def wish(self) -> float:
        """What to ask for now."""
        raise NotImplementedError

    def decide(self) -> str:
        raise NotImplementedError


class Stubborn(Strategy):
    """One demand from first to last; takes that or more, and else waits."""

    remark = REMARKS[0]
    share: ClassVar[float] = 0.6

    def wish(self) -> float:
        return self.share

    def decide(self) -> str:
        return "accept" if self.offered >= self.share - 1e-9 else "reject"


class Yielding(Strategy):
    """Gives way with time. Takes what is no worse than its own next demand would be a round
    later, and in the last round what it would have come down to."""

    start: ClassVar[float]
    least: ClassVar[float]

    def wish_in(self, number: int) -> float:
        """What to ask for in that round, as things stand."""
        raise NotImplementedError

    def wish(self) -> float:
        return self.wish_in(self.round)

    def decide(self) -> str:
        enough = self.least if self.last_round else self.fade * self.wish_in(self.round + 1)
        return "accept" if self.offered >= enough - 1e-9 else "reject"


class Conceding(Yielding):
    """Asks for 4/5 at first and gives way evenly, to 3/10 in the last round."""

    remark = REMARKS[1]
    start, least = 0.8, 0.3

    def wish_in(self, number: int) -> float:
        return self.start - (self.start - self.least) * (number - 1) / max(1, self.rounds - 1)


class TitForTat(Yielding):
    """Asks for 3/4 at first and gives way by what the rival has given way since its own first
    offer, and by 1/50 a round unasked, so that two of a kind come together; not below 2/5."""

    remark = REMARKS[2]
    start, least = 0.75, 0.4
    generosity: ClassVar[float] = 0.02

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.opening: float | None = None  # what the rival offered first

    def read(self, observation: str) -> None:
        super().read(observation)
        if self.opening is None:
            self.opening = self.offered

    def wish_in(self, number: int) -> float:
        given = 0.0 if self.opening is None else max(0.0, self.offered - self.opening)
        return max(self.least, self.start - given - self.generosity * (number - 1))


class Mediocre(Strategy):
    """Wants about half, gives way at random, and is swayed by an offer only in part: it accepts
    the more readily the better an offer is, takes one in 50 that it should not, and says
    nonsense in one turn of 33. Room to learn is what it is for."""

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.wanted = self.random.uniform(0.4, 0.8)

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        usual = super().reply(observation, actions)
        return self.random.choice(JUNK) if self.random.random() < 0.03 else usual

    def wish(self) -> float:
        self.wanted = min(0.9, max(0.2, self.wanted - self.random.uniform(-0.04, 0.1)))
        return self.wanted

    def decide(self) -> str:
        if self.may_leave and self.offered <= 0 and self.random.random() < 0.08:
            return "john"
        tempted = 0.02 if self.offered <= 0 else min(0.95, self.offered * 1.2 + 0.3 * self.last_round)
        return "accept" if self.random.random() < tempted else "reject"


class Random(Strategy):
    """Offers anything, and tosses a coin about any offer, or leaves one time in five where it may."""

    def wish(self) -> float:
        return self.random.random()

    def decide(self) -> str:
        return self.random.choice(("accept", "reject") * 2 + ("john",) * self.may_leave)
