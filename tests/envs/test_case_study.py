"""The case study: the whole decision process by hand, and the game against it. Listed actions, too."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.case_study import ACTIONS, CLOSE, OPEN, PUT, CaseStudy, State, action_values, states, transitions
from envs.registry import make_game, make_player
from envs.text.listed import named, order_of

SEAT = "agent"
RIGHT = {"closed": OPEN, "open": PUT, "filled": CLOSE}
GOAL = "In order to heat up the pancake in the microwave, your next step is to"
# stage -> where each of ACTIONS leads: open, put, close
TABLE = {
    "closed": ("open", "closed", "closed"),
    "open": ("open", "filled", "closed"),
    "filled": ("filled", "filled", "heated"),
}


def game_at(state: State, seed: int = 0, **options) -> CaseStudy:
    game = make_game("case_study", options)
    game.reset(seed)
    game.restore({**game.save(), "state": list(state)})
    return game


def test_the_table_of_transitions_by_hand():
    assert states(2) == [State(stage, left) for left in (2, 1) for stage in ("closed", "open", "filled")]
    listed = transitions()
    assert len(listed) == 15 * 3 and len({(each.state, each.action) for each in listed}) == 45
    for state, action, reward, then in listed:
        stage = TABLE[state.stage][ACTIONS.index(action)]
        if stage == "heated":
            assert (reward, then) == (1.0, None)
        elif state.left == 1:
            assert (reward, then) == (-1.0, None)
        else:
            assert (reward, then) == (0.0, State(stage, state.left - 1))


def test_the_game_does_what_the_table_says():
    for seed, (state, action, reward, then) in enumerate(transitions()):
        game = game_at(state, seed)
        step = game.step(action)
        assert step.rewards == ({SEAT: reward} if reward else {})
        assert step.terminated == (then is None) and not step.truncated
        assert step.executable == (TABLE[state.stage][ACTIONS.index(action)] != state.stage)
        assert game.save()["state"] == (None if then is None else list(then))
        assert game.outcome() == {SEAT: float(reward > 0)}
        nonsense = game_at(state, seed)
        assert not nonsense.step("heat it").executable
        left = State(state.stage, state.left - 1)
        assert nonsense.save()["state"] == (list(left) if left.left else None), "nonsense costs the turn"


def test_the_optimal_values_by_hand():
    """Right away: +1 after the actions that are left, each turn discounted; a wasted turn costs
    one more, closing the empty microwave two; -1 at the last turn where there are too few."""
    best = action_values(gamma=0.95)
    start = State("closed", 5)
    assert best[start, OPEN] == pytest.approx(0.95**2) == pytest.approx(0.9025)
    assert best[start, PUT] == best[start, CLOSE] == pytest.approx(0.95**3)
    assert best[State("open", 4), PUT] == pytest.approx(0.95)
    assert best[State("open", 4), OPEN] == pytest.approx(0.95**2)
    assert best[State("open", 4), CLOSE] == pytest.approx(0.95**3), "open, put and close again: just in time"
    assert best[State("open", 3), CLOSE] == pytest.approx(-(0.95**2))
    assert best[State("filled", 3), CLOSE] == 1.0
    assert best[State("closed", 2), OPEN] == pytest.approx(-0.95)
    assert {value for (state, _), value in action_values().items() if state == start} == {1.0}, (
        "there is time for one slip"
    )


def value_of(policy, gamma: float = 1.0, turns: int = 5) -> float:
    start, values = State("closed", turns), action_values(gamma, turns, policy)
    return sum(policy(start).get(action, 0.0) * values[start, action] for action in ACTIONS)


@pytest.mark.parametrize("gamma", [1.0, 0.95])
def test_the_values_of_a_policy_are_the_means_over_all_episodes(gamma):
    """All 3^5 ways to speak, played in the real game and weighted by how likely they are."""
    policy = {
        "closed": {OPEN: 0.5, PUT: 0.2, CLOSE: 0.3},
        "open": {OPEN: 0.1, PUT: 0.6, CLOSE: 0.3},
        "filled": {OPEN: 0.25, PUT: 0.25, CLOSE: 0.5},
    }
    total = weight = 0.0
    seen = set()
    for way in itertools.product(ACTIONS, repeat=5):
        game, said, chance, earned = make_game("case_study"), [], 1.0, 0.0
        game.reset(1)
        for turn, action in enumerate(way):
            if game.seat is None:
                break
            chance *= policy[game.save()["state"][0]][action]
            said.append(action)
            earned += gamma**turn * game.step(action).rewards.get(SEAT, 0.0)
        if tuple(said) not in seen:  # a game that ended early is one way, however it would have gone on
            seen.add(tuple(said))
            total += chance * earned
            weight += chance
    assert weight == pytest.approx(1.0)
    assert value_of(lambda state: policy[state.stage], gamma) == pytest.approx(total)


def follower(share: Fraction):
    def policy(state: State) -> dict[str, float]:
        return {a: (1 - share) / 3 + (share if a == RIGHT[state.stage] else 0) for a in ACTIONS}

    return policy


def successes(player: str, episodes: int) -> float:
    game, one, won = make_game("case_study"), make_player("case_study", player), 0
    for seed in range(episodes):
        game.reset(seed)
        one.reset(seed)
        while game.seat:
            game.step(one.reply(game.observe(), game.actions()))
        won += game.outcome()[SEAT]
    return won / episodes


def test_the_players_have_their_exact_strength():
    """Success is (value + 1) / 2. Random: 42 of the 243 ways to speak win."""
    assert successes("expert", 20) == 1.0
    chances = {who: (value_of(follower(share)) + 1) / 2 for who, share in (("random", 0), ("mediocre", Fraction(1, 5)))}
    assert chances["random"] == pytest.approx(42 / 243) and chances["mediocre"] == pytest.approx(0.37264, abs=1e-5)
    for player, chance in chances.items():
        assert abs(successes(player, 3000) - chance) < 0.04


def test_a_whole_game_by_hand():
    game = make_game("case_study", {"shuffle": False})
    game.reset(0)
    holding, goal = "You are holding the pancake.", GOAL
    assert game.observe() == f"The microwave is closed. {holding} You have 5 turns left. {goal}"
    assert game.actions() == ACTIONS
    game.step(OPEN)
    assert game.observe() == f"The microwave is open. {holding} You have 4 turns left. {goal}"
    game.step(PUT)
    assert game.observe() == f"The microwave is open. The pancake is in the microwave. You have 3 turns left. {goal}"
    assert game.outcome() == {SEAT: 0.0} and game.closing() == {}
    step = game.step(CLOSE)
    assert step.caption == "the agent chooses to close the microwave, and the pancake is heated up"
    assert game.seat is None and game.closing() == {SEAT: "The pancake is heated up."}
    with pytest.raises(RuntimeError, match="over"):
        game.step(OPEN)
    game.reset(0)
    steps = [game.step(CLOSE) for _ in range(5)]
    assert [step.rewards for step in steps] == [{}] * 4 + [{SEAT: -1.0}] and steps[-1].terminated
    assert game.closing() == {SEAT: "You have no turns left."} and game.outcome() == {SEAT: 0.0}


@pytest.mark.parametrize("options", [{}, {"menu": True}, {"turns": 1}, {"turns": 12}, {"wording": "long"}])
def test_the_language_holds_every_word(options):
    game = make_game("case_study", options)
    words = {word for sentence in game.language() for word in sentence.lower().split()}
    for seed in range(20):
        one = make_player("case_study", "random", options)
        game.reset(seed)
        one.reset(seed)
        while game.seat:
            assert {w for text in (game.observe(), *game.actions()) for w in text.lower().split()} <= words
            game.step(one.reply(game.observe(), game.actions()))
        assert {w for w in game.closing()[SEAT].lower().split()} <= words


def test_every_order_of_the_list_is_as_likely():
    orders = Counter(order_of(3, seed, shuffle=True) for seed in range(3000))
    assert len(orders) == 6 and all(410 < count < 590 for count in orders.values())
    assert order_of(3, 7, shuffle=False) == (0, 1, 2) and order_of(9, 1, True) != order_of(9, -1, True)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("open the TV", "open the TV"),
        (" Open the tv.\n", "open the TV"),
        ("open the TV .", "open the TV"),
        ("open  the TV", None),
        ("open the TV..", None),
        ("open the TV!", None),
        ("open the TV and sit", None),
        ("open", None),
        ("", None),
        (".", None),
        ("open the TV" + " " * 500, None),
    ],
)
def test_an_action_is_named_by_all_of_its_letters(said, meant):
    assert named(said, ("sit", "open the TV")) == meant


@given(st.text(max_size=30))
def test_any_text_is_taken(text):
    game = game_at(State("filled", 1))
    step = game.step(text)
    assert step.terminated and step.rewards[SEAT] == (1.0 if named(text, ACTIONS) == CLOSE else -1.0)


def test_more_words_change_nothing_else():
    for seed, (state, action, *_) in enumerate(transitions()):
        short, long = game_at(state, seed), game_at(state, seed, wording="long")
        worded = long.actions()[short.actions().index(action)]
        assert len(worded.split()) in (16, 17) and worded.split()[0] == action.split()[0]
        here, there = short.step(action), long.step(worded)
        assert here == there and long.save() == short.save()
        assert not game_at(state, seed, wording="long").step(action).executable  # the short form is not listed
    one = make_player("case_study", "expert", {"wording": "long"})
    game = make_game("case_study", {"wording": "long"})
    game.reset(0), one.reset(0)
    while game.seat:
        game.step(one.reply(game.observe(), game.actions()))
    assert game.outcome() == {SEAT: 1.0}


def test_saved_games_are_small_and_whole():
    for state in states():
        saved = game_at(state, seed=3).save()
        other = make_game("case_study")
        other.restore(json.loads(json.dumps(saved)))
        assert other.save() == saved and other.actions() == game_at(state, seed=3).actions()


@pytest.mark.parametrize(
    "options", [{"turns": 0}, {"turns": 5.0}, {"turns": 100}, {"shuffle": "no"}, {"menu": None}, {"wording": 1}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=f"game option {next(iter(options))}="):
        make_game("case_study", options)


# As POAD's authors' own case study has it: what is listed at each stage, and where it leads
PUBLISHED = {
    "closed": {OPEN: "open", CLOSE: "closed"},
    "open": {PUT: "filled"},
    "filled": {OPEN: "filled", CLOSE: "heated"},
}


def test_every_way_to_play_is_that_of_the_published_case_study():
    """There no turn pays but the last one: 1 if the pancake is heated by it, also if it is the fifth, and -1 else."""
    won = []
    for draws in itertools.product((0, 1), repeat=5):
        game, stage = make_game("case_study", {"rules": "published", "shuffle": False}), "closed"
        game.reset(0)
        assert game.briefing(SEAT) == ""
        for turn, draw in enumerate(draws, start=1):
            listed = tuple(PUBLISHED[stage])
            assert game.actions() == listed and "left" not in game.observe()
            action = listed[draw % len(listed)]
            before, stage = stage, PUBLISHED[stage][action]
            step = game.step(action)
            pay = 1.0 if stage == "heated" else -1.0 if turn == 5 else 0.0
            assert (step.rewards.get(SEAT, 0.0), step.terminated) == (pay, pay != 0) and not step.truncated
            assert step.executable == (stage != before)
            if step.terminated:
                break
        won.append(game.outcome()[SEAT])
    assert sum(won) == 22 and len(transitions(rules="published")) == 5 * 5
    values = action_values(gamma=0.95, rules="published")
    assert values[State("closed", 5), OPEN] == pytest.approx(0.95**2)
    assert values[State("filled", 1), OPEN] == -1 and (State("open", 3), CLOSE) not in values


def test_what_the_published_rules_do_not_list_changes_nothing():
    game = game_at(State("open", 3), rules="published")
    step = game.step(CLOSE)
    assert not step.executable and "The microwave is open." in game.observe() and game.actions() == (PUT,)
