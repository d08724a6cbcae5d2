"""What is kept of a game: one row, whose turns are the list in its `dialogue`.

    Kept (an episode or a failure, with what the run made of it) -> table_of -> a table of SCHEMA

The columns of GAME that are single values are those that an expression can ask about. Arrays of a turn have one entry
for each token of its utterance; they are empty where no policy spoke, and `credit` where nobody learned from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from envs.episode import Episode, Ticket, TurnTokens
from reward_service.shaper import ShapedRewards


class Column(NamedTuple):
    name: str
    type: pa.DataType
    meaning: str


SEAT = (
    Column("seat", pa.string(), "the seat's name in the game"),
    Column("player", pa.string(), "who sat there"),
    Column("outcome", pa.float64(), "how the game ended for this seat, from 0 to 1"),
    Column("reward", pa.float64(), "the sum of what the game paid it"),
    Column("money", pa.float64(), "what it earned, in games about money"),
    Column("kind", pa.string(), "what `shaped` is: reward or advantage"),
    Column("space", pa.int32(), "the version of the shaper's state that gave `shaped` and `label`"),
)

TURN = (
    Column("seat", pa.string(), "who spoke"),
    Column("player", pa.string(), "who sat there"),
    Column("observation", pa.string(), "what the seat saw that was new"),
    Column("utterance", pa.string(), "what it said"),
    Column("caption", pa.string(), "what happened then, in words"),
    Column("executable", pa.bool_(), "whether the game could execute the utterance"),
    Column("actions", pa.list_(pa.string()), "what the game listed, if it lists actions"),
    Column("chosen", pa.int32(), "which of the actions the policy chose; null where it spoke freely"),
    Column("reward", pa.float64(), "what the game paid for the turn"),
    Column("shaped", pa.float32(), "what the reward shaper made of that"),
    Column(
        "label",
        pa.int32(),
        "the intention of the utterance: its id in the seat's `space`, kept across versions that tell as many apart",
    ),
    Column("finish", pa.string(), "stop, or length where the utterance was cut"),
    Column("observation_ids", pa.list_(pa.int32()), "the tokens that are new before the utterance"),
    Column("utterance_ids", pa.list_(pa.int32()), "the tokens of the utterance"),
    Column(
        "logprobs", pa.list_(pa.float32()), "the log-prob of each, as it was sampled; that of a choice is at its first"
    ),
    Column("versions", pa.list_(pa.int32()), "the version of the weights that made each"),
    Column("credit", pa.list_(pa.float32()), "the advantage that each was trained with"),
    Column("asked", pa.float32(), "seconds from the start of the game to the moment at which the seat was asked"),
    Column("answered", pa.float32(), "seconds to its answer"),
    Column("played", pa.float32(), "seconds to the moment at which the game had gone on"),
)


def _struct(columns: Iterable[Column]) -> pa.DataType:
    return pa.struct([pa.field(column.name, column.type) for column in columns])


GAME = (
    Column("update", pa.int32(), "the update that learned from it, or that was being prepared when it ended"),
    Column("held_out", pa.bool_(), "whether it belongs to an evaluation, not to training"),
    Column("failure", pa.string(), "why it was of no use; null where it was used"),
    Column("why", pa.string(), "what was raised and where, if there is more to say than `failure`"),
    Column("game", pa.string(), "the game's name"),
    Column("number", pa.int64(), "the number of its ticket"),
    Column("attempt", pa.int32(), "how often the ticket had been given out before"),
    Column("seed", pa.int64(), "the seed that fixes the game"),
    Column("seat", pa.string(), "the policy's seat; several have commas between them"),
    Column("outcome", pa.float64(), "how it ended, from 0 to 1: the mean over the policy's seats"),
    Column("reward", pa.float64(), "what the game paid: the mean over the policy's seats"),
    Column("cut_off", pa.bool_(), "whether the horizon or the context ended it"),
    Column("turns", pa.int32(), "how many turns all seats had"),
    Column("tokens", pa.int32(), "how many tokens the policy sampled"),
    Column("oldest", pa.int32(), "the version of the oldest weights that made one of them"),
    Column("newest", pa.int32(), "the version of the newest"),
    Column("staleness", pa.int32(), "updates between the oldest weights and those that learned"),
    Column("surprise", pa.float64(), "minus the log-prob of what the policy sampled: the mean over its tokens"),
    Column("credit", pa.float64(), "the size of the advantages that it was trained with: the mean over its tokens"),
    Column("seconds", pa.float64(), "how long it took"),
    Column("ended", pa.float64(), "when the run heard of its end, in seconds of Unix time"),
    Column("worker", pa.int32(), "the number of the rollout worker that played it"),
    Column("node", pa.string(), "the node of that worker"),
    Column("seats", pa.list_(_struct(SEAT)), "the result of every seat"),
    Column("facts", pa.map_(pa.string(), pa.string()), "what was revealed afterwards, such as the secret"),
    Column("closing", pa.map_(pa.string(), pa.string()), "what each seat would have seen next"),
    Column("dialogue", pa.list_(_struct(TURN)), "the turns, in the order in which they were played"),
)

NOTHING = np.empty(0, np.float32)
OF_TURN = ("seat", "player", "observation", "utterance", "caption", "executable", "actions", "reward")
OF_TOKENS = ("observation_ids", "utterance_ids", "logprobs", "versions")
SCHEMA = pa.schema([pa.field(column.name, column.type) for column in GAME])
PLAIN = tuple(column.name for column in GAME if not pa.types.is_nested(column.type))


@dataclass(slots=True)
class Kept:
    """A game to be kept, and what the run made of it."""

    ticket: Ticket
    update: int
    episode: Episode | None = None  # None: there is none, and `failure` says why
    failure: str | None = None
    why: str | None = None
    held_out: bool = False
    tokens: int = 0  # sampled for an episode that there is not
    ended: float = 0.0
    worker: int | None = None
    node: str | None = None
    shaped: dict[str, ShapedRewards] = field(default_factory=dict)  # by seat
    credit: dict[str, np.ndarray] = field(default_factory=dict)  # by seat: of each token that was trained

    @property
    def trained(self) -> bool:
        return not self.held_out and self.failure is None


def table_of(games: Sequence[Kept]) -> pa.Table:
    dialogues = [[] if game.episode is None else game.episode.turns for game in games]
    turns = pa.StructArray.from_arrays(_turns(games), fields=list(_struct(TURN)))
    rows = [_row(game) for game in games]
    found = {column.name: [row.get(column.name) for row in rows] for column in GAME[:-1]} | _of_all_tokens(games)
    plain = [_array(found[column.name], column.type) for column in GAME[:-1]]
    return pa.table([*plain, pa.ListArray.from_arrays(_offsets(dialogues), turns)], schema=SCHEMA)


def whole(table: pa.Table, columns: Sequence[str] = tuple(SCHEMA.names)) -> pa.Table:
    """With columns that the version which wrote it did not know, as nulls."""
    missing = [name for name in columns if name in SCHEMA.names and name not in table.column_names]
    for name in missing:
        table = table.append_column(SCHEMA.field(name), pa.nulls(len(table), SCHEMA.field(name).type))
    return table.select(list(dict.fromkeys(name.partition(".")[0] for name in columns))) if missing else table


def _row(game: Kept) -> dict[str, Any]:
    ticket, episode = game.ticket, game.episode
    row = {
        "update": game.update,
        "held_out": game.held_out,
        "failure": game.failure,
        "why": game.why,
        "game": ticket.game,
        "number": ticket.number,
        "attempt": ticket.attempt,
        "seed": ticket.seed,
        "seat": ",".join(seat for seat, player in ticket.players if player == "policy"),
        "turns": 0,
        "tokens": game.tokens,
        "ended": game.ended,
        "worker": game.worker,
        "node": game.node,
        "seats": [{"seat": seat, "player": player} for seat, player in ticket.players],
        "facts": [],
        "closing": [],
    }
    return row if episode is None else row | _played(game, episode)


def _played(game: Kept, episode: Episode) -> dict[str, Any]:
    seats = [_seat(episode, seat, player, game.shaped.get(seat)) for seat, player in game.ticket.players]
    mine = [each for each in seats if each["player"] == "policy"] or seats
    return {
        "outcome": _mean([each["outcome"] for each in mine]),
        "reward": _mean([each["reward"] for each in mine]),
        "cut_off": not episode.terminated,
        "turns": len(episode.turns),
        "tokens": sum(len(turn.tokens.utterance_ids) for turn in episode.turns if turn.tokens is not None),
        "seconds": episode.seconds,
        "seats": seats,
        "facts": list(episode.facts.items()),
        "closing": list(episode.closing.items()),
    }


def _of_all_tokens(games: Sequence[Kept]) -> dict[str, list[Any]]:
    """What is a figure of all tokens of a game, for all games at once."""
    spoken = [
        [] if game.episode is None else [turn.tokens for turn in game.episode.turns if turn.tokens is not None]
        for game in games
    ]
    versions = [[tokens.versions for tokens in each] for each in spoken]
    oldest, newest = _reduced(np.minimum, versions), _reduced(np.maximum, versions)
    stale = [
        game.update - 1 - int(found) if game.trained and found is not None else None
        for game, found in zip(games, oldest, strict=True)
    ]
    logprobs = [[-_decided(tokens) for tokens in each] for each in spoken]
    credit = [[np.abs(each) for each in game.credit.values()] for game in games]
    means = {"surprise": _reduced(np.add, logprobs, mean=True), "credit": _reduced(np.add, credit, mean=True)}
    return {"oldest": oldest, "newest": newest, "staleness": stale} | means


def _reduced(by: np.ufunc, games: Sequence[Sequence[np.ndarray]], mean: bool = False) -> list[float | None]:
    """Of the arrays of each game one number; None where they are empty."""
    sizes = np.array([sum(map(len, arrays)) for arrays in games], np.int64)
    flat = np.concatenate([NOTHING, *chain.from_iterable(games)], dtype=np.float64)
    some, found = sizes > 0, np.full(len(games), None, object)
    if some.any():
        values = by.reduceat(flat, (np.cumsum(sizes) - sizes)[some])
        found[some] = (values / sizes[some] if mean else values).tolist()
    return found.tolist()


def _seat(episode: Episode, seat: str, player: str, shaped: ShapedRewards | None) -> dict[str, Any]:
    return {
        "seat": seat,
        "player": player,
        "outcome": episode.outcome.get(seat),
        "reward": sum(turn.reward for turn in episode.turns if turn.seat == seat),
        "money": episode.money.get(seat),
        "kind": None if shaped is None else shaped.kind,
        "space": None if shaped is None else shaped.version,
    }


def _turns(games: Sequence[Kept]) -> list[pa.Array]:
    """The columns of all their turns, one after another."""
    played = [game for game in games if game.episode is not None]
    turns = [turn for game in played for turn in game.episode.turns]
    tokens = [turn.tokens for turn in turns]
    given = [each for game in played for each in _given(game)]
    times = np.array([turn.times for turn in turns], np.float32).reshape(-1, 3)
    found = {name: [getattr(turn, name) for turn in turns] for name in OF_TURN}
    found |= {name: [NOTHING if each is None else getattr(each, name) for each in tokens] for name in OF_TOKENS}
    found |= {name: [each[place] for each in given] for place, name in enumerate(("shaped", "label", "credit"))}
    found |= {name: times[:, place] for place, name in enumerate(("asked", "answered", "played"))}
    found["chosen"] = [None if each is None or each.choice is None else each.choice.chosen for each in tokens]
    found["finish"] = [None if each is None else each.finish for each in tokens]
    return [_array(found[column.name], column.type) for column in TURN]


def _given(game: Kept) -> Iterator[tuple[float | None, int | None, np.ndarray]]:
    """What each turn was given: by the shaper, as a label, and for each token of its utterance."""
    shaped = {seat: zip(each.rewards.tolist(), _labels(each), strict=True) for seat, each in game.shaped.items()}
    used = dict.fromkeys(game.credit, 0)
    for turn in game.episode.turns:
        value, label = next(shaped[turn.seat]) if turn.seat in shaped else (None, None)
        credit = NOTHING
        if turn.tokens is not None and turn.seat in used:
            said, decided, start = len(turn.tokens.utterance_ids), len(_decided(turn.tokens)), used[turn.seat]
            used[turn.seat] += decided
            credit = game.credit[turn.seat][start : start + decided]
            if decided < said:
                credit = np.concatenate([credit, np.zeros(said - decided, np.float32)])
        yield value, label, credit


def _labels(given: ShapedRewards) -> list[int | None]:
    return [None] * len(given.rewards) if given.labels is None else given.labels.tolist()


def _decided(tokens: TurnTokens) -> np.ndarray:
    """Log-probs of the tokens that are trained: of a choice the first alone."""
    return tokens.logprobs if tokens.choice is None else tokens.logprobs[:1]


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type) and not pa.types.is_string(kind.value_type):
        of_kind = kind.value_type.to_pandas_dtype()
        flat = np.concatenate([NOTHING, *values], dtype=of_kind, casting="unsafe")
        return pa.ListArray.from_arrays(_offsets(values), pa.array(flat, kind.value_type))
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # half of a surrogate pair, which no file holds
        return pa.array(_writable(values), kind)


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [_writable(each) for each in value]
    return {key: _writable(each) for key, each in value.items()} if isinstance(value, dict) else value


def _offsets(lists: Sequence[Sequence]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum([len(each) for each in lists])]).astype(np.int32))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
