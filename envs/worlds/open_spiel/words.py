"""What a seat of a game of OpenSpiel sees, in words, made of its own information state and nothing else.

    kuhn_poker, leduc_poker, liars_dice    own card or dice, what was said so far, the card on the table
    tic_tac_toe, connect_four              the moves since one's own last one, and the board
    nothing is hidden                      the same, with OpenSpiel's own picture of the board
    any other                              OpenSpiel's information state as it is, or what it calls an observation

So two states that a player cannot tell apart show the same words, and two that it can tell apart do not, but for the
suits of Leduc poker, which count for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from envs.worlds.open_spiel.spiel import CHANCE, Opened, Position
from envs.worlds.package import text_of

RANKS = ("jack", "queen", "king")
RULES = {
    "kuhn_poker": (
        "This is Kuhn poker, with {cards} cards, one for each player. Everybody has put 1 chip into the pot. In turn "
        "you Pass or Bet 1 chip; once somebody has bet, Bet means to pay too, and Pass means to give up. Among those "
        "who have paid the most, the highest card takes the pot."
    ),
    "leduc_poker": (
        "This is Leduc poker, with two cards of each of {cards} ranks. Everybody has put 1 chip into the pot and "
        "holds one card. There are two rounds with at most two raises each, of 2 chips in the first and 4 in the "
        "second, before which one card is laid on the table. Fold gives up, Call pays what others have paid, or "
        "nothing if nobody raised, and Raise pays more. A card of the table's rank wins, else the higher card."
    ),
    "liars_dice": (
        "This is liar's dice. You see only your own dice. In turn you bid how many dice of all players show a face: "
        "1-5 says that at least one die shows a 5. A bid has to be higher than the one before it. The highest face "
        "counts as any face. Liar ends the game: it wins if the last bid was too high, and else it loses."
    ),
    "tic_tac_toe": (
        "This is tic-tac-toe. x(0,2) puts an x into the first row and the third column. Three in a row, a column or a "
        "diagonal win."
    ),
    "connect_four": (
        "This is connect four. x3 drops an x into the fourth column; columns are counted from 0. Four in a row, a "
        "column or a diagonal win."
    ),
}
CALLED = re.compile(r"\[(\w[\w ]*): ?([^\]]*)\]")


def briefing(of: Opened, seat: str, show: str, turns: int) -> str:
    rules = RULES[of.short].format(cards=len(of.seats) + 1) if is_worded(of, show) else ""
    rules = rules or f"This is OpenSpiel's game {of.title}. Each time you are shown how it stands for you."
    others = f", of {len(of.seats)} players" if len(of.seats) > 1 else ""
    scored = f"At the end you have earned between {of.worst:g} and {of.best:g}; earn as much as you can."
    return (
        f"You are {seat}{others}. {rules} {scored} In your turn say exactly one of the actions that you can take, by "
        f"its name, and nothing else. The game lasts at most {turns} turns."
    )


def is_worded(of: Opened, show: str) -> bool:
    """Whether the words are this module's own."""
    return show == "words" and of.short in RULES


def shown(position: Position, player: int, show: str) -> str:
    """`show`: "words", or "observation" for OpenSpiel's own text of what is in sight now."""
    of, state = position.of, position.state
    if show == "observation":
        return text_of(state.observation_string(player)).strip()
    if of.short in CARDS:
        return "\n".join(CARDS[of.short](of, state.information_state_string(player), player, position.moves))
    if of.perfect:
        moves = [f"{who}: {name}" for who, name in position.since(f"player_{player}")]
        return "\n".join([*moves, board(of, state, player)])
    if of.game.get_type().provides_information_state_string:
        return text_of(state.information_state_string(player)).strip()
    return text_of(state.observation_string(player)).strip()


def board(of: Opened, state: Any, player: int) -> str:
    kind = of.game.get_type()
    text = state.observation_string(player) if kind.provides_observation_string else str(state)
    text = text_of(text).strip("\n")
    if of.short not in RULES:
        return text
    sign = "xo"[player]
    return "\n".join([f"You play {sign}.", *(" ".join(row) for row in text.split("\n"))])


Moves = list[tuple[str, str]]


def kuhn(of: Opened, known: str, player: int, moves: Moves) -> Iterator[str]:
    card = re.match(r"\d+", known)[0]
    yield f"You are player_{player}. Your card is {rank(int(card), len(of.seats) + 1)}."
    yield from said(moves)


def leduc(of: Opened, known: str, player: int, moves: Moves) -> Iterator[str]:
    called = dict(CALLED.findall(known))
    count, suits = len(of.seats) + 1, 1 if of.game.get_parameters().get("suit_isomorphism") else 2
    yield f"You are player_{player}. Your card is {rank(int(called['Private']) // suits, count)}."
    first = len(called["Round1"].split())
    spoken = [(who, name) for who, name in moves if who != CHANCE]
    yield from said(spoken[:first])
    if "Public" in called:
        yield f"On the table is {rank(int(called['Public']) // suits, count)}."
        yield from said(spoken[first:])
    yield f"The pot holds {called['Pot']} chips."


def dice(of: Opened, known: str, player: int, moves: Moves) -> Iterator[str]:
    rolled = known.partition(" ")[0]
    one_digit = of.game.get_parameters()["dice_sides"] < 10
    yield f"You are player_{player}. You rolled {' '.join(rolled) if one_digit else rolled}."
    yield from said([(who, name) for who, name in moves if who != CHANCE])


CARDS: dict[str, Callable[[Opened, str, int, Moves], Iterator[str]]] = {
    "kuhn_poker": kuhn,
    "leduc_poker": leduc,
    "liars_dice": dice,
}


def said(moves: Moves) -> Iterator[str]:
    spoken = [f"{who}: {name}" for who, name in moves if who != CHANCE]
    if spoken:
        yield f"{', '.join(spoken)}."


def rank(number: int, of: int) -> str:
    return f"the {RANKS[number]}" if of == len(RANKS) else f"number {number + 1} of {of}"
