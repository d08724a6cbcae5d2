"""Sharing by evidence, in a window and on files, against a slow reference that goes through all pairs of turns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from reward_service.intentions.gist import NOTHING
from reward_service.intentions.pairing import STEPS
from reward_service.intentions.pooling.pooling import POOLINGS
from reward_service.intentions.settings import AggregateSettings
from reward_service.intentions.trajectory import CodedGame, turn_returns
from reward_service.intentions.turns import Turns
from reward_service.intentions.window import Window, centre_of
from reward_service.offline.turns import worth

PLAYERS = (("quiz", "ann"), ("quiz", "ben"))
GAMMA = 0.9


def label(level: int, codes) -> np.ndarray:
    """Codes 0 to 5; at level 3 two each are one intention, at level 2 three."""
    return np.array([code if code < 0 else code * level // 6 for code in codes], np.int64)


def asked(baseline: str = "none", own: float = 0.0, **options) -> AggregateSettings:
    pooling = {"kind": "evidence", "histories": (2, 1, 0), "coarser": (2,), "gists": (1, 0)} | options
    return AggregateSettings(pooling=pooling, baseline=baseline, own=own, gamma=GAMMA)


@st.composite
def games(draw):
    turns = draw(st.integers(1, 4))
    said = draw(st.lists(st.integers(0, 5), min_size=turns, max_size=turns))
    heard = draw(st.lists(st.integers(0, 1), min_size=turns, max_size=turns))
    outcome = draw(st.sampled_from([0.0, 0.25, 1.0]))
    return CodedGame(draw(st.sampled_from(PLAYERS)), tuple(said), (NOTHING, *heard[1:]), outcome)


def filled(chosen: AggregateSettings, played, centre=None) -> Window:
    window = Window(chosen, chosen.pooling.tables((2, 3), 3), label, centre=centre)
    window.add([(("run", number, 0), (each,)) for number, each in enumerate(played)])
    return window


def values(window: Window) -> np.ndarray:
    return np.array([value for seats in window.values(window.episodes) for turns in seats for value in turns])


def by_definition(played, chosen: AggregateSettings, centre, steps: float | None) -> np.ndarray:
    """`steps`: returns are rounded to so many in 1 where they are multiplied."""
    told = [(game, turn) for game, each in enumerate(played) for turn in range(len(each.actions))]
    raw = [turn_returns(played[game].outcome, len(played[game].actions), GAMMA)[turn] for game, turn in told]
    middle = [centre[played[game].player][turn] for game, turn in told]
    x = np.array(raw) - middle
    rounded = x if steps is None else np.rint(x * steps) / steps
    game = np.array([each for each, _ in told])

    def key(place, level, length, action=True, gist=False):
        number, turn = told[place]
        each = played[number]
        said, heard = label(level, each.actions).tolist(), label(level, each.observations).tolist()
        history = list(zip([NOTHING, *said], heard, strict=False))[: turn + 1]
        latest = history if length is None else history[max(turn + 1 - length, 0) :]
        return each.player, *latest, "said", action and said[turn], gist and each.actions[turn]

    def same(*how, **options):
        keys = [key(place, *how, **options) for place in range(len(told))]
        return np.array([[one == two for two in keys] for one in keys])

    def common(group):
        pairs = group & (game[:, None] != game[None, :])
        return (np.outer(rounded, rounded) * pairs).sum() / pairs.sum() if pairs.any() else 0.0, pairs.sum()

    def spread(group, known):
        mean, pairs = common(group)
        return max(mean - known - max(square - mean, 0) * np.sqrt(2 / pairs), 0.0) if pairs else 0.0

    square = np.square(rounded).mean()
    at_turn = np.array([[played[a].player == played[b].player and s == t for b, t in told] for a, s in told])

    def chain(**options):
        tables = [(2, 0), (3, 0), (3, 1), (3, 2), (3, None)]
        groups, found = [same(*table, **options) for table in tables], at_turn @ x / at_turn.sum(axis=1)
        known = max(common(at_turn)[0], 0.0)
        spreads = []
        for group in groups:
            spreads.append(spread(group, known))
            known += spreads[-1]
        noise = max(square - known, 1e-12)
        for group, v in zip(groups, spreads, strict=True):
            found = (v * (group @ x) + noise * found) / (v * group.sum(axis=1) + noise)
        return found

    found, more = chain(), np.zeros(len(told))
    for length in (0, 1):
        inside, group = same(3, length, gist=True), same(3, length)
        known = max(common(group)[0], 0.0)
        v = spread(inside, known)
        beyond = inside @ x - inside.sum(axis=1) * (group @ x / group.sum(axis=1))
        noise = max(square - known - v, 1e-12)
        more = (v * beyond + noise * more) / (v * inside.sum(axis=1) + noise)
    found = chosen.own * x + (1 - chosen.own) * (found + more)
    return (
        found
        + {"none": middle, "history": -chain(action=False), "turn": -(at_turn @ x / at_turn.sum(axis=1))}[
            chosen.baseline
        ]
    )


BASELINES, OWN = st.sampled_from(["none", "history", "turn"]), st.sampled_from([0.0, 0.5])


@settings(deadline=None, max_examples=40)
@given(st.lists(games(), min_size=2, max_size=14), st.integers(1, 9), BASELINES, OWN)
def test_a_stream_is_worth_what_the_slow_reference_says(played, size, baseline, own):
    """After any number of games came and went, one by one; and nothing is left when all have gone."""
    chosen, centre = asked(baseline, own), centre_of(played[: len(played) // 2 + 1] + played, GAMMA)
    stream = filled(chosen, [], centre)
    for number, each in enumerate(played):
        stream.add([(("run", number, 0), (each,))])
        stream.expire(max(len(stream) - size, 0))
    left = played[-size:]
    assert values(stream) == pytest.approx(by_definition(left, chosen, centre, STEPS), abs=1e-9)
    assert values(stream).tolist() == values(filled(chosen, left, centre)).tolist()
    assert values(stream).tolist() == values(filled(chosen, left[::-1], centre))[backwards(left)].tolist()
    stream.expire(len(stream))
    pairing = stream.aggregates.pairing
    assert not (any(pairing.products) or any(pairing.counts) or pairing.square or pairing.turns or pairing.sums.any())


def backwards(played) -> np.ndarray:
    """Places of the turns where the same games came in the other order."""
    lengths = [len(each.actions) for each in played]
    ends = np.cumsum(lengths[::-1])[::-1]
    return np.concatenate([np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)])


@settings(deadline=None, max_examples=25)
@given(st.lists(games(), min_size=2, max_size=14), BASELINES, OWN)
def test_on_files_it_is_the_same(played, baseline, own):
    chosen, turns = asked(baseline, own), Turns.of(played, GAMMA)
    labels = {level: label(level, range(6)) for level in (2, 3)}
    expected = by_definition(played, chosen, centre_of(played, GAMMA), None)
    assert worth(turns, labels, 3, chosen).values == pytest.approx(expected, abs=1e-9)


def random_games(differ: str, seed: int = 0, count: int = 1500):
    """Of three turns; who wins depends on the intention of what was said first, on its gist too, or on nothing."""
    random = np.random.default_rng(seed)
    said = random.integers(6, size=(count, 3))
    chance = {
        "intentions": 0.3 + 0.2 * (said[:, 0] // 2),
        "gists": 0.3 + 0.4 * (said[:, 0] % 2),
        "nothing": np.full(count, 0.5),
    }[differ]
    won = (random.random(count) < chance).astype(float)
    return [
        CodedGame(PLAYERS[0], tuple(map(int, row)), (NOTHING,) * 3, float(end))
        for row, end in zip(said, won, strict=True)
    ], chance


@pytest.mark.parametrize("differ", ["intentions", "gists", "nothing"])
def test_what_differs_is_told_apart_and_what_does_not_is_shared(differ):
    played, chance = random_games(differ)
    first = values(filled(asked(), played, centre_of(played, GAMMA)))[::3]
    truth = chance * GAMMA**2
    assert np.sqrt(np.square(first - truth).mean()) < 0.03
    if differ == "gists":
        blind = values(filled(asked(gists=()), played, centre_of(played, GAMMA)))[::3]
        assert np.sqrt(np.square(blind - truth).mean()) > 0.1, "members of an intention are not told apart"
    if differ == "nothing":
        fixed = AggregateSettings(pooling={"kind": "shrinkage", "histories": (2, 1, 0)}, gamma=GAMMA)
        assert first.std() < 0.02 < values(filled(fixed, played))[::3].std(), "which share of noise is fixed beforehand"


def test_a_mean_that_moved_since_the_refit_is_no_difference_between_groups():
    """All win more often than before: that is the turn's, and noise is shared as if nothing had moved."""
    played, _ = random_games("nothing", seed=1, count=60)
    before = [each._replace(outcome=0.0) for each in played]
    still, moved = (values(filled(asked(gists=()), played, centre_of(each, GAMMA))) for each in (played, before))
    assert moved == pytest.approx(still, abs=1e-12)
    assert still[::3] == pytest.approx(np.full(60, GAMMA**2 * np.mean([each.outcome for each in played])))


