"""Case study: heat up the pancake, as small a game as has a right order of words.

    open the microwave  ->  put the pancake in the microwave  ->  close the microwave

The pancake is in the agent's hand, and three actions are listed in every state. Closing the
microwave on the pancake wins: +1, terminated. Using up the `turns` (5) otherwise fails: -1,
terminated too, because the turns left are told and running out of them is a rule. A wrong
action costs its turn and no more: what is open stays open, an empty microwave can be closed
again, and the rest changes nothing.

By the published rules (`rules: published`, the case study of POAD's authors) an action is listed
only where `LISTED` has it, the turns left are not told, and nothing is told but the observation.

So the game is a finite decision process with 3 * `turns` states, the same one for every
seed. `transitions` lists it whole, and `action_values` solves it exactly: what a method
that gives credit should find can be looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

from envs.game import OVER, Game, Player, Step
from envs.options import Menu, Shuffle, one_of, whole_number
from envs.text.listed import Chooser, gist, menu_of, named, order_of, yes_or_no

SEAT = "agent"
OPEN, PUT, CLOSE = ACTIONS = ("open the microwave", "put the pancake in the microwave", "close the microwave")
# the same three actions in more words, for what the length of an utterance does to credit
WORDINGS = {
    "short": ACTIONS,
    "long": (
        "open the door of the small white microwave that stands on the counter beside the sink",
        "put the round pancake that you have been holding in your hand into the small white microwave",
        "close the door of the small white microwave that stands on the counter beside the sink",
    ),
}
STAGES = {  # stage -> what is seen of it
    "closed": "The microwave is closed. You are holding the pancake.",
    "open": "The microwave is open. You are holding the pancake.",
    "filled": "The microwave is open. The pancake is in the microwave.",
}
CHANGES = {("closed", OPEN): "open", ("open", PUT): "filled", ("open", CLOSE): "closed", ("filled", CLOSE): "heated"}
LISTED = {  # rules -> stage -> the actions that are listed there; others change nothing
    "own": dict.fromkeys(STAGES, ACTIONS),
    "published": {"closed": (OPEN, CLOSE), "open": (PUT,), "filled": (OPEN, CLOSE)},
}
GOAL = "In order to heat up the pancake in the microwave, your next step is to"
TURNS = 5


class State(NamedTuple):
    stage: str  # of STAGES
    left: int  # turns, at least 1


class Transition(NamedTuple):
    state: State
    action: str
    reward: float
    then: State | None  # None: the game is over


def _changed(state: State, action: str | None, rules: str) -> str | None:
    """The stage that an action leads to; None if nothing comes of it."""
    return CHANGES.get((state.stage, action)) if action in LISTED[rules][state.stage] else None


def transition(state: State, action: str | None, rules: str = "own") -> Transition:
    """What an action does; None stands for everything that is no action."""
    stage = _changed(state, action, rules) or state.stage
    if stage == "heated":
        return Transition(state, action, 1.0, None)
    if state.left == 1:
        return Transition(state, action, -1.0, None)
    return Transition(state, action, 0.0, State(stage, state.left - 1))


def states(turns: int = TURNS) -> list[State]:
    """All of them, the one that an episode starts in first."""
    return [State(stage, left) for left in range(turns, 0, -1) for stage in STAGES]


def transitions(turns: int = TURNS, rules: str = "own") -> list[Transition]:
    return [transition(state, action, rules) for state in states(turns) for action in LISTED[rules][state.stage]]


def action_values(
    gamma: float = 1.0,
    turns: int = TURNS,
    policy: Callable[[State], Mapping[str, float]] | None = None,
    rules: str = "own",
) -> dict[tuple[State, str], float]:
    """Expected discounted return of each action in each state, when the policy goes on from
    there. It maps a state to the probability of each action; None is the optimal one."""
    values: dict[tuple[State, str], float] = {}

    def value(state: State | None) -> float:
        if state is None:
            return 0.0
        listed = LISTED[rules][state.stage]
        if policy is None:
            return max(values[state, action] for action in listed)
        chances = policy(state)
        return sum(chances.get(action, 0.0) * values[state, action] for action in listed)

    for state in reversed(states(turns)):  # fewest turns left first
        for action in LISTED[rules][state.stage]:
            done = transition(state, action, rules)
            values[state, action] = done.reward + gamma * value(done.then)
    return values


def seen_in(state: State) -> str:
    left = f"You have {state.left} {'turns' if state.left > 1 else 'turn'} left."
    return f"{STAGES[state.stage]} {left}"


class CaseStudy(Game):
    name = "case_study"
    seats = (SEAT,)

    def __init__(
        self,
        turns: Annotated[int, "1 to 99, after which it has failed"] = TURNS,
        shuffle: Shuffle = True,
        menu: Menu = False,
        wording: Annotated[str, "of the actions: short, 3 to 6 words each; long, 16 or 17"] = "short",
        rules: Annotated[
            str, "own; published: fewer actions are listed in a state, and the turns left are not told"
        ] = "own",
    ):
        self.horizon = whole_number("turns", turns, 1, 99)
        self._worded = WORDINGS[one_of("wording", wording, tuple(WORDINGS))]
        self.rules = one_of("rules", rules, tuple(LISTED))
        self.shuffle, self.menu = yes_or_no("shuffle", shuffle), yes_or_no("menu", menu)
        self._seed: int | None = None
        self._state: State | None = None
        self._won = False
        self._closing = ""

    def reset(self, seed: int) -> None:
        self._state, self._won, self._closing = State("closed", self.horizon), False, ""
        self._order_by(seed)

    def _order_by(self, seed: int | None) -> None:
        self._seed = seed
        if seed is not None:
            self._order = order_of(len(ACTIONS), seed, self.shuffle)

    @property
    def seat(self) -> str | None:
        return None if self._state is None else SEAT

    def briefing(self, seat: str) -> str:
        if self.rules == "published":
            return ""
        return (
            "You are in a kitchen, in front of a microwave, with a pancake in your hand. Your task is to heat up the "
            "pancake in the microwave: it has to be inside, and the microwave closed. Each turn, say exactly one of "
            f"these actions and nothing else: {'; '.join(self._worded)}. What cannot be done costs the turn. You have "
            f"{self.horizon} turns: done in time earns 1, not done costs 1."
        )

    def observe(self) -> str:
        menu = f" {menu_of(self.actions())}" if self.menu else ""
        seen = STAGES[self._state.stage] if self.rules == "published" else seen_in(self._state)
        return f"{seen}{menu} {GOAL}"

    def actions(self) -> tuple[str, ...]:
        listed = ACTIONS if self._state is None else LISTED[self.rules][self._state.stage]
        return tuple(self._worded[place] for place in self._order if ACTIONS[place] in listed)

    def step(self, utterance: str) -> Step:
        if self._state is None:
            raise RuntimeError(OVER)
        state, said = self._state, named(utterance, self._worded)
        action = None if said is None else ACTIONS[self._worded.index(said)]
        done, executable = transition(state, action, self.rules), _changed(state, action, self.rules) is not None
        self._state, self._won = done.then, done.reward > 0
        caption = f"the agent chooses to {action}" if action else "the agent says nothing that could be done"
        if self._won:
            caption += ", and the pancake is heated up"
        elif action and not executable:
            caption += ", which cannot be done"
        if done.then is None:
            self._closing = "The pancake is heated up." if self._won else "You have no turns left."
        return Step(
            rewards={SEAT: done.reward} if done.reward else {},
            executable=executable,
            terminated=done.then is None,
            caption=caption,
        )

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self._won)}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._closing} if self._closing else {}

    def save(self) -> dict[str, Any]:
        state = None if self._state is None else list(self._state)
        return {"seed": self._seed, "state": state, "won": self._won, "closing": self._closing}

    def restore(self, saved: dict[str, Any]) -> None:
        self._order_by(saved["seed"])
        self._state = None if saved["state"] is None else State(*saved["state"])
        self._won, self._closing = saved["won"], saved["closing"]

    def language(self) -> Iterable[str]:
        yield from map(seen_in, states(max(self.horizon, 2)))
        yield from (GOAL, "The pancake is heated up.", "You have no turns left.", *self._worded)
        if self.menu:
            yield from (menu_of((action, action)) for action in self._worded)

    @classmethod
    def gist(cls, utterance: str) -> str:
        return gist(utterance)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"expert": Expert, "mediocre": Mediocre, "random": Random}


class Expert(Chooser):
    """The optimum: always wins, in 3 turns."""

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        if "The microwave is closed." in observation:
            right = "open "
        else:
            right = "put " if "holding the pancake" in observation else "close "
        return next(action for action in actions if action.startswith(right))


class Mediocre(Expert):
    """Does the right thing in 1 of 5 turns and anything in the others: wins 37.3 %."""

    wisdom = 0.2


class Random(Chooser):
    """Any of the three actions: wins 42 / 243 = 17.3 %."""
