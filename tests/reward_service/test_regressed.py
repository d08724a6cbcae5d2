"""Intention credit by regression: fits of the past, features that know no future, advantages nearer the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from envs.episode import Episode, Ticket, Turn
from reward_service.intentions.gist import NO, YES, Gist
from reward_service.intentions.reading import EpisodeRefused, Reading
from reward_service.service.storage import read_state, write_state
from reward_service.shapers.regressed import Regressed
from reward_service.shapers.regressed.features import Axes, features
from reward_service.shapers.regressed.ridge import PastRidge
from reward_service.shapers.regressed.shaper import FIRST_GAMES, RegressedShaper, by_turn

KINDS, DIMENSION = 6, 32
DIRECTIONS = np.linalg.qr(np.random.default_rng(0).normal(size=(DIMENSION, DIMENSION)))[0]
WORTH = np.array([-0.15, -0.1, -0.05, 0.05, 0.1, 0.15])  # what saying it once adds to the outcome


def embed(texts):
    """'KIND VARIANT': near to all of its kind, unit length."""
    rows = np.zeros((len(texts), DIMENSION), np.float32)
    for row, text in zip(rows, texts, strict=True):
        kind, variant = (int(word) for word in text.split())
        row += DIRECTIONS[kind] + 0.1 * np.random.default_rng(variant).normal(size=DIMENSION)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def reading(said: list[str], heard: list | None = None, outcome: float = 1.0, amounts=()) -> Reading:
    gists = [Gist(text, amounts) for text in said]
    return Reading(("game", "seat"), gists, heard if heard is not None else [-1] * len(said), outcome)


def axes_of(games: list[Reading], components: int) -> Axes:
    gists = [gist for game in games for gist in game.clustered]
    return Axes.found(gists, {game.player for game in games}, components, embed)


def linear(chance, turns: int = 60, width: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rows = chance.normal(size=(turns, width))
    return rows, rows @ np.arange(1.0, width + 1) + 0.5 * chance.normal(size=turns) + 3.0


def test_predictions_are_those_of_ridge_regression_on_the_past():
    chance, fit = np.random.default_rng(1), PastRidge(4)
    batches = [linear(chance) for _ in range(3)]
    for batch in batches:
        fit.learn(*batch)
    new, _ = linear(chance)
    rows, targets = (np.concatenate(each) for each in zip(*batches, strict=True))
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    other = Ridge(alpha=fit.penalty).fit((rows - mean) / scale, targets)
    np.testing.assert_allclose(fit.predict(new), other.predict((new - mean) / scale), rtol=1e-9)
    assert fit.explained > 0.9


def test_only_the_latest_batches_count():
    chance, fit, fresh = np.random.default_rng(2), PastRidge(2), PastRidge(2)
    batches = [linear(chance) for _ in range(5)]
    for batch in batches:
        fit.learn(*batch)
    fresh.past.extend(batches[-2:])
    fresh.errors, fresh.weight = fit.errors, fit.weight
    new, _ = linear(chance)
    np.testing.assert_array_equal(fit.predict(new), fresh.predict(new))


def test_where_features_tell_nothing_the_mean_is_expected():
    chance, fit = np.random.default_rng(3), PastRidge(4)
    for _ in range(8):
        fit.learn(chance.normal(size=(80, 40)), chance.normal(size=80) + 1.0)
    assert fit.penalty >= 10_000  # of 320 turns
    assert np.ptp(fit.predict(chance.normal(size=(50, 40)))) < 0.1
    assert abs(fit.explained) < 0.05


def test_a_feature_that_never_changed_does_no_harm():
    chance, fit = np.random.default_rng(4), PastRidge(4)
    for _ in range(3):
        rows, targets = linear(chance)
        fit.learn(np.hstack([rows, np.ones((len(rows), 1))]), targets)
    rows, _ = linear(chance)
    found = [fit.predict(np.hstack([rows, np.full((len(rows), 1), value)])) for value in (1.0, 50.0)]
    np.testing.assert_array_equal(*found)


said = st.lists(st.tuples(st.integers(0, KINDS - 1), st.integers(0, 5)), min_size=2, max_size=6)


@given(said, st.integers(0, KINDS - 1), st.sampled_from([YES, NO, -1]))
def test_features_know_no_future_and_a_situation_not_its_own_utterance(spoken, kind, answer):
    texts = [f"{kind} {variant}" for kind, variant in spoken]
    axes = axes_of([reading([f"{kind} 0" for kind in range(KINDS)])], 4)
    last = len(texts) - 1
    changed = [*texts[:last], f"{kind} 9"]
    heard = [-1, *[answer] * last]
    one, other = (features([reading(each, heard)], axes, embed) for each in (texts, changed))
    np.testing.assert_allclose(one[0], other[0], atol=1e-5)  # situations: all of them, the last too
    np.testing.assert_allclose(one[1][:last], other[1][:last], atol=1e-5)  # meanings before the change


def test_turns_do_not_depend_on_who_else_is_in_the_batch():
    axes = axes_of([reading([f"{kind} 0" for kind in range(KINDS)])], 4)
    games = [reading(["1 0", "2 0", "1 0"], [-1, YES, NO]), reading(["3 1", "3 1"], [-1, NO])]
    together = features(games, axes, embed)
    for number, part in enumerate(together):
        apart = np.vstack([features([game], axes, embed)[number] for game in games])
        np.testing.assert_allclose(part, apart, atol=1e-6)


def test_amounts_and_repetitions_are_told_apart():
    amounts = [(("share", 0.25),), (("share", 0.75),)]
    axes = axes_of([reading(["1 0"], amounts=each) for each in amounts], 2)
    assert axes.amounts == ("share",)
    low, high = (features([reading(["1 0", "1 0"], amounts=each)], axes, embed)[1] for each in amounts)
    assert not np.allclose(low[0], high[0])
    assert (low[:, -1] == [0.0, 1.0]).all()  # the second time it is a repetition


def test_the_first_batch_is_measured_against_the_mean_of_its_turn():
    shaper = RegressedShaper(Regressed(trace=1.0, gamma=0.5), embed)
    worth = [each.rewards for each in shaper.shape([played(0, ["1 0", "2 0"], 1.0), played(1, ["3 0"], 0.0)])]
    # returns .5, 1 and 0; means .25 at the first turn, 1 at the second
    np.testing.assert_allclose(worth[0], [0.25, 0.0])
    np.testing.assert_allclose(worth[1], [-0.25])
    np.testing.assert_allclose(by_turn([[0.5, 1.0], [0.0]]), [0.25, 1.0, 0.25])


def played(number: int, texts: list[str], outcome: float) -> Episode:
    ticket = Ticket("run", "parrot", number, number, (("parrot0", "policy"),))
    turns = [Turn("parrot0", "policy", "0 0", text) for text in texts]
    return Episode(ticket, turns, {"parrot0": outcome}, True)


def batch(number: int, size: int = 48, turns: int = 4) -> tuple[list[Episode], np.ndarray]:
    """Games whose outcome is the worth of what was said, and as much noise; also each turn's true advantage."""
    chance, episodes, truth = np.random.default_rng(number), [], []
    for game in range(size):
        kinds = chance.integers(KINDS, size=turns)
        outcome = np.clip(0.5 + WORTH[kinds].sum() + 0.25 * chance.normal(), 0, 1)
        texts = [f"{kind} {chance.integers(20)}" for kind in kinds]
        episodes.append(played(number * size + game, texts, float(outcome)))
        truth.append(WORTH[kinds])
    return episodes, np.concatenate(truth)


