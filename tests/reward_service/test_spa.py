"""SPA: the estimator finds what each turn contributed, and the rewards are what it found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from envs.episode import Episode, Ticket, Turn
from reward_service.desk import RewardDesk
from reward_service.intentions.reading import EpisodeRefused
from reward_service.models.perceptron import KEPT, pooling
from reward_service.service.storage import read_state, write_state
from reward_service.shaper import Shaper
from reward_service.shapers.spa import Spa, SpaShaper
from tests.support.valued_games import batch, counts_nowhere, embed, episode, learned, plain, same, shaped_by, worth_of

GAMES = 512  # to learn from


def shaper(**options) -> SpaShaper:
    return SpaShaper(Spa(**({"first": 1, "every": 1, "grounding": 0.0} | options)), embed)


@pytest.fixture(scope="module")
def taught() -> SpaShaper:
    """Nobody shapes with this one but through `fresh_values`, which leaves the model as it is."""
    spa = shaper(window=GAMES)
    learned(spa, batch(0, GAMES))
    return spa


def fresh_values(spa: SpaShaper, episodes) -> list[np.ndarray]:
    again = shaper()
    again.restore(spa.state())
    again.settings = spa.settings
    return [each.rewards for each in again.shape(episodes)]


def correlation(values, worth) -> float:
    values, worth = np.concatenate(values), np.concatenate(worth)
    return float(np.corrcoef(values, worth)[0, 1]) if values.std() else 0.0


def last(values) -> list[np.ndarray]:
    return [each[-1:] for each in values]


def test_a_batch_whose_values_cannot_be_told_counts_nowhere(taught, monkeypatch):
    spa, untouched = shaper(window=GAMES), shaper(window=GAMES)
    for each in (spa, untouched):
        each.restore(taught.state())
    counts_nowhere(spa, untouched, batch(9000, 5), monkeypatch)


# --- what the estimator finds -----------------------------------------------------------------------


def test_the_estimator_recovers_what_each_turn_contributed(taught):
    games = batch(5000, 200)
    values, worth = fresh_values(taught, games), [worth_of(each) for each in games]
    assert correlation(values, worth) > 0.95 and correlation(last(values), last(worth)) > 0.95
    naive = [each * (len(each) - 1 - np.arange(len(each))) for each in values]
    assert correlation(naive, worth) < 0.9 and correlation(last(naive), last(worth)) == 0


def test_sums_match_the_outcome_of_games_it_has_not_seen_as_closely_as_it_says(taught):
    games = batch(5000, 200)
    sums = np.array([each.sum(dtype=np.float64) for each in fresh_values(taught, games)])
    error = sums - [each.outcome["seat"] for each in games]
    measured = taught.metrics()
    assert np.abs(error).mean() < 0.03 and (np.abs(error) <= 0.1).mean() > 0.95
    assert measured["spa/held_out_mae"] == pytest.approx(np.abs(error).mean(), abs=0.01)
    assert measured["spa/held_out_mse"] == pytest.approx((error**2).mean(), abs=0.001)
    assert measured["spa/held_out_within_tenth"] > 0.95 < measured["spa/held_out_correlation"]
    assert (measured["spa/held_out"], measured["spa/examples"]) == (51, GAMES - 51)


def test_a_turn_is_worth_what_it_is_worth_in_its_context():
    spa = shaper()
    learned(spa, batch(0, 1024, context=True))
    games = batch(5000, 300, context=True)
    values, plainly = fresh_values(spa, games), [worth_of(each) for each in games]
    assert correlation(values, [worth_of(each, context=True) for each in games]) > 0.95
    bonus = np.concatenate([worth_of(each, context=True) for each in games]) - np.concatenate(plainly) > 0
    offers = np.concatenate(plainly) == 0.2
    found = np.concatenate(values)
    assert 0.03 < found[bonus].mean() - found[offers & ~bonus].mean() < 0.15


# --- what the rewards are made of ---------------------------------------------------------------------


def test_before_the_first_estimator_the_outcome_is_the_last_turns():
    (one,) = shaper(grounding=0.5).shape([episode(0)])
    played = episode(0)
    expected = 0.5 * np.array([turn.executable for turn in played.turns])
    expected[-1] += played.outcome["seat"]
    assert one.rewards.tolist() == pytest.approx(expected.tolist()) and one.rewards.dtype == np.float32
    assert (one.number, one.seat, one.version, one.kind) == (0, "seat", 0, "reward")


def test_no_outcome_enters_the_rewards_but_through_the_estimator(taught):
    """Neither the game's own nor that of the others in its batch, as a leave-one-out outcome would."""
    games, changed = batch(5000, 20), batch(5000, 20)
    for each in changed[1:]:
        each.outcome = {"seat": 1 - each.outcome["seat"]}
    before, after = fresh_values(taught, games), fresh_values(taught, changed)

    def left_out(episodes, values):
        outcomes = [each.outcome["seat"] for each in episodes]
        return [
            each * (sum(outcomes) - outcome) / (len(outcomes) - 1)
            for each, outcome in zip(values, outcomes, strict=True)
        ]

    def agree(one, other) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))

    assert agree(before, after)
    assert not agree(left_out(games, before), left_out(changed, after))


