"""Is credit to single words worth more than credit to turns? docs/results/word_plan.md says all before it is run.

    python -m benchmarks.words                   everything; goes on where it was stopped
    python -m benchmarks.words --part locks      one part: locks, main, code, discount, length, choice, transfer, bonus
    python -m benchmarks.words --tables          only what has been recorded

locks     a family of games in which it is known what credit to words is worth (benchmarks/locks.py)
main      decision games that others made, with listed actions
code      programs of some 125 words, discounted (benchmarks/long_code.py)
discount  NTPO with its discount between tokens from .8 to 1; .95, that of the game, is its own
length    the same decisions in more words
choice    TWOSOME with the published division by the number of words, and without
transfer  food preparation alone trained, after its variants have been cloned with it; what becomes of them
bonus     with the paper's entropy bonus, and without

Records are kept in benchmarks/records/words.json.xz.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.contest import RATES
from benchmarks.lab.command import contest_parser
from benchmarks.lab.contest import Contest, Worth, estimate, second_half, whole_and_late
from benchmarks.lab.pages import NONE, costs, outcomes, speeds, step_sizes, table, transfers, undone
from benchmarks.lab.store import Store
from benchmarks.lab.strata import corrected, half_width, stratified
from benchmarks.lab.trial import TUNING, Game, Method, Record, Sizes
from benchmarks.lab.verdict import CRITERIA, verdict
from benchmarks.locks import noise
from benchmarks.report import quiet
from benchmarks.undone import undone as come_undone

RECORDS = Path(__file__).parent / "records" / "words.jsonl"
FIRST_SEED, WARM_STARTS = 100, 4
SEEDS = 16  # reported ones of each method; the locks were run with fewer
LOCKS_SEEDS = 8
DIALS = 16

# What all methods have in common: the paper's clip and KL guard, but no entropy bonus (`bonus` says why).
PPO = ("learner.loss.kind=ppo", "learner.epochs=2", "learner.minibatches=2", "learner.loss.kl_guard=0.02")
CRITIC = ("learner.credit.critic.value_clip=0.2",)


def of(method: str, *settings: str) -> tuple[str, ...]:
    return (f"learner.credit.method={method}", *PPO, *settings)


POAD = Method("poad", of("poad", *CRITIC))
TURNS = Method("ppo, turn level", of("gae", *CRITIC))
NTPO = Method("ntpo", of("ntpo", *CRITIC))
TWOSOME = Method("twosome", of("twosome", *CRITIC, "rollout.choose_listed=true"))
AS_SAID = Method("twosome, by what would be said", (*TWOSOME.settings, "rollout.choice_length=none"))
POAD_95 = Method("poad, lambda_w .95", of("poad", *CRITIC, "learner.credit.lambda_w=0.95"))
POAD_0 = Method("poad, lambda_w 0", of("poad", *CRITIC, "learner.credit.lambda_w=0"))
TAUGHT = Method("ppo, turn level, critic of poad", of("benchmarks.lab.turn_advantages:TurnAdvantages", *CRITIC))


def discounted(gamma: float) -> Method:
    return Method(f"ntpo, gamma_w {gamma:g}", of("ntpo", *CRITIC, f"learner.credit.gamma_w={gamma:g}"))


def rewarded(method: Method) -> Method:
    return Method(f"{method.name}, entropy .01", (*method.settings, "learner.loss.entropy=0.01"))


# Rewards as the games pay them, discounted as the paper does. Episodes are shorter than the games' own, and runs end
# about when the fastest have won, so that one takes half a minute; longer cloning makes a policy that finishes some.
SHORT = Sizes(updates=200, batch=16, held_out=200, steps=2000)
KITCHEN = Sizes(updates=200, batch=8, held_out=48, cloning_steps=200)
CHORE = Sizes(updates=200, batch=16, held_out=48, steps=1200, cloning_steps=200)
LONG_CHORE = replace(CHORE, batch=8, steps=1000)
CASE = Game("case study", "case_study", sizes=SHORT, discount=0.95)
LONG = Game(
    "case study, long words",
    "case_study",
    ("game.options.wording=long", "rollout.max_utterance_tokens=24"),
    SHORT,
    discount=0.95,
)
KITCHENS = tuple(
    Game(
        task.replace("_", " "),
        "overcooked",
        (f"game.options.task={task}", f"game.options.steps={steps}"),
        replace(KITCHEN, steps=turns),
        discount=0.99,
    )
    for task, steps, turns in (("tomato_salad", 100, 1500), ("tomato_lettuce_salad", 80, 1200))
)
OTHER_CHORES = ("cheese", "hamburger", "apple_pie", "pizza", "dishes", "laundry")
PUBLISHED = {  # Wen et al., NeurIPS 2024: food preparation trained, returns elsewhere
    "poad": (0.7553, 0.7602, 0.7650, 0.7625, 0.7075, 0.7014),
    "ntpo": (0.7428, 0.7476, 0.7141, 0.7355, 0.7491, 0.5687),
    "twosome": (0.7119, 0.7058, 0.7304, 0.7047, 0.7031, 0.6038),
    "the model before": (0.1351, 0.1342, 0.1656, 0.1409, 0.0527, 0.0344),
}
HOMES = (
    Game(
        "food preparation",
        "virtualhome",
        ("game.options.turns=20",),
        CHORE,
        discount=0.95,
    ),
    Game(
        "entertainment",
        "virtualhome",
        ("game.options.task=entertainment", "game.options.turns=30"),
        LONG_CHORE,
        discount=0.95,
    ),
)
KNOWN = replace(
    HOMES[0],
    name="food preparation, all cloned",
    transfer=tuple(f"game.options.task={task}" for task in OTHER_CHORES),
    cloned=(f"game.options.task=[food_preparation, {', '.join(OTHER_CHORES)}]",),
)


def lock(dials: int, where: str) -> Game:
    return Game(
        "1 dial" if dials == 1 else f"{dials} dials, {where}",
        "parrot",
        (
            "game.name=benchmarks.locks:Locks",
            f"game.options={{dials: {dials}, where: {where}}}",
            "model.embedded.player=mediocre",
            f"rollout.max_utterance_tokens={dials + 4}",
        ),
        Sizes(updates=100, batch=16, held_out=400, cloning_steps=100),
    )


LOCKS = (lock(1, "all"), lock(DIALS, "first"), lock(DIALS, "last"), lock(DIALS, "all"))
CODE = Game(
    "long code",
    "data_science",
    ("game.name=benchmarks.long_code:LongCode", "gamma=0.95"),
    Sizes(updates=20, batch=16, held_out=48, cloning_steps=200),
)


def contest(
    games: tuple[Game, ...], methods: tuple[Method, ...], worth: Worth = second_half, first_seed: int = FIRST_SEED
) -> Contest:
    return Contest(
        games,
        methods,
        begin=(RATES[2], RATES[3]),
        warm_starts=WARM_STARTS,
        sizes=SHORT,
        tuning_seeds=WARM_STARTS,
        worth=worth,
        rates=RATES,
        tuned_on={KNOWN.name: HOMES[0]},
        first_seed=first_seed,
    )


LATER = whole_and_late, FIRST_SEED + SEEDS  # another rule for step sizes, on seeds that nobody had seen
PARTS = {
    "locks": contest(LOCKS, (TURNS, TAUGHT, POAD, POAD_95, POAD_0)),
    "main": contest((CASE, *KITCHENS, *HOMES), (TURNS, TAUGHT, AS_SAID, NTPO, POAD, POAD_95), *LATER),
    "code": contest((CODE,), (TURNS, NTPO, POAD, POAD_95)),
    "discount": contest((CASE,), (*map(discounted, (0.8, 0.9)), NTPO, *map(discounted, (0.99, 1.0)), POAD)),
    "length": contest((CASE, LONG), (NTPO, POAD, TURNS, AS_SAID)),
    "choice": contest((HOMES[0],), (TWOSOME, AS_SAID)),
    "transfer": contest((KNOWN,), (NTPO, POAD, AS_SAID), *LATER),
    "bonus": contest((CASE,), tuple(made for each in (TURNS, NTPO, POAD) for made in (each, rewarded(each)))),
}
AGAINST = {  # for each verdict, the methods of which the best is what others are compared with
    "locks": [(TURNS,), (TAUGHT,)],
    "main": [(TURNS, TAUGHT, NTPO, AS_SAID), (TURNS,)],
    "code": [(NTPO,), (TURNS,)],
    "discount": [(NTPO,), (POAD,), (discounted(0.99),)],
    "length": [(NTPO, AS_SAID), (NTPO,), (TURNS,)],
    "bonus": [(TURNS,), (NTPO,), (POAD,)],
}


def predicted() -> str:
    """How many times the games turn-level PPO would need, if values were known."""
    known = {POAD.name: 1.0, POAD_95.name: 0.95, POAD_0.name: 0.0}
    kinds = (1, "all"), (DIALS, "first"), (DIALS, "last"), (DIALS, "all")
    ratios = {name: [noise(*kind, None) / noise(*kind, lambda_w) for kind in kinds] for name, lambda_w in known.items()}
    rows = [[name, *(f"{ratio:.1f}" for ratio in found)] for name, found in ratios.items()]
    return "**Noise of turn-level PPO over a method's**, with known values\n\n" + table(
        ["method", *(game.name for game in LOCKS)], rows
    )


def carried(part: Contest, store: Store, seeds: int) -> str:
    """Of games that were not trained, their mean; in pairs over poad, p corrected for the best of many."""
    (game,) = part.games
    found = {}
    for method in part.methods:
        records = part.records(store, game, method, seeds)
        if len(records) == seeds:
            found[method.name] = np.array([np.mean([*record.transfer.values()]) for record in records])
    if POAD.name not in found:
        return ""
    gains = {name: [means - found[POAD.name]] for name, means in found.items() if name != POAD.name}
    ps, rows = corrected(gains), []
    for name, means in found.items():
        gain = estimate(gains[name][0]) if name in gains else None
        rows.append([name, estimate(means), gain or NONE, f"{ps[name]:.4f}" if gain else NONE])
    head = ["method", "mean of the others", "over poad", "p, corrected"]
    return "**Mean of the games that were not trained**, score in percent\n\n" + table(head, rows)


def published() -> str:
    """What the paper reports of transfer."""
    rows = [[name, *(f"{100 * value:.1f}" for value in values)] for name, values in PUBLISHED.items()]
    head = ["method", *(task.replace("_", " ") for task in OTHER_CHORES)]
    return "**The same in the paper**, return in percent\n\n" + table(head, rows)


def tried(part: Contest, store: Store) -> Iterator[str]:
    """What the tuning seeds score at every step size that was tried."""
    seeds = TUNING[: part.tuning_seeds]
    for game in (game for game in part.games if game.name not in part.tuned_on):
        rows = []
        for method in part.methods:
            found = ([store.get(part.trial(game, method, rate, seed)) for seed in seeds] for rate in part.rates)
            cells = [f"{100 * mean_over(each):.1f}" if all(each) else NONE for each in found]
            rows.append([method.name, *cells])
        head = ["method", *(f"{rate:.2g}" for rate in part.rates)]
        yield f"**{game.name}: all batches played, by step size**, tuning seeds, percent\n\n" + table(head, rows)


def mean_over(records: Sequence[Record]) -> float:
    return float(np.mean([record.mean for record in records]))


def by_warm_start(part: Contest, store: Store, seeds: int) -> str:
    """Gains while learning in which a warm start counts once, with the mean of its seeds: each game has four."""
    means: dict[str, list[np.ndarray]] = {}
    for method in part.methods:
        of_games = [part.records(store, game, method, seeds) for game in part.games]
        if seeds > WARM_STARTS and all(len(records) == seeds for records in of_games):
            means[method.name] = [_of_starts(records) for records in of_games]
    rows = []
    for name, mine in means.items():
        pairs = {other: [one - two for one, two in zip(mine, of, strict=True)] for other, of in means.items()}
        cells = (f"{100 * stratified(each)[0]:+.1f} ± {100 * half_width(each):.1f}" for each in pairs.values())
        rows.append([name, *(NONE if other == name else cell for other, cell in zip(means, cells, strict=True))])
    return "**A row over a column, warm starts counted once**, points, while learning\n\n" + table(
        ["method", *means], rows
    )


def _of_starts(records: Sequence[Record]) -> np.ndarray:
    scores = defaultdict(list)
    for record in records:
        scores[record.trial["warm_start"]].append(record.mean)
    return np.array([np.mean(each) for _, each in sorted(scores.items())])


def fallen(part: Contest, store: Store, seeds: int) -> str:
    """Runs that had won, and ended below half of that."""
    rows = []
    for method in part.methods:
        found = (part.records(store, game, method, seeds) for game in part.games)
        rows.append([method.name, *(f"{sum(map(come_undone, each))} of {len(each)}" for each in found)])
    return "**Runs that won and ended below half of it**\n\n" + table(
        ["method", *(game.name for game in part.games)], rows
    )


def tables(name: str, store: Store, seeds: int) -> Iterator[str]:
    part = PARTS[name]
    if name == "locks":
        yield predicted()
    yield from outcomes(part, store, seeds)
    for baselines in AGAINST.get(name, []):
        for criterion in CRITERIA:
            yield str(verdict(part, store, seeds, baselines, criterion))
            if len(part.games) > 1:
                for game in part.games:
                    alone = replace(part, games=(game,))
                    yield f"{game.name}: {verdict(alone, store, seeds, baselines, criterion)}"
    yield by_warm_start(part, store, seeds)
    yield undone(part, store, seeds)
    yield fallen(part, store, seeds)
    yield speeds(part, store, seeds)
    if moved := transfers(part, store, seeds):
        yield moved
        yield carried(part, store, seeds)
        yield published()
    yield costs(part, store, seeds)
    yield step_sizes(part, store)
    yield from tried(part, store)


def main() -> None:
    parser = contest_parser("words", __doc__)
    parser.set_defaults(seeds=None)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one; may be given again")
    asked = parser.parse_args()
    quiet()
    store = Store(RECORDS)
    for name in asked.part or PARTS:
        seeds = asked.seeds or (LOCKS_SEEDS if name == "locks" else SEEDS)
        if not asked.tables:
            PARTS[name].run(store, seeds, asked.processes, print)
        print(f"## {name}\n")
        for each in tables(name, store, seeds):
            print(each, end="\n\n")


if __name__ == "__main__":
    main()
