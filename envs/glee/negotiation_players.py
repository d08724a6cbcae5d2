"""Scripted players of negotiation.

What each wins is its share of games won, over both roles, all configurations and the five
opponents of the trials, with the game's own options: `python -m benchmarks.strength negotiation`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import log10

from envs.glee.equilibrium import best_ultimatum, prices
from envs.glee.strategies import JUNK, REMARKS, Conceding, Mediocre, Random, Side, Strategy, Stubborn, TitForTat

FACTORS = (80, 100, 120, 150)  # percent of the list price that the product may be worth to a rival
HOPELESS_SPAN = 20  # percent of the list price, where there is nothing to gain from trade

_MONEY = r"(?:(\d+) %|\$([\d,]+)(?:\.(\d\d))?)"
_YOU = re.compile(
    rf"the (\w+)\.(?: the list price is \$([\d,]+)\.)? the product is worth {_MONEY} to you(?: and {_MONEY} to)?"
)
_PRICE = re.compile(rf"(?:asks|bids) (a little over |far over )?{_MONEY}")


class Negotiator(Side):
    """The cake is what the seat could gain: up to the rival's value where that is known, else
    up to the best value for it that any rival has. Where trade gains nothing, it hopes for a
    rival's mistake. Money is in units: percents of the list price, or cents."""

    may_leave = True

    def learn(self, seen: str) -> None:
        if stakes := _YOU.search(seen):
            self.selling = stakes[1] == "seller"
            self.value = _units(*stakes.groups()[2:5])
            # units in the list price; where none is told it is taken to be 100, 10,000, ... dollars
            listed = int(stakes[2].replace(",", "")) * 100 if stakes[2] else 10 ** round(log10(self.value))
            self.hundred = 100 if self.plain else listed
            known = stakes.groups()[5:]
            self.rival_value = _units(*known) if any(known) else None
            limit = self.rival_value
            if limit is None:
                limit = (max if self.selling else min)(FACTORS) * self.hundred // 100
            gain = self.gain(limit)
            self.span = gain if gain > 0 else HOPELESS_SPAN * self.hundred // 100
        if offer := _PRICE.search(seen):
            price = _units(*offer.groups()[1:])
            self.offered_gain = self.gain(price + (1 if offer[1] and not self.selling else 0))
            self.offered = self.offered_gain / self.span

    def gain(self, price: int) -> int:
        return price - self.value if self.selling else self.value - price

    def demand(self, share: float, remark: str) -> str:
        price = self.value + share * self.span * (1 if self.selling else -1)
        return self.propose(max(0, round(price * 100 / self.hundred)) * self.hundred // 100, remark)

    def propose(self, price: int, remark: str = "") -> str:
        if self.plain:
            return f"my price is {price} %"
        said = f', "message": "{remark}"' if remark and self.messages else ""
        return f'{{"product_price": {price // 100 if price % 100 == 0 else f"{price / 100:.2f}"}{said}}}'


def _units(percent: str | None, whole: str | None, cents: str | None) -> int:
    return int(percent or int(whole.replace(",", "")) * 100 + int(cents or 0))


class EquilibriumNegotiator(Negotiator, Strategy):
    """Names and accepts exactly the equilibrium price: everything for whoever names the last price,
    and a deal with John where trade gains nothing. Wins 9 %. With incomplete information it names
    the best ultimatum to a rival whose value is any of the four, and accepts what is no worse
    than that where the last price is its own, else any gain."""

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        self.read(observation)
        left = self.rounds - self.round
        if not self.answering:
            return self.propose(self.price(left + 1)[0])
        if self.offered_gain >= (self.price(left)[1] if left else 0):
            return self.answer("accept")
        hopeless = self.rival_value is not None and self.gain(self.rival_value) <= 0
        return self.answer("john" if hopeless else "reject")

    def price(self, left: int) -> tuple[int, float]:
        """What to name with so many rounds left, being the one to name a price now, and the gain from it."""
        if self.rival_value is None:
            rivals = tuple(factor * self.hundred // 100 for factor in FACTORS)
            price, mean_gain = best_ultimatum(self.value, rivals, self.selling)
            return price, mean_gain if left % 2 else 0
        seller, buyer = (self.value, self.rival_value) if self.selling else (self.rival_value, self.value)
        price = prices(seller, buyer, left, self.selling)[0]
        return (self.value, 0) if price is None else (price, self.gain(price))


class TitForTatNegotiator(Negotiator, TitForTat):
    """Gives what it is given. Wins 21 %."""


class ConcedingNegotiator(Negotiator, Conceding):
    """Gives way evenly with time. Wins 26 %."""


class StubbornNegotiator(Negotiator, Stubborn):
    """Wants 60 % of the gains and nothing else. Wins 33 %; two of them never agree."""


class MediocreNegotiator(Negotiator, Mediocre):
    """Knows how, and is careless: wins 16 %, 22 % against itself."""


class RandomNegotiator(Negotiator, Random):
    """Wins 9 %, and loses money."""


PLAYERS: dict[str, type[Strategy]] = {
    "equilibrium": EquilibriumNegotiator,
    "tit_for_tat": TitForTatNegotiator,
    "conceding": ConcedingNegotiator,
    "stubborn": StubbornNegotiator,
    "mediocre": MediocreNegotiator,
    "random": RandomNegotiator,
}


def words_players_say(hundreds: Iterable[int], **options) -> Iterable[str]:
    """In whole percents of list prices in units; see `Talks.language`."""
    player = RandomNegotiator(**options)
    yield from (*JUNK, *(player.answer(decision) for decision in ("accept", "reject", "john")))
    yield from (f'"{remark}"' for remark in REMARKS if not player.plain)  # as the rival reads it
    for hundred in hundreds:
        for percent in range(201):
            yield from (player.propose(percent * hundred // 100, remark) for remark in ("", *REMARKS))
