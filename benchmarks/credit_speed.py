"""Credit speed: CPU seconds for the credit of a million trained tokens, per method, on one core.

    ragged          trajectories of 1 to 40 turns of 1 to 200 tokens: about 500 of them
    one long game   two turns of half a million tokens
    short turns     games of 20 turns of one token

Every reading that a method needs is there. What is timed is everything between arrays of rewards
and readings and arrays of advantages and targets, the checks of their sizes included. CPU seconds
are those of this process: what others do on the machine is not added to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.report import Say, run_alone, spread_of
from benchmarks.rounds import spread
from learners.credit.method import CREDIT, CreditMethod
from learners.credit.turns import Turns

TOKENS = 1_000_000
ROUNDS = 15
GROUP = 8


def measure(quick: bool, say: Say) -> dict[str, Any]:
    batches = {name: make() for name, make in BATCHES.items()}
    found: dict[str, Any] = {"tokens": TOKENS, "methods": {}}
    for name in CREDIT.names:
        say(name)
        method = CREDIT.make(name, gamma=0.99)
        found["methods"][name] = {
            batch: asdict(spread([seconds(method, turns) for _ in range(3 if quick else ROUNDS)]))
            for batch, turns in batches.items()
            if batch != "one long game" or "group" not in method.needs  # one game is no group
        }
    return found


def ragged() -> Turns:
    rng = np.random.default_rng(0)
    turns, tokens = [], []
    while sum(map(sum, tokens)) < TOKENS:
        turns.append(int(rng.integers(1, 41)))
        tokens.append(rng.integers(1, 201, turns[-1]).tolist())
    return batch_of(np.array(turns), np.array(sum(tokens, []), np.int64), rng)


def long_game() -> Turns:
    return batch_of(np.array([2]), np.array([TOKENS // 2, TOKENS // 2]), np.random.default_rng(1))


def short_turns() -> Turns:
    return batch_of(np.full(TOKENS // 20, 20), np.ones(TOKENS, np.int64), np.random.default_rng(2))


BATCHES: dict[str, Callable[[], Turns]] = {
    "ragged": ragged,
    "one long game": long_game,
    "short turns": short_turns,
}


def batch_of(turns: np.ndarray, tokens: np.ndarray, rng: np.random.Generator) -> Turns:
    tokens = np.diff(np.minimum(np.cumsum(tokens), TOKENS), prepend=0)  # exactly so many
    games = len(turns)
    return Turns(
        offsets=np.concatenate([[0], np.cumsum(turns)]),
        rewards=rng.random(len(tokens)),
        tokens=tokens,
        episode=np.arange(games),
        terminated=rng.random(games) < 0.8,
        values=rng.normal(size=TOKENS),
        bootstrap=rng.normal(size=games),
        turn_values=rng.normal(size=len(tokens)),
        action_values=rng.normal(size=len(tokens)),
        logprobs=rng.normal(-2, 0.1, TOKENS),
        sampler_logprobs=rng.normal(-2, 0.1, TOKENS),
        hindsight=rng.normal(-2, 0.1, TOKENS),
        group=np.arange(games) // GROUP % max(games // GROUP, 1),
        anchor=rng.integers(0, 50, len(tokens)),
        opening=rng.integers(0, 5, len(tokens)),
    )


def seconds(method: CreditMethod, turns: Turns) -> float:
    start = time.process_time()
    method.credit(replace(turns), {})
    return time.process_time() - start


def tables(found: dict[str, Any]) -> list[Table]:
    table = Table(title=f"credit of {found['tokens']:,} trained tokens, CPU milliseconds")
    table.add_column("method")
    for batch in BATCHES:
        table.add_column(batch, justify="right")
    for name, figures in found["methods"].items():
        cells = [
            spread_of({key: value * 1e3 for key, value in figures[batch].items()}, ".1f") if batch in figures else ""
            for batch in BATCHES
        ]
        table.add_row(name, *cells)
    return [table]


if __name__ == "__main__":
    run_alone("credit_speed", measure, tables)
