"""Batches that are learned from once more: as if they were part of the new one, kept by checkpoints, and for as long as
was asked."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import torch

from envs.episode import Choice
from learners.batch.replayed import ReplayedBatches
from learners.batch.trajectories import collect
from learners.settings import LearnerSettings
from tests.support.learner_batches import make_batch
from tests.support.runs import config_for, metrics_of, run

CHOSEN = {
    "loss": {"kind": "decoupled", "kl_guard": 0.5},
    "credit": {"method": "gae", "gamma": 0.9},
    "epochs": 2,
    "minibatches": 2,
    "learning_rate": 1e-3,
}


def numbered(first: int, seed: int) -> list:
    """Trajectories of games with numbers from `first` on, as a run has them."""
    episodes, rewards = make_batch(6, seed=seed)
    for episode in episodes:
        episode.ticket = replace(episode.ticket, number=episode.ticket.number + first)
    return collect(episodes, [replace(each, number=each.number + first) for each in rewards])


BATCHES = [numbered(6 * place, seed=91 + place) for place in range(4)]


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("batches", [1, 2])
def test_the_newest_batches_are_learned_from_as_if_the_new_one_held_them(learners, batches):
    learners.become(**CHOSEN)
    for last, batch in enumerate(BATCHES):
        held = [each for earlier in BATCHES[max(0, last - batches) : last] for each in earlier]
        learners.call("update_on", [*held, *batch])
    expected = learners.call("parameters")
    learners.become(**CHOSEN, replay_batches=batches)
    found = [learners.call("update_on", batch) for batch in BATCHES]
    assert same(learners.call("parameters"), expected)
    assert [each["replayed_trajectories"] for each in found] == [6 * min(place, batches) for place in range(4)]
    assert [each["trajectories"] for each in found] == [6 * min(place, batches) + 6 for place in range(4)]


def test_what_is_told_of_returns_and_credit_is_told_of_the_new_games(learners):
    learners.become(**CHOSEN)
    alone = learners.call("update_on", BATCHES[1])
    learners.become(**CHOSEN, replay_batches=3)
    learners.call("update_on", BATCHES[0])
    found = learners.call("update_on", BATCHES[1])
    assert found["return_mean"] == alone["return_mean"]
    names, sizes, advantages = learners.call("advantages")
    assert names == [(each.number, each.seat) for each in BATCHES[1]]
    assert sizes == [each.turn_tokens.sum() for each in BATCHES[1]] and sum(sizes) == len(advantages)


def test_a_restored_learner_replays_the_same_games_to_the_same_bytes(learners, tmp_path):
    learners.become(**CHOSEN, replay_batches=2)
    for batch in BATCHES[:3]:
        learners.call("update_on", batch)
    learners.call("save", str(tmp_path))
    learners.call("update_on", BATCHES[3])
    whole = learners.call("parameters")
    learners.become(**CHOSEN, replay_batches=2)
    learners.call("load", str(tmp_path))
    assert learners.call("update_on", BATCHES[3])["replayed_trajectories"] == 12
    assert same(learners.call("parameters"), whole)


@pytest.mark.parametrize(("before", "after", "replayed"), [(0, 2, 0), (2, 1, 6), (2, 0, 0)])
def test_a_run_may_go_on_with_another_number_of_batches(learners, tmp_path, before, after, replayed):
    learners.become(**CHOSEN, replay_batches=before)
    for batch in BATCHES[:3]:
        learners.call("update_on", batch)
    learners.call("save", str(tmp_path))
    learners.become(**CHOSEN, replay_batches=after)
    learners.call("load", str(tmp_path))
    assert learners.call("update_on", BATCHES[3])["replayed_trajectories"] == replayed


def test_a_batch_whose_update_was_skipped_is_not_learned_from_again(learners):
    learners.become(**CHOSEN, replay_batches=2)
    broken = numbered(100, seed=99)
    for each in broken:
        each.sequence.versions[each.sequence.mask] = -7
        each.sequence.logprobs[:] = np.nan
    assert learners.call("update_on", broken)["applied"] == 0
    assert learners.call("update_on", BATCHES[0])["replayed_trajectories"] == 0


def test_everything_of_a_game_comes_back_from_a_file_that_holds_only_data():
    held, back = ReplayedBatches(2), ReplayedBatches(2)
    for batch in BATCHES[:3]:
        held.add(batch)
    given = held.held[-1][0] = replace(
        BATCHES[2][0],
        terminated=np.bool_(False),
        closing_ids=np.frombuffer(np.arange(3, dtype=np.int32).tobytes(), np.int32),  # read-only, as from an episode
        anchors=np.array([4, 4]),
        expected_advantages=np.array([0.5, -0.5], np.float32),
        sequence=replace(
            BATCHES[2][0].sequence,
            choices={3: Choice(np.arange(4, dtype=np.int32), np.array([1, 3], np.int32), np.ones(2), 1)},
            experts=np.arange(12, dtype=np.uint16).reshape(2, 2, 3),
        ),
    )
    file = io.BytesIO()
    torch.save(held.state(), file)
    file.seek(0)
    back.restore(torch.load(file, weights_only=True))
    assert [[each.number for each in batch] for batch in back.held] == [list(range(6, 12)), list(range(12, 18))]
    found = back.held[-1][0]
    assert (found.number, found.seat, found.task, found.kind) == (given.number, given.seat, given.task, given.kind)
    assert found.terminated is False
    for name in ("rewards", "turn_tokens", "closing_ids", "anchors", "expected_advantages"):
        one, other = getattr(found, name), getattr(given, name)
        assert np.array_equal(one, other) and one.dtype == other.dtype, name
    for name in ("ids", "mask", "logprobs", "versions", "turn", "experts"):
        one, other = getattr(found.sequence, name), getattr(given.sequence, name)
        assert np.array_equal(one, other) and one.dtype == other.dtype, name
    choice = found.sequence.choices[3]
    assert choice.chosen == 1 and np.array_equal(choice.ids, np.arange(4)) and np.array_equal(choice.tokens, [1, 3])


@pytest.mark.parametrize(
    ("settings", "what_to_do"),
    [
        ({"loss": {"kind": "likelihood"}}, "set loss.kind to decoupled"),
        ({"loss": {"kind": "mirror_descent"}}, "set loss.kind to decoupled"),
        ({"credit": {"method": "archer"}}, "credit.method=archer has its own"),
        ({"credit": {"method": "gigpo", "anchor": "labels"}}, "set credit.anchor to observation"),
        ({"credit": {"method": "rae"}}, "once more in each of its updates: set credit.method to reinforce"),
        ({"credit": {"method": "reinforce", "baseline": "running"}}, "set credit.baseline to turn"),
    ],
)
def test_what_it_does_not_go_with_is_refused_in_one_line(settings, what_to_do):
    with pytest.raises(ValueError, match=what_to_do):
        LearnerSettings(replay_batches=1, **settings)
    LearnerSettings(replay_batches=0, **settings)
    LearnerSettings(replay_batches=1, loss={"kind": "mirror_descent"}, credit={"method": "q_learning"})


def test_rewards_of_another_kind_than_those_held_are_refused(learners):
    learners.become(replay_batches=1)
    learners.call("update_on", BATCHES[0])
    with pytest.raises(Exception, match="rewards of one batch must all be"):
        learners.call("update_on", [replace(each, kind="advantage") for each in BATCHES[1]])


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_run_learns_from_the_games_of_the_updates_before(ray_cluster, parrot_model, tmp_path):
    config = config_for(
        parrot_model,
        tmp_path,
        updates=3,
        reward={"shaper": "game"},
        rollout={"engine": {"kind": "transformers"}},
        learner={"learning_rate": 1e-3, "replay_batches": 1, "loss": {"kind": "decoupled"}},
    )
    _, folder = run(config)
    rows = metrics_of(folder)
    games = config.batch_episodes
    assert [row["learner/replayed_trajectories"] for row in rows] == [0, games, games]
    assert [row["ledger/consumed"] for row in rows] == [games, 2 * games, 3 * games], "each is consumed once"
    assert rows[0]["learner/stale_share"] == 0 < min(row["learner/stale_share"] for row in rows[1:])
    assert all(row.get("learner/logprob_gap_max", 0.0) < 1e-4 for row in rows)