def test_the_game_says_what_it_could_execute_whatever_its_words(taught):
    """Not a string of one environment: a turn that failed with other words, and one that did not fail."""
    played = episode(5000)
    grounded, plainly = shaper(grounding=0.5), shaper()
    for each in (grounded, plainly):
        each.restore(taught.state())
    for turn, executable in zip(played.turns, (False, True, False, True, True), strict=False):
        turn.executable, turn.caption = executable, "Nothing happens." if executable else "You cannot do that."
    (with_grounding,), (without,) = grounded.shape([played]), plainly.shape([played])
    bonus = with_grounding.rewards - without.rewards
    assert bonus.tolist() == pytest.approx([0.5 * turn.executable for turn in played.turns])
    by_words = [0.5 * (turn.caption != "Nothing happens.") for turn in played.turns]
    assert bonus.tolist() != pytest.approx(by_words)


def test_matched_progress_adds_up_to_the_outcome_and_keeps_its_differences(taught):
    games = batch(5000, 50)
    plainly = fresh_values(taught, games)
    matched = shaper(matched=True)
    matched.restore(taught.state())
    for each, before, played in zip(matched.shape(games), plainly, games, strict=True):
        assert each.rewards.sum(dtype=np.float64) == pytest.approx(played.outcome["seat"], abs=1e-6)
        assert np.diff(each.rewards) == pytest.approx(np.diff(before), abs=1e-6)
    assert any(abs(each.sum() - game.outcome["seat"]) > 1e-3 for each, game in zip(plainly, games, strict=True))


# --- determinism, restarts, failures ------------------------------------------------------------------


def test_the_order_of_a_batch_changes_nothing():
    one, two = shaper(), shaper()
    for each, order in ((one, 1), (two, -1)):
        learned(each, batch(0, 64)[::order])
    assert same(one.state()["model"], two.state()["model"])
    forth, back = one.shape(batch(64, 64)), two.shape(batch(64, 64)[::-1])
    assert plain(forth) == plain(back)[::-1]


def test_saved_and_restored_is_as_never_stopped(tmp_path):
    def desk() -> RewardDesk:
        made = shaper(every=2, window=40, model={"steps": 20})
        return RewardDesk(made, steady=True, refit_seconds=60)

    straight, stopped = desk(), desk()
    for number in range(7):
        games = batch(16 * number, 16)
        assert plain(shaped_by(straight, number, games)) == plain(shaped_by(stopped, number, games))
        state, expected = stopped.state(), straight.state()
        assert same(state, expected)
        write_state(tmp_path, state)
        stopped = desk()
        stopped.restore(read_state(tmp_path))
        assert same(stopped.state(), state)
    assert straight.shaper.version == 4
    changes = {"spa/training_seconds"}
    found, expected = stopped.shaper.metrics(), straight.shaper.metrics()
    assert {k: v for k, v in found.items() if k not in changes} == {k: expected[k] for k in found if k not in changes}


def test_a_state_of_an_earlier_version_is_restored():
    spa, again = shaper(), shaper()
    spa.shape(batch(0, 20))
    state = spa.state()
    older = {"memory": state["memory"] | {name: state.pop(name) for name in ("known", "refused")}}
    again.restore(state | older)
    with pytest.raises(EpisodeRefused, match="it was sent before"):
        again.shape([episode(3)])
    assert plain(again.shape(batch(20, 5))) == plain(spa.shape(batch(20, 5)))


