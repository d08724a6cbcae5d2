"""The published shapes of recorded games, read and written line by line.

    two players   player_1_name, player_2_name, product_price_order, seller_value, buyer_value,
                  player_1_system_prompt, player_2_system_prompt, alice_reward, bob_reward, alice_gain,
                  bob_gain, alice_actions[], bob_actions[], alice_ids[], bob_ids[]
    one player    actions[], obs[], next_observations[], reward

`alice_ids` and `bob_ids` are the turns' places in the whole game. `next_observations[i]`, or `obs[i]` where
that is missing, is the world's answer to `actions[i]`; the last answer may be missing. Both kinds may bring
embeddings of what was said. Alice and Bob are the first and the second seat of the game that is played.

What is collected here has further fields, which nobody else needs: what each seat was shown and the token
ids of its turns (`alice_seen`, `alice_tokens`, ...), the name of the tokenizer, and how the game was seeded.
Fields that are not known here are carried along as they are.

One record is in memory at a time. Whatever is wrong is one line: file, line, field.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.errors import ParleyError
from envs.episode import Episode, Ticket, Turn

SHOWN = 60  # characters of a wrong value
PLAYERS = ("alice", "bob")
EMBEDDINGS = {  # of the actions of alice, of bob, and of the only player; of what the world answers
    "alice": ("alice_action_embeddings", "alice_actions_embeddings", "alice_embeddings"),
    "bob": ("bob_action_embeddings", "bob_actions_embeddings", "bob_embeddings"),
    "actions": ("action_embeddings", "actions_embeddings", "embeddings"),
    "answers": ("obs_embeddings", "observation_embeddings", "next_observation_embeddings"),
}
EMBEDDING_FIELDS = frozenset(name for names in EMBEDDINGS.values() for name in names)


# Token ids of a turn, where the file has them: what is new before the action, and the action.
TurnIds = list[list[int]] | None


class FileRefused(ParleyError):
    """A file of games that is not what it should be: file, line and field."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Sides:
    """What a record does not say: the game, its seats, and what a lone player is told."""

    game: str
    seats: tuple[str, ...]
    briefing: str = ""  # of a lone player, where the record has none
    opening: str = ""


@dataclass(slots=True)
class Record:
    number: int  # line, from 1
    raw: dict[str, Any]
    episode: Episode
    briefings: dict[str, str]  # by seat
    embeddings: dict[str, list] | None  # text -> vector, where the record brings them
    tokens: dict[str, list[TurnIds]]  # of each turn, by seat
    closing: str | None = None  # what a lone player heard after its last turn


