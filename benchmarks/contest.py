"""Which credit learns best where noise is what limits learning? docs/results/contest_plan.md says all before it is run.

    python -m benchmarks.contest                   the next stage that is not complete; goes on where it was stopped
    python -m benchmarks.contest --stage bound     how many points less noise is worth, in each game
    python -m benchmarks.contest --stage known     how many points credit is worth that knows what turns are worth
    python -m benchmarks.contest --stage tune      every method, short, on tuning seeds: its step size, and who goes on;
                                                   then the controls of those
    python -m benchmarks.contest --stage report    the best ones, the baselines and the controls, on reported seeds
    python -m benchmarks.contest --seconds 3600    no run begins after an hour
    python -m benchmarks.contest --tables          only what has been recorded

Records of all stages are kept in benchmarks/records/contest.json.xz.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.contestants import (
    ALL_ADVANTAGES,
    AS_PUBLISHED,
    BASELINES,
    CANDIDATES,
    CONTROLS,
    CONTROLS_OF,
    FROZEN,
    NOT_SHARED,
    PER_TURN,
    POSITIVE_ALONE,
    RIVALS,
)
from benchmarks.lab.contest import Contest, Worth, gain
from benchmarks.lab.pages import NONE, costs, gains, outcomes, step_sizes, table, write_curves
from benchmarks.lab.store import Store
from benchmarks.lab.trial import Game, Method, Record, Sizes, Trial, run, told
from benchmarks.lab.verdict import CRITERIA, HELD_OUT, Verdict, leading, ranking, room, verdict
from benchmarks.report import quiet
from cluster.commands.command import positive

RECORDS = Path(__file__).parent / "records" / "contest.jsonl"
CURVES = Path(__file__).parents[1] / "docs" / "images" / "intention_credit.webp"
SHOWN = (
    *("nothing shared, positive", "no baseline", "per-turn mean"),
    *("aria, positive", "regressed, positive", "aria as published"),
)
STAGES = ("bound", "known", "tune", "report")
FIRST_SEED, SEEDS, WARM_STARTS = 116, 16, 4
GO_ON = ((CANDIDATES, 3), (RIVALS, 1))
UPDATES, SHORT = 80, 40
SIZES = Sizes(updates=UPDATES, batch=16, held_out=400, cloning_steps=300)
RATES = tuple(1e-3 * 3 ** (half / 2) for half in range(-4, 5))  # by factors of sqrt(3)
BEGIN, GRID = (RATES[3], RATES[4]), RATES[2:7]
STILL = 1e-12  # a step size that no weight notices

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


def whole(records: Sequence[Record]) -> float:
    """Under the learning curve; after numbers that are not finite a policy has nothing to show."""
    return float(np.mean([sum(record.outcomes) / record.trial["sizes"]["updates"] for record in records]))


def late(records: Sequence[Record]) -> float:
    """The same of the second half."""
    return float(np.mean([2 * sum(each.outcomes[SHORT // 2 :]) / each.trial["sizes"]["updates"] for each in records]))


def contest(methods: tuple[Method, ...], begin: tuple[float, ...] = GRID, worth: Worth = late) -> Contest:
    return Contest(
        GAMES,
        methods,
        begin=begin,
        warm_starts=WARM_STARTS,
        sizes=SIZES,
        tuning_seeds=WARM_STARTS,
        rates=RATES,
        worth=worth,
        tuning_updates=SHORT,
        first_seed=FIRST_SEED,
        own_warm_starts=True,
    )


LESS_NOISE = Method("four times the games", (*PER_TURN.settings, f"batch_episodes={4 * SIZES.batch}"))
BOUND = replace(contest((PER_TURN, LESS_NOISE), BEGIN, whole), tuning_seeds=2)
FEW_POINTS = replace(BOUND, games=REPLACED, rates=BEGIN)  # two step sizes of each were enough to see it
CUT_SHORT = replace(BOUND, games=TOO_SLOW, rates=BEGIN, tuning_seeds=1)
KNOWN = replace(PER_TURN, name="known credit", more_games=16)
CREDIT = replace(contest((PER_TURN, KNOWN), BEGIN, whole), tuning_seeds=2, rates=BEGIN)
STILL_ONES = replace(contest(FROZEN, (STILL,)), rates=(STILL,))
TUNE = contest((*BASELINES, *RIVALS, *CANDIDATES))


@dataclass(frozen=True)
class Hypothesis:
    """That some methods gain at least so many points over the best of others, held out, with p below `level`."""

    name: str
    tested: Sequence[Method]
    against: Sequence[Method]
    points: float
    level: float
    chosen_among: int = 1  # so many, by the runs that it is tested on

    def of(self, part: Contest, store: Store, criterion: str) -> Verdict:
        given = self.tested, self.chosen_among
        return verdict(part, store, SEEDS, self.against, criterion, *given)

    def decided(self, part: Contest, store: Store) -> str:
        rows = self.of(part, store, HELD_OUT).rows
        holds = [row.name for row in rows if row.mean >= max(self.points, 0) and row.mean > 0 and row.p < self.level]
        asked = f"at least {self.points:g} points were" if self.points else "a gain was"
        said = f"holds for {', '.join(holds)}" if holds else "does not hold"
        best = f"the best gain is {rows[0].mean:+.1f} ± {rows[0].half:.1f}, p = {rows[0].p:.4f}"
        return f"**{self.name} {said}**: {asked} asked for, with p < {self.level:g}; {best}"


def hypotheses(part: Contest, store: Store) -> Iterator[Hypothesis]:
    candidates = [method for method in part.methods if method in CANDIDATES]
    first = Hypothesis("H1", candidates, BASELINES, 10, 0.01)
    yield first
    best = next(each for each in candidates if each.name == first.of(part, store, HELD_OUT).rows[0].name)
    controls = tuple(dict.fromkeys((*CONTROLS_OF[best.name], *CONTROLS)))
    yield Hypothesis("H2", (best,), controls, 0, 0.05, chosen_among=len(candidates))
    yield Hypothesis("H3", (AS_PUBLISHED,), (NOT_SHARED,), 0, 0.05)
    yield Hypothesis("H4", POSITIVE_ALONE, ALL_ADVANTAGES, 10, 0.01)


def taken_away(part: Contest, store: Store) -> str:
    """Each candidate over each of its controls. It decides nothing."""
    rows = []
    for method in (each for each in part.methods if each in CANDIDATES):
        for control in CONTROLS_OF[method.name]:
            (row,) = verdict(part, store, SEEDS, (control,), HELD_OUT, (method,)).rows
            games = [_in_pairs(part, store, game, method, control) for game in part.games]
            rows.append([method.name, control.name, *games, row.cells[-2]])
    head = ["candidate", "over", *(game.name for game in part.games), "mean of the games"]
    return f"**Gain over each control**, points, held out, {SEEDS} seeds\n\n{table(head, rows)}"


def _in_pairs(part: Contest, store: Store, game: Game, method: Method, other: Method) -> str:
    found = gain(*(part.records(store, game, each, SEEDS) for each in (method, other)), lambda record: record.final)
    return f"{100 * found.mean:+.1f} ± {100 * found.half:.1f}"


def drawn(store: Store) -> Contest:
    """Those of the report whose curves are shown."""
    part = reporting(store)
    return replace(part, methods=tuple(method for name in SHOWN for method in part.methods if method.name == name))


def start(store: Store) -> Callable[[Game, Method], float]:
    """What a policy is worth that does not learn, on the tasks of a method."""

    def found(game: Game, method: Method) -> float:
        alike = FROZEN[method.group_size > 1]
        return late([store.get(trial) for trial in STILL_ONES.tuning(store, game, alike)])

    return found


def reporting(store: Store) -> Contest:
    """Those that go on, baselines and controls, when it is known who goes on."""
    best = [method for among, most in GO_ON for method in leading(TUNE, store, among, most, start(store))]
    return with_controls(best)


def with_controls(best: Sequence[Method]) -> Contest:
    controls = (control for method in best for control in CONTROLS_OF.get(method.name, ()))
    return contest(tuple(dict.fromkeys((*BASELINES, *best, *controls, *CONTROLS))))


def parts(stage: str, store: Store) -> tuple[Contest, ...]:
    """What that stage has to tune. Controls come last, when it is known whose."""
    if stage != "tune":
        return ({"bound": BOUND, "known": CREDIT}[stage],)
    choosing = STILL_ONES, TUNE
    return choosing if any(part.to_tune(store) for part in choosing) else (*choosing, reporting(store))


def to_tune(stage: str, store: Store) -> list[Trial]:
    return [trial for part in parts(stage, store) for trial in part.to_tune(store)]


def next_stage(store: Store) -> str:
    return next((stage for stage in STAGES[:-1] if to_tune(stage, store)), "report")


def left(stage: str, store: Store) -> list[Trial]:
    """Runs that are missing, as far as is known: of the report, before it is known who goes on, with any that might."""
    if stage != "report":
        return to_tune(stage, store)
    if not to_tune("tune", store):
        part = reporting(store)
        return store.missing([trial for pair in part.pairs() for trial in part.reported(store, *pair, SEEDS)])
    any_part = with_controls([method for among, most in GO_ON for method in among[-most:]])
    seeds = range(FIRST_SEED, FIRST_SEED + SEEDS)
    return [any_part.trial(*pair, RATES[0], seed) for pair in any_part.pairs() for seed in seeds]


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
    elif stage == "tune" and (count := len(STILL_ONES.to_tune(store))):
        yield f"{count} runs of a policy that does not learn are missing, by which the others are measured."
    elif stage == "tune":
        for part in parts(stage, store)[1:] + (STILL_ONES,):
            yield ranking(part, store, start(store))
    elif count := len(left(stage, store)):
        yield f"{count} runs of reported seeds are missing. Nothing is shown of the others before all are there."
    else:
        part = reporting(store)
        yield from outcomes(part, store, seeds)
        for each in hypotheses(part, store):
            yield each.decided(part, store)
            for criterion in CRITERIA:
                yield f"{each.name}: {each.of(part, store, criterion)}"
            fewer = replace(part, games=part.games[1:])
            yield f"{each.name} without {part.games[0].name}: {each.of(fewer, store, HELD_OUT)}"
        yield taken_away(part, store)
        yield gains(part, store, seeds, [method.name for method in BASELINES])
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
    store = Store(RECORDS, partial(run, to_the_end=True), told_of)
    stage = asked.stage or next_stage(store)
    if not asked.tables:
        until = None if asked.seconds is None else time.monotonic() + asked.seconds
        work(stage, store, asked.processes, until)
    print(f"## {stage}\n")
    for each in (*tables(stage, store, SEEDS), forecast(store, asked.processes)):
        print(each, end="\n\n")
    if stage == "report" and not left(stage, store):
        write_curves(drawn(store), store, SEEDS, SHOWN, CURVES)


def told_of(record: Record) -> str:
    """A reported run is done, and that is all before the others are."""
    return told(record) if record.final is None else record.failure or "done"


def work(stage: str, store: Store, processes: int, until: float | None) -> None:
    def say(text: str) -> None:
        print(text, flush=True)

    if stage == "report":
        if missing := len(to_tune("tune", store)):
            raise SystemExit(
                f"--stage report: {missing} runs of tuning seeds are missing, by which its methods are chosen; "
                "complete --stage tune first"
            )
        return reporting(store).report(store, SEEDS, processes, say, until)
    while to_tune(stage, store) and (until is None or time.monotonic() < until):
        for part in parts(stage, store):
            part.tune(store, processes, say, until)


if __name__ == "__main__":
    main()
