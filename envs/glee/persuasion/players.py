"""Scripted players of persuasion, each of whom sells and buys.

What each gets is its mean outcome over both roles, all configurations and the five opponents of the
trials, with the game's own options: `python -m benchmarks.strength persuasion`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from fractions import Fraction

from envs.glee.manner import is_plain

JUNK = ("i do not know", "let me think", "hello there")
PRAISE, WARNING = "this one is good, take it", "this one is bad, leave it"

_QUALITY = r"(?:(good|of high quality)|bad|of low quality)"
_MARKET = re.compile(
    r"you are (alice|bob|a buyer)\b.*? the price is \$([\d,]+)\. a product is (?:good|of high quality) with chance "
    r"(\d) in (\d)\.(?: (?:a good one|one of high quality) is worth (?:(\d+) %|\$([\d,]+)))?"
)
_QUOTED = re.compile(r'"([^"]*)"')  # a message is not the game speaking; messages hold no such marks
_ROUND = re.compile(r"round (\d+) of (\d+)\.")
_PRODUCT = re.compile(rf"this product is {_QUALITY}\.")
_ADVICE = re.compile(r"alice (recommends|does not recommend) it\.")
_RECORD = re.compile(r"so far (\d+) of \d+ were bought, (\d+) of them (?:good|of high quality)\.")
_WAS = re.compile(rf"it was {_QUALITY}\.")
_AGAINST = re.compile(r"\b(?:bad|low|poor|not|don't|leave|skip|pass|avoid)\b")


class Trader:
    """One seat as its player knows it, from observations alone."""

    def __init__(self, **options):
        self.plain = is_plain(**{name: options[name] for name in ("speech", "rules", "prompts") if name in options})
        self.messages = options.get("messages", False)

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"{type(self).__name__} {seed}")
        self.worth: Fraction | None = None  # of a good product, in prices
        self.recommended: bool | None = None  # this round's product
        self.followed = [0, 0]  # of products that were recommended: bad, good
        self.sold = (0, 0)  # before, in all, to others: bad, good

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        self.read(observation.lower())
        return self.advise(self.recommends()) if self.good is not None else self.decide(self.buys())

    def read(self, seen: str) -> None:
        message = _QUOTED.search(seen)
        seen = _QUOTED.sub("", seen)
        if number := _ROUND.search(seen):  # myopic buyers are not told it, by published rules
            self.round, self.rounds = int(number[1]), int(number[2])
        if found := _MARKET.search(seen):
            _, price, some, many, percent, dollars = found.groups()
            self.chance = Fraction(int(some), int(many))
            whole = int(price.replace(",", ""))
            if percent or dollars:
                self.worth = Fraction(int(percent), 100) if percent else Fraction(int(dollars.replace(",", "")), whole)
        if (was := _WAS.search(seen)) and self.recommended:
            self.followed[bool(was[1])] += 1
        product, said, record = (each.search(seen) for each in (_PRODUCT, _ADVICE, _RECORD))
        self.good = None if product is None else bool(product[1])
        if said or message:
            self.recommended = said[1] == "recommends" if said else not _AGAINST.search(message[1])
        if record:
            self.sold = int(record[1]) - int(record[2]), int(record[2])

    def worth_it(self, chance: Fraction) -> bool:
        return self.worth is not None and chance * self.worth >= 1

    def recommends(self) -> bool:
        """As seller, who knows whether the product is `good`."""
        raise NotImplementedError

    def buys(self) -> bool:
        """As buyer, who knows whether it is `recommended`."""
        raise NotImplementedError

    def advise(self, recommended: bool) -> str:
        if self.messages:
            said = PRAISE if recommended else WARNING
            return said if self.plain else f'{{"message": "{said}"}}'
        if self.plain:
            return "i recommend it" if recommended else "i do not recommend it"
        return self.decide(recommended)

    def decide(self, yes: bool) -> str:
        if self.plain:
            return "i buy it" if yes else "i pass"
        return f'{{"decision": "{"yes" if yes else "no"}"}}'


class Equilibrium(Trader):
    """The equilibrium in which words count for nothing: recommends everything, and buys if the price is worth it
    without a word. Gets 68 %."""

    def recommends(self) -> bool:
        return True

    def buys(self) -> bool:
        return self.worth_it(self.chance)


class Honest(Trader):
    """Recommends what is good, and buys what is recommended. Gets 64 %."""

    def recommends(self) -> bool:
        return self.good

    def buys(self) -> bool:
        return self.recommended


class Calculating(Trader):
    """Recommends bad products as often as a buyer who knows how often can just bear it. Buys where the share of good
    ones among those recommended so far (or bought, where it is told no more) makes it worth the price. Gets 72 %."""

    def recommends(self) -> bool:
        if self.good or self.worth is None:
            return bool(self.good)
        return self.random.random() * (1 - self.chance) < self.chance * (self.worth - 1)

    def buys(self) -> bool:
        bad, good = (a + b for a, b in zip(self.followed, self.sold, strict=True))
        chance = (self.chance + good) / (1 + good + bad)
        return self.recommended and self.worth_it(chance)


class Unforgiving(Trader):
    """Honest before the last round, in which it recommends anything. As buyer it believes until it is lied to once, and
    then buys as if nothing were said. Gets 68 %."""

    def recommends(self) -> bool:
        return self.good or self.round == self.rounds

    def buys(self) -> bool:
        lied_to = self.followed[0] + self.sold[0]
        return self.worth_it(self.chance) if lied_to else self.recommended


class Mediocre(Trader):
    """Knows how, and is careless: praises half of the bad products, buys three of ten against advice and forgoes as
    many, and says nonsense in one turn of 33. Gets 59 %."""

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        usual = super().reply(observation, actions)
        return self.random.choice(JUNK) if self.random.random() < 0.03 else usual

    def recommends(self) -> bool:
        return self.random.random() < (0.9 if self.good else 0.5)

    def buys(self) -> bool:
        return self.random.random() < (0.7 if self.recommended else 0.3)


class Random(Trader):
    """Tosses a coin. Gets 49 %."""

    def recommends(self) -> bool:
        return self.random.random() < 0.5

    def buys(self) -> bool:
        return self.random.random() < 0.5


PLAYERS: dict[str, type[Trader]] = {
    "equilibrium": Equilibrium,
    "honest": Honest,
    "calculating": Calculating,
    "unforgiving": Unforgiving,
    "mediocre": Mediocre,
    "random": Random,
}


def words_players_say(plain: bool, messages: bool) -> Iterable[str]:
    player = Random(speech="plain" if plain else "json", messages=messages)
    yield from JUNK
    yield from (say(yes) for say in (player.advise, player.decide) for yes in (True, False))
    if player.messages:
        yield from (f'"{said}"' for said in (PRAISE, WARNING, *JUNK))  # as the buyer reads it