def test_models_come_when_they_are_due():
    spa = shaper(first=2, every=3, model={"steps": 5})
    versions = []
    for number in range(9):
        versions.append({each.version for each in spa.shape(batch(12 * number, 12))})
        if work := spa.refit():
            spa.publish(work())
    assert versions == [{0}, {0}, {1}, {1}, {1}, {2}, {2}, {2}, {3}]
    assert (spa.metrics()["spa/version"], spa.metrics()["spa/age"]) == (3.0, 1.0)
    small = shaper()
    small.shape(batch(0, 9))
    assert small.refit() is None, "nine episodes are too few"


def test_play_goes_on_beside_a_training_which_learns_from_its_snapshot_alone():
    one, two = shaper(), shaper()
    for each in (one, two):
        each.shape(batch(0, 40))
    work, straight = one.refit(), two.refit()()
    assert {each.version for each in one.shape(batch(40, 40))} == {0}
    assert same(work().state(), straight.state())
    one.publish(straight)
    with pytest.raises(ValueError, match="reward model 1 cannot follow version 1"):
        one.publish(straight)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"seconds": 1e-9}, "it was at step 1 of 100 when its 1e-09 s were over: see the setting `seconds`"),
        (
            {"learning_rate": 1e30, "steps": 50},
            "its gradient is not finite: see the setting `learning_rate`",
        ),
    ],
)
def test_a_training_that_fails_is_counted_and_changes_nothing(model, says, caplog):
    broken = RewardDesk(shaper(model=model), steady=True)
    never = RewardDesk(shaper(first=100), steady=True)
    for number in range(3):
        games = batch(320 * number, 320)
        assert plain(shaped_by(broken, number, games)) == plain(shaped_by(never, number, games))
    assert same(broken.state(), never.state())
    assert (broken.counts["failed_refits"], broken.counts["refits"]) == (3, 0)
    assert says in caplog.text


def bad(change: str) -> Episode:
    one = episode(3)
    if change == "bad_outcome":
        one.outcome = {"seat": math.nan}
    elif change == "no_turns":
        one.turns = []
    elif change == "not_text":
        one.turns[1].observation = None
    elif change == "unknown_game":
        one.ticket = Ticket("run", "checkers", 3, 3, one.ticket.players)
    else:
        one = episode(0)
    return one


@pytest.mark.parametrize("change", ["bad_outcome", "no_turns", "not_text", "unknown_game", "sent_twice"])
def test_a_bad_episode_is_refused_and_counted_and_nothing_else_changes(change):
    spa, untouched = shaper(), shaper()
    for each in (spa, untouched):
        each.shape(batch(0, 2))
    with pytest.raises(EpisodeRefused, match="of run 'run' refused:"):
        spa.shape([episode(2), bad(change)])
    assert spa.metrics() == untouched.metrics() | {f"spa/refused/{change}": 1.0}
    assert plain(spa.shape([episode(2)])) == plain(untouched.shape([episode(2)]))


def test_the_window_forgets_and_so_do_the_texts():
    spa = shaper(window=16)
    spa.shape(batch(0, 48))
    spa.shape(batch(48, 16, ways=("softly",)))
    assert spa.metrics()["spa/episodes"] == 16 and spa.metrics()["spa/texts"] <= 7


def test_seats_are_valued_by_what_they_saw_and_only_policy_seats():
    players = (("a", "policy"), ("b", "scripted:random"), ("c", "policy"), ("silent", "policy"))
    turns = [Turn(seat, "", f"{seat} hears", "wait now") for seat in ("a", "b", "c", "a")]
    played = Episode(Ticket("run", "parrot", 1, 1, players), turns, {"a": 1.0, "b": 0.0, "c": 0.5, "silent": 0.0}, True)
    spa: Shaper = shaper()
    assert {each.seat: each.rewards.tolist() for each in spa.shape([played])} == {"a": [0.0, 1.0], "c": [0.5]}


def test_the_weights_of_few_lengths_of_games_are_kept():
    for turns in range(1, 3 * KEPT):
        weights = pooling(turns, 0.7)
        assert weights.shape == (turns, turns) and np.array_equal(weights, pooling(turns, 0.7))
    assert pooling.cache_info().currsize == KEPT