def test_gists_are_told_apart_in_histories_that_there_are():
    with pytest.raises(ValidationError, match=r"gists=3 is not among the histories \[4, 2, 1, 0\]"):
        POOLINGS.make("evidence", gists=(3,))
    tables = POOLINGS.make("evidence", histories=(1, 0), coarser=(5, 30)).tables(range(2, 21), 20)
    assert tables == [(20, None), (20, 1), (20, 0), (5, 0), (0, 0)]


def test_what_turns_before_the_version_brought_is_taken_off_by_turn():
    centre = centre_of([CodedGame(PLAYERS[0], (0, 1), (NOTHING, 0), end) for end in (0.0, 1.0, 1.0)], GAMMA)
    assert centre[PLAYERS[0]] == pytest.approx([GAMMA * 2 / 3, 2 / 3])
    window = filled(asked(), [CodedGame(PLAYERS[0], (0,) * 4, (NOTHING,) * 4, 1.0)], centre)
    entry = window.episodes[0].entries[0]
    assert entry.centre.tolist() == pytest.approx([GAMMA * 2 / 3, 2 / 3, 2 / 3, 2 / 3]), "beyond it as at its end"
    assert entry.returns + entry.centre == pytest.approx([GAMMA**n for n in (3, 2, 1, 0)])


