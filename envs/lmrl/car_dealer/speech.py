"""What is said about a car: a price, a decision, features, a discount.

JSON such as {"message": "...", "price": 21000} or {"decision": "accept"}, the same parts after labels, and short plain
sentences are read as in Negotiation. Other words are talk: it says a price if it holds one amount with a dollar sign or
a percent of the list price, from a quarter of the list price to three times as much, once amounts that are the list
price itself are left out; two prices are none. Talk that says nothing of this kind is not understood, and a labelled
thought is not said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from envs.glee.labelled import PRICES, PRICING, aloud
from envs.glee.money import NUMBER, amount_of
from envs.glee.speech import Grammar, decisions, read
from envs.text.thinking import spoken

FEATURES = (
    "backup camera",
    "navigation system",
    "heated seats",
    "leather seats",
    "third-row seating",
    "blind spot monitoring",
    "sunroof",
    "apple carplay",
)
LEAVE = ("leave", "walk away", "no sale", "goodbye", "i leave", "not interested", "buy elsewhere")
LONGEST = 2000  # characters of talk

_VERB = r"(?:will |can |would |could )?(?:offer|ask|bid|pay|sell|give|say)(?: you)?(?: it)?(?: to you)?(?: for| at)?"
_OFFER = re.compile(
    r"(?:(?P<price>(?:(?:my|the|your) )?(?:new |last |final |best )?(?:price|offer|bid)(?: is| would be)? #"
    rf"|(?:i |we )?{_VERB} #|(?:how|what) about #)|ok|okay|well|so|then|hello|please|but)(?: |$)"
)
GRAMMAR = Grammar({"price": "price"}, _OFFER, decisions(LEAVE), PRICING, PRICES)

_SUM = re.compile(
    rf"(?P<sign>\$)\s?(?P<number>{NUMBER})(?P<k>k\b)?(?P<unit>(?!))?(?!\w)|(?P<share>\d{{1,3}}) ?(?:%|percent\b)"
)
_DISCOUNT = re.compile(
    r"\b(?:discount|rebate|mark(?:ed)? down|reduc(?:e|ed|tion)|price cut|money off|special offer|deal for you)"
)
_ASKING = re.compile(
    r"\b(?:budget|looking for|interested in|what (?:features|kind|brand|type|do you)|prefer|test drive)\b"
)
_CUES = {"third-row seating": r"third[- ]row", "apple carplay": r"car ?play", "navigation system": r"navigation|gps"}
_NAMED = {each: re.compile(rf"\b(?:{_CUES.get(each, re.escape(each))})") for each in FEATURES}


@dataclass(frozen=True, slots=True)
class Said:
    act: str = ""  # accept, reject, leave, talk; empty: not understood
    price: int | None = None  # in cents
    features: tuple[str, ...] = ()
    discount: bool = False
    message: str = ""


def understood(utterance: str, listed: int) -> Said:
    """`listed`: the list price in cents."""
    meaning = read(utterance, GRAMMAR)
    if meaning.act == "offer":
        amount = meaning.amounts[0][1]
        price = None if amount is None else amount.cents(listed)
        return _with_topics("talk", price, meaning.message)
    if meaning.act:
        return _with_topics(meaning.act, None, meaning.message)
    text = aloud(spoken(utterance), PRICING)
    if "{" in text or len(text) > LONGEST:
        return Said()
    prices = {_cents(found, listed) for found in _SUM.finditer(text)} - {None}
    prices = prices - {listed} if len(prices) > 1 else prices
    said = _with_topics("talk", prices.pop() if len(prices) == 1 else None, text)
    known = said.price is not None or said.features or said.discount or _ASKING.search(text.lower())
    return said if known else Said()


def _with_topics(act: str, price: int | None, message: str) -> Said:
    lower = message.lower()
    features = tuple(each for each in FEATURES if _NAMED[each].search(lower))
    return Said(act, price, features, bool(_DISCOUNT.search(lower)), message)


def _cents(found: re.Match, listed: int) -> int | None:
    if found["share"]:
        share = int(found["share"])
        return listed * share // 100 if 50 <= share <= 200 else None  # "5 % off" is no price
    amount = amount_of(found)
    cents = 0 if amount is None else amount.hundredths * (1000 if found["k"] else 1)
    return cents if listed <= 4 * cents <= 12 * listed else None
