"""How many intentions: SplitScore against a plain recomputation, silhouette against scikit-learn's."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

from benchmarks.granularity import talk
from reward_service.intentions.clustering.ward import Ward
from reward_service.intentions.fit import Utterances, fit_space
from reward_service.intentions.gist import NOTHING, YES, Gist
from reward_service.intentions.granularity.granularity import Played
from reward_service.intentions.granularity.held_out import held_out_errors, level_of
from reward_service.intentions.granularity.silhouette import silhouettes
from reward_service.intentions.granularity.split import settled_level, split_scores
from reward_service.intentions.trajectory import CodedGame
from reward_service.intentions.turns import Turns

CODES = 6
PLAYERS = (("haggle", "me"), ("haggle", "you"), ("quiz", "me"))


@st.composite
def trajectories(draw):
    turns = draw(st.integers(1, 5))
    code = st.integers(0, CODES - 1)
    return CodedGame(
        draw(st.sampled_from(PLAYERS)),
        tuple(draw(st.lists(code, min_size=turns, max_size=turns))),
        tuple(draw(st.lists(code | st.sampled_from([NOTHING, YES]), min_size=turns, max_size=turns))),
        draw(st.sampled_from([0.0, 0.5, 1.0])),
    )


def plain_means(played, labels, gamma: float) -> list[list[float]]:
    """Turn by turn for each trajectory, by the definition, in exact arithmetic."""
    groups = defaultdict(list)

    def keyed(each):
        named = [code if code < 0 else labels[code] for code in each.observations]
        history = [each.player]
        for t, code in enumerate(each.actions):
            history = [*history, "heard", named[t]]
            yield (
                (tuple(map(str, history)), labels[code]),
                Fraction(gamma ** (len(each.actions) - 1 - t) * each.outcome),
            )
            history = [*history, "said", labels[code]]

    for each in played:
        for key, value in keyed(each):
            groups[key].append(value)
    return [[float(sum(groups[key]) / len(groups[key])) for key, _ in keyed(each)] for each in played]


@settings(deadline=None, max_examples=60)
@given(st.lists(trajectories(), min_size=1, max_size=12), st.integers(0, 10**6))
def test_split_scores_are_those_of_the_definition(played, seed):
    random = np.random.default_rng(seed)
    levels = (2, 3, 4)
    labels = np.array([random.integers(level, size=CODES) for level in levels])
    means = [sum(plain_means(played, row.tolist(), 0.95), []) for row in labels]
    expected = {
        level: np.abs(np.subtract(fine, coarse)).mean()
        for level, coarse, fine in zip(levels, means, means[1:], strict=False)
    }
    assert split_scores(Played(Turns.of(played, 0.95), levels, labels)) == pytest.approx(expected, abs=1e-12)


def test_check_values():
    """Single-player games whose labels are a:1,2,3 o:a,b,a; a:1,2 o:a,a; a:1,2,3,4 o:a,b,a,a."""
    games = [([1, 2, 3], [NOTHING, 5, 6], 1.0), ([1, 2], [NOTHING, 5], 0.0), ([1, 2, 3, 4], [NOTHING, 5, 6, 5], 1.0)]
    turns = Turns.of([CodedGame(("quiz", "me"), tuple(a), tuple(o), r) for a, o, r in games], 0.95)
    means = turns.group_means(np.arange(7))
    first, second, third, fourth = 0.586625, 0.6175, 0.975, 1.0
    expected = [first, second, third, first, second, first, second, third, fourth]
    assert means == pytest.approx(expected, abs=1e-15), "game after game"


@pytest.mark.parametrize(
    ("scores", "patience", "complete", "level"),
    [
        ([0.5, 0.5, 0.0, 0.0, 0.0], 2, False, 4),
        ([0.5, 0.0, 0.5, 0.0, 0.0, 0.0], 2, False, 5),  # calm for a moment only
        ([0.0, 0.0, 0.0], 2, False, 2),
        ([0.5, 0.0, 0.0], 2, False, None),  # nobody knows what a further cut would change
        ([0.5, 0.0, 0.0], 2, True, 3),  # there is none
        ([0.5, 0.5], 2, True, 4),
        ([0.009, 0.01], 0, False, 2),  # strictly below epsilon
        ([0.01, 0.009], 0, False, 3),
        ([], 0, False, None),
    ],
)
def test_k_is_the_first_from_which_on_nothing_changes(scores, patience, complete, level):
    assert settled_level({k: score for k, score in enumerate(scores, start=2)}, 0.01, patience, complete) == level


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(4, 30))
def test_silhouettes_are_those_of_the_repeated_points(seed, count):
    random = np.random.default_rng(seed)
    points, counts = random.normal(size=(count, 3)).astype(np.float32), random.integers(1, 4, count)
    space = fit_space(Utterances([Gist(str(i)) for i in range(count)], points, counts), Ward())
    repeated = np.repeat(points, counts, axis=0)
    for level, score in silhouettes(space, 0).items():
        labels = space.labels(repeated, level)
        if level < len(repeated):
            assert score == pytest.approx(silhouette_score(repeated.astype(float), labels), abs=1e-4)


def spread(clusters: int, each: int, seed: int = 0):
    random = np.random.default_rng(seed)
    centres = np.eye(clusters, 16)
    return (np.repeat(centres, each, axis=0) + 0.02 * random.normal(size=(clusters * each, 16))).astype(np.float32)


def test_each_way_to_choose_k():
    """Six kinds of utterance: five are worth the same, and one wins."""
    points = spread(6, 20)
    gists = [Gist(f"{number:03}") for number in range(len(points))]
    space = fit_space(Utterances(gists, points, np.ones(120, np.int64)), Ward(max_k=40))
    played = [CodedGame(PLAYERS[0], (code,), (NOTHING,), float(code >= 100)) for code in range(120)]
    turns, own = Turns.of(played, 0.95), space.nearest(points)[0]

    def chosen(granularity):
        found = Ward(granularity=granularity).choose(space, Played(turns, space.levels, space.cuts[:, own]))
        return found.k, found.settled

    assert chosen("silhouette") == (6, True)
    assert chosen({"kind": "fixed", "k": 9}) == (9, True)
    assert chosen({"kind": "fixed", "k": 500}) == (40, True)
    for granularity in ("held_out", "split", {"kind": "split", "company": True}):
        k, settled = chosen(granularity)
        assert settled and 2 <= k <= 6
        winners = space.labels(points, k)
        assert not set(winners[100:]) & set(winners[:100])


@st.composite
def some_games(draw):
    return draw(st.lists(trajectories(), min_size=2, max_size=10)), draw(st.integers(0, 10**6))


@settings(deadline=None, max_examples=40)
@given(some_games())
def test_held_out_errors_are_those_of_the_definition(drawn):
    """Turn by turn and pair by pair, with plain keys."""
    played, seed = drawn
    random, levels = np.random.default_rng(seed), (2, 3)
    labels = np.array([random.integers(level, size=CODES) for level in levels])
    told = [
        (game, t, (each.player, t), each.outcome * 0.95 ** (len(each.actions) - 1 - t))
        for game, each in enumerate(played)
        for t in range(len(each.actions))
    ]
    means = {place: np.mean([value for *_, at, value in told if at == place]) for *_, place, _ in told}
    x = np.array([value - means[place] for *_, place, value in told])
    game = np.array([each for each, *_ in told])

    def key(number, t, names, length):
        each = played[number]
        steps = [
            (None if n == 0 else int(names[each.actions[n - 1]]),
             each.observations[n] if each.observations[n] < 0 else int(names[each.observations[n]]))
            for n in range(t + 1)
        ]  # fmt: skip
        begun = steps if length is None else [None] * max(length - t - 1, 0) + steps[max(t + 1 - length, 0) :]
        return each.player, length, tuple(begun), int(names[each.actions[t]])

    def error(names):
        m, explained, square = np.zeros(len(x)), 0.0, (x**2).mean()
        chain = []
        for length in (0, 2, None):
            keys = [key(number, t, names, length) for number, t, *_ in told]
            same = np.array([[a == b for b in keys] for a in keys]) & (game[:, None] != game[None, :])
            more = 0.0
            if same.any():
                mean = (np.outer(x, x) * same).sum() / same.sum()
                more = max(mean - explained - max(square - mean, 0) * np.sqrt(2 / same.sum()), 0.0)
            explained += more
            chain.append((same, more))
        noise = max(square - explained, 1e-12)
        for same, spread in chain:
            m = (spread * same @ x + noise * m) / (spread * same.sum(axis=1) + noise)
        return (x - m) ** 2

    errors, plain = held_out_errors(Played(Turns.of(played, 0.95), levels, labels), (2, 0))
    for level, row in zip(levels, labels, strict=True):
        assert errors[level] == pytest.approx(np.bincount(game, error(row)), abs=1e-9)
    assert plain == pytest.approx(np.bincount(game, x**2), abs=1e-12)


@pytest.mark.parametrize(("length", "seed"), [(1, 0), (5, 0), (20, 5)])
def test_the_kinds_that_differ_are_found_however_long_games_are(length, seed):
    """36 of them. At 20 turns it is a cut into more than 50 that has the smallest error of all, by chance."""
    space, played = talk(length, seed)
    assert 25 <= Ward(granularity={"kind": "held_out", "histories": (0,)}).choose(space, played).k <= 40
    if length == 5:
        assert Ward(granularity="split").choose(space, played).k < 20, "turns that are alone change nothing"


def test_cuts_count_as_alike_within_two_standard_errors_and_then_meaning_decides():
    points = spread(4, 5)
    space = fit_space(Utterances([Gist(f"{i:02}") for i in range(20)], points, np.ones(20, np.int64)), Ward(max_k=9))
    worse = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]) - 0.5  # mean 0, standard error .5 / 8 ** .5
    errors = {level: np.ones(8) for level in space.levels}

    def chosen(**above):
        found = errors | {int(level[1:]): 1 + gap + worse for level, gap in above.items()}
        return level_of(space, found, np.full(8, 2.0), 0)

    assert chosen() == 4, "the kinds that there are"
    assert chosen(k4=0.99 / 8**0.5) == 4 and chosen(k4=1.01 / 8**0.5) in (3, 5)
    assert level_of(space, errors, np.ones(8), 0) is None, "no cut tells more than the turn"


def test_where_splitting_never_stops_mattering_the_finest_cut_is_taken_and_said_so():
    random = np.random.default_rng(0)
    points = spread(2, 60)
    space = fit_space(Utterances([Gist(str(i)) for i in range(120)], points, np.ones(120, np.int64)), Ward(max_k=15))
    played = [CodedGame(PLAYERS[0], (code,), (NOTHING,), float(random.integers(2))) for code in range(120)]
    labels = space.cuts[:, space.nearest(points)[0]]
    found = Ward(granularity="split").choose(space, Played(Turns.of(played, 0.95), space.levels, labels))
    assert (found.k, found.settled) == (15, False)
