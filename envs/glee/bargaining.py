"""Bargaining: two players divide money that melts while they talk.

M dollars lie on the table. A deal in round t that gives Alice x pays her dA^(t-1) x and Bob
dB^(t-1) (M - x): each has a discount factor of its own. No deal pays nothing.

Configuration c of 0..47 is M = (100, 10,000, 1,000,000)[c // 16] with the discount factors
dA = F[c // 4 % 4] and dB = F[c % 4], F = (0.8, 0.9, 0.95, 1). Offers are whole cents that add
up to M exactly; payoffs are fractions, so who got more is never a matter of rounding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

from envs.game import Player
from envs.glee.bargaining_players import PLAYERS, words_players_say
from envs.glee.labelled import DIVIDING, PLACES
from envs.glee.money import dollars
from envs.glee.published import bargaining as published
from envs.glee.speech import UNCLEAR, Grammar, Meaning, decisions, read
from envs.glee.talks import ALICE, BOB, RIVAL, SCALES, SEATS, Talks
from envs.text.prompts import filled

LOSSES = (20, 10, 5, 0)  # percent a round

_A = r"(?:#(?: of (?:the (?:money|pot|total)|it))?|the rest)"
_WILL = r"(?:i |ill |id |we )?(?:will |can |would |would like to |like to |want to )?"
_GETS = r"(?:will |can |would )?(?:gets?|takes?|has|have|keeps?|receives?)"
_SMALL = "and|while|so|then|ok|okay|no|well|hello|hi|but|please|i (?:propose|suggest)(?: that)?|my offer is"


def _clauses() -> re.Pattern:
    named = "|".join(
        rf"(?P<{name}>{name} {_GETS} {_A}|{name} {_A}|{_A} (?:is )?(?:for|to) {name}|{_WILL}(?:offer|give) {name} {_A})"
        for name in SEATS
    )
    me = rf"{_WILL}(?:keep|take|get|have|want|receive) {_A}|{_A} (?:is )?for (?:me|myself)|the rest is mine|me {_A}"
    mine = rf"my (?:share|part|gain) is {_A}"
    you = rf"{_WILL}(?:offer|give) {_A} to you|{_WILL}(?:offer|give) (?:you )?{_A}|you {_GETS} {_A}|you {_A}"
    yours = rf"{_A} (?:is )?(?:for|to) you|the rest is yours|your (?:share|part|gain) is {_A}"
    return re.compile(rf"(?:{named}|(?P<me>{me}|{mine})|(?P<you>{you}|{yours})|{_SMALL})(?: |$)")


class Bargaining(Talks):
    name = "bargaining"
    grammar = Grammar({"alice_gain": ALICE, "bob_gain": BOB}, _clauses(), decisions(), DIVIDING, PLACES)
    known_texts = published.TEXTS
    asks = "Your offer?"
    acts = {"accept": "accepts", "reject": "rejects"}

    @classmethod
    def amounts(cls, utterance: str) -> dict[str, float]:
        """The share that an offer claims for its owner, from -1 (nothing) to 1 (all)."""
        said = {owner: amount for owner, amount in read(utterance, cls.grammar).amounts if amount is not None}
        whole = sum(amount.hundredths for amount in said.values())
        if len(said) == 1:
            (amount,) = said.values()
            whole = 100_00 if amount.percent else 0  # dollars of an unknown sum are no share
        return {f"share of {owner}": 2 * amount.hundredths / whole - 1 for owner, amount in said.items() if whole}

    def _endow(self, one: int, other: int) -> None:
        self.losses = {ALICE: LOSSES[one], BOB: LOSSES[other]}

    def _endowments(self) -> dict[str, str]:
        return {f"loss_{seat}": f"{loss} %" for seat, loss in self.losses.items()}

    def _introduction(self, seat: str) -> str:
        rival = RIVAL[seat]
        theirs = f" and {rival.title()} loses {self.losses[rival]} %" if self.complete else ""
        return (
            f"You are {seat.title()}. The money is {dollars(self.whole)}. "
            f"Each round you lose {self.losses[seat]} %{theirs}."
        )

    def _own_rules(self, seat: str) -> str:
        rival, money = RIVAL[seat].title(), dollars(self.whole)
        if self.complete:
            losses = f"{self.losses[seat]} % of its worth for you and {self.losses[RIVAL[seat]]} % for {rival}"
        else:
            losses = (
                f"{self.losses[seat]} % of its worth for you; what {rival} loses you do not know, nor {rival} your loss"
            )
        return (
            f"You are {seat.title()}. You and {rival} have {money} to divide, in at most {self.rounds} rounds. "
            f"{self._order('proposes a division')} The other one accepts, which ends the game, or rejects, and the "
            f"next round begins. Waiting is dear: with each round that passes the money loses {losses}. Without a deal "
            f"after round {self.rounds} both get nothing. {self._aim(seat)}\n"
            f"An offer names both gains in dollars, not negative and {money} together: "
            '{"alice_gain": A, "bob_gain": B, "message": "..."}. '
            f'{self._messages_rule(seat)} An answer is {{"decision": "accept"}} or {{"decision": "reject"}}. Plain '
            "words are understood too: i offer you x % (you keep the rest), i accept, i reject. "
            f"{self._tries_rule()}"
        )

    def _offered(self, seat: str, meaning: Meaning) -> int | str:
        people = {**dict(zip(SEATS, SEATS, strict=True)), "me": seat, "you": RIVAL[seat]}
        gains: dict[str, int | None] = {}
        for owner, amount in meaning.amounts:
            gain = None if amount is None else amount.cents(self.whole)
            if people[owner] in gains:
                return UNCLEAR
            gains[people[owner]] = gain
        named = {who: gain for who, gain in gains.items() if gain is not None}
        if len(named) == 1:  # the other one gets the rest, said or unsaid
            who, gain = next(iter(named.items()))
            named[RIVAL[who]] = self.whole - gain
        if sum(named.values()) != self.whole or min(named.values()) < 0:
            return self._refusals()[0]
        return named[ALICE]

    def _refusals(self) -> tuple[str, ...]:
        return (f"the two gains must add up to {'100 %' if self.plain else dollars(self.whole)}.",)

    def _offer_words(self, seat: str, offer: int, rival: str) -> str:
        kept = offer if seat == ALICE else self.whole - offer
        return f"{seat.title()} offers {rival} {self._amount(self.whole - kept)} and keeps {self._amount(kept)}."

    def _deal_words(self, offer: int) -> str:
        return f"alice {dollars(offer)}, bob {dollars(self.whole - offer)}"

    def _payoffs(self, offer: int) -> dict[str, Fraction]:
        shares = {ALICE: offer, BOB: self.whole - offer}
        return {
            seat: share * Fraction(100 - self.losses[seat], 100) ** (self._round - 1) for seat, share in shares.items()
        }

    def _pattern(self, offer_due: bool) -> str:
        if self.plain:
            return "say: i offer you x %." if offer_due else "say: i accept. or: i reject."
        if not offer_due:
            return 'Say {"decision": "accept"} or {"decision": "reject"}.'
        return 'Say {"alice_gain": A, "bob_gain": B}.'

    def _published_rules(self, seat: str) -> str:
        return filled(self.texts["rules"], published.places(self, seat))

    def _request(self, seat: str) -> str:
        if self._offer is None:
            return filled(self.texts["offer"], published.places(self, seat))
        return f"{published.update(self, seat, self._round)} {published.ANSWER}".lstrip()

    def _whole_offers(self) -> Iterable[int]:
        return range(0, self.whole + 1, self.whole // 100)

    def _players_words(self) -> Iterable[str]:
        units = (100,) if self.plain else SCALES
        return words_players_say(units, speech="plain" if self.plain else "json", messages=self.messages)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS
