"""Scripted players of bargaining.

What each wins is its share of games won, over both roles, all configurations and the five
opponents of the trials, with the game's own options: `python -m benchmarks.strength bargaining`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

from envs.glee.equilibrium import least_accepted, shares
from envs.glee.strategies import JUNK, REMARKS, Conceding, Mediocre, Random, Side, Strategy, Stubborn, TitForTat

_YOU = re.compile(r"you are (\w+)\. the money is \$([\d,]+)\. each round you lose (\d+) %(?: and \w+ loses (\d+) %)?")
_OFFER = re.compile(r"offers you (?:a little over )?(?:(\d+) %|\$([\d,]+)(?:\.(\d\d))?)")


class Bargainer(Side):
    """The cake is the money. `units` says how finely it is cut: in percents, or in cents."""

    def learn(self, seen: str) -> None:
        if found := _YOU.search(seen):
            self.seat = found[1]
            self.money = int(found[2].replace(",", ""))  # dollars
            self.units = 100 if self.plain else self.money * 100
            self.factor = Fraction(100 - int(found[3]), 100)
            self.rival_factor = self.factor if found[4] is None else Fraction(100 - int(found[4]), 100)
            self.fade = float(self.factor)
        if offer := _OFFER.search(seen):
            percent, whole, cents = offer.groups()
            self.offered_units = int(percent or int(whole.replace(",", "")) * 100 + int(cents or 0))
            self.offered = self.offered_units / self.units

    def demand(self, share: float, remark: str) -> str:
        percent = min(100, max(0, round(share * 100)))
        return self.propose(percent * self.units // 100, remark)

    def propose(self, kept: int, remark: str = "") -> str:
        given = self.units - kept
        if self.plain:
            return f"i offer you {given} %"
        alice, bob = (kept, given) if self.seat == "alice" else (given, kept)
        said = f', "message": "{remark}"' if remark and self.messages else ""
        return f'{{"alice_gain": {_number(alice)}, "bob_gain": {_number(bob)}{said}}}'


def _number(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}" if cents % 100 else str(cents // 100)


class EquilibriumBargainer(Bargainer, Strategy):
    """Offers and accepts exactly what the subgame-perfect equilibrium says: nobody can earn more
    against it than the equilibrium leaves them. Who asks for more than that makes both wait, and
    so it wins 35 %. With incomplete information it takes the rival's loss to be its own."""

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        self.read(observation)
        left = self.rounds - self.round
        if self.answering:
            enough = self.offered_units >= least_accepted(self.units, self.factor, self.rival_factor, left)
            return self.answer("accept" if enough else "reject")
        return self.propose(shares(self.units, self.factor, self.rival_factor, left + 1)[0])


class TitForTatBargainer(Bargainer, TitForTat):
    """Gives what it is given. Wins 53 %."""


class ConcedingBargainer(Bargainer, Conceding):
    """Gives way evenly with time. Wins 58 %."""


class StubbornBargainer(Bargainer, Stubborn):
    """Wants 60 % and nothing else. Wins 54 %; two of them never agree."""


class MediocreBargainer(Bargainer, Mediocre):
    """Knows how, and is careless: wins 28 %, 49 % against itself."""


class RandomBargainer(Bargainer, Random):
    """Wins 17 %."""


PLAYERS: dict[str, type[Strategy]] = {
    "equilibrium": EquilibriumBargainer,
    "tit_for_tat": TitForTatBargainer,
    "conceding": ConcedingBargainer,
    "stubborn": StubbornBargainer,
    "mediocre": MediocreBargainer,
    "random": RandomBargainer,
}


def words_players_say(monies: Iterable[int], **options) -> Iterable[str]:
    """In whole percents of the money (in units); see `Talks.language`."""
    player = RandomBargainer(**options)
    yield from (*JUNK, *(player.answer(decision) for decision in ("accept", "reject")))
    yield from (f'"{remark}"' for remark in REMARKS if not player.plain)  # as the rival reads it
    for player.units in monies:
        for player.seat in ("alice", "bob"):
            for percent in range(101):
                yield from (player.propose(percent * player.units // 100, remark) for remark in ("", *REMARKS))
