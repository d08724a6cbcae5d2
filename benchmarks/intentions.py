"""Intention spaces and aggregation: time and memory of fitting, and the rates of what runs with the traffic.

    python -m benchmarks.intentions            10k, 30k, 100k and 300k distinct utterances
    python -m benchmarks.intentions --quick    without 300k

Two kinds of made-up embeddings, 384 floats each: *spread*, 60 kinds well apart, where the true
ones are known; and *crowded*, kinds of very different sizes that overlap, share a common
direction and have a falling spectrum, as sentence embeddings do. Making them is not counted;
each fit runs in a process of its own, and its peak memory includes the embeddings. Agreement is
the adjusted Rand index with the true kinds; largest, the share of the largest intention.
"""

from __future__ import annotations

import math
import multiprocessing
import random
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import count, islice
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.report import Say, run_alone
from envs.episode import Episode, Ticket, Turn
from envs.text.embedding import embed
from reward_service.intentions.clustering.clustering import CLUSTERINGS
from reward_service.intentions.clustering.ward import Ward
from reward_service.intentions.fit import Utterances, fit_space
from reward_service.intentions.gist import NOTHING, Gist
from reward_service.intentions.matching import compare
from reward_service.intentions.settings import AggregateSettings, IntentionSettings
from reward_service.intentions.trajectory import CodedGame
from reward_service.intentions.window import Window
from reward_service.shapers.aria import AriaShaper

DIMENSION, KINDS = 384, 60
SIZES = (10_000, 30_000, 100_000, 300_000)
LABELLED = 50_000  # utterances
WHOSE = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)  # memory: hdbscan runs in a process of its own
STREAM, LENGTH, WINDOW = 10_000, 10, 1024  # episodes; turns in each; episodes in the window
BATCH, DISTINCT = 128, 2000  # episodes; utterances
SMALL_BATCH, EPISODES_A_SECOND = 4, 200
REFITTED = ((1024, "ward"), (8192, "ward"), (1024, "hdbscan"))
REFITS, REFIT_SECONDS, QUIET_SECONDS = 5, 600, 2.0
OFFERS = 600
PHRASES = (
    "I propose that I take {} and you take {}.",
    "How about {} for me and {} for you?",
    "Let us split it: my share {}, yours {}.",
    "A fair deal would be {} to me, {} to you. Time is money!",
    "My offer: {} mine, {} yours. Please accept.",
    "I keep {} and you get {}, then we are done.",
)


def measure(quick: bool, say: Say) -> dict[str, Any]:
    sizes = [size for size in SIZES if not quick or size <= 100_000]
    found: dict[str, Any] = {"fits": []}
    runs = [(kind, "ward", size) for kind in ("spread", "crowded") for size in sizes]
    runs += [(kind, method, 100_000) for kind in ("spread", "crowded") for method in ("average", "hdbscan")]
    for kind, method, size in runs:
        say(f"fitting {size:,} {kind} utterances, {method}")
        found["fits"].append(_alone(fitting, kind, method, size))
    say("labelling")
    found["labelled_per_second"] = _alone(labelling)
    say("aggregating")
    found["aggregated_per_second"] = {name: aggregating(options) for name, options in POOLINGS.items()}
    say("shaping")
    found["shaped_per_second"] = _alone(shaping)
    found["refits"] = []
    for window, method in REFITTED:
        say(f"refitting beside traffic: {window:,} episodes, {method}")
        found["refits"].append(_alone(refitting, window, method))
    say("offers")
    found["offers"] = offers()
    return found


