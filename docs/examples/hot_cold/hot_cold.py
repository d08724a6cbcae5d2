"""Hot or Cold: something is hidden in one of a row of places. Each look there is answered with
"warmer", "colder" or "no change" - nearer or farther than the look before - until it is found.

Running out of looks is part of the rules and known from the start: terminated, not truncated.
"""

import random
import re
from typing import Annotated

from parley import Game, Step


class HotCold(Game):
    seats = ("seeker",)

    def __init__(self, places: Annotated[int, "2 to 999"] = 20, turns: Annotated[int, "looks, 1 to 999"] = 5):
        for option, value, least in (("places", places, 2), ("turns", turns, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 999:
                raise ValueError(f"game option {option}={value!r} must be a whole number from {least} to 999")
        self.places, self.horizon = places, turns

    def reset(self, seed):
        self.hidden = random.Random(f"hide {seed}").randint(1, self.places)  # a string: -1 is not 1
        self.left, self.before = self.horizon, None
        self.seen = f"places 1 to {self.places}"

    def briefing(self, seat):
        return (
            f"Something is hidden in one of {self.places} places, numbered 1 to {self.places}. You have {self.horizon} "
            "looks. Say where to look, like this: look 7. After your first look you are told whether it was warmer "
            "(nearer) or colder (farther) than the look before. Say nothing else."
        )

    def observe(self):
        return self.seen

    def actions(self):
        return tuple(f"look {place}" for place in range(1, self.places + 1))

    def step(self, utterance):
        self.left -= 1
        match = re.fullmatch(r"\s*look ([1-9][0-9]{0,2})\s*", utterance, re.ASCII | re.IGNORECASE)
        place = int(match[1]) if match else 0
        if not 1 <= place <= self.places:
            self.seen = "look where?"
            return Step(executable=False, terminated=self.left == 0, caption="the seeker looks nowhere")
        distance = abs(place - self.hidden)
        before = distance if self.before is None else self.before
        self.before = distance
        if distance == 0:
            self.seen = "found"
        else:
            self.seen = "warmer" if distance < before else "colder" if distance > before else "no change"
        return Step(
            rewards={"seeker": 1.0} if distance == 0 else {},
            terminated=distance == 0 or self.left == 0,
            caption=f"the seeker looks in place {place}: {self.seen}",
        )

    def closing(self):
        return {"seeker": self.seen}

    def facts(self):
        return {"hidden": str(self.hidden)}

    @classmethod
    def players(cls):
        return {"expert": Expert, "mediocre": Mediocre, "random": Random}


class Expert:
    """Looks where it leaves fewest possible places; finds it in 75 % of games."""

    thoughtless = 0.0  # share of its looks that are anywhere

    def __init__(self, places: int = 20, turns: int = 5):
        self.places = places

    def reset(self, seed):
        self.random = random.Random(f"seeker {seed}")
        self.possible = set(range(1, self.places + 1))
        self.looks = []

    def reply(self, observation, actions):
        if self.looks:
            last = self.looks[-2:]
            self.possible = {place for place in self.possible - {last[-1]} if self.answer(last, place) == observation}
        if not self.possible or self.random.random() < self.thoughtless:
            look = self.random.randint(1, self.places)
        else:
            look = min(range(1, self.places + 1), key=self.left)
        self.looks.append(look)
        return f"look {look}"

    def answer(self, looks, hidden):
        before, now = abs(looks[0] - hidden), abs(looks[-1] - hidden)
        return "warmer" if now < before else "colder" if now > before else "no change"

    def left(self, look):
        """The largest number of places that an answer to this look can leave, then how sure not to find it there."""
        answers = [self.answer([*self.looks[-1:], look], hidden) for hidden in self.possible - {look}]
        return max(map(answers.count, set(answers)), default=0), look not in self.possible


class Mediocre(Expert):
    """An expert that looks anywhere in half of its turns; finds it in 45 %."""

    thoughtless = 0.5


class Random(Expert):
    """Looks anywhere; finds it in 23 %."""

    thoughtless = 1.0
