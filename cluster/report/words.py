"""The words of an utterance, token by token, each with the advantage that it was trained with.

The tokenizer is the one in the run's folder; a run without a checkpoint has none yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from cluster.episodes.reader import Episodes
from cluster.errors import RunFolderError
from cluster.record.checkpoints import all_checkpoints

ALIKE = 1e-4  # of the largest: advantages of an utterance that differ by less are one
AT_ONCE = 64  # games in one question to the store, whose expressions have a limit
Words = list[tuple[str, float]]


def tokenizer_of(run: Path) -> Tokenizer | None:
    saved = (each / "policy" / "tokenizer.json" for each in reversed(all_checkpoints(run / "checkpoints")))
    found = next((path for path in (run / "policy" / "tokenizer.json", *saved) if path.is_file()), None)
    try:
        return None if found is None else _read(str(found), found.stat().st_mtime_ns)
    except Exception as error:  # the bare class is what tokenizers raises
        raise RunFolderError(f"cannot read {found}: {str(error)[:80]}") from error


@lru_cache(maxsize=4)
def _read(path: str, _changed: int) -> Tokenizer:
    return Tokenizer.from_file(path)


def pieces(tokenizer: Tokenizer, ids: Iterable[int]) -> list[str]:
    """The text of each token. A character of several tokens belongs to the last of them."""
    stream = DecodeStream(skip_special_tokens=False)
    return [stream.step(tokenizer, each) or "" for each in ids]


def words(turn: Mapping[str, Any], tokenizer: Tokenizer) -> Words | None:
    """None where all tokens of the turn have one advantage, or none; and of a choice, which is one decision."""
    credit = turn["credit"]
    if turn["chosen"] is not None or not credit or max(credit) - min(credit) <= ALIKE * max(map(abs, credit)):
        return None
    return list(zip(pieces(tokenizer, turn["utterance_ids"]), credit, strict=True))


def words_of(run: Path, games: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Sequence[Words | None]]:
    """Of each of these games, by update and ticket number, its turns' words; without those that are not kept."""
    tokenizer, found = tokenizer_of(run), {}
    if tokenizer is None or not (run / "episodes").is_dir():
        return found
    numbers: dict[int, list[int]] = {}
    for update, number in games:
        numbers.setdefault(update, []).append(number)
    for update, wanted in numbers.items():
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            chosen = f"update == {update} and failure == None and not held_out and number in {some}"
            for game in Episodes(run / "episodes", chosen):
                found[update, game["number"]] = [words(turn, tokenizer) for turn in game["dialogue"]]
    return found
