"""Which credit, at the level of words? Games with listed actions, every method, the same warm starts and steps.

    python -m benchmarks.credit              everything; goes on where it was stopped
    python -m benchmarks.credit --part main  one part: main, discount, length, horizon, choice, bonus, transfer
    python -m benchmarks.credit --seeds 2    fewer seeds; those that are there count
    python -m benchmarks.credit --tables     only what has been recorded

main      every method on every game
discount  NTPO with its discount between tokens from .8 to 1; .95, that of the game, is its own
length    POAD, NTPO, turn-level PPO and TWOSOME on the same decisions in more words
horizon   POAD without a discount between turns
choice    TWOSOME without its division by the number of words
transfer  food preparation alone trained, after its variants have been cloned with it; what becomes of them
bonus     POAD, NTPO and turn-level PPO with the paper's entropy bonus

Each method's step size is tuned on seeds that are not reported, on the first task of each game. Records are kept in
benchmarks/records/credit.json.xz.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.lab.command import contest_parser
from benchmarks.lab.contest import Contest, second_half
from benchmarks.lab.pages import costs, speeds, standing, step_sizes, transfers, undone, write_curves
from benchmarks.lab.store import Store
from benchmarks.lab.trial import Game, Method, Sizes
from benchmarks.report import quiet

RECORDS = Path(__file__).parent / "records" / "credit.jsonl"
CURVES = Path(__file__).parents[1] / "docs" / "images" / "credit.webp"
GROUP = 8

# What the methods with a critic or a ratio have in common; the paper's clip and KL guard, but no entropy bonus:
# once every game of a batch is won it is all that is left of the gradient, and Adam makes it as large as any.
PPO = ("learner.loss.kind=ppo", "learner.epochs=2", "learner.minibatches=2", "learner.loss.kl_guard=0.02")
CRITIC = ("learner.credit.critic.value_clip=0.2",)


def of(method: str, *settings: str) -> tuple[str, ...]:
    return (f"learner.credit.method={method}", *PPO, *settings)


REINFORCE = Method("reinforce, per-turn mean", ("learner.credit.baseline=turn",))
POAD = Method("poad", of("poad", *CRITIC))
TURNS = Method("ppo, turn level", of("gae", *CRITIC))
NTPO = Method("ntpo", of("ntpo", *CRITIC))
TWOSOME = Method("twosome", of("twosome", *CRITIC, "rollout.choose_listed=true"))
AS_SAID = Method("twosome, by what would be said", (*TWOSOME.settings, "rollout.choice_length=none"))
METHODS = (
    REINFORCE,
    TURNS,
    TWOSOME,
    NTPO,
    POAD,
    Method("poad, lambda_w .95", of("poad", *CRITIC, "learner.credit.lambda_w=0.95")),
    Method("grpo", (f"group_size={GROUP}", "learner.credit.method=grpo", *PPO), GROUP),
    Method("gigpo", (f"group_size={GROUP}", "learner.credit.method=gigpo", *PPO), GROUP),
)

# Rewards as the games pay them, discounted as the paper does. Episodes are shorter than the games' own, and runs end
# about when the fastest have won, so that one takes half a minute; longer cloning makes a policy that finishes some.
SHORT = Sizes(updates=200, batch=16, held_out=200, steps=2000)
KITCHEN = Sizes(updates=200, batch=GROUP, held_out=48, cloning_steps=200)
CHORE = Sizes(updates=200, batch=16, held_out=48, steps=1200, cloning_steps=200)
LONG_CHORE = replace(CHORE, batch=GROUP, steps=1000)
ROWS = Sizes(updates=12, batch=16, held_out=48)
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
CODING = Game("data science", "data_science", sizes=ROWS)


def contest(games: tuple[Game, ...], methods: tuple[Method, ...]) -> Contest:
    unlisted = frozenset((game.name, TWOSOME.name) for game in games if game is CODING)
    return Contest(
        games,
        methods,
        begin=(3e-4, 1e-3),
        warm_starts=2,
        sizes=SHORT,
        tuning_seeds=3,
        worth=second_half,
        left_out=unlisted,
        tuned_on={KITCHENS[1].name: KITCHENS[0], HOMES[1].name: HOMES[0], KNOWN.name: HOMES[0]},
    )


def discounted(gamma: float) -> Method:
    return Method(f"ntpo, gamma_w {gamma:g}", of("ntpo", *CRITIC, f"learner.credit.gamma_w={gamma:g}"))


def rewarded(method: Method) -> Method:
    return Method(f"{method.name}, entropy .01", (*method.settings, "learner.loss.entropy=0.01"))


PARTS = {
    "main": contest((CASE, *KITCHENS, *HOMES, CODING), METHODS),
    "discount": contest((CASE,), (*map(discounted, (0.8, 0.9)), NTPO, *map(discounted, (0.99, 1.0)), POAD)),
    "length": contest((CASE, LONG), (NTPO, POAD, TURNS, TWOSOME)),
    "horizon": contest((CASE, HOMES[0]), (POAD, Method("poad, gamma 1", (*POAD.settings, "learner.credit.gamma=1")))),
    "choice": contest((HOMES[0],), (TWOSOME, AS_SAID)),
    "transfer": contest((KNOWN,), (NTPO, POAD)),
    "bonus": contest((CASE,), tuple(made for each in (TURNS, NTPO, POAD) for made in (each, rewarded(each)))),
}


def main() -> None:
    parser = contest_parser("credit", __doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one; may be given again")
    asked = parser.parse_args()
    quiet()
    store = Store(RECORDS)
    for name in asked.part or PARTS:
        part = PARTS[name]
        if not asked.tables:
            part.run(store, asked.seeds, asked.processes, print)
        print(f"## {name}\n")
        for table in standing(part, store, asked.seeds, ("ntpo", "poad", "twosome")):
            print(table, end="\n\n")
        print(undone(part, store, asked.seeds), end="\n\n")
        print(speeds(part, store, asked.seeds), end="\n\n")
        if moved := transfers(part, store, asked.seeds):
            print(moved, end="\n\n")
        if name == "main":
            write_curves(part, store, asked.seeds, [method.name for method in METHODS], CURVES)
        print(costs(part, store, asked.seeds), end="\n\n")
        print(step_sizes(part, store), end="\n\n")


if __name__ == "__main__":
    main()
