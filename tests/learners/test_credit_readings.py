"""What credit asks of the policy beside log-probs: its utterances once more, with the end of their game told before it;
and the states that it is in before it speaks."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.lab.trainee import Driver, alone
from learners.batch.packing import pack_in_hindsight, pack_to_read, plan
from learners.batch.trajectories import Trajectory
from learners.credit.method import ActorCritic
from learners.model.load import load_model, places_of
from learners.settings import LearnerSettings
from learners.update.learning import make_critic
from learners.update.reading import BatchReader
from tests.learners.test_turn_critics import games
from tests.learners.test_twosome_training import batch as batch_of_choices
from tests.learners.test_twosome_training import one_by_one
from tests.support.engines import model_of

CPU = torch.device("cpu")


class Both(ActorCritic):
    """A method of somebody's own that asks for a critic and for states."""

    needs = ("values", "bootstrap", "states")

    def credit(self, turns, state):
        raise NotImplementedError


class Frozen:
    def __init__(self, model: torch.nn.Module):
        self.frozen = model

    def model(self):
        return nullcontext(self.frozen)


def played() -> list[Trajectory]:
    """Spoken freely and chosen from lists; each game shows something at its end, whether or not it was cut off."""
    rng = np.random.default_rng(1)
    return [replace(t, closing_ids=rng.integers(0, 60, 1 + t.number % 3)) for t in batch_of_choices(7, seed=3)]


def told(trajectory: Trajectory) -> Trajectory:
    """The same game, by a seat that saw its end first."""
    whole = trajectory.sequence
    last = np.searchsorted(whole.turn, whole.turn.max())
    end = [*whole.ids[last : last + shown(trajectory, whole.turn.max())], *trajectory.closing_ids]
    sequence = replace(
        whole,
        ids=np.array([*end, *whole.ids]),
        mask=np.array([*(False for _ in end), *whole.mask]),
        choices={place + len(end): choice for place, choice in whole.choices.items()},
    )
    return replace(trajectory, sequence=sequence)


def read(tiny_model, trajectories: list[Trajectory], credit: dict) -> dict[str, np.ndarray]:
    """In several micro-batches, at temperature .7."""
    alone()
    settings = LearnerSettings(credit=credit, tokens_per_micro_batch=128)
    model = load_model(str(tiny_model), settings, 0)
    reference = Frozen(load_model(str(tiny_model), settings, 0))
    critic = make_critic(settings, model.get_output_embeddings().in_features, CPU, 0)
    (mine,) = plan(trajectories, 1, settings.tokens_per_micro_batch)
    assert len(mine) > 1
    return BatchReader(Driver(model, None), settings, 0.7, CPU, critic, reference).read(trajectories, mine, mine)[0]


def test_the_learner_reads_what_the_policy_says_after_the_end_of_the_game(tiny_model):
    trajectories = played()
    assert any(t.sequence.choices for t in trajectories) and len({t.terminated for t in trajectories}) == 2
    readings = read(tiny_model, trajectories, {"method": "hcapo"})
    assert readings.keys() == {"hindsight"}
    with torch.no_grad():
        expected, *_ = one_by_one(model_of(str(tiny_model)), [told(t) for t in trajectories], 0.7)
        untold, *_ = one_by_one(model_of(str(tiny_model)), trajectories, 0.7)
    np.testing.assert_allclose(readings["hindsight"], expected.numpy(), atol=1e-5)
    assert np.abs(readings["hindsight"] - untold.numpy()).max() > 1e-3


@pytest.mark.parametrize("base", [False, True])
def test_states_are_where_each_observation_ends(tiny_model, base):
    """Also beside a critic that reads others."""
    trajectories = [*played(), *games([[2, 0, 3], [0, 1]], [False, True], [[0.0] * 3, [0.0] * 2])]
    credit = {"method": "bipace"}
    if base:
        credit = {"method": f"{__name__}:Both", "critic": {"states": "base"}}
    found = read(tiny_model, trajectories, credit)
    assert found.keys() == ({"states", "values", "bootstrap"} if base else {"states"})
    rows, plain = iter(found["states"]), model_of(str(tiny_model))
    for trajectory in trajectories:
        ids = torch.from_numpy(trajectory.sequence.ids.astype(np.int64))
        with torch.no_grad():
            hidden = plain(input_ids=ids[None], output_hidden_states=True).hidden_states[-1][0].numpy()
        for turn, spoken in enumerate(trajectory.turn_tokens > 0):
            seen = np.searchsorted(trajectory.sequence.turn, turn) + shown(trajectory, turn) - 1
            np.testing.assert_allclose(next(rows), hidden[seen] * spoken, atol=1e-5, rtol=1e-4)
    assert next(rows, None) is None


def shown(trajectory: Trajectory, turn: int) -> int:
    """Tokens of what was seen before this turn's utterance."""
    return int(((trajectory.sequence.turn == turn) & (trajectory.sequence.versions == -1)).sum())


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


def test_a_plan_in_hindsight_counts_what_is_told_before_each_game(tiny_model):
    trajectories = played()
    longest = max(len(told(t).sequence.ids) + len(t) - len(t.sequence.ids) for t in trajectories)
    (mine,) = plan(trajectories, 1, longest, longest, hindsight=True)
    fed = [len(pack_in_hindsight([trajectories[index] for index in pack], longest).ids) for pack in mine]
    assert sorted(index for pack in mine for index in pack) == list(range(len(trajectories)))
    assert max(fed) <= longest < sum(fed)


def test_nothing_follows_a_true_end(tiny_model):
    """What a game shows at its end is no state in which somebody would go on."""
    trajectories = played()
    pack = pack_to_read(trajectories, 256)
    cut_off = [t for t in trajectories if not t.terminated]
    assert len(pack.ids) == sum(map(len, trajectories)) + sum(len(t.closing_ids) for t in cut_off)
    assert len(pack.keep) == sum(int(t.turn_tokens.sum()) for t in trajectories) + len(cut_off)