def agreement(settings: Regressed, batches: int = 8) -> float:
    """Correlation of advantages with the truth, over the later batches."""
    shaper, found, wanted = RegressedShaper(settings, embed), [], []
    for number in range(batches):
        episodes, truth = batch(number)
        shaped = shaper.shape(episodes)
        if number >= batches // 2:
            found.append(np.concatenate([each.rewards for each in shaped]))
            wanted.append(truth)
    return float(np.corrcoef(np.concatenate(found), np.concatenate(wanted))[0, 1])


def test_what_was_meant_tells_more_than_what_came_of_it():
    plain = Regressed(own=1.0, components=8, trace=1.0)
    alone, mixed, expected = (agreement(plain.model_copy(update={"own": own})) for own in (1.0, 0.5, 0.0))
    assert alone < mixed < expected
    assert expected > alone + 0.2


def test_no_turn_is_valued_by_what_its_own_batch_came_to():
    """Another outcome for one game changes that game's turns, and nobody else's."""
    found = []
    for outcome in (0.0, 1.0):
        shaper = RegressedShaper(Regressed(components=8), embed)
        for number in range(3):
            shaper.shape(batch(number)[0])
        episodes, _ = batch(3)
        episodes[0].outcome["parrot0"] = outcome
        found.append([each.rewards for each in shaper.shape(episodes)])
    assert not np.allclose(found[0][0], found[1][0])
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_restored_is_as_never_stopped(tmp_path):
    shaper = RegressedShaper(Regressed(components=8), embed)
    for number in range(3):
        shaper.shape(batch(number)[0])
    write_state(tmp_path, shaper.state())
    other = RegressedShaper(Regressed(components=8), embed)
    other.restore(read_state(tmp_path))
    for number in (3, 4):
        for one, two in zip(shaper.shape(batch(number)[0]), other.shape(batch(number)[0]), strict=True):
            np.testing.assert_array_equal(one.rewards, two.rewards)
            assert one.version == two.version
    assert shaper.metrics() == other.metrics()


