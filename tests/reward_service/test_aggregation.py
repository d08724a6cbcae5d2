"""Group means in a sliding window: exact, incremental, and the pooling that goes beyond them."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reward_service.intentions.aggregation import Aggregates
from reward_service.intentions.gist import NOTHING, YES
from reward_service.intentions.pooling.pooling import POOLINGS
from reward_service.intentions.settings import AggregateSettings
from reward_service.intentions.trajectory import CodedGame, turn_returns
from reward_service.intentions.window import Window

GAMMA = 0.95
PLAYERS = (("haggle", "alice"), ("haggle", "bob"), ("quiz", "alice"))
EXACT = AggregateSettings()


def themselves(level, codes):
    """Every code is an intention of its own at level 20; at level 2 even and odd ones."""
    return np.array([code if code < 0 or level == 20 else code % 2 for code in codes], np.int64)


def window(**options) -> Window:
    chosen = AggregateSettings(**options)
    return Window(chosen, chosen.pooling.tables(range(2, 21), 20), themselves)


def game(said, heard=None, outcome=1.0, player=PLAYERS[0]) -> CodedGame:
    return CodedGame(player, tuple(said), tuple(heard or [NOTHING] * len(said)), outcome)


def values(window: Window) -> list[list[float]]:
    return [turns.tolist() for seats in window.values(window.episodes) for turns in seats]


def filled(*games: CodedGame, **options) -> Window:
    chosen = window(**options)
    chosen.add([named(number, each) for number, each in enumerate(games)])
    return chosen


def named(number: int, *seats: CodedGame):
    return ("run", number, 0), seats


@st.composite
def trajectories(draw):
    turns = draw(st.integers(1, 6))
    lists = [st.lists(st.integers(0, 3), min_size=turns, max_size=turns) for _ in range(2)]
    said, heard = (draw(each) for each in lists)
    return game(said, [NOTHING, *heard[1:]], draw(st.floats(0, 1)), draw(st.sampled_from(PLAYERS)))


def by_definition(games, baseline="none") -> list[list[float]]:
    """In exact arithmetic, from nothing."""
    actions, histories, turns = defaultdict(list), defaultdict(list), defaultdict(list)

    def keyed(each):
        for t in range(len(each.actions)):
            history = (each.player, each.actions[:t], each.observations[: t + 1])
            yield history, (history, each.actions[t]), (each.player, t)

    for each in games:
        for (history, action, turn), value in zip(keyed(each), returns(each), strict=True):
            actions[action].append(value)
            histories[history].append(value)
            turns[turn].append(value)

    def mean(group):
        return sum(group) / len(group)

    expected = {
        "none": lambda history, turn: 0,
        "history": lambda history, turn: mean(histories[history]),
        "turn": lambda history, turn: mean(turns[turn]),
    }[baseline]
    return [[float(mean(actions[a]) - expected(h, t)) for h, a, t in keyed(each)] for each in games]


def returns(each: CodedGame) -> list[Fraction]:
    return [Fraction(value) for value in turn_returns(each.outcome, len(each.actions), GAMMA)]


def test_check_values():
    """Three single-player games: a:1,2,3 o:a,b,a R=1; a:1,2 o:a,a R=0; a:1,2,3,4 o:a,b,a,a R=1."""
    a, b = 7, 8
    played = filled(
        game([1, 2, 3], [NOTHING, a, b]), game([1, 2], [NOTHING, a], 0.0), game([1, 2, 3, 4], [NOTHING, a, b, a])
    )
    first, second, third = 0.586625, 0.6175, 0.975
    assert values(played) == [
        pytest.approx([first, second, third], abs=1e-15),
        pytest.approx([first, second], abs=1e-15),
        pytest.approx([first, second, third, 1.0], abs=1e-15),
    ]


def test_returns_count_turns_of_the_seat_and_the_last_one_gets_the_outcome_itself():
    assert turn_returns(0.3, 3, GAMMA) == [GAMMA**2 * 0.3, GAMMA * 0.3, 0.3]
    assert all(0 < value <= 1 for value in turn_returns(1.0, 50, GAMMA))
    assert turn_returns(1.0, 1, GAMMA) == [1.0]


def test_first_turns_and_final_one_sided_actions_are_grouped_like_all_others():
    """Bob answers an offer and nobody speaks after him: his only turn counts, with the outcome itself."""
    bob = PLAYERS[1]
    played = filled(game([5], [3], 1.0, bob), game([5], [3], 0.0, bob), game([5], [4], 1.0, bob))
    assert values(played) == [[0.5], [0.5], [1.0]]


def test_seats_and_games_never_share_a_group():
    assert values(filled(*(game([1], outcome=r, player=p) for r, p in zip((1.0, 0.0, 0.5), PLAYERS, strict=True)))) == [
        [1.0],
        [0.0],
        [0.5],
    ]


@settings(deadline=None, max_examples=60)
@given(st.lists(trajectories(), min_size=1, max_size=12), st.lists(st.integers(0, 9), max_size=4), st.booleans())
def test_groups_are_the_turns_with_the_same_latest_steps_and_action(games, lengths, history_baseline):
    """Every length of history, by its definition. Steps: what was said before, and what was heard then."""
    tables = [(20, None), *((20, length) for length in lengths), (2, 3)]
    aggregates = Aggregates(tables, histories=history_baseline)
    played = Window(EXACT, tables, themselves)
    played.aggregates = aggregates
    entries = [entry for each in played.add([named(n, each) for n, each in enumerate(games)]) for entry in each.entries]
    found = aggregates.joined(entries).groups
    for table, (level, length) in enumerate(tables):
        actions, histories = [], []
        for each in games:
            said, heard = (themselves(level, codes).tolist() for codes in (each.actions, each.observations))
            steps = list(zip([NOTHING, *said], heard, strict=False))
            for turn, action in enumerate(said):
                start = 0 if length is None else max(turn + 1 - length, 0)
                histories.append((each.player, *steps[start : turn + 1]))
                actions.append((histories[-1], action))
        assert same_groups(found[aggregates.actions[table]], actions)
        if table < len(aggregates.histories):
            assert same_groups(found[aggregates.histories[table]], histories)


def same_groups(numbers, keys) -> bool:
    pairs = set(zip(numbers.tolist(), keys, strict=True))
    return len(pairs) == len({number for number, _ in pairs}) == len(set(keys))


SHORTER = (
    {"kind": "exact"},
    {"kind": "backoff", "histories": (2, 1, 0)},
    {"kind": "shrinkage", "histories": (2, 1, 0), "coarser": (2,)},
)
STREAMED = (
    {"baseline": "none"},
    {"baseline": "turn"},
    {"baseline": "history"},
    {"pooling": {"kind": "backoff", "histories": (5, 3), "smallest": 2}, "baseline": "history"},
    {"pooling": {"kind": "shrinkage", "histories": (4, 2, 1, 0), "coarser": (2,)}, "baseline": "history"},
)


@settings(deadline=None, max_examples=80)
@given(st.lists(trajectories(), min_size=1, max_size=25), st.integers(1, 8), st.sampled_from(STREAMED))
def test_what_was_added_and_expired_equals_a_recomputation(games, size, options):
    stream = window(**options)
    for number, each in enumerate(games):
        stream.add([named(number, each)])
        stream.expire(max(len(stream) - size, 0))
        left = games[: number + 1][-size:]
        assert values(stream) == values(filled(*left, **options))
    if "pooling" not in options:
        assert [np.array(each) for each in values(stream)] == [
            pytest.approx(each, abs=1e-15) for each in by_definition(left, options["baseline"])
        ]
    stream.expire(len(stream))
    assert_empty(stream)


def assert_empty(window: Window) -> None:
    groups = window.aggregates.groups
    assert len(groups) == 0 and sorted(groups.free) == list(range(len(groups.keys)))
    assert not (groups.count.any() or groups.high.any() or groups.low.any())


def test_a_long_stream_leaves_no_trace_where_floats_would():
    chance, naive = random.Random(0), 0.0
    amounts = [chance.random() for _ in range(20_000)]
    stream = window()
    for first in range(0, len(amounts), 50):
        stream.add([named(first + place, game([1], outcome=amounts[first + place])) for place in range(50)])
        stream.expire(len(stream) - 3)
    for number, amount in enumerate(amounts):
        naive += amount - (amounts[number - 3] if number >= 3 else 0.0)
    assert values(stream) == values(filled(*(game([1], outcome=amount) for amount in amounts[-3:])))
    expected = float(sum(map(Fraction, amounts[-3:])) / 3)
    assert abs(values(stream)[0][0] - expected) <= 1e-16 < abs(naive / 3 - expected)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(trajectories(), min_size=2, max_size=12),
    st.randoms(use_true_random=False),
    st.sampled_from(SHORTER),
)
def test_the_order_of_arrival_does_not_matter(games, chance, pooling):
    order = list(range(len(games)))
    chance.shuffle(order)
    options = {"pooling": pooling, "baseline": "history"}
    straight, mixed = values(filled(*games, **options)), values(filled(*(games[i] for i in order), **options))
    assert [straight[i] for i in order] == mixed


@settings(deadline=None, max_examples=60)
@given(st.lists(trajectories(), min_size=1, max_size=20))
def test_law_of_total_variance(games):
    """Var(R) = Var(group mean) + mean of Var(R inside its group): aggregation adds none."""
    played = filled(*games)
    found = played.metrics()
    raw, means = np.array([float(r) for each in games for r in returns(each)]), np.concatenate(values(played))
    assert found["variance_before"] == pytest.approx(raw.var(), abs=1e-12)
    assert found["variance_after"] == pytest.approx(means.var(), abs=1e-12)
    assert found["variance_after"] + ((raw - means) ** 2).mean() == pytest.approx(raw.var(), abs=1e-12)


def test_backoff_takes_the_longest_history_with_enough_members():
    """After (1), (2) and (3) alike action 5; only after (1) is it common."""
    games = [game([1, 5], outcome=1.0)] * 3 + [game([2, 5], outcome=0.0)] + [game([3, 5], outcome=0.5)]
    played = filled(*games, pooling={"kind": "backoff", "histories": (1, 0), "smallest": 3})
    assert [turn[1] for turn in values(played)] == pytest.approx([1.0, 1.0, 1.0, 0.7, 0.7], abs=1e-15)
    own = filled(*games, pooling={"kind": "backoff", "histories": (1, 0), "smallest": 1})
    assert values(own) == values(filled(*games))


def test_backoff_remembers_the_labels_of_the_latest_turns():
    """Action 5 after (9, 1), (8, 1) and (8, 2): with one turn of memory the first two are one group."""
    games = [game([9, 1, 5], outcome=1.0), game([8, 1, 5], outcome=0.0), game([8, 2, 5], outcome=0.0)]
    played = filled(*games, pooling={"kind": "backoff", "histories": (1,), "smallest": 2})
    assert [turn[2] for turn in values(played)] == [0.5, 0.5, 0.0]
    assert values(played)[2][1] == 0.0  # (8), 2: too small at full length, and the last resort as well


def test_shrinkage_leans_from_coarse_to_fine():
    """One turn each, actions 1, 3 (odd) and 4: the fine mean leans on the coarse one of its parity,
    and that one on the mean at the turn."""
    games = [game([1], outcome=1.0), game([3], outcome=0.0), game([4], outcome=1.0)]
    options = {"pooling": {"kind": "shrinkage", "histories": (), "coarser": (2,), "strength": 2.0}}
    # (level 20, whole history) leans on (level 2, whole history), which leans on the turn.
    turn = 2 / 3
    odd, even = (1 + 2 * turn) / 4, (1 + 2 * turn) / 3
    assert [value for (value,) in values(filled(*games, **options))] == pytest.approx(
        [(1 + 2 * odd) / 3, 2 * odd / 3, (1 + 2 * even) / 3], abs=1e-15
    )


def test_much_evidence_outweighs_what_shrinkage_leans_on():
    games = [game([1], outcome=1.0)] * 500 + [game([2], outcome=0.0)] * 500
    played = filled(*games, pooling={"kind": "shrinkage", "histories": (0,), "strength": 4.0})
    assert values(played)[0][0] == pytest.approx(1.0, abs=0.01) and values(played)[-1][0] == pytest.approx(
        0.0, abs=0.01
    )


@pytest.mark.parametrize("pooling", ["exact", "backoff", "shrinkage"])
def test_a_turn_keeps_its_share_of_its_own_return(pooling):
    games = [game([1, 5], outcome=1.0), game([1, 5], outcome=0.0), game([2, 6], outcome=0.5)]
    returns = [[0.95, 1.0], [0.0, 0.0], [0.475, 0.5]]
    pooled, mixed, alone = (values(filled(*games, pooling=pooling, own=own)) for own in (0, 0.25, 1))
    assert alone == returns
    for found, own, mean in zip(mixed, returns, pooled, strict=True):
        assert found == pytest.approx([0.25 * r + 0.75 * m for r, m in zip(own, mean, strict=True)], abs=1e-15)
    gaps = values(filled(*games, pooling=pooling, own=1, baseline="history"))
    assert gaps[0][0] > 0 > gaps[1][0], "what a group cannot tell apart"


def test_history_baseline_is_what_the_situation_is_worth():
    games = [game([1, 5], [NOTHING, YES], 1.0), game([1, 6], [NOTHING, YES], 0.0), game([2, 5], outcome=1.0)]
    assert [turn[1] for turn in values(filled(*games, baseline="history"))] == [0.5, -0.5, 0.0]
    assert [turn[1] for turn in values(filled(*games, baseline="turn"))] == pytest.approx([1 / 3, -2 / 3, 1 / 3])


@pytest.mark.parametrize("baseline", ["none", "turn", "history"])
def test_without_intentions_a_turn_is_worth_its_own_return(baseline):
    games = [game([1, 2], outcome=1.0), game([1, 2], outcome=0.0), game([3], outcome=1.0)]
    plain = Window(AggregateSettings(baseline=baseline, pooling="backoff"))
    plain.add([named(number, each) for number, each in enumerate(games)])
    mean = 0.0 if baseline == "none" else 1.0
    first, second = (0.95 + 0 + 1) / 3 * mean, 0.5 * mean
    expected = [[0.95 - first, 1 - second], [-first, -second], [1 - first]]
    assert values(plain) == [pytest.approx(each, abs=1e-15) for each in expected]


def test_group_sizes_and_singletons_by_turn():
    found = filled(game([1, 2]), game([1, 3]), game([4])).metrics()
    assert found["groups"] == 4 and found["group_size"] == (2 + 2 + 1 + 1 + 1) / 5
    assert (found["singletons_turn_1"], found["singletons_turn_2"], found["singletons"]) == (1 / 3, 1.0, 3 / 5)
    assert (found["episodes"], found["turns"]) == (3, 5)
    assert window().metrics() == {"episodes": 0, "turns": 0}


def test_an_episode_may_have_several_seats_or_none():
    both = window()
    both.add([named(0, game([1], player=PLAYERS[0]), game([1], outcome=0.0, player=PLAYERS[1])), named(1)])
    assert values(both) == [[1.0], [0.0]]
    assert [len(played.trajectories) for played in both.expire(2)] == [2, 0]
    assert_empty(both)


def test_a_labelling_with_more_intentions_than_keys_hold_is_refused():
    with pytest.raises(ValueError, match="a labelling has 8187 intentions or more"):
        filled(game([8187]))
    assert values(filled(game([8186]), game([8185], outcome=0.0))) == [[1.0], [0.0]]


def test_tables_run_from_fine_to_coarse():
    chosen = POOLINGS.make("shrinkage", histories=(1, 3), coarser=(5, 10, 30))
    assert chosen.tables(range(2, 21), 20) == [(20, None), (20, 3), (20, 1), (10, 1), (5, 1)]
    assert EXACT.pooling.tables(range(2, 21), 20) == [(20, None)]
