"""Scripted players of Car Dealer, each of whom sells and buys.

The buyer's rule. It bids 70 % of its limit at first and 6 % of it more in each line, up to the limit: the budget; or
95 % of the list price, if that is less and it wants a discount; or 110 % of the budget, if it wants features and has
heard of them all. An impatient one's limit is 5 % of its budget lower for every line in which the seller talked of
features or a discount. It accepts a price within its limit (one that wants features: once it has heard of them all),
asks for what it misses, and leaves after PATIENCE lines, an impatient one after HURRY.

What a seller gets is its outcome over 500 games with a buyer who keeps to the rule.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

from envs.game import Player
from envs.lmrl.car_dealer.speech import FEATURES, understood

PATIENCE, HURRY = 8, 5  # lines of the buyer
JUNK = ("hello there", "let me think")
LADDER = (125, 115, 106, 99, 93, 87, 80, 74)  # percent of the list price that a seller asks, line by line
DISCOUNT, SHORT = '"i want a discount"', '"keep it short , no talk of features"'
_LISTED = re.compile(r"the list price is \$([\d,]+)")
_WANTED = re.compile(r"you want : (.*?) \. your budget is (?:a little over |far over )?(?:(\d+) %|\$([\d,]+))")
_NAMED = re.compile(r"the (?:seller|buyer) names (?:a little over |far over )?(?:(\d+) %|\$([\d,]+))")
_MESSAGE = re.compile(r'says : "([^"]*)"')


class Dealer:
    """One seat as its player knows it. Money is in percent of the list price."""

    def __init__(self, speech: str = "plain", **_options):
        self.plain = speech == "plain"

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"{type(self).__name__} {seed}")
        self.lines, self.asked, self.heard, self.put_off = 0, None, set(), 0
        self.wanted: tuple[str, ...] = ()
        self.character, self.hurried = "", False

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        self.read(observation)
        self.lines += 1
        return self.buy() if self.wanted else self.sell()

    def read(self, seen: str) -> None:
        message = " ".join(_MESSAGE.findall(seen))
        if found := _LISTED.search(seen):
            self.listed = int(found[1].replace(",", ""))
        if found := _WANTED.search(seen):
            self.wanted, self.budget = tuple(found[1].split(" , ")), self.share(*found.groups()[1:])
            self.character = (
                "discount" if "at a discount" in seen else "features" if "you hear" in seen else "impatient"
            )
        outside = _MESSAGE.sub("", seen)
        if found := _NAMED.search(outside):
            self.asked = self.share(*found.groups())
        said = understood(message, self.listed * 100) if message else None
        if said is not None:
            self.heard |= set(said.features)
            self.put_off += bool(said.features or said.discount)
            self.hurried |= "short" in message

    def share(self, percent: str | None, dollars: str | None) -> float:
        return float(percent) if percent else 100 * int(dollars.replace(",", "")) / self.listed

    def price(self, share: float, message: str = "") -> str:
        """Rounded down to a whole percent."""
        amount = f"{int(share)} %" if self.plain else f"${self.listed * int(share) // 100:,}"
        return f"my price is {amount} {message}".rstrip()

    # the buyer

    def limit(self) -> float:
        if self.character == "discount":
            return min(self.budget, 95.0)
        if self.character == "features":
            return self.budget * (1.1 if not self.missing() else 1.0)
        return self.budget * (1 - 0.05 * self.put_off)

    def missing(self) -> list[str]:
        return [each for each in self.wanted if each not in self.heard]

    def buy(self) -> str:
        limit, blocked = self.limit(), self.character == "features" and self.missing()
        if self.asked is not None and self.asked <= limit and not blocked:
            return "i accept"
        if self.lines >= (HURRY if self.character == "impatient" else PATIENCE):
            return "i leave"
        message = {"discount": DISCOUNT, "impatient": SHORT if self.lines == 1 or self.put_off else ""}.get(
            self.character, ""
        )
        if blocked:
            message = f'"does it have {" , ".join(self.missing())}"'
        return self.price(min(limit, limit * (0.7 + 0.06 * (self.lines - 1))), message)

    # the seller

    def sell(self) -> str:
        raise NotImplementedError


class Expert(Dealer):
    """Names the features that are asked for, comes down step by step, faster if the buyer is in a hurry, and takes a
    bid that is better than its next step. Its outcome is 0.94 on average."""

    def sell(self) -> str:
        place = min(len(LADDER), self.lines * 2 - 1 if self.hurried else self.lines) - 1
        if self.asked is not None and self.asked >= LADDER[place]:
            return "i accept"
        message = f'"it has {" , ".join(sorted(self.heard))}"' if self.heard and not self.hurried else ""
        return self.price(LADDER[place], message)


class Generous(Dealer):
    """Gives a discount at once, a tenth below the list price, and stays there: 0.37."""

    def sell(self) -> str:
        return self.price(90, '"a discount for you"')


class Concise(Dealer):
    """Says the list price and nothing else: 0.20."""

    def sell(self) -> str:
        return self.price(100)


class Mediocre(Expert):
    """Does what the expert does in a quarter of its lines as a seller; else it names any price or a feature, or talks
    nonsense. As a buyer it accepts too early at times. Its outcome is 0.74, and 1 in 13 % of
    games."""

    def sell(self) -> str:
        usual, chance = super().sell(), self.random.random()
        if chance < 0.25:
            return usual
        return self.random.choice(JUNK) if chance < 0.3 else self.price(self.random.randint(60, 130), self.feature())

    def feature(self) -> str:
        return f'"it has {self.random.choice(FEATURES)}"' if self.random.random() < 0.5 else ""

    def buy(self) -> str:
        return "i accept" if self.asked is not None and self.random.random() < 0.1 else super().buy()


class Random(Mediocre):
    """Any price, or leaves: 0.37."""

    def sell(self) -> str:
        return "i leave" if self.random.random() < 0.1 else self.price(self.random.randint(60, 130), self.feature())

    def buy(self) -> str:
        if self.asked is not None and self.random.random() < 0.2:
            return "i accept"
        return self.price(self.random.randint(50, 100))


PLAYERS: dict[str, type[Player]] = {
    "expert": Expert,
    "generous": Generous,
    "concise": Concise,
    "mediocre": Mediocre,
    "random": Random,
}


def words_players_say() -> Iterable[str]:
    yield from (*JUNK, "i accept", "i leave", "my price is", DISCOUNT, SHORT, '"a discount for you"')
    yield from (f'"{each}' for each in ("it", "does", "a", "i", "keep", *FEATURES))
    yield from (f'{each}"' for each in FEATURES)
    yield "it has does it have , "