def _alone(measured, *given: Any) -> Any:
    """In a fresh process: its peak memory is its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measured, *given).result()


def made_up(kind: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """float32 unit rows, and the kind that each belongs to."""
    chance = np.random.default_rng(0)
    centres = chance.normal(size=(KINDS, DIMENSION)).astype(np.float32)
    if kind == "spread":
        truth = chance.integers(KINDS, size=count)
        scale, common = np.full(DIMENSION, 0.4, np.float32), np.float32(0)
    else:
        size = 1 / np.arange(1, KINDS + 1)
        truth = chance.choice(KINDS, size=count, p=size / size.sum())
        scale = np.float32(8) / np.sqrt(np.arange(10, DIMENSION + 10, dtype=np.float32))
        centres *= scale / 2
        common = 3 * chance.normal(size=DIMENSION).astype(np.float32) * scale
    rows = chance.standard_normal((count, DIMENSION), np.float32)
    rows *= scale
    rows += centres[truth]
    rows += common
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, truth


def utterances_of(rows: np.ndarray) -> Utterances:
    counts = np.random.default_rng(1).zipf(2.0, len(rows)).clip(max=1000)
    return Utterances([Gist(str(number)) for number in range(len(rows))], rows, counts)


def fitting(kind: str, method: str, count: int) -> dict[str, Any]:
    rows, truth = made_up(kind, count)
    utterances = utterances_of(rows)
    started = time.perf_counter()
    space = fit_space(utterances, CLUSTERINGS.make(method))
    seconds = time.perf_counter() - started
    level = space.closest_level(KINDS)
    labels = space.labels(rows, level)
    return {
        "kind": kind,
        "method": method,
        "utterances": count,
        "seconds": round(seconds, 2),
        "peak_gb": round(sum(resource.getrusage(of).ru_maxrss for of in WHOSE) * 1024 / 1e9, 2),
        "microseconds_per_n_log_n": round(1e6 * seconds / (count * math.log2(count)), 2),
        "intentions": level,
        "agreement": round(compare(labels, truth, np.ones(count)).agreement, 3),
        "largest": round(float(np.bincount(labels).max() / count), 2),
    }


def labelling() -> int:
    rows, _ = made_up("crowded", LABELLED)
    space = fit_space(utterances_of(rows[:20_000]), Ward())
    gists = [Gist(str(number)) for number in range(LABELLED)]
    return _rate(LABELLED, lambda: space.labels(space.features(rows, gists)))


def _rate(amount: float, work: Callable[[], Any]) -> int:
    """Per second of CPU time, the median of three."""
    rates = []
    for _ in range(3):
        started = time.process_time()
        work()
        rates.append(amount / (time.process_time() - started))
    return round(sorted(rates)[1])


POOLINGS = {
    "exact": {},
    "exact, history baseline": {"baseline": "history"},
    "backoff": {"pooling": "backoff"},
    "backoff, history baseline": {"pooling": "backoff", "baseline": "history"},
    "shrinkage": {"pooling": "shrinkage"},
    "shrinkage, history baseline": {"pooling": "shrinkage", "baseline": "history"},
}


def aggregating(options: dict[str, Any]) -> int:
    """Turns that are added, valued and expired, batch by batch, per second of the one core this takes."""
    chance = random.Random(0)
    settings = AggregateSettings(window=WINDOW, **options)
    stream = [
        (
            CodedGame(
                ("game", "seat"),
                tuple(chance.randrange(20) for _ in range(LENGTH)),
                (NOTHING, *(chance.randrange(20) for _ in range(LENGTH - 1))),
                chance.random(),
            ),
        )
        for _ in range(STREAM)
    ]

    def work() -> None:
        window = Window(settings, settings.pooling.tables((20,), 20), lambda level, codes: np.array(codes))
        for first in range(0, STREAM, BATCH):
            batch = stream[first : first + BATCH]
            window.values(window.add([(("run", first + number, 0), each) for number, each in enumerate(batch)]))
            window.expire(max(len(window) - WINDOW, 0))

    return _rate(STREAM * LENGTH, work)


def full_shaper(window: int, method: str = "ward") -> tuple[AriaShaper, Iterator[Episode]]:
    """One with a space, a full window and 2,000 distinct utterances, embeddings cached; and more episodes."""
    rows, _ = made_up("crowded", DISTINCT)
    known = {f"utterance {number}": row for number, row in enumerate(rows)}
    settings = IntentionSettings(space=CLUSTERINGS.make(method), aggregate=AggregateSettings(window=window))
    shaper = AriaShaper(settings, lambda texts: np.stack([known[text] for text in texts]))
    episodes = _episodes(list(known))
    while len(shaper.window) < window:
        shaper.shape(list(islice(episodes, BATCH)))
    shaper.publish(shaper.fit_again())
    return shaper, episodes


def _episodes(texts: list[str]) -> Iterator[Episode]:
    chance = random.Random(0)
    for number in count():
        turns = [Turn("seat", "policy", chance.choice(texts), chance.choice(texts)) for _ in range(LENGTH)]
        ticket = Ticket("benchmark", "parrot", number, number, (("seat", "policy"),))
        yield Episode(ticket, turns, {"seat": chance.random()}, True)


def shaping() -> int:
    shaper, episodes = full_shaper(WINDOW)
    batches = iter([list(islice(episodes, BATCH)) for _ in range(3 * WINDOW // BATCH)])
    return _rate(WINDOW * LENGTH, lambda: [shaper.shape(batch) for batch in islice(batches, WINDOW // BATCH)])


def refitting(window: int, method: str) -> dict[str, Any]:
    """Small batches at a steady rate, alone and beside refits of a full window. What a batch takes is counted
    from when it was due: waiting for the lock, or for the interpreter, is in it. On a machine with more to do
    than it has cores, look at the CPU times."""
    shaper, episodes = full_shaper(window, method)
    quiet_until = time.perf_counter() + QUIET_SECONDS
    alone = traffic(shaper, episodes, lambda: time.perf_counter() > quiet_until)
    beside, fits, publishes = [], [], []
    with ThreadPoolExecutor(1) as thread:
        for _ in range(REFITS):
            refit = thread.submit(timed, shaper.fit_again)
            beside += traffic(shaper, episodes, refit.done)
            space, *fit = refit.result(REFIT_SECONDS)
            fits.append(fit)
            publishes.append(timed(lambda fitted=space: shaper.publish(fitted))[1:])
    fit_seconds, fit_cpu = np.median(fits, axis=0)
    publish_seconds, publish_cpu = np.max(publishes, axis=0)
    return {
        "method": method,
        "window": window,
        "fit_seconds": round(float(fit_seconds), 2),
        "fit_cpu_seconds": round(float(fit_cpu), 2),
        "publish_ms": round(1000 * float(publish_seconds), 2),
        "publish_cpu_ms": round(1000 * float(publish_cpu), 2),
        "batches": len(beside),
        "alone_p99_ms": round(1000 * float(np.quantile(alone, 0.99)), 1),
        "beside_p50_ms": round(1000 * float(np.median(beside)), 1),
        "beside_p99_ms": round(1000 * float(np.quantile(beside, 0.99)), 1),
    }


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, seconds, and seconds of this thread on a CPU."""
    clock, cpu = time.perf_counter(), time.thread_time()
    found = work()
    return found, time.perf_counter() - clock, time.thread_time() - cpu


