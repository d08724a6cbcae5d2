"""Which credit learns best where noise is what limits learning? docs/results/contest_plan.md says all before it is run.

    python -m benchmarks.contest                   the next stage that is not complete; goes on where it was stopped
    python -m benchmarks.contest --stage bound     how many points less noise is worth, in each game
    python -m benchmarks.contest --stage known     how many points credit is worth that knows what turns are worth
    python -m benchmarks.contest --stage tune      every method, short, on tuning seeds: its step size, and who goes on
    python -m benchmarks.contest --stage report    the five best, the baselines and the controls, on reported seeds
    python -m benchmarks.contest --seconds 3600    no run begins after an hour
    python -m benchmarks.contest --tables          only what has been recorded

Records of all stages are kept in benchmarks/records/contest.json.xz.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.contestants import (
    ALL_ADVANTAGES,
    BASELINES,
    CANDIDATES,
    CONTROLS,
    METHODS,
    NOT_SHARED,
    OF,
    PER_TURN,
    RIVALS,
)
from benchmarks.lab.contest import Contest
from benchmarks.lab.pages import NONE, costs, outcomes, step_sizes, table
from benchmarks.lab.store import Store
from benchmarks.lab.trial import Game, Method, Record, Sizes, Trial, run
from benchmarks.lab.verdict import CRITERIA, leading, ranking, room, verdict
from benchmarks.report import quiet
from cluster.commands.command import positive

RECORDS = Path(__file__).parent / "records" / "contest.jsonl"
STAGES = ("bound", "known", "tune", "report")
FIRST_SEED, SEEDS, WARM_STARTS, GO_ON = 116, 16, 4, 5
UPDATES, SHORT = 80, 40
SIZES = Sizes(updates=UPDATES, batch=16, held_out=400, cloning_steps=300)
RATES = tuple(1e-3 * 3 ** (half / 2) for half in range(-4, 5))  # by factors of sqrt(3)
BEGIN, GRID = (RATES[3], RATES[4]), RATES[2:7]

GAMES = (
    Game("bargaining", "bargaining", ("game.players={bob: scripted:tit_for_tat}",)),
    Game("negotiation", "negotiation"),
    Game(
        "car dealer",
        "../demo",
        ("game.name=car_dealer", "game.options.lines=6", "game.players.buyer=scripted:expert"),
    ),
    Game("30 objects", "../demo"),
)
LMRL = "game.options.table=lmrl"
REPLACED = (
    Game("158 objects", "twenty_questions_full", (LMRL, "game.options.listed=false")),
    Game("100 cities", "guess_my_city", (LMRL, "game.options.turns=20", "game.options.paraphrases=false")),
    Game("24 cities", "guess_my_city", ("game.options.table=small", "game.options.paraphrases=false")),
    Game("text navigation", "../demo", ("game.name=text_navigation",)),
)
TOO_SLOW = (Game("BabyAI", "../worlds/babyai", ("game.options.turns=20", "reward.shaper=outcome")),)


def kept(records: Sequence[Record]) -> float:
    """Under the learning curve; after numbers that are not finite a policy has nothing to show."""
    return float(np.mean([sum(record.outcomes) / record.trial["sizes"]["updates"] for record in records]))


def contest(methods: tuple[Method, ...], begin: tuple[float, ...] = GRID) -> Contest:
    return Contest(
        GAMES,
        methods,
        begin=begin,
        warm_starts=WARM_STARTS,
        sizes=SIZES,
        tuning_seeds=WARM_STARTS,
        rates=RATES,
        worth=kept,
        tuning_updates=SHORT,
        first_seed=FIRST_SEED,
    )


LESS_NOISE = Method("four times the games", (*PER_TURN.settings, f"batch_episodes={4 * SIZES.batch}"))
BOUND = replace(contest((PER_TURN, LESS_NOISE), BEGIN), tuning_seeds=2)
FEW_POINTS = replace(BOUND, games=REPLACED, rates=BEGIN)  # two step sizes of each were enough to see it
CUT_SHORT = replace(BOUND, games=TOO_SLOW, rates=BEGIN, tuning_seeds=1)
KNOWN = replace(PER_TURN, name="known credit", more_games=16)
CREDIT = replace(contest((PER_TURN, KNOWN), BEGIN), tuning_seeds=2, rates=BEGIN)
TUNE = contest(METHODS)
ON_TUNING_SEEDS = {"bound": BOUND, "known": CREDIT, "tune": TUNE}


def reporting(store: Store) -> Contest:
    """Those that go on; an error before everything that they are chosen by is there."""
    if missing := len(TUNE.to_tune(store)):
        raise SystemExit(
            f"--stage report: {missing} runs of tuning seeds are missing, by which its methods are chosen; "
            "complete --stage tune first"
        )
    best = leading(TUNE, store, (*RIVALS, *CANDIDATES), GO_ON)
    named = {method.name for method in best}
    controls = [each for each in CONTROLS if each.name not in OF or named.intersection(OF[each.name])]
    return contest((*BASELINES, *best, *controls))


def next_stage(store: Store) -> str:
    return next((stage for stage, part in ON_TUNING_SEEDS.items() if part.to_tune(store)), "report")


def left(stage: str, store: Store) -> list[Trial]:
    """Runs that are missing, as far as is known: of the report, before it is known who goes on, with any that might."""
    if stage != "report":
        return ON_TUNING_SEEDS[stage].to_tune(store)
    if not TUNE.to_tune(store):
        part = reporting(store)
        return store.missing([trial for pair in part.pairs() for trial in part.reported(store, *pair, SEEDS)])
    any_five = contest((*BASELINES, *CANDIDATES[:GO_ON], *CONTROLS))
    seeds = range(FIRST_SEED, FIRST_SEED + SEEDS)
    return [any_five.trial(*pair, RATES[0], seed) for pair in any_five.pairs() for seed in seeds]


def forecast(store: Store, processes: int) -> str:
    """Hours of each stage by the CPU seconds of an update so far, which leave out held-out games."""
    spent: dict[tuple[str, str], list[float]] = {}  # by game and method, where one plays more games than others
    for record in store.records.values():
        kind = kind_of(record.trial["game"]["name"], record.trial["method"]["name"])
        spent.setdefault(kind, []).append(sum(record.seconds.values()))
    rows = []
    for stage in STAGES:
        trials = left(stage, store)
        kinds = [kind_of(trial.game.name, trial.method.name) for trial in trials]
        known = [(trial, kind) for trial, kind in zip(trials, kinds, strict=True) if kind in spent]
        seconds = sum(trial.sizes.updates * float(np.mean(spent[kind])) for trial, kind in known)
        hours = f"{seconds / processes / 3600:.1f}" if len(known) == len(trials) else NONE
        rows.append([stage, len(trials), hours])
    return f"**What is left**, hours on {processes} cores\n\n" + table(["stage", "runs", "hours"], rows)


def kind_of(game: str, method: str) -> tuple[str, str]:
    """Those that cost alike. Methods that play more games than others are a kind of their own."""
    return game, method if method in (LESS_NOISE.name, KNOWN.name) else ""


def tables(stage: str, store: Store, seeds: int) -> Iterator[str]:
    if stage == "bound":
        yield room(BOUND, store)
        yield "Games that were replaced, at the better of two step sizes; BabyAI by one seed:"
        yield room(FEW_POINTS, store)
        yield room(CUT_SHORT, store)
    elif stage == "known":
        yield room(CREDIT, store, "What credit is worth that is known")
    elif stage == "tune":
        yield ranking(TUNE, store)
    else:
        part = reporting(store)
        yield from outcomes(part, store, seeds)
        controls = tuple(each for each in part.methods if each in CONTROLS)
        for which, against in ("H1", BASELINES), ("H2", controls), ("H3", (NOT_SHARED,)), ("H4", ALL_ADVANTAGES):
            for criterion in CRITERIA:
                yield f"{which}: {verdict(part, store, seeds, against, criterion)}"
        yield costs(part, store, seeds)
        yield step_sizes(part, store)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contest", description=__doc__.splitlines()[0])
    parser.add_argument("--stage", choices=STAGES, help="default: the next one that is not complete")
    parser.add_argument("--processes", type=positive, default=os.cpu_count(), help="runs at once, a thread each")
    parser.add_argument("--seconds", type=float, help="no run begins later than so long after the start")
    parser.add_argument("--tables", action="store_true", help="run nothing, show what has been recorded")
    asked = parser.parse_args()
    quiet()
    store = Store(RECORDS, partial(run, to_the_end=True))
    stage = asked.stage or next_stage(store)
    if not asked.tables:
        until = None if asked.seconds is None else time.monotonic() + asked.seconds
        work(stage, store, asked.processes, until)
    print(f"## {stage}\n")
    for each in (*tables(stage, store, SEEDS), forecast(store, asked.processes)):
        print(each, end="\n\n")


def work(stage: str, store: Store, processes: int, until: float | None) -> None:
    def say(text: str) -> None:
        print(text, flush=True)

    if stage == "report":
        reporting(store).report(store, SEEDS, processes, say, until)
    else:
        ON_TUNING_SEEDS[stage].tune(store, processes, say, until)


if __name__ == "__main__":
    main()
