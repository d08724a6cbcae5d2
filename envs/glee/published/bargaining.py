"""Bargaining as it is published: what each seat is told, in our own words, in texts of GLEE's shape.

Told are the money, the order, what waiting costs, the aim (ARIA's: more money than the rival; none with
`reward: money`), and the number of rounds if there are 20 of them at most. How an offer or an answer is put,
without any number, is told when one is due, and what waiting has cost so far when there is an offer to answer.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from envs.glee.published.sizes import amount, share
from envs.text.prompts import Text, places_in

if TYPE_CHECKING:
    from envs.glee.bargaining import Bargaining

_RULES = """\
This is a game for two. You are {{player_name}}. You and {{rival_name}} have ${{money_to_divide}} to share.
Every round begins with a proposal of one of you, who says how to share it and may add a message. The other one \
accepts it, which ends the game, or turns it down and makes the proposal of the next round.
{{aim}}
{{inflation_message}}
{{max_rounds_message}}"""
_OFFER = """\
Say how to share ${{money_to_divide}}{{add_message1}}, as JSON: {"{{player_name_lower}}_gain": what you get, \
"{{rival_name_lower}}_gain": what {{rival_name}} gets{{add_message2}}}"""
ANSWER = 'Say {"decision": "accept"} or {"decision": "reject"}'

_PLACES = places_in(
    "player_name rival_name money_to_divide aim inflation_message max_rounds_message player_1_public_name "
    "player_2_public_name delta_1_loss delta_2_loss player_name_lower rival_name_lower add_message1 add_message2"
)
TEXTS = {
    "rules": Text(_RULES, _PLACES, "rules_prompt.txt", constant="INSTRUCT_BARGAIN_SYSTEM"),
    "offer": Text(_OFFER, _PLACES, "offer_format.txt"),
}


def places(game: Bargaining, seat: str) -> dict[str, str]:
    rival = next(each for each in game.seats if each != seat)
    first, second = (each.title() for each in game.seats)
    return {
        "player_name": seat.title(),
        "rival_name": rival.title(),
        "player_name_lower": seat,
        "rival_name_lower": rival,
        "money_to_divide": amount(game.whole),
        "aim": "" if game.pays_money else f"Your aim is to end up with more money than {rival.title()}.",
        "inflation_message": _inflation(game, seat, rival),
        "max_rounds_message": ""
        if game.hidden
        else f"There are {game.rounds} rounds. If you have not agreed by then, neither of you gets anything.",
        "player_1_public_name": first,
        "player_2_public_name": second,
        "delta_1_loss": str(game.losses[game.seats[0]]) if game.complete or seat == game.seats[0] else "?",
        "delta_2_loss": str(game.losses[game.seats[1]]) if game.complete or seat == game.seats[1] else "?",
        "add_message1": " and what you have to say about it" if game.messages else "",
        "add_message2": f', "message": your words to {rival.title()}' if game.messages else "",
    }


def _inflation(game: Bargaining, seat: str, rival: str) -> str:
    own, other, name = game.losses[seat], game.losses[rival], rival.title()
    takes = f"Mind inflation: each round that passes takes {own} % off the worth of money"
    if not game.complete:
        return f"{takes} for you. How much it takes from {name} you do not know."
    if own == other:
        return f"{takes}." if own else ""
    return f"{takes} for you, and {other} % for {name}."


def update(game: Bargaining, seat: str, number: int) -> str:
    """What waiting has cost by that round."""
    rival = next(each for each in game.seats if each != seat)
    lost = {each: 1 - Fraction(100 - game.losses[each], 100) ** (number - 1) for each in game.seats}
    if not game.complete:
        return f"By inflation what you get is worth {share(lost[seat])} % less than in round 1." if lost[seat] else ""
    if not any(lost.values()):
        return ""
    theirs = f", and what {rival.title()} gets {share(lost[rival])} % less"
    return f"By inflation what you get is worth {share(lost[seat])} % less than in round 1{theirs}."