def lines_of(path: Path, seen: Callable[[int], None] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and JSON objects. `seen` is told how many bytes were read."""
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _object(path, number, line)
                if seen is not None:
                    seen(len(line))
    except OSError as error:
        raise FileRefused(f"{path} cannot be read: {error.strerror}") from error


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        cut = "" if line.endswith(b"\n") else "; the file is cut off in it"
        raise FileRefused(f"{path}, line {number}: not JSON ({why_not_json(error)}){cut}") from None
    if not isinstance(value, dict):
        raise FileRefused(f"{path}, line {number}: should be a JSON object, not {type(value).__name__}")
    return value


def why_not_json(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    if isinstance(error, RecursionError):
        return "brackets inside brackets, too many of them"
    return "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "a number of too many digits"


def is_number(value: Any) -> bool:
    """One that a float holds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_text(value: Any) -> bool:
    """Without halves of surrogate pairs, which JSON can write and no file or tokenizer takes."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value))


def shown(value: Any) -> str:
    """In a message of one line."""
    if isinstance(value, int) and not -(10**40) < value < 10**40:
        return "a number of more than 40 digits"
    text = ascii(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def are_token_ids(part: Any) -> bool:
    return isinstance(part, list) and all(type(token) is int and 0 <= token < 2**31 for token in part)


def reward_scale_of(path: Path) -> str:
    """By the first reward of a lone player that is not 0: below it, -1 is lost and 0 won."""
    rewarded = False
    for _, raw in lines_of(path):
        reward = raw.get("reward")
        rewarded |= "reward" in raw
        if isinstance(reward, int | float) and reward:
            return "minus_one" if reward < 0 else "outcome"
        if "alice_actions" in raw or "bob_actions" in raw:
            return "outcome"
    if not rewarded:
        return "outcome"  # it is read next, which says what it lacks
    raise FileRefused(
        f"{path}: every reward is 0, which may be won or lost: give offline.reward_scale=minus_one (0 is won) or "
        "offline.reward_scale=outcome (0 is lost)"
    )


class GameFileReader:
    """Reads one file; all its records have the same shape. `scale` of a lone player's reward:
    "minus_one" or "outcome"."""

    def __init__(self, path: Path, sides: Sides, scale: str = "outcome"):
        self.path, self.sides, self.scale = path, sides, scale
        self.players = tuple((seat, "policy") for seat in sides.seats)  # all of them are read
        self.two = len(sides.seats) == 2
        self.number = 0

    def records(self, seen: Callable[[int], None] | None = None) -> Iterator[Record]:
        for number, raw in lines_of(self.path, seen):
            yield self.read(number, raw)
        if not self.number:
            raise FileRefused(f"{self.path} holds no game")

    def read(self, number: int, raw: dict[str, Any]) -> Record:
        self.number = number
        two = "alice_actions" in raw or "bob_actions" in raw
        if not two and "actions" not in raw:
            raise self.wrong("alice_actions", "is missing (and so is actions, of a game for one)")
        if two != self.two:
            there, wanted = ("two players", "one") if two else ("one player", "two")
            raise self.wrong(
                "alice_actions" if two else "actions", f"a game for {there}, but {self.sides.game} has {wanted}"
            )
        return self._two(raw) if two else self._one(raw)

    def wrong(self, field: str, what: str) -> FileRefused:
        return FileRefused(f"{self.path}, line {self.number}: {field}: {what}")

    # two players

    def _two(self, raw: dict[str, Any]) -> Record:
        placed: list[tuple[int, str, str, str | None]] = []
        tokens: dict[str, list[TurnIds]] = {}
        embeddings: dict[str, list] | None = {}
        for who in PLAYERS:
            said = self._texts(raw, f"{who}_actions")
            places = self._places(raw, f"{who}_ids", len(said))
            seen = self._texts(raw, f"{who}_seen", len(said)) if f"{who}_seen" in raw else [None] * len(said)
            tokens[self.sides.seats[PLAYERS.index(who)]] = self._tokens(raw, f"{who}_tokens", len(said))
            placed += zip(places, [who] * len(said), said, seen, strict=True)
            embeddings = self._embedded(raw, EMBEDDINGS[who], said, embeddings)
        placed.sort(key=lambda turn: turn[0])
        for (place, *_), (following, who, *_) in zip(placed, placed[1:], strict=False):
            if place == following:
                raise self.wrong(f"{who}_ids", f"turn {place} is there twice")
        if not placed:
            raise self.wrong("alice_actions", "nobody says anything")
        seat_of = dict(zip(PLAYERS, self.sides.seats, strict=True))
        news: dict[str, list[str]] = {who: [] for who in PLAYERS}  # what the other one said since
        turns = []
        for _, who, said, seen in placed:
            shown = "\n".join(news[who]) if seen is None else seen
            turns.append(Turn(seat_of[who], "policy", shown, said))
            news[who] = []
            news["bob" if who == "alice" else "alice"].append(said)
        outcome = {seat_of[who]: self._share(raw, f"{who}_reward") for who in PLAYERS}
        prompts = {seat_of[who]: f"player_{n}_system_prompt" for n, who in enumerate(PLAYERS, 1)}
        briefings = {seat: self._text(raw, field).strip() for seat, field in prompts.items()}
        return Record(self.number, raw, self._episode(raw, turns, outcome), briefings, embeddings, tokens)

    def _places(self, raw: dict[str, Any], field: str, count: int) -> list[int]:
        """Turn numbers; ARIA's tools also write them as text that ends in _N."""
        found = []
        for index, value in enumerate(self._list(raw, field, count)):
            number = value.rpartition("_")[2] if isinstance(value, str) else value
            if isinstance(number, str) and number.isascii() and number.isdigit():
                number = int(number)
            if isinstance(number, bool) or not isinstance(number, int):
                raise self.wrong(f"{field}[{index}]", f"should be the number of a turn, not {shown(value)}")
            if found and number <= found[-1]:
                raise self.wrong(f"{field}[{index}]", f"turn {number} comes after turn {found[-1]}")
            found.append(number)
        return found

    # one player

    def _one(self, raw: dict[str, Any]) -> Record:
        (seat,) = self.sides.seats
        said = self._texts(raw, "actions")
        if not said:
            raise self.wrong("actions", "nothing is said")
        field = "next_observations" if "next_observations" in raw else "obs"
        answers = self._texts(raw, field)
        if not len(said) - 1 <= len(answers) <= len(said):
            raise self.wrong(field, f"has {len(answers)} entries for {len(said)} actions")
        shown = [self.sides.opening, *answers[: len(said) - 1]]
        if "seen" in raw:
            shown = self._texts(raw, "seen", len(said))
        tokens = {seat: self._tokens(raw, "tokens", len(said))}
        turns = [Turn(seat, "policy", saw, utterance) for saw, utterance in zip(shown, said, strict=True)]
        embeddings = self._embedded(raw, EMBEDDINGS["actions"], said, {})
        if embeddings is not None and any(name in raw for name in EMBEDDINGS["answers"]):
            embeddings = self._embedded(raw, EMBEDDINGS["answers"], answers, embeddings)
        briefing = self._text(raw, "system_prompt").strip() if "system_prompt" in raw else self.sides.briefing
        episode = self._episode(raw, turns, {seat: self._result(raw)})
        closing = answers[-1] if len(answers) == len(said) else None
        return Record(self.number, raw, episode, {seat: briefing}, embeddings, tokens, closing)

    def _result(self, raw: dict[str, Any]) -> float:
        """The outcome in [0, 1]."""
        reward, low = self._number(raw, "reward"), -1 if self.scale == "minus_one" else 0
        if not low <= reward <= low + 1:
            raise self.wrong("reward", f"should be from {low} (lost) to {low + 1} (won) in this file, not {reward:g}")
        return reward - low

    # fields

    def _episode(self, raw: dict[str, Any], turns: list[Turn], outcome: dict[str, float]) -> Episode:
        seed = raw.get("seed", 0)
        if type(seed) is not int or not abs(seed) < 2**63:
            raise self.wrong("seed", f"should be a whole number of at most 63 bits, not {shown(seed)}")
        ticket = Ticket(str(self.path), self.sides.game, self.number, seed, self.players)
        return Episode(ticket, turns, outcome, bool(raw.get("terminated", True)))

    def _list(self, raw: dict[str, Any], field: str, count: int | None = None) -> list:
        if field not in raw:
            raise self.wrong(field, "is missing")
        value = raw[field]
        if not isinstance(value, list):
            raise self.wrong(field, f"should be a list, not {type(value).__name__}")
        if count is not None and len(value) != count:
            raise self.wrong(field, f"has {len(value)} entries for {count} actions")
        return value

    def _texts(self, raw: dict[str, Any], field: str, count: int | None = None) -> list[str]:
        values = self._list(raw, field, count)
        for index, value in enumerate(values):
            if not is_text(value):
                raise self.wrong(f"{field}[{index}]", f"should be text, not {shown(value)}")
        return values

    def _text(self, raw: dict[str, Any], field: str) -> str:
        if not is_text(raw.get(field)):
            raise self.wrong(field, "is missing" if field not in raw else f"should be text, not {shown(raw[field])}")
        return raw[field]

    def _number(self, raw: dict[str, Any], field: str) -> float:
        value = raw.get(field)
        if not is_number(value):
            raise self.wrong(field, "is missing" if field not in raw else f"should be a number, not {shown(value)}")
        return float(value)

    def _share(self, raw: dict[str, Any], field: str) -> float:
        value = self._number(raw, field)
        if not 0 <= value <= 1:
            raise self.wrong(field, f"should be from 0 (lost) to 1 (won), not {value:g}")
        return value

    def _tokens(self, raw: dict[str, Any], field: str, count: int) -> list[TurnIds]:
        if field not in raw:
            return [None] * count
        found = self._list(raw, field, count)
        for index, entry in enumerate(found):
            whole = isinstance(entry, list) and len(entry) == 2 and all(are_token_ids(part) for part in entry)
            if entry is not None and not whole:
                raise self.wrong(f"{field}[{index}]", "should be two lists of token ids")
        return found

    def _embedded(
        self, raw: dict[str, Any], names: Sequence[str], texts: Sequence[str], found: dict[str, list] | None
    ) -> dict[str, list] | None:
        """`found` with the vectors of these texts; None where there are none. What lacks one is refused
        where it is needed, because whoever says nothing needs none."""
        field = next((name for name in names if name in raw), None)
        if found is None or (field is None and texts):
            return None
        if field is not None:
            vectors = self._list(raw, field)
            if not len(texts) <= len(vectors):
                raise self.wrong(field, f"has {len(vectors)} entries for {len(texts)} utterances")
            found |= dict(zip(texts, vectors, strict=False))
        return found
