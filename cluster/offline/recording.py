"""Games that were played here, in the published shapes, and what is made of them: labels and training rows.

A row of the training set is {observation, action, reward}: everything the seat had seen as one text, what
it said, and what that was worth. Rows of one seat's game follow each other and say so (`game`, `seat`, `turn`);
they also hold what was new before the action, as text (`seen`) or as the token ids that were played
(`tokens`), so that a game is trained on as one sequence, in exactly the form in which it is played.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cluster.offline.files import EMBEDDING_FIELDS, PLAYERS, Record
from envs.episode import Episode, Turn
from envs.game import Game

# What GLEE calls it: price order, and what sets the two players apart.
STAKES = {
    "bargaining": ("losses", lambda loss, whole: (100 - loss) / 100),
    "negotiation": ("values", lambda v, whole: v / whole),
}


def tokenizer_name(tokenizer: Any) -> str:
    """16 hex digits of the vocabulary and the template: equal for tokenizers that write the same ids."""
    parts = [sorted(tokenizer.get_vocab().items()), getattr(tokenizer, "chat_template", None)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def record_of(episode: Episode, game: Game, tokenizer: str) -> dict[str, Any]:
    """`game` is any with the options of the one that was played; it is set up again from its seed."""
    game.reset(episode.ticket.seed)
    common = {
        "game": episode.ticket.game,
        "seed": episode.ticket.seed,
        "players": dict(episode.ticket.players),
        "terminated": episode.terminated,
        "facts": episode.facts,
        "tokenizer": tokenizer,
    }
    return (_two(episode, game) if len(game.seats) == 2 else _one(episode, game)) | common


def _two(episode: Episode, game: Game) -> dict[str, Any]:
    names = dict(zip(PLAYERS, game.seats, strict=True))
    record: dict[str, Any] = {
        f"player_{number}_name": seat.title() for number, seat in enumerate(game.seats, 1)
    } | _stakes(game)
    record |= {f"player_{number}_system_prompt": game.briefing(seat) for number, seat in enumerate(game.seats, 1)}
    record |= {f"{who}_reward": episode.outcome[seat] for who, seat in names.items()}
    record |= {f"{who}_gain": episode.money.get(seat, 0.0) for who, seat in names.items()}
    for who, seat in names.items():
        record[f"{who}_actions"] = [turn.utterance for turn in episode.turns_of(seat)]
    for who, seat in names.items():
        record[f"{who}_ids"] = [place for place, turn in enumerate(episode.turns) if turn.seat == seat]
    for who, seat in names.items():
        turns = episode.turns_of(seat)
        record[f"{who}_seen"] = [turn.observation for turn in turns]
        record[f"{who}_tokens"] = [_token_ids(turn) for turn in turns]
    return record


def _stakes(game: Game) -> dict[str, Any]:
    if game.name not in STAKES:
        return {}
    field, share = STAKES[game.name]
    seller, buyer = (share(getattr(game, field)[seat], game.whole) for seat in game.seats)
    return {"product_price_order": game.whole // 100, "seller_value": seller, "buyer_value": buyer}


def _one(episode: Episode, game: Game) -> dict[str, Any]:
    (seat,) = game.seats
    turns = episode.turns_of(seat)
    answers = [turn.observation for turn in turns[1:]]
    answers += [episode.closing[seat]] if seat in episode.closing else []
    return {
        "actions": [turn.utterance for turn in turns],
        "obs": answers,
        "next_observations": answers,
        "reward": episode.outcome[seat] - 1.0,
        "system_prompt": game.briefing(seat),
        "seen": [turn.observation for turn in turns],
        "tokens": [_token_ids(turn) for turn in turns],
    }


def _token_ids(turn: Turn) -> list[list[int]] | None:
    if turn.tokens is None:
        return None
    return [turn.tokens.observation_ids.tolist(), turn.tokens.utterance_ids.tolist()]


class SeatLabels(NamedTuple):
    """Intentions of one seat's game."""

    said: Sequence[int]
    heard: Sequence[int]  # before each turn
    closing: int  # heard after the last one; NOTHING if the file does not say


def labelled(record: Record, labels: dict[str, SeatLabels]) -> dict[str, Any]:
    """The record with the intentions of what each seat said and heard, and without embeddings."""
    kept = {name: value for name, value in record.raw.items() if name not in EMBEDDING_FIELDS}
    seats = list(dict(record.episode.ticket.players))
    if len(seats) == 2:
        return kept | {
            f"{who}_label": list(labels[seat].said) if seat in labels else []
            for who, seat in zip(PLAYERS, seats, strict=True)
        }
    said, heard, closing = labels[seats[0]]
    answers = [*heard[1:], closing] if record.closing is not None else heard[1:]
    return kept | {"action_label": list(said), "observation_label": list(answers)}


def training_rows(record: Record, worth: dict[str, Sequence[float]]) -> Iterator[dict[str, Any]]:
    """`worth` of each turn, by the seats that are trained."""
    tokenizer = record.raw.get("tokenizer")
    for seat, values in worth.items():
        history, turns = _history(record, seat), record.episode.turns_of(seat)
        for number, (turn, before, value) in enumerate(zip(turns, history, values, strict=True)):
            row = {"observation": before, "action": turn.utterance, "reward": float(value)}
            row |= {"game": record.number, "seat": seat, "turn": number, "seen": turn.observation}
            if not number:
                row["briefing"] = record.briefings[seat]
            if (ids := record.tokens[seat][number]) is not None and tokenizer:
                row |= {"tokens": ids, "tokenizer": tokenizer}
            yield row


def _history(record: Record, seat: str) -> Iterator[str]:
    """Before each turn of the seat: the rules, then all that was said, line by line."""
    episode, said = record.episode, [record.briefings[seat], ""]
    alone = len(episode.ticket.players) == 1
    for turn in episode.turns:
        if alone:
            said.append(f"Game: {turn.observation}")
        if turn.seat == seat:
            yield "\n".join(said).strip()
        said.append(f"{'You' if alone else turn.seat.title()}: {turn.utterance}")
