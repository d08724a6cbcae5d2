"""Does credit in intention space help? Four games, every method, the same warm starts and episodes.

    python -m benchmarks.intention_credit              everything; goes on where it was stopped
    python -m benchmarks.intention_credit --seeds 2    fewer seeds; those that are there count
    python -m benchmarks.intention_credit --tables     only what has been recorded
    python -m benchmarks.intention_credit --bound      what less noise could give at all: a baseline that plays
                                                       four times the games for each of its updates

Each method's step size is tuned on seeds that are not reported. Records are kept in
benchmarks/records/intention_credit.jsonl, one line a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.lab.command import contest_parser
from benchmarks.lab.contest import Contest, estimate, gain
from benchmarks.lab.gradients import Quality, quality, true_gradient
from benchmarks.lab.pages import (
    costs,
    final_of,
    gains,
    gradient_table,
    mean_of,
    outcomes,
    step_sizes,
    table,
    write_curves,
)
from benchmarks.lab.store import Store
from benchmarks.lab.trial import Game, Method, Sizes, Trial
from benchmarks.report import quiet

RECORDS = Path(__file__).parent / "records" / "intention_credit.jsonl"
CURVES = Path(__file__).parents[1] / "docs" / "images" / "intention_credit.svg"

DISCOUNT = "learner.credit.gamma=0.97"
ARIA = ("reward.shaper=aria", "reward.intentions.refit=inline")
HIDDEN = ("learner.credit.method=gae", DISCOUNT, "learner.credit.lambda_a=0.95")
GROUP = 8
GAUGES = (("held-out games", final_of), ("all batches played", mean_of))

METHODS = (
    Method("reinforce", (DISCOUNT, "learner.credit.baseline=none")),
    Method("per-turn mean", (DISCOUNT, "learner.credit.baseline=turn")),
    Method("leave-one-out", (DISCOUNT, "learner.credit.baseline=leave_one_out")),
    Method("gae, hidden-state critic", HIDDEN),
    Method("grpo", ("learner.credit.method=grpo", f"group_size={GROUP}"), GROUP),
    Method("aria (paper)", ARIA),
    Method("aria, per-turn mean", (*ARIA, "reward.intentions.aggregate.baseline=turn")),
    Method("aria, history mean", (*ARIA, "reward.intentions.aggregate.baseline=history")),
    Method(
        "aria, back-off",
        (*ARIA, "reward.intentions.aggregate.pooling=backoff", "reward.intentions.aggregate.baseline=turn"),
    ),
    Method(
        "aria, shrinkage",
        (*ARIA, "reward.intentions.aggregate.pooling=shrinkage", "reward.intentions.aggregate.baseline=turn"),
    ),
    Method("aria-rm", ("reward.shaper=aria_rm", "reward.aria_rm.every=5", *ARIA[1:])),
    Method(
        "gigpo, intention anchors",
        (*ARIA, "reward.intentions.gives=outcome", "learner.credit.method=gigpo", "learner.credit.anchor=labels")
        + (DISCOUNT, f"group_size={GROUP}"),
        GROUP,
    ),
    Method("regressed, not smoothed", ("reward.shaper=regressed", "reward.regressed.own=1")),
    Method("regressed", ("reward.shaper=regressed",)),
    Method("regressed, hidden-state critic", ("reward.shaper=regressed", "reward.regressed.gives=outcome", *HIDDEN)),
)

CONTEST = Contest(
    games=(
        Game("Twenty Questions", "twenty_questions"),
        Game("Guess My City", "guess_my_city", ("game.options.table=small", "game.options.turns=10")),
        # of a rival who concedes anyway every method soon takes all there is
        Game("bargaining", "bargaining", ("game.players={bob: scripted:tit_for_tat}",)),
        Game("negotiation", "negotiation"),
    ),
    methods=METHODS,
    begin=(1e-3, 3e-3),
    warm_starts=2,
    sizes=Sizes(updates=30, batch=64, held_out=400),
)
BOUNDED = METHODS[1]
BOUND = replace(
    BOUNDED,
    name=f"{BOUNDED.name}, four times the games",
    settings=(*BOUNDED.settings, f"batch_episodes={4 * CONTEST.sizes.batch}"),
)
BASELINES = ("reinforce", "per-turn mean", "leave-one-out", "gae, hidden-state critic", "grpo")
SHOWN = ("per-turn mean", "gae, hidden-state critic", "aria (paper)", "gigpo, intention anchors", "regressed")


def gradients(say: Callable[[str], None]) -> dict[str, dict[str, Quality]]:
    found: dict[str, dict[str, Quality]] = {}
    for game in CONTEST.games:
        say(f"gradients: a large sample of {game.name}")
        true = true_gradient(CONTEST.trial(game, METHODS[0], CONTEST.begin[0], 0))
        found[game.name] = {}
        for method in METHODS:
            found[game.name][method.name] = quality(CONTEST.trial(game, method, CONTEST.begin[0], 0), true)
            say(f"gradients: {game.name}, {method.name}: cosine {found[game.name][method.name].cosine:.2f}")
    return found


def bounds(store: Store, seeds: int) -> list[tuple[Game, list[Trial]]]:
    """At the step sizes of the baseline itself."""
    rates = [(game, CONTEST.best_rate(store, game, BOUNDED)) for game in CONTEST.games]
    return [(game, [CONTEST.trial(game, BOUND, rate, seed) for seed in range(seeds)]) for game, rate in rates]


def bound_table(store: Store, seeds: int) -> str:
    names = [name for name, _ in GAUGES]
    rows, gained = [], []
    for game, trials in bounds(store, seeds):
        with_more = [store.get(trial) for trial in trials]
        without = CONTEST.records(store, game, BOUNDED, seeds)
        rows.append([game.name, *(gain(with_more, without, of) for _, of in GAUGES)])
        gained.append(
            [[of(one) - of(other) for one, other in zip(with_more, without, strict=True)] for _, of in GAUGES]
        )
    rows.append(["mean of the games", *(estimate(each) for each in np.mean(gained, axis=0))])
    return f"**Gain of four times the games** over {BOUNDED.name}, points, in pairs\n\n" + table(["game", *names], rows)


def main() -> None:
    parser = contest_parser("intention_credit", __doc__)
    parser.add_argument("--bound", action="store_true", help="only the bound, once the contest is complete")
    asked = parser.parse_args()
    quiet()
    store = Store(RECORDS)
    if asked.bound:
        if not asked.tables:
            store.complete(
                [trial for _, trials in bounds(store, asked.seeds) for trial in trials], asked.processes, print
            )
        print(bound_table(store, asked.seeds))
        return
    found = None
    if not asked.tables:
        CONTEST.run(store, asked.seeds, asked.processes, print)
        found = gradients(print)
    for part in outcomes(CONTEST, store, asked.seeds):
        print(part, end="\n\n")
    print(gains(CONTEST, store, asked.seeds, BASELINES), end="\n\n")
    print(costs(CONTEST, store, asked.seeds), end="\n\n")
    print(step_sizes(CONTEST, store), end="\n\n")
    if found is not None:
        print(gradient_table(found))
    write_curves(CONTEST, store, asked.seeds, SHOWN, CURVES)


if __name__ == "__main__":
    main()