def traffic(shaper: AriaShaper, episodes: Iterator[Episode], over: Callable[[], bool]) -> list[float]:
    """Seconds that each batch took."""
    taken, due = [], time.perf_counter()
    while not over():
        batch = list(islice(episodes, SMALL_BATCH))
        time.sleep(max(due - time.perf_counter(), 0))
        shaper.shape(batch)
        taken.append(time.perf_counter() - due)
        due += SMALL_BATCH / EPISODES_A_SECOND
    return taken


def offers() -> list[dict[str, float]]:
    """Offers in six phrases that claim 30 % to 70 %, in real embeddings: what share of the entropy
    of phrase, and of the amount in six bands, is known from the intention at k = 10."""
    chance = random.Random(0)
    phrase = np.array([chance.randrange(len(PHRASES)) for _ in range(OFFERS)])
    percent = np.array([chance.randrange(30, 71) for _ in range(OFFERS)])
    money = [chance.choice((100, 10_000, 1_000_000)) for _ in range(OFFERS)]
    texts = [PHRASES[p].format(m * s // 100, m - m * s // 100) for p, s, m in zip(phrase, percent, money, strict=True)]
    gists = [Gist(text, (("share", s / 50 - 1),)) for text, s in zip(texts, percent.tolist(), strict=True)]
    rows, once = embed(texts), np.ones(OFFERS, np.int64)
    found = []
    for weight in (0.0, 1.0, 2.0, 4.0, 8.0):
        space = fit_space(Utterances(gists, rows, once), Ward(amount_weight=weight))
        labels = space.labels(space.features(rows, gists), 10)
        found.append(
            {
                "amount_weight": weight,
                "phrase": round(known_share(labels, phrase), 2),
                "amount": round(known_share(labels, (percent - 30) // 7), 2),
            }
        )
    return found


def known_share(labels: np.ndarray, truth: np.ndarray) -> float:
    """Mutual information over the entropy of the truth."""
    joint = np.zeros((labels.max() + 1, truth.max() + 1))
    np.add.at(joint, (labels, truth), 1 / len(labels))

    def entropy(share: np.ndarray) -> float:
        return float(-(share[share > 0] * np.log(share[share > 0])).sum())

    return 1 - (entropy(joint) - entropy(joint.sum(axis=1))) / entropy(joint.sum(axis=0))


def tables(found: dict[str, Any]) -> list[Table]:
    fits = Table("embeddings", "method", "distinct", "s", "peak GB", "µs/(n log2 n)", "k", "agreement", "largest")
    for row in found["fits"]:
        kind, method, count, *figures = row.values()
        fits.add_row(kind, method, f"{count:,}", *(str(figure) for figure in figures))
    rates = Table("with the traffic", "per second of CPU time")
    rates.add_row("embedded utterances labelled", f"{found['labelled_per_second']:,}")
    for name, rate in found["aggregated_per_second"].items():
        rates.add_row(f"turns aggregated: {name}", f"{rate:,}")
    rates.add_row("turns shaped, embeddings cached", f"{found['shaped_per_second']:,}")
    refits = Table(
        "refit", "window", "fit s", "CPU", "publish ms", "CPU", "batches", "alone p99 ms", "beside p50", "p99"
    )
    for row in found["refits"]:
        refits.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    told = Table("amount_weight", "phrase known from the intention", "amount known")
    for row in found["offers"]:
        told.add_row(*(str(value) for value in row.values()))
    return [fits, rates, refits, told]


if __name__ == "__main__":
    run_alone("intentions", measure, tables)
