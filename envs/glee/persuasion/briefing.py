"""The rules of persuasion as each seat is told them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.glee.money import dollars
from envs.glee.talks import ALICE, TRIES

if TYPE_CHECKING:
    from envs.glee.persuasion.game import Persuasion

_COUNTED = "how many products were bought before and how many of them were good"
_PLAIN = {True: "i recommend it, i do not recommend it", False: "i buy it, i pass"}


def own_rules(game: Persuasion, seat: str) -> str:
    lost = "the product is withdrawn" if seat == ALICE else "it counts as a wrong decision"
    tries = f"What is not understood may be said anew, {TRIES} times in all; then {lost}."
    return f"{(_of_seller if seat == ALICE else _of_buyer)(game)}\n{_form(game, seat)} {tries}"


def _of_seller(game: Persuasion) -> str:
    one, who = ("a buyer", "A buyer") if game.myopic else ("Bob", "Bob")
    to = "another buyer in every round" if game.myopic else "Bob"
    worth = f" To {one} a good one is worth {dollars(game.worth)} and a bad one nothing." if game.complete else ""
    heard = "your message" if game.messages else "whether you recommend it"
    counted = f" Buyers are told {_COUNTED}." if game.myopic else ""
    return (
        f"You are Alice. You sell products at {dollars(game.price)} each, for {game.rounds} rounds, to {to}. Each is "
        f"good with a chance of {game.odds}, else bad. {who} knows that chance, but only you see whether this round's "
        f"product is good.{worth} {who} hears {heard}, buys or does not, and then learns what it was.{counted} You "
        "earn the price of each product that is bought, and nothing else: sell as many as you can."
    )


def _of_buyer(game: Persuasion) -> str:
    you = "a buyer" if game.myopic else "Bob"
    time = f"; each of {game.rounds} buyers is offered one" if game.myopic else f", for {game.rounds} rounds"
    says = "says what she likes about it" if game.messages else "recommends it or not"
    counted = f" You are told {_COUNTED}." if game.myopic else ""
    knows = "knows" if game.complete else "does not know"
    return (
        f"You are {you}. Alice sells products at {dollars(game.price)} each{time}. Each is good with a chance of "
        f"{game.odds}, else bad. Alice sees whether the product is good and {says}. To you a good one is worth "
        f"{dollars(game.worth)} and a bad one nothing; Alice {knows} this. You buy it or you do not, and then you "
        f"learn what it was.{counted} If you buy, you earn what a product is worth less its price, else nothing: earn "
        "as much as you can."
    )


def _form(game: Persuasion, seat: str) -> str:
    if seat == ALICE and game.messages:
        return 'Your message is {"message": "..."} or plain words.'
    message = ', with a "message" to Alice if you like' if game.messages else ""
    form = 'Answer with {"decision": "yes"} or {"decision": "no"}'
    return f"{form}{message}. Plain words are understood too: {_PLAIN[seat == ALICE]}."
