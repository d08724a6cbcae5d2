"""Does credit in intention space help? Four games, every method, the same warm starts and episodes.

    python -m benchmarks.intention_credit                every method; goes on where it was stopped
    python -m benchmarks.intention_credit --part NAME    main, window, reused, trace, bound; may be given again
    python -m benchmarks.intention_credit --seeds 2      fewer seeds; those that are there count
    python -m benchmarks.intention_credit --tables       only what has been recorded
    python -m benchmarks.intention_credit --against X    gains over method X as well

main      every method, one step of the weights for each batch
window    groups of the last two batches instead of sixteen, in two games
reused    the leading ones with each batch used four times, clipped as PPO does
trace     the regressed values without bootstrapping
bound     what less noise could give at all: a baseline that plays four times the games for each step

Each method's step size is tuned on seeds that are not reported. Records are kept in
benchmarks/records/intention_credit.json.xz; gradients, once main is complete, beside them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.lab.command import contest_parser
from benchmarks.lab.contest import Contest
from benchmarks.lab.gradients import measured, told
from benchmarks.lab.pages import costs, gains, gradient_table, standing, step_sizes
from benchmarks.lab.store import Store
from benchmarks.lab.trial import Game, Method, Sizes
from benchmarks.report import quiet

RECORDS = Path(__file__).parent / "records" / "intention_credit.jsonl"
GRADIENTS = RECORDS.with_name("intention_gradients.jsonl")

DISCOUNT = "learner.credit.gamma=0.97"
AGGREGATE = "reward.shaper.intentions.aggregate"
ARIA = ("reward.shaper=aria", "reward.shaper.intentions.refit=inline")
HIDDEN = ("learner.credit.method=gae", DISCOUNT, "learner.credit.lambda_a=0.95")
GROUP = 8

PER_TURN = Method("per-turn mean", (DISCOUNT, "learner.credit.baseline=turn"))
CRITIC = Method("gae, hidden-state critic", HIDDEN)
ARIA_PER_TURN = Method("aria, per-turn mean", (*ARIA, f"{AGGREGATE}.baseline=turn"))
REGRESSED = Method("regressed", ("reward.shaper=regressed",))
SHRINKAGE = Method(
    "aria, shrinkage",
    (*ARIA, f"{AGGREGATE}.pooling=shrinkage", f"{AGGREGATE}.baseline=turn"),
)
OWN_HALF = Method(
    "aria, own half",
    (*ARIA, f"{AGGREGATE}.pooling=shrinkage", f"{AGGREGATE}.baseline=history") + (f"{AGGREGATE}.own=0.5",),
)
GIGPO = Method(
    "gigpo, intention anchors",
    (*ARIA, "reward.shaper.gives=outcome", "learner.credit.method=gigpo", "learner.credit.anchor=labels")
    + (DISCOUNT, f"group_size={GROUP}"),
    GROUP,
)
LAMBDA_1 = Method("regressed, lambda 1", (*REGRESSED.settings, "reward.shaper.trace=1"))
METHODS = (
    Method("reinforce", (DISCOUNT, "learner.credit.baseline=none")),
    PER_TURN,
    Method("leave-one-out", (DISCOUNT, "learner.credit.baseline=leave_one_out")),
    CRITIC,
    Method("grpo", ("learner.credit.method=grpo", f"group_size={GROUP}"), GROUP),
    Method("aria (paper)", ARIA),
    ARIA_PER_TURN,
    Method("aria, history mean", (*ARIA, f"{AGGREGATE}.baseline=history")),
    Method(
        "aria, back-off",
        (*ARIA, f"{AGGREGATE}.pooling=backoff", f"{AGGREGATE}.baseline=turn"),
    ),
    SHRINKAGE,
    OWN_HALF,
    Method("aria-rm", ("reward.shaper=aria_rm", "reward.shaper.every=5", *ARIA[1:])),
    GIGPO,
    Method("regressed, not smoothed", ("reward.shaper=regressed", "reward.shaper.own=1")),
    REGRESSED,
    Method("regressed, hidden-state critic", ("reward.shaper=regressed", "reward.shaper.gives=outcome", *HIDDEN)),
)

CONTEST = Contest(
    games=(
        Game("Twenty Questions", "../demo"),
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
BASELINES = ("reinforce", "per-turn mean", "leave-one-out", "gae, hidden-state critic", "grpo")


def reused(method: Method) -> Method:
    ppo = ("learner.loss.kind=ppo", "learner.epochs=2", "learner.minibatches=2", "learner.loss.kl_guard=0.02")
    return replace(method, name=f"{method.name}, reused", settings=(*method.settings, *ppo))


def recent(method: Method) -> Method:
    window = f"{AGGREGATE}.window={2 * CONTEST.sizes.batch}"
    return replace(method, name=f"{method.name}, two batches", settings=(*method.settings, window))


def enlarged(method: Method, times: int) -> Method:
    batch = f"batch_episodes={times * CONTEST.sizes.batch}"
    return replace(method, name=f"{method.name}, {times} times the games", settings=(*method.settings, batch))


PARTS = {
    "main": CONTEST,
    "window": replace(
        CONTEST, games=CONTEST.games[:2], methods=(PER_TURN, SHRINKAGE, recent(SHRINKAGE), OWN_HALF, recent(OWN_HALF))
    ),
    "reused": replace(CONTEST, methods=(PER_TURN, *map(reused, (PER_TURN, CRITIC, GIGPO, OWN_HALF, REGRESSED)))),
    "trace": replace(CONTEST, methods=(PER_TURN, REGRESSED, LAMBDA_1)),
    "bound": replace(CONTEST, methods=(PER_TURN, enlarged(PER_TURN, 4))),
}


def main() -> None:
    parser = contest_parser("intention_credit", __doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="main unless given; may be given again")
    known = {method.name for part in PARTS.values() for method in part.methods}
    parser.add_argument("--against", choices=sorted(known), metavar="METHOD", action="append", default=[])
    asked = parser.parse_args()
    quiet()
    store = Store(RECORDS)
    for name in asked.part or ["main"]:
        part = PARTS[name]
        if not asked.tables:
            part.run(store, asked.seeds, asked.processes, print)
        print(f"## {name}\n")
        for table in standing(part, store, asked.seeds, BASELINES if name == "main" else (PER_TURN.name,)):
            print(table, end="\n\n")
        for method in part.methods:
            if method.name in asked.against:
                print(gains(part, store, asked.seeds, (method.name,)), end="\n\n")
        print(costs(part, store, asked.seeds), end="\n\n")
        print(step_sizes(part, store), end="\n\n")
        if name == "main":
            gradients = Store(GRADIENTS, measured, told)
            if not asked.tables:
                gradients.complete(part.gradients(), asked.processes, print)
            print(gradient_table(part, gradients), end="\n\n")


if __name__ == "__main__":
    main()
