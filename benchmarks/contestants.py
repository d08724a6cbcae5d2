"""Who takes part in the contest: each method by its settings, over a game's recipe.

    BASELINES    none of them knows what was meant; the best of them is what is to be beaten
    RIVALS       published ways to give turns credit, or to keep steps small
    CANDIDATES   credit by what was meant, and what is built on it
    CONTROLS_OF  what each candidate would be without the one thing that it is said to win by
    CONTROLS     what tells something about all of them

All of them discount by GAMMA a turn, and take STEPS on each batch: at staleness 0 they are PPO's. Where a rival's paper
has a clip of its own, that one replaces it. Positive ones count negative advantages as 0.
"""

from __future__ import annotations

from benchmarks.lab.trial import Method

GAMMA, GROUP = 0.97, 8
CREDIT, INTENTIONS = "learner.credit", "reward.shaper.intentions"
DISCOUNT = f"{CREDIT}.gamma={GAMMA}"
POSITIVE = f"{CREDIT}.positive_only=true"
STEPS = ("learner.loss=decoupled", "learner.loss.kl_guard=0.02", "learner.epochs=2", "learner.minibatches=2")
CRITIC = (f"{CREDIT}.method=gae", DISCOUNT, f"{CREDIT}.lambda_a=0.95")


def method(name: str, *settings: str) -> Method:
    return Method(name, (*STEPS, *settings))


def grouped(name: str, *settings: str) -> Method:
    """Each task is played by GROUP games, which are compared."""
    return Method(name, (*STEPS, f"group_size={GROUP}", *settings), GROUP)


def by_intention(name: str, *settings: str, shaper: str = "aria") -> Method:
    """`settings`: of the intentions."""
    every = "refit=inline", "space.granularity=held_out", f"aggregate.gamma={GAMMA}"  # a later one replaces them
    return method(name, f"reward.shaper={shaper}", *(f"{INTENTIONS}.{each}" for each in (*every, *settings)))


def positive(of: Method) -> Method:
    return Method(f"{of.name}, positive", (*of.settings, POSITIVE))


def pooled(how: str, *more: str, baseline: str = "history") -> tuple[str, ...]:
    given = f"pooling={how}", f"baseline={baseline}", *more
    return tuple(f"aggregate.{each}" for each in given)


PER_TURN = method("per-turn mean", DISCOUNT, f"{CREDIT}.baseline=turn")
GAE = method("gae, hidden-state critic", *CRITIC)
# REINFORCE, whose advantages are never negative where no reward is
NOT_SHARED = method("no baseline", DISCOUNT, f"{CREDIT}.baseline=none")
ALL_ADVANTAGES = (
    PER_TURN,
    method("leave-one-out", DISCOUNT, f"{CREDIT}.baseline=leave_one_out"),
    GAE,
    grouped("grpo", f"{CREDIT}.method=grpo"),
)
GAE_POSITIVE = Method("gae, positive", (*GAE.settings, POSITIVE))
POSITIVE_ALONE = (positive(PER_TURN), GAE_POSITIVE)
BASELINES = (*ALL_ADVANTAGES, NOT_SHARED, *POSITIVE_ALONE)
# What a policy is worth that does not learn, on the tasks of those that play one game of a task, and of the others
FROZEN = (Method("frozen", PER_TURN.settings), Method("frozen, grouped", ALL_ADVANTAGES[-1].settings, GROUP))