def test_single_games_give_axes_together_and_a_restart_keeps_them(tmp_path):
    """A trainer may send one sample after another: the first one's two texts describe nothing."""
    alone, whole = (RegressedShaper(Regressed(components=8), embed) for _ in range(2))
    episodes, _ = batch(0, FIRST_GAMES + 2)
    whole.shape(episodes[:FIRST_GAMES])
    for number, episode in enumerate(episodes[:FIRST_GAMES]):
        assert alone.axes is None
        (shaped,) = alone.shape([episode])
        assert shaped.version == 0 and np.abs(shaped.rewards).max() < 1e-12, "it is its own mean"
        if number == 5:
            write_state(tmp_path, alone.state())
            alone = RegressedShaper(Regressed(components=8), embed)
            alone.restore(read_state(tmp_path))
    np.testing.assert_allclose(alone.axes.directions, whole.axes.directions)
    assert alone.axes.directions.shape[1] == 8 and alone.version == whole.version == 1


def test_a_refused_episode_changes_nothing_and_is_counted():
    shaper, other = (RegressedShaper(Regressed(components=8), embed) for _ in range(2))
    for each in (shaper, other):
        each.shape(batch(0)[0])
    with pytest.raises(EpisodeRefused, match="not a number"):
        shaper.shape([*batch(1)[0], played(10_000, ["1 0"], float("nan"))])
    assert shaper.metrics()["regressed/refused/bad_outcome"] == 1
    for one, two in zip(shaper.shape(batch(1)[0]), other.shape(batch(1)[0]), strict=True):
        np.testing.assert_array_equal(one.rewards, two.rewards)


def test_beside_a_critic_of_the_learner_the_mixture_is_the_same():
    """Its advantages put in the place of the shaper's own give what gives=advantage gives, over `own`."""
    chosen = Regressed(components=8, own=0.4)
    mixed, alone, beside = (
        RegressedShaper(chosen.model_copy(update=update), embed) for update in ({}, {"own": 1.0}, {"gives": "outcome"})
    )
    for number in range(3):
        episodes, _ = batch(number)
        shaped = [shaper.shape(episodes) for shaper in (mixed, alone, beside)]
        for episode, whole, own, paid in zip(episodes, *shaped, strict=True):
            assert paid.kind == "reward" and whole.kind == "advantage" and whole.expected_advantages is None
            assert paid.rewards.tolist() == [0.0] * 3 + [np.float32(episode.outcome["parrot0"])]
            if number:
                np.testing.assert_allclose(0.4 * (own.rewards + paid.expected_advantages), whole.rewards, atol=1e-5)
            else:
                assert not paid.expected_advantages.any()  # nothing is expected without a past
    with pytest.raises(ValueError, match="own=0 leaves nothing of the advantages that gives=outcome"):
        Regressed(own=0.0, gives="outcome")
