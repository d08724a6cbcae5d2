"""What the policy is asked in hindsight: its utterances once more, with the end of their game told before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from benchmarks.lab.trainee import Driver, alone
from learners.batch.packing import pack_in_hindsight, pack_to_read, plan
from learners.batch.trajectories import Trajectory
from learners.model.load import load_model, places_of
from learners.settings import LearnerSettings
from learners.update.reading import BatchReader
from tests.learners.test_twosome_training import batch as batch_of_choices
from tests.learners.test_twosome_training import one_by_one
from tests.support.engines import model_of

CPU = torch.device("cpu")


def played() -> list[Trajectory]:
    """Spoken freely and chosen from lists; each game shows something at its end, whether or not it was cut off."""
    rng = np.random.default_rng(1)
    return [replace(t, closing_ids=rng.integers(0, 60, 1 + t.number % 3)) for t in batch_of_choices(7, seed=3)]


def told(trajectory: Trajectory) -> Trajectory:
    """The same game, by a seat that saw its end first."""
    whole = trajectory.sequence
    end = [*whole.ids[whole.turn == whole.turn.max()], *trajectory.closing_ids]
    sequence = replace(
        whole,
        ids=np.array([*end, *whole.ids]),
        mask=np.array([*(False for _ in end), *whole.mask]),
        choices={place + len(end): choice for place, choice in whole.choices.items()},
    )
    return replace(trajectory, sequence=sequence)


def test_the_learner_reads_what_the_policy_says_after_the_end_of_the_game(tiny_model):
    alone()
    trajectories = played()
    assert any(t.sequence.choices for t in trajectories) and len({t.terminated for t in trajectories}) == 2
    settings = LearnerSettings(credit={"method": "hcapo"}, tokens_per_micro_batch=128)
    model = load_model(str(tiny_model), settings, 0)
    reader = BatchReader(Driver(model, None), settings, 0.7, CPU, None, None)
    (mine,) = plan(trajectories, 1, settings.tokens_per_micro_batch)
    assert len(mine) > 1
    readings, states = reader.read(trajectories, mine)
    assert readings.keys() == {"hindsight"} and states == []
    with torch.no_grad():
        expected, *_ = one_by_one(model_of(str(tiny_model)), [told(t) for t in trajectories], 0.7)
        untold, *_ = one_by_one(model_of(str(tiny_model)), trajectories, 0.7)
    np.testing.assert_allclose(readings["hindsight"], expected.numpy(), atol=1e-5)
    assert np.abs(readings["hindsight"] - untold.numpy()).max() > 1e-3


def test_a_model_without_room_is_told_the_newest_of_the_end(tiny_model):
    trajectories = played()
    room = max(len(t.sequence.ids) for t in trajectories) + 2
    pack, whole = pack_in_hindsight(trajectories, room), pack_in_hindsight(trajectories, 10**9)
    assert len(pack.ids) < len(whole.ids) and max(len(told(t).sequence.ids) for t in trajectories) > room
    cut = [told(t).sequence.ids[-room:] for t in trajectories]
    starts, fed = np.cumsum(pack.lengths) - pack.lengths, [len(t) - len(t.sequence.ids) for t in trajectories]
    for start, length, behind, ids in zip(starts, pack.lengths, fed, cut, strict=True):
        assert pack.ids[start : start + length - behind].tolist() == ids.tolist()
    model = model_of(str(tiny_model))
    assert places_of(model) == model.config.max_position_embeddings


def test_nothing_follows_a_true_end(tiny_model):
    """What a game shows at its end is no state in which somebody would go on."""
    trajectories = played()
    pack = pack_to_read(trajectories)
    cut_off = [t for t in trajectories if not t.terminated]
    assert len(pack.ids) == sum(map(len, trajectories)) + sum(len(t.closing_ids) for t in cut_off)
    assert len(pack.keep) == sum(int(t.turn_tokens.sum()) for t in trajectories) + len(cut_off)