GIGPO = grouped("gigpo", f"{CREDIT}.method=gigpo", DISCOUNT)
RIVALS = (
    GIGPO,
    grouped("hgpo", f"{CREDIT}.method=hgpo", DISCOUNT),
    grouped("g2po", f"{CREDIT}.method=g2po", DISCOUNT),
    # at .1, as published, all states of a task are one to so small a policy
    grouped("bipace", f"{CREDIT}.method=bipace", DISCOUNT, f"{CREDIT}.state_distance=0.005"),
    grouped("hcapo", f"{CREDIT}.method=hcapo", DISCOUNT),
    method("rae", f"{CREDIT}.method=rae", DISCOUNT),
    grouped("dr. grpo", f"{CREDIT}.method=grpo", f"{CREDIT}.group_std=false"),
    grouped("gspo", f"{CREDIT}.method=grpo", "learner.loss.kind=gspo", "learner.loss_aggregation=episode"),
    Method("cispo", (*PER_TURN.settings, "learner.loss.kind=policy_gradient", "learner.loss.importance_cap=5")),
    grouped("dapo's clip", f"{CREDIT}.method=grpo", "learner.loss.kind=ppo", "learner.loss.clip_high=0.28"),
)

OWN_HALF, EVIDENCE, HALF_LIFE = pooled("shrinkage", "own=0.5"), pooled("evidence"), "aggregate.half_life=32"
REGRESSED = ("reward.shaper.gives=outcome", *CRITIC)
BY_MEANING = "reward.shaper=regressed"
CANDIDATES = (
    by_intention("aria, own half", *OWN_HALF),
    by_intention("aria, by evidence", *EVIDENCE),
    by_intention("aria, by evidence, half-life", *EVIDENCE, HALF_LIFE),
    grouped(
        "gigpo, intention anchors",
        *("reward.shaper=aria", "reward.shaper.gives=outcome", f"{INTENTIONS}.refit=inline"),
        *(f"{INTENTIONS}.space.granularity=held_out", f"{CREDIT}.method=gigpo", f"{CREDIT}.anchor=labels", DISCOUNT),
    ),
    method("regressed, hidden-state critic", BY_MEANING, *REGRESSED),
    method("regressed, positive", BY_MEANING, *REGRESSED, POSITIVE),
    positive(by_intention("aria", *OWN_HALF)),
)

LAB = "benchmarks.lab.controls"
EQUAL, SHUFFLED = f"{LAB}:EqualTexts", f"{LAB}:Shuffled"
AS_PUBLISHED = by_intention(
    "aria as published", "space.method=average", "space.amount_weight=0", "space.granularity=split"
)
NOTHING_SHARED = (
    by_intention("nothing shared", *pooled("shrinkage", "own=1")),
    by_intention("nothing shared, per-turn mean", *pooled("shrinkage", "own=1", baseline="turn")),
)
OWN_HALF_CONTROLS = (
    *NOTHING_SHARED,
    by_intention("shuffled, own half", *OWN_HALF, shaper=SHUFFLED),
    by_intention("equal texts, own half", *OWN_HALF, shaper=EQUAL),
)
# What each candidate would be without the one thing that it is said to win by
CONTROLS_OF = {
    "aria, own half": OWN_HALF_CONTROLS,
    "aria, by evidence": (
        *NOTHING_SHARED,
        by_intention("shuffled, by evidence", *EVIDENCE, shaper=SHUFFLED),
        by_intention("equal texts, by evidence", *EVIDENCE, shaper=EQUAL),
    ),
    "aria, by evidence, half-life": (
        *NOTHING_SHARED,
        by_intention("shuffled, half-life", *EVIDENCE, HALF_LIFE, shaper=SHUFFLED),
        by_intention("equal texts, half-life", *EVIDENCE, HALF_LIFE, shaper=EQUAL),
    ),
    "gigpo, intention anchors": (GIGPO,),
    "regressed, hidden-state critic": (
        GAE,
        method("equal texts, regressed", f"reward.shaper={EQUAL}Regressed", *REGRESSED),
    ),
    "regressed, positive": (
        GAE_POSITIVE,
        method("equal texts, regressed, positive", f"reward.shaper={EQUAL}Regressed", *REGRESSED, POSITIVE),
    ),
    "aria, positive": tuple(map(positive, OWN_HALF_CONTROLS)),
}
CONTROLS = (method("per-turn mean, not discounted", f"{CREDIT}.gamma=1", f"{CREDIT}.baseline=turn"), AS_PUBLISHED)
