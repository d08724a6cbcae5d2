"""Subgame-perfect equilibrium of alternating offers, by backward induction in exact arithmetic.

Money is counted in whole units (cents, or hundredths of the pot), so a game is finite and the
induction needs no tolerance. Both players know everything, maximise their own money, and

    accept when they are indifferent,
    prefer, as proposers, a deal now to the same payoff later.

With these two ties settled the equilibrium is unique. It says what maximises money against a
player who does the same; it is no best reply to anybody else, and nothing about who gets more.

Bargaining. Let s[t] be the proposer's share of N units in round t of T, of which the proposer
in round t + 1 (who answers in round t) would get s[t+1], worth a factor d less by then:

    s[T] = N              the last offer is an ultimatum, and nothing is accepted
    s[t] = N - ceil(d * s[t+1])       d: discount factor of who answers in round t

The proposer never prefers to wait, because N - ceil(d s) >= N - s.  For N and T without bound
and both factors below 1 the first share tends to Rubinstein's (1 - d2) / (1 - d1 d2).

Negotiation. Waiting costs nothing, so what the last proposer gets, it gets in every round: all
gains from trade, at the rival's own value. Without gains nobody trades.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil


@lru_cache(maxsize=4096)
def shares(units: int, first: Fraction, second: Fraction, rounds: int) -> tuple[int, ...]:
    """What the proposer keeps in each round 1..rounds, in units.

    `first` and `second` are the discount factors of the player who proposes in odd and in
    even rounds. Entry t - 1 is round t.
    """
    found = [units]
    for turn in range(rounds - 1, 0, -1):
        answering = second if turn % 2 else first
        found.append(units - ceil(answering * found[-1]))
    return tuple(reversed(found))


def least_accepted(units: int, own: Fraction, rival: Fraction, rounds_left: int) -> int:
    """The smallest share that a player with factor `own` accepts when `rounds_left` rounds
    are still to come after this one, of which it proposes in the next."""
    return ceil(own * shares(units, own, rival, rounds_left)[0]) if rounds_left else 0


@lru_cache(maxsize=4096)
def prices(seller: int, buyer: int, rounds: int, seller_first: bool) -> tuple[int | None, ...]:
    """The price at which the product changes hands in each round 1..rounds when it is reached,
    None where it does not. `seller` and `buyer` are what it is worth to them, in units.

    Payoffs if a round passes: nothing after the last one, else those of the next round. The
    outside option pays nothing at any time, so it never binds and ends what is hopeless.
    """
    found: list[int | None] = []
    seller_later, buyer_later = 0, 0
    for turn in range(rounds, 0, -1):
        highest, lowest = buyer - buyer_later, seller + seller_later  # that each still accepts
        if highest < lowest:
            found.append(None)
            continue
        price = highest if (turn % 2 == 1) == seller_first else lowest
        seller_later, buyer_later = price - seller, buyer - price
        found.append(price)
    return tuple(reversed(found))


def best_ultimatum(own: int, rivals: tuple[int, ...], selling: bool) -> tuple[int, Fraction]:
    """The last price to name to a rival whose value is any of `rivals`, all equally likely, and
    what it earns on average. Of equally good prices the one that is accepted more often; the
    own value, which earns nothing, where no price earns anything."""
    best = (Fraction(0), 0, own)
    for price in rivals:
        gain = price - own if selling else own - price
        takers = sum(value >= price if selling else value <= price for value in rivals)
        best = max(best, (Fraction(gain * takers, len(rivals)), takers, price)) if gain > 0 else best
    return best[2], best[0]
