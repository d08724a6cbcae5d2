"""Persuasion as it is published: what each seat is told, in our own words, in texts of GLEE's shape.

Told are the price, the chance of high quality, what a product is worth (to Alice if information is complete),
who learns what and when, and the number of rounds, but not to buyers who are there for one. No aim is told. How
to put a message or a decision is told when one is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.glee.published.sizes import amount, share
from envs.text.prompts import Text, places_in

if TYPE_CHECKING:
    from envs.glee.persuasion.game import Persuasion

_SELLER = """\
{{seller_intro}} Some of the products are of high quality, the others of low quality.
The chance of high quality is {{p}} %, {{seller_p_message}}.
{{seller_cv_message}}
There are {{total_rounds}} rounds, in each of which you offer one product to {{buyer_v1}}. First you learn whether it \
is of high or of low quality. This is not known to {{buyer_v2}}{{myopic_know_statistics}}. Say to {{buyer_v2}} what \
you like: there is nothing else to go by. When the round is over, its quality is known to {{buyer_v2}} too.
The price is fixed, and what was bought cannot be given back."""
_BUYER = """\
This is a game about buying.
{{_seller_name}} sells products, each at ${{product_price}}, and you are {{buyer_v3}}.
{{buyer_p_message}}
To you a product of high quality is worth ${{v}}, and one of low quality ${{c}}. {{buyer_cv_message}}
{{rounds_prior}} you learn of which quality it was."""
_MESSAGE = 'Say it as JSON: {"message": your words to {{rival_name}}}'
_ADVICE = 'Say {"decision": "yes"} to recommend it to {{rival_name}}, else {"decision": "no"}'
_DECISION = 'Say {"decision": "yes"} or {"decision": "no"}'
_DECISION_AND_MESSAGE = 'Say {"decision": "yes" or "no", "message": your words to {{rival_name}}}'

_PLACES = places_in(
    "seller_intro p seller_p_message seller_cv_message total_rounds buyer_v1 buyer_v2 buyer_v2_cap buyer_v3 "
    "myopic_know_statistics _seller_name product_price buyer_p_message v c buyer_cv_message rounds_prior"
)
_NAME = places_in("rival_name")
_RULES, _FORMAT = "rules_prompt.json", "format_prompt.json"
TEXTS = {
    "rules of the seller": Text(_SELLER, _PLACES, _RULES, "seller"),
    "rules of the buyer": Text(_BUYER, _PLACES, _RULES, "buyer"),
    "message": Text(_MESSAGE, _NAME, _FORMAT, "seller_text"),
    "advice": Text(_ADVICE, _NAME, _FORMAT, "seller_binary"),
    "decision": Text(_DECISION, _NAME, _FORMAT, "buyer_binary"),
    "decision and message": Text(_DECISION_AND_MESSAGE, _NAME, _FORMAT, "buyer_text"),
}


def places(game: Persuasion) -> dict[str, str]:
    price, chance, worth = amount(game.price), share(game.chance), amount(game.worth)
    one, many = ("the buyer", "buyers who come and go") if game.myopic else ("Bob", "Bob")
    high = f"A product of high quality is worth ${worth} to {one}, and one of low quality $0."
    return {
        "seller_intro": f"You are Alice. You sell products to {many}, at ${price} each. Your messages are passed on.",
        "p": chance,
        "seller_p_message": f"which {one} knows",
        "seller_cv_message": high if game.complete else f"What a product is worth to {one} you do not know.",
        "total_rounds": str(game.rounds),
        "buyer_v1": "another buyer" if game.myopic else "Bob, the buyer",
        "buyer_v2": one,
        "buyer_v2_cap": one[0].upper() + one[1:],
        "buyer_v3": "one of the buyers" if game.myopic else "Bob, the buyer",
        "myopic_know_statistics": ", who is told how many of your products were bought and how many of these were of "
        "high quality"
        if game.myopic
        else "",
        "_seller_name": "Alice",
        "product_price": price,
        "buyer_p_message": f"A product is of high quality with a chance of {chance} %, else of low quality.",
        "v": worth,
        "c": "0",
        "buyer_cv_message": f"Alice {'knows' if game.complete else 'does not know'} what products are worth to you.",
        "rounds_prior": _rounds(game),
    }


def _rounds(game: Persuasion) -> str:
    if game.myopic:
        return (
            "Alice draws a product for each buyer, learns its quality, and says something about it. You are told how "
            "many products were bought before, and how many of these were of high quality. Then you buy yours, or you "
            "pass and nobody else can have it. When you have decided,"
        )
    return (
        f"In each of {game.rounds} rounds Alice draws a product, learns its quality, and says something about it. You "
        "buy it, or you pass and nobody can have it any more. When the round is over,"
    )


def text_for(game: Persuasion, seat: str) -> str:
    """Which text says how to put what is due from this seat."""
    if seat == "alice":
        return "message" if game.messages else "advice"
    return "decision and message" if game.messages else "decision"
