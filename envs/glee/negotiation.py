"""Negotiation: a seller and a buyer agree on a price, or each goes to somebody else.

The product has a list price that both know. It is worth V_A to Alice, who sells it, and V_B
to Bob, who buys. A deal at price p earns her p - V_A and him V_B - p, whenever it is made.
No deal earns nothing, and neither does the outside option: whoever answers an offer may deal
with John instead, at what the product is worth to them, which ends the game.

Configuration c of 0..47 is the list price (100, 10,000, 1,000,000)[c // 16] with V_A =
F[c // 4 % 4] and V_B = F[c % 4] times that, F = (0.8, 1, 1.2, 1.5). In 6 of 16 there is
something to gain from trade, in 4 it makes no difference, and in 6 one of the two can only lose.

A price is any number of whole cents up to MOST list prices. Paying more than the product is
worth is allowed, and a loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

from envs.game import Player
from envs.glee.labelled import PRICES, PRICING
from envs.glee.money import dollars
from envs.glee.negotiation_players import PLAYERS, words_players_say
from envs.glee.published import negotiation as published
from envs.glee.speech import UNCLEAR, Grammar, Meaning, decisions, read
from envs.glee.talks import ALICE, BOB, RIVAL, SCALES, Talks
from envs.text.prompts import filled

VALUES = (80, 100, 120, 150)  # percent of the list price
MOST = 10  # list prices
PLAIN_MOST = 200  # percent: the highest price that plain speech tells exactly
TOO_DEAR = "a price is at most ten times the list price."
ROLES = {ALICE: "seller", BOB: "buyer"}

LEAVE = (
    "john", "with john", "deal with john", "deal with jhon", "sell to john", "sell to jhon", "sell it to john",
    "buy from john", "buy from jhon", "buy it from john", "walk away", "outside option", "take the outside option",
)  # fmt: skip

_A = r"#(?: (?:of the list price|for it|for the product))?"
_WILL = r"(?:i |id |ill |we )?(?:will |can |would |would like to |like to |want to )?"
_VERB = r"(?:propose|offer|suggest|ask|bid|pay|sell|buy|say|name)"
_THING = r"(?: you)?(?: it| the product)?(?: to you| from you)?(?: for| at)?(?: a price of| the price of)?"
_NOUN = r"(?:new |last |final |best |asking )?(?:price|offer|bid|ask|counter offer)(?: is| would be| will be)?"
_SMALL = "ok|okay|no|well|so|then|hello|hi|but|please"
_CLAUSES = re.compile(
    rf"(?:(?P<price>(?:my|the) {_NOUN} {_A}|{_WILL}{_VERB}{_THING} {_A}|(?:a )?price(?: of)? {_A}"
    rf"|(?:how|what) about {_A}|lets say {_A})|{_SMALL})(?: |$)"
)


class Negotiation(Talks):
    name = "negotiation"
    grammar = Grammar({"product_price": "price"}, _CLAUSES, decisions(LEAVE), PRICING, PRICES)
    known_texts = published.TEXTS
    asks = "Your price?"
    acts = {"accept": "accepts", "reject": "rejects", "leave": "deals with John"}

    @classmethod
    def amounts(cls, utterance: str) -> dict[str, float]:
        """How far a price is from the list price, in list prices; dollars alone do not tell."""
        for _, amount in read(utterance, cls.grammar).amounts:
            if amount is not None and amount.percent:
                return {"price": amount.hundredths / 100_00 - 1}
        return {}

    def _endow(self, one: int, other: int) -> None:
        self.values = {ALICE: self.whole * VALUES[one] // 100, BOB: self.whole * VALUES[other] // 100}

    def _endowments(self) -> dict[str, str]:
        return {f"value_{seat}": f"{value / 100:.2f}" for seat, value in self.values.items()}

    def _introduction(self, seat: str) -> str:
        rival = RIVAL[seat]
        theirs = f" and {self._amount(self.values[rival])} to {rival.title()}" if self.complete else ""
        listed = "" if self.published else f" The list price is {dollars(self.whole)}."
        return (
            f"You are {seat.title()}, the {ROLES[seat]}.{listed} "
            f"The product is worth {self._amount(self.values[seat])} to you{theirs}."
        )

    def _own_rules(self, seat: str) -> str:
        rival, own = RIVAL[seat].title(), dollars(self.values[seat])
        if seat == ALICE:
            trade = f"You sell a product to Bob. It is worth {own} to you: at a price p it earns you p minus {own}"
            john = f"you would sell it to him for {own}"
        else:
            trade = f"You buy a product from Alice. It is worth {own} to you: at a price p it earns you {own} minus p"
            john = f"you would buy the same product from him for {own}"
        if self.complete:
            theirs = f"{rival} earns {'it minus p' if seat == ALICE else 'p minus it'}"
            theirs = f"To {rival} it is worth {dollars(self.values[RIVAL[seat]])}, and {theirs}."
        else:
            theirs = f"What it is worth to {rival} you do not know, and {rival} does not know what it is worth to you."
        return (
            f"You are {seat.title()}, the {ROLES[seat]}. {trade}. {theirs} The list price is {dollars(self.whole)}. "
            f"There are at most {self.rounds} rounds. {self._order('names a price')} The other one accepts, which ends "
            f"the game, or rejects, and the next round begins, or deals with John instead: {john}. That ends the game, "
            f"and both earn nothing, just as without a deal after round {self.rounds}. {self._aim(seat)}\n"
            'An offer is {"product_price": P, "message": "..."}, in dollars. '
            f'{self._messages_rule(seat)} An answer is {{"decision": "accept"}}, {{"decision": "reject"}} or '
            '{"decision": "john"}. Plain words are understood too: my price is 105 % (of the list price), i accept, '
            f"i reject, i deal with john. {self._tries_rule()}"
        )

    def _offered(self, seat: str, meaning: Meaning) -> int | str:
        if len(meaning.amounts) != 1:
            return UNCLEAR
        price = meaning.amounts[0][1].cents(self.whole)
        return price if price <= MOST * self.whole else TOO_DEAR

    def _refusals(self) -> tuple[str, ...]:
        return (TOO_DEAR,)

    def _offer_words(self, seat: str, offer: int, rival: str) -> str:
        return f"{seat.title()} {'asks' if seat == ALICE else 'bids'} {self._amount(offer)}."

    def _deal_words(self, offer: int) -> str:
        return f"price {dollars(offer)}"

    def _payoffs(self, offer: int) -> dict[str, Fraction]:
        return {ALICE: Fraction(offer - self.values[ALICE]), BOB: Fraction(self.values[BOB] - offer)}

    def _pattern(self, offer_due: bool) -> str:
        if self.plain:
            return "say: my price is x %." if offer_due else "say: i accept. or: i reject. or: i deal with john."
        if offer_due:
            return 'Say {"product_price": P}.'
        return 'Say {"decision": "accept"}, {"decision": "reject"} or {"decision": "john"}.'

    def _published_rules(self, seat: str) -> str:
        return filled(self.texts[f"rules {seat}"], published.places(self, seat))

    def _request(self, seat: str) -> str:
        if self._offer is not None:
            return published.answer(seat)
        return filled(self.texts[f"{'' if self.messages else 'silent '}offer {seat}"], published.places(self, seat))

    def _whole_offers(self) -> Iterable[int]:
        return range(0, self.whole * PLAIN_MOST // 100 + 1, self.whole // 100)

    def _players_words(self) -> Iterable[str]:
        units = (100,) if self.plain else SCALES
        return words_players_say(units, speech="plain" if self.plain else "json", messages=self.messages)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS
