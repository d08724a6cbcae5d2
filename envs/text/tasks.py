"""Tasks of one's own, out of a file with a JSON object a line, and which of them are held out."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

HELD_OUT_SEEDS = 1_000_000  # held-out games have seeds from here on, and no game that is trained on has one


def tasks_in(tasks: Any, where: str, whole: Callable[..., Any], *keys: str) -> tuple[Any, ...]:
    """Each as `whole(what to call it in an error, the task, *keys)` has it. Those of a file are read once, not for each
    game, and nobody may change them."""
    if isinstance(tasks, str):
        path = Path(tasks).expanduser()
        where = f"{where}: {tasks}"
        try:
            state = path.stat()
            return _in_file(str(path), where, whole, keys, state.st_mtime_ns, state.st_size)
        except OSError as error:
            raise ValueError(f"{where} cannot be read: {type(error).__name__}: {error.strerror}") from None
    if not isinstance(tasks, list | tuple) or not tasks:
        raise ValueError(f"{where}: has to be a list of tasks, or a file with one a line")
    return tuple(whole(f"{where}: task {number}", task, *keys) for number, task in enumerate(tasks, 1))


@lru_cache(maxsize=8)
def _in_file(path: str, where: str, whole: Callable[..., Any], keys: Sequence[str], *state: int) -> tuple[Any, ...]:
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is not UTF-8: {error.reason} at byte {error.start}") from None
    read = [_read(f"{where}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not read:
        raise ValueError(f"{where} holds no task")
    return tuple(whole(f"{where}: task {number}", task, *keys) for number, task in enumerate(read, 1))


def _read(where: str, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is no JSON: {getattr(error, 'msg', error)}") from None


def share_of(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ValueError(f"game option {name}={value!r} must be a share from 0 to below 1")
    return float(value)


def task_of(seed: int, tasks: Sequence[Any], held_out: float, salt: str) -> Any:
    """The one that a seed chooses. The last tasks, that share of all and at least one, are for held-out games alone."""
    kept = max(1, int(len(tasks) * held_out)) if held_out and len(tasks) > 1 else 0
    first = len(tasks) - kept
    among = tasks if not kept else tasks[first:] if seed >= HELD_OUT_SEEDS else tasks[:first]
    return random.Random(f"{salt} {seed}").choice(among)
