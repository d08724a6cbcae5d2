"""SPA and ONI: does what they pay teach more than the outcome? The same runs in pairs, with it and without.

    python -m benchmarks.shapers                 every run; goes on where it was stopped
    python -m benchmarks.shapers --seeds 2       fewer seeds; those that are there count
    python -m benchmarks.shapers --tables        only what has been recorded

plain    REINFORCE with a mean for each turn number as baseline, discounted by .97, on the outcome
spa      the same on SPA's rewards: what a model of earlier games says that each turn contributed
oni      the same on the outcome and .05 for what the game's own rule finds helpful, less each time that it recurs

FIXED BEFORE ANY REPORTED SEED WAS RUN. Twenty Questions as in the demo, and bargaining against tit for tat, for which
ONI has no rule. 30 updates of 64 episodes, one step for each batch, 400 held-out games at the end. Seeds 200 to 207, of
which two share a warm start. Step sizes are tuned on seeds 90 and 91 by the mean of all batches: from .001 and .003 on
towards where it gets better, until the best one lies between two others. THE QUESTION, of each of the three pairs of a
method and a game: the held-out score minus that of `plain`, in pairs of equal seeds, with Student's interval of 95 %;
p is from the signs of the pairs, and corrected for three questions (Holm). A method helps in a game if p < .05 and the
mean is above 0, it harms if p < .05 and the mean is below, and else it cannot be told. Beside it, and no answer: the
mean of all batches. SPA is expected to learn slower, for its model begins after four updates and is of earlier weights;
ONI is expected to help, for a question that halves what is left is helpful. Overcooked was a third game at first; it
was taken out before any of its runs had ended: the first two had taken nine minutes.

What was found: SPA pays .5 for every turn that the game could execute (`grounding`), so where all can be, long games
pay. A second part, whose seeds are 208 to 215, was written down after that and before any of them was run:

    python -m benchmarks.shapers --part ungrounded

spa, outcome alone    SPA with grounding 0, and matched: what a model says of each turn, and the rest is spread

It has the same games, sizes, tuning seeds and question, of two pairs. It is expected to be level with plain.

Records: benchmarks/records/shapers.json.xz.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.lab.command import contest_parser
from benchmarks.lab.contest import Contest, estimate
from benchmarks.lab.pages import NONE, outcomes, step_sizes, table
from benchmarks.lab.store import Store
from benchmarks.lab.strata import corrected
from benchmarks.lab.trial import Game, Method, Sizes
from benchmarks.report import quiet

RECORDS = Path(__file__).parent / "records" / "shapers.jsonl"
PLAIN = ("learner.credit.gamma=0.97", "learner.credit.baseline=turn")
WITHOUT = Method("plain", PLAIN)
SPA = Method("spa", (*PLAIN, "reward.shaper=spa", "reward.shaper.every=5"))
ONI = Method(
    "oni",
    (*PLAIN, "reward.shaper=oni", "reward.shaper.extrinsic=game", "reward.shaper.intrinsic_weight=0.05"),
)
CONTEST = Contest(
    games=(
        Game("Twenty Questions", "../demo"),
        Game("bargaining", "bargaining", ("game.players={bob: scripted:tit_for_tat}",)),
    ),
    methods=(WITHOUT, SPA, ONI),
    begin=(1e-3, 3e-3),
    warm_starts=4,
    sizes=Sizes(updates=30, batch=64, held_out=400),
    left_out=frozenset({("bargaining", "oni")}),
    first_seed=200,
)
UNGROUNDED = Method("spa, outcome alone", (*SPA.settings, "reward.shaper.grounding=0", "reward.shaper.matched=true"))
PARTS = {
    "main": CONTEST,
    "ungrounded": replace(CONTEST, methods=(WITHOUT, UNGROUNDED), left_out=frozenset(), first_seed=208),
}
LEVEL = 0.05


def holm(found: Mapping[object, float]) -> dict[object, float]:
    """p of each question, for so many."""
    reached, highest = {}, 0.0
    for place, name in enumerate(sorted(found, key=found.get)):
        highest = max(highest, min(1.0, (len(found) - place) * found[name]))
        reached[name] = highest
    return reached


def gained(contest: Contest, store: Store, seeds: int) -> dict[tuple[str, str], list[float]]:
    """Points of held-out games over `plain`, of a method in a game."""
    found = {}
    for game, method in contest.pairs():
        pairs = [contest.records(store, game, each, seeds) for each in (WITHOUT, method)]
        if method is not WITHOUT and min(map(len, pairs)) > 1:
            found[method.name, game.name] = [
                100 * (other.final - one.final) for one, other in zip(*pairs, strict=False)
            ]
    return found


def answers(differences: Mapping[tuple[str, str], Sequence[float]]) -> str:
    p = holm({name: corrected({"it": [each]})["it"] for name, each in differences.items()})
    rows = []
    for name, each in differences.items():
        mean = estimate(each)
        told = p[name] < LEVEL
        said = "it helps" if told and mean.mean > 0 else "it harms" if told else "cannot be told"
        rows.append([*name, f"{mean.mean:+.1f} ± {mean.half:.1f}", mean.count, f"{p[name]:.3f}", said])
    return table(["method", "game", "points over plain", "pairs", "p", ""], rows)


def lengths(contest: Contest, store: Store, seeds: int, batches: int = 5) -> str:
    """Turns of the policy a game, in the first batches and in the last ones."""
    rows = []
    for method in contest.methods:
        cells = []
        for game in contest.games:
            found = [record.steps for record in contest.records(store, game, method, seeds)]
            ends = [np.mean([steps[part] for steps in found]) for part in (slice(batches), slice(-batches, None))]
            cells.append(" to ".join(f"{each / contest.sizes.batch:.1f}" for each in ends) if found else NONE)
        rows.append([method.name, *cells])
    return f"**Turns a game**, first and last {batches} batches\n\n" + table(
        ["method", *(game.name for game in contest.games)], rows
    )


def tables(contest: Contest, store: Store, seeds: int) -> list[str]:
    return [
        *outcomes(contest, store, seeds),
        answers(gained(contest, store, seeds)),
        lengths(contest, store, seeds),
        step_sizes(contest, store),
    ]


def main() -> None:
    parser = contest_parser("shapers", __doc__)
    parser.add_argument("--part", choices=PARTS, default="main")
    asked = parser.parse_args()
    quiet()
    store, part = Store(RECORDS), PARTS[asked.part]
    if not asked.tables:
        part.run(store, asked.seeds, asked.processes, lambda text: print(text, flush=True))
    print("\n\n".join(tables(part, store, asked.seeds)))


if __name__ == "__main__":
    main()