def test_a_window_does_not_reach_back_to_what_counts_nothing():
    assert AggregateSettings(half_life=1, window=1000).window == 1000
    with pytest.raises(ValidationError, match="window=1024 with half_life=1: .* give a window of at most 1000"):
        AggregateSettings(half_life=1)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(games(), min_size=1, max_size=20),
    st.integers(1, 9),
    st.integers(1, 5),
    st.sampled_from(["exact", "shrinkage"]),
    BASELINES,
)
def test_older_periods_count_half_of_the_next(played, size, half_life, pooling, baseline):
    """As games weigh that are there so often; and all of it is gone when they are."""
    shared = {} if pooling == "exact" else {"histories": (1, 0)}
    chosen = AggregateSettings(pooling={"kind": pooling, **shared}, baseline=baseline, gamma=GAMMA)
    fading = chosen.model_copy(update={"half_life": half_life})
    stream = filled(fading, [])
    for number, each in enumerate(played):
        stream.add([(("run", number, 0), (each,))])
        stream.expire(max(len(stream) - size, 0))
    left = list(enumerate(played))[-size:]
    now = left[-1][0] // half_life
    oldest = now - left[0][0] // half_life
    weights = [2 ** (oldest - now + number // half_life) for number, _ in left]
    often = [each for (_, each), weight in zip(left, weights, strict=True) for _ in range(weight)]
    starts = np.cumsum([0] + [len(each.actions) * weight for (_, each), weight in zip(left, weights, strict=True)])
    wanted = [start + turn for start, (_, each) in zip(starts, left, strict=False) for turn in range(len(each.actions))]
    if pooling == "shrinkage":  # so often is so much evidence: the strength is the same of the newest period alone
        chosen = chosen.model_copy(update={"pooling": chosen.pooling.model_copy(update={"strength": 4.0 * 2**oldest})})
    assert values(stream) == pytest.approx(values(filled(chosen, often))[wanted], abs=1e-12)
    stream.expire(len(stream))
    assert not stream.aggregates.groups.periods and not stream.aggregates.groups.turns
