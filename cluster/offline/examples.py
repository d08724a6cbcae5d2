"""A training set as token sequences: one for each seat's game, in the form in which it is played.

    training.json -> rows of one game of one seat -> ids, and of each turn how many were seen, how many said,
                                                     and what the turn was worth

A row without `seen` or `tokens`, as other tools write it, is a game of one turn whose observation is the
user's message. Text becomes ids by the tokenizer's own chat template, through `envs.text.dialogue`, as in play:
the utterance follows its prompt at once and ends with what the template closes an answer with. Token ids
that were played are taken as they are, if this tokenizer is the one that made them.

Folder: ids.npy; seen.npy, said.npy, worth.npy of each turn; turns.npy, tokens.npy: where each game begins.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cluster.offline.files import FileRefused, are_token_ids, is_number, is_text, shown, why_not_json
from envs.text.dialogue import Dialogue
from reward_service.offline.columns import Column, open_column

PIECE, LARGEST = 1 << 20, 1 << 26  # characters read at a time, and of the largest entry
DECODER, BETWEEN = json.JSONDecoder(), re.compile(r"[\s,]*")
COLUMNS = {"ids": "<i4", "seen": "<i4", "said": "<i4", "worth": "<f8", "turns": "<i8", "tokens": "<i8"}


def rows_of(path: Path, seen: Callable[[int], None] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The entries of a JSON list, from 1, however it is laid out; one is in memory at a time."""
    pieces = _pieces(path, seen)
    text, place, number = next(pieces).lstrip(), 1, 0
    if not text.startswith("["):
        raise FileRefused(f"{path}: should be a JSON list of entries")
    while True:
        found = BETWEEN.match(text, place).end()
        if text.startswith("]", found):
            return
        try:
            row, place = DECODER.raw_decode(text, found)
        except json.JSONDecodeError as error:
            unfinished = error.pos >= len(text) - 8 or error.msg.startswith("Unterminated string")
            piece = next(pieces) if unfinished and len(text) - place < LARGEST else ""
            if not piece:
                what = "the file is cut off in it" if unfinished else f"not JSON ({error.msg})"
                raise FileRefused(f"{path}, entry {number + 1}: {what}") from None
            text, place = text[place:] + piece, 0
            continue
        except (ValueError, RecursionError) as error:
            raise FileRefused(f"{path}, entry {number + 1}: not JSON ({why_not_json(error)})") from None
        number += 1
        yield number, _checked(path, number, row)


def _pieces(path: Path, seen: Callable[[int], None] | None) -> Iterator[str]:
    """Of a text file; at its end nothing, again and again."""
    with open(path, encoding="utf-8") as file:
        while True:
            try:
                piece = file.read(PIECE)
            except UnicodeDecodeError:
                raise FileRefused(f"{path} is not UTF-8 text") from None
            if seen is not None:
                seen(len(piece))
            yield piece


