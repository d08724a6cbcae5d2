"""Does credit by what was meant tell a policy more, or only sooner? docs/results/sums.md says what was expected.

    python -m benchmarks.sums             every run; goes on where it was stopped
    python -m benchmarks.sums --tables    only what has been recorded

The weights stay those of a warm start of the contest (benchmarks/contest.py), so every batch could have been the first
one. What a method makes of each batch of 16 games is its gradient; what matters to a policy is the sum of many, for
small steps add up. So gradients of 1, 4, 16 and 32 batches after another are summed, and each sum is held against the
gradient of 4,096 other games. All methods get the same episodes. A window holds 256 games, and is full before the
first gradient that counts; one of 1,024 games, as in the contest, still grows then.

Records: benchmarks/records/sums.json.xz.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from benchmarks.contest import GAMES, RATES, SIZES
from benchmarks.contestants import (
    ALL_ADVANTAGES,
    CANDIDATES,
    CREDIT,
    EQUAL,
    GAE,
    INTENTIONS,
    NOTHING_SHARED,
    OWN_HALF,
    PER_TURN,
    SHUFFLED,
    STEPS,
    by_intention,
    method,
    pooled,
)
from benchmarks.lab.command import contest_parser
from benchmarks.lab.contest import estimate
from benchmarks.lab.gradients import true_gradient
from benchmarks.lab.pages import table
from benchmarks.lab.store import Store
from benchmarks.lab.strata import corrected, half_width, stratified
from benchmarks.lab.trainee import Trainee
from benchmarks.lab.trial import Game, Method, Record, Trial, warm_start
from benchmarks.report import quiet

RECORDS = Path(__file__).parent / "records" / "sums.jsonl"
WINDOW = 256  # games
WARM_UP, BATCHES, LARGE_BATCHES = WINDOW // SIZES.batch, 32, 256
LARGE_FIRST = 5000  # of a seed's tasks: no batch comes so far
SUMMED = (1, 4, 16, 32)
SEEDS, WARM_STARTS = 8, 4


def alone(method: Method, *settings: str) -> Method:
    """Without the steps of the contest: a gradient is that of one step."""
    kept = tuple(each for each in method.settings if each not in STEPS)
    return Method(method.name, (*kept, *settings))


def windowed(method: Method, games: int = WINDOW) -> Method:
    return alone(method, f"{INTENTIONS}.aggregate.window={games}")


POOLED = pooled("shrinkage")
PLAIN = alone(next(each for each in ALL_ADVANTAGES if each.name == "leave-one-out"))
ARIA = windowed(by_intention("aria", *POOLED))
GAE_0 = Method("gae, hidden-state critic, lambda 0", (*GAE.settings, f"{CREDIT}.lambda_a=0"))
REGRESSED_CRITIC = next(each for each in CANDIDATES if each.name == "regressed, hidden-state critic")
REGRESSED = method("regressed", "reward.shaper=regressed")
SHARING = (
    ARIA,
    windowed(by_intention("aria, 1,024 games", *POOLED), 1024),
    windowed(by_intention("aria, own half", *OWN_HALF)),
    windowed(by_intention("equal texts", *POOLED, shaper=EQUAL)),
    windowed(by_intention("shuffled", *POOLED, shaper=SHUFFLED)),
)
# They decide nothing here: other baselines, and what takes the worth of the next situation from other games.
OTHERS = (alone(PER_TURN), windowed(NOTHING_SHARED[0]), *map(alone, (GAE, GAE_0, REGRESSED_CRITIC, REGRESSED)))
METHODS = (PLAIN, *OTHERS, *SHARING)


def trial(game: Game, method: Method, seed: int) -> Trial:
    return Trial(game, method, RATES[0], seed, seed % WARM_STARTS, SIZES)


def measured(of: Trial) -> Record:
    """Its figures: the mean cosine with the true gradient, of sums of so many batches."""
    true = true_gradient(replace(of, method=PLAIN, seed=of.warm_start), LARGE_BATCHES, LARGE_FIRST)
    trainee = Trainee(of.config, warm_start(of))
    for _ in range(WARM_UP):
        trainee.gradient(trainee.next_batch())  # critics learn from it, too
    found = np.stack([trainee.gradient(trainee.next_batch()) for _ in range(BATCHES)])
    return Record(asdict(of), figures={str(count): cosine_of_sums(found, true, count) for count in SUMMED})


def cosine_of_sums(found: np.ndarray, true: np.ndarray, count: int) -> float:
    """The mean over sums of `count` rows that follow each other; 0 of a sum that says nothing."""
    sums = found.reshape(-1, count, found.shape[1]).sum(axis=1)
    length = np.linalg.norm(sums, axis=1) * np.linalg.norm(true)
    return float(np.divide(sums @ true, length, out=np.zeros(len(sums)), where=length > 0).mean())


def trials(seeds: int) -> list[Trial]:
    """Those of a game and a warm start after each other, for their true gradient is kept."""
    in_order = sorted(range(seeds), key=lambda seed: seed % WARM_STARTS)
    return [trial(game, method, seed) for game in GAMES for seed in in_order for method in METHODS]


def told(record: Record) -> str:
    return ", ".join(f"{count}: {cosine:.2f}" for count, cosine in record.figures.items())


def page(store: Store, seeds: int) -> str:
    parts = []
    for game in GAMES:
        there = [each for each in METHODS if cosines(store, game, each, SUMMED[0], seeds)]
        rows = [[method.name, *(cell(store, game, method, count, seeds) for count in SUMMED)] for method in there]
        parts.append(f"**{game.name}**, cosine by the number of batches summed\n\n" + table(["method", *SUMMED], rows))
    head = ["method", "batches", *(game.name for game in GAMES), "mean of the games", "p, corrected"]
    rows = [row for count in (SUMMED[0], SUMMED[-1]) for row in gains(store, count, seeds)]
    parts.append(f"**Over {PLAIN.name}**, 100 times the cosine, in pairs of equal seeds\n\n" + table(head, rows))
    return "\n\n".join(parts)


def cell(store: Store, game: Game, method: Method, count: int, seeds: int) -> str:
    found = cosines(store, game, method, count, seeds)
    if len(found) < 2:
        return "-"
    of = estimate(found)
    return f"{of.mean:.2f} ± {of.half:.2f}"


def cosines(store: Store, game: Game, method: Method, count: int, seeds: int) -> list[float]:
    records = [store.get(trial(game, method, seed)) for seed in range(seeds)]
    return [record.figures[str(count)] for record in records if record is not None]


def gains(store: Store, count: int, seeds: int) -> list[Sequence[object]]:
    def differences(method: Method) -> list[np.ndarray]:
        both = [[cosines(store, game, each, count, seeds) for each in (method, PLAIN)] for game in GAMES]
        return [np.subtract(*pair) if len(pair[0]) == len(pair[1]) else np.empty(0) for pair in both]

    over = {method.name: differences(method) for method in (*SHARING, *OTHERS)}
    over = {name: each for name, each in over.items() if min(map(len, each)) > 1}
    if not {each.name for each in SHARING} <= {*over}:
        return []
    p = corrected({each.name: over[each.name] for each in SHARING})
    return [
        [name, count, *(f"{100 * np.mean(found):+.1f}" for found in each)]
        + [f"{100 * stratified(each)[0]:+.1f} ± {100 * half_width(each):.1f}"]
        + [f"{p[name]:.4f}" if name in p else "-"]
        for name, each in over.items()
    ]


def main() -> None:
    parser = contest_parser("sums", __doc__)
    asked = parser.parse_args()
    quiet()
    store = Store(RECORDS, measured, told)
    if not asked.tables:
        store.complete(trials(asked.seeds), asked.processes, lambda text: print(text, flush=True))
    print(page(store, asked.seeds))


if __name__ == "__main__":
    main()
