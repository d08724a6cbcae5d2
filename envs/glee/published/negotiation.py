"""Negotiation as it is published: what each seat is told, in our own words, in texts of GLEE's shape.

Told are the own value, the rival's if information is complete, John, the aim (to earn as much money as
possible; to buy and to save as much as possible), and the number of rounds if there are 20 of them at most.
There is no list price. How a price or an answer is put is told when one is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.glee.published.sizes import amount
from envs.text.prompts import Text, places_in

if TYPE_CHECKING:
    from envs.glee.negotiation import Negotiation

_SELLER = """\
You are {{player_name}}, and you have one product to sell, which is worth at least ${{self_final_value}} to you.
{{rival_name}} may want to buy it. {{complete_information_message}}
You say for which price {{rival_name}} can have it, and {{rival_name}} accepts that or rejects it.
Your aim is to get as much money for the product as you can.
{{next_rounds_info_seller}}"""
_BUYER = """\
You are {{player_name}}, and you look for a product, which is worth at most ${{self_final_value}} to you.
{{rival_name}} has one to sell. {{complete_information_message}}
{{rival_name}} says for which price you can have it, and you accept that or reject it.
Your aim is to get a product, and to keep as much of your money as you can.
{{next_rounds_info_buyer}}"""
_SELLS = 'Make your {{offer_type}}, as JSON: {"message": your words to {{rival_name}}, "product_price": what you ask}'
_BUYS = 'Make your {{offer_type}}, as JSON: {"message": your words to {{rival_name}}, "product_price": what you bid}'
_SELLS_SILENTLY = 'Make your {{offer_type}}, as JSON: {"product_price": what you ask}'
_BUYS_SILENTLY = 'Make your {{offer_type}}, as JSON: {"product_price": what you bid}'

JOHN = {"alice": "SellToJhon", "bob": "BuyFromJhon"}
_PLACES = places_in(
    "player_name rival_name self_final_value rival_value complete_information_message next_rounds_info_seller "
    "next_rounds_info_buyer"
)
_IN_OFFER = places_in("rival_name offer_type")
_RULES, _SAID, _SILENT = "rules_prompt.json", "offer_format.json", "offer_format_messages_unallowed.json"
TEXTS = {
    "rules alice": Text(_SELLER, _PLACES, _RULES, "seller", "INSTRUCT_NEGO_SELLER_SYSTEM"),
    "rules bob": Text(_BUYER, _PLACES, _RULES, "buyer", "INSTRUCT_NEGO_BUYER_SYSTEM"),
    "offer alice": Text(_SELLS, _IN_OFFER, _SAID, "seller"),
    "offer bob": Text(_BUYS, _IN_OFFER, _SAID, "buyer"),
    "silent offer alice": Text(_SELLS_SILENTLY, _IN_OFFER, _SILENT, "seller"),
    "silent offer bob": Text(_BUYS_SILENTLY, _IN_OFFER, _SILENT, "buyer"),
}


def places(game: Negotiation, seat: str) -> dict[str, str]:
    rival = next(each for each in game.seats if each != seat)
    own, other, name = amount(game.values[seat]), amount(game.values[rival]), rival.title()
    known = f"It is worth ${other} to {name}." if game.complete else f"What it is worth to {name} you do not know."
    return {
        "player_name": seat.title(),
        "rival_name": name,
        "self_final_value": own,
        "rival_value": other if game.complete else "?",
        "complete_information_message": known,
        "next_rounds_info_seller": _rounds(game, name, f"sell to John instead, who pays ${own}"),
        "next_rounds_info_buyer": _rounds(game, name, f"buy from John instead, who asks ${own}"),
        "offer_type": "counteroffer" if game.round > 1 else "offer",
    }


def _rounds(game: Negotiation, rival: str, john: str) -> str:
    turns = f"Whoever rejects a price names the next one, and so it goes on between you and {rival}."
    told = "" if game.hidden else f" You have {game.rounds} {'round' if game.rounds == 1 else 'rounds'} for a deal."
    return f"{turns}{told} Instead of an answer to {rival} you can break off and {john}."


def answer(seat: str) -> str:
    return f'Say {{"decision": "AcceptOffer"}}, {{"decision": "RejectOffer"}} or {{"decision": "{JOHN[seat]}"}}'