def _checked(path: Path, number: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise FileRefused(f"{path}, entry {number}: should be a JSON object, not {type(row).__name__}")
    for field, (fits, name) in FIELDS.items():
        if field not in row and field in OPTIONAL:
            continue
        if field not in row or not fits(row[field]):
            what = "is missing" if field not in row else f"should be {name}, not {shown(row[field])}"
            raise FileRefused(f"{path}, entry {number}: {field}: {what}")
    return row


def _two_lists(tokens: Any) -> bool:
    return isinstance(tokens, list) and len(tokens) == 2 and all(map(are_token_ids, tokens))


FIELDS = {
    "observation": (is_text, "text"),
    "action": (is_text, "text"),
    "reward": (is_number, "a number"),
    "seen": (is_text, "text"),
    "briefing": (is_text, "text"),
    "tokens": (_two_lists, "two lists of token ids"),
}
OPTIONAL = {"seen", "briefing", "tokens"}


def games_of(rows: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """The turns of one seat's game at a time. A row whose game is not there from its first turn on
    stands for itself: all that was seen is in its observation."""
    game: list[dict[str, Any]] = []
    for _, row in rows:
        turn, of = row.get("turn") if "seen" in row else None, (row.get("game"), row.get("seat"))
        if game and not (turn == len(game) and of == (game[0].get("game"), game[0].get("seat"))):
            yield game
            game = []
        if turn == len(game):
            game.append(row)
        else:
            yield [{name: row[name] for name in ("observation", "action", "reward")}]
    if game:
        yield game


@dataclass(slots=True)
class TokenTurn:
    """A turn as token ids: what was new before the action, and the action."""

    seen: Sequence[int]
    said: Sequence[int]
    worth: float


class Speech:
    """Rows as token ids of one tokenizer."""

    def __init__(self, tokenizer: Any, name: str):
        self.tokenizer, self.name = tokenizer, name
        self.dialogue = Dialogue(tokenizer)

    def game(self, rows: Sequence[dict[str, Any]]) -> list[TokenTurn]:
        spoken: list[TokenTurn] = []
        for row in rows:
            if "tokens" in row and row.get("tokenizer") == self.name:
                seen, said = row["tokens"]
            else:
                shown = row.get("seen", row["observation"])
                if spoken:
                    seen = self.dialogue.reply(shown, spoken[-1].said[-1])
                else:
                    seen = self.dialogue.opening(row.get("briefing", ""), shown)
                said = self.dialogue.utterance(row["action"].strip())
            spoken.append(TokenTurn(seen, said, row["reward"]))
        return spoken


def write_sequences(
    folder: Path, path: Path, speech: Speech, context: int, seen: Callable[[int], None] | None = None
) -> dict[str, int]:
    """Counts: games, turns, tokens; turns beyond the context; tokens that the tokenizer has no word for."""
    folder.mkdir(parents=True)
    counts: Counter[str] = Counter(games=0, turns=0, tokens=0, too_long=0, unknown=0)
    unknown = speech.tokenizer.unk_token_id
    with ExitStack() as stack:
        columns = {name: stack.enter_context(Column(folder / f"{name}.npy", dtype)) for name, dtype in COLUMNS.items()}
        for rows in games_of(rows_of(path, seen)):
            spoken = fitting(speech.game(rows), context)
            counts["too_long"] += len(rows) - len(spoken)
            if not spoken:
                continue
            ids = np.concatenate([np.asarray(part, np.int32) for turn in spoken for part in (turn.seen, turn.said)])
            columns["turns"].add([columns["seen"].rows])
            columns["tokens"].add([columns["ids"].rows])
            columns["ids"].add(ids)
            columns["seen"].add([len(turn.seen) for turn in spoken])
            columns["said"].add([len(turn.said) for turn in spoken])
            columns["worth"].add([turn.worth for turn in spoken])
            counts["unknown"] += 0 if unknown is None else int((ids == unknown).sum())
            counts.update(games=1, turns=len(spoken), tokens=len(ids))
    return dict(counts)


def fitting(spoken: list[TokenTurn], context: int) -> list[TokenTurn]:
    """The turns up to the first that ends beyond the context."""
    length = 0
    for number, turn in enumerate(spoken):
        length += len(turn.seen) + len(turn.said)
        if length > context:
            return spoken[:number]
    return spoken


class Sequences:
    """What `write_sequences` wrote, mapped."""

    def __init__(self, folder: Path):
        self.columns = {name: open_column(folder / f"{name}.npy") for name in COLUMNS}
        turns, tokens = self.columns["turns"], self.columns["tokens"]
        self.first_turn = np.append(turns, len(self.columns["seen"]))
        self.first_token = np.append(tokens, len(self.columns["ids"]))

    def __len__(self) -> int:
        return len(self.first_turn) - 1

    @property
    def turns(self) -> np.ndarray:
        """int64 [games]: how many each has."""
        return np.diff(self.first_turn)

    def game(self, index: int) -> list[TokenTurn]:
        ids = np.array(self.columns["ids"][self.first_token[index] : self.first_token[index + 1]])
        rows = slice(self.first_turn[index], self.first_turn[index + 1])
        sizes = np.stack([self.columns["seen"][rows], self.columns["said"][rows]], axis=1).ravel()
        parts = np.split(ids, np.cumsum(sizes)[:-1])
        worth = self.columns["worth"][rows].tolist()
        return [TokenTurn(*parts[2 * turn : 2 * turn + 2], worth[turn]) for turn in range(len(worth))]
