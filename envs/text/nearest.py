"""The nearest of many questions of which it is known what they ask.

    asked.jsonl.xz    {"f": what is asked, "q": [questions that a yes to it answers]}, a line each

Each question is a point (`envs.text.embedding`). A sentence is as near to what is asked as to the two nearest of its
questions. Points are made once and kept in $PARLEY_CACHE/questions, or else in ~/.cache/parley/questions.
"""

from __future__ import annotations

import lzma
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ValidationError

from envs.cache import cache_folder
from envs.text.embedding import LocalEncoder, embed

_DEAF = (
    "not no never cannot cant isnt doesnt dont arent wont hasnt havent wasnt werent didnt nor neither without except "
    "none nothing unable lack lacks lacking outside unlike instead prohibited forbidden banned illegal impossible "
    "avoid fail fails than false untrue wrong free devoid far anything absent missing rare rarely seldom unheard few "
    "fewer hardly scarcely barely stopped ceased abolished closed former formerly going repel repels two three four "
    "five six seven eight nine ten twice exactly"
)
DEAF = frozenset(_DEAF.split())  # what turns a sentence round or counts, and does not move its point
CHOICE = re.compile(r"\bor (?:in|im|un|ir|non|dis)\w")  # "organic or inorganic?" is not answered with yes or no
CLEAR = 0.05  # what is less than this behind the nearest is as near
FIRST, SECOND = 0.6, 0.4  # weights of the two nearest questions
FORMAT = 1


class Nearest:
    def __init__(self, asked: Iterable[tuple[str, str]], least: float):
        """`asked`: pairs of what is asked and a question. `least`: the likeness below which nothing is near."""
        self.least = least
        known = list(dict.fromkeys(asked))
        self.asked = list(dict.fromkeys(what for what, _ in known))
        place = {what: number for number, what in enumerate(self.asked)}
        self.asked_by = np.array([place[what] for what, _ in known])
        self.points = _kept([question for _, question in known])

    def to(self, sentence: str) -> list[str]:
        """What it may ask: the nearest, and all that are as near. Nothing where nothing is near."""
        likeness = self.likeness(sentence)
        best = float(likeness.max())
        return [self.asked[number] for number in np.flatnonzero(likeness >= best - CLEAR)] if best >= self.least else []

    def likeness(self, sentence: str) -> np.ndarray:
        """float32, for each of `asked`"""
        near = self.points @ embed([sentence])[0]
        first, second = (np.zeros(len(self.asked), np.float32) for _ in range(2))
        np.maximum.at(first, self.asked_by, near)
        near[near >= first[self.asked_by]] = 0.0
        np.maximum.at(second, self.asked_by, near)
        return FIRST * first + SECOND * second


def questions_in(path: Path) -> list[tuple[str, str]]:
    """Of a file that is not there: none."""
    if not path.exists():
        return []
    try:
        lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = _Entry.model_validate_json(line)
        except ValidationError:
            raise ValueError(f'{path}, line {number}: must be {{"f": what is asked, "q": [questions]}}') from None
        found += [(entry.f, question.lower()) for question in entry.q]
    return found


class _Entry(BaseModel, extra="forbid", strict=True):
    f: str
    q: list[str]


def _kept(questions: list[str]) -> np.ndarray:
    """float32 [questions, width]"""
    room = cache_folder() / "questions"
    name = blake2b("\n".join([str(FORMAT), *questions]).encode(), digest_size=12).hexdigest()
    path = room / f"{name}.npy"
    if (points := _whole(path, len(questions))) is None:
        try:
            room.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=room, delete=False) as file:
                print(f"{len(questions):,} known questions are prepared, once, in {room}", file=sys.stderr, flush=True)
                try:
                    points = LocalEncoder().encode(questions).astype(np.float16)
                    np.save(file, points)
                except BaseException:
                    os.unlink(file.name)  # half a file, of a full disk or Ctrl-C
                    raise
            os.replace(file.name, path)
        except OSError as error:
            raise ValueError(
                f"known questions cannot be kept in {room} ({error}): name another PARLEY_CACHE"
            ) from error
    return points.astype(np.float32)


def _whole(path: Path, count: int) -> np.ndarray | None:
    """None if it is not there, or is not what was kept."""
    try:
        points = np.load(path)
    except (OSError, EOFError, ValueError):
        return None
    return points if points.ndim == 2 and len(points) == count else None
