"""Gradients of every loss in a model: the same however the batch is cut, and none from observations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from learners.batch.minibatches import batch_scale, plan_share, shares
from learners.batch.packing import by_trajectory, pack_trajectories
from learners.batch.trajectories import Trajectory, collect
from learners.model.load import load_model, pack_logprobs
from learners.settings import LearnerSettings
from learners.update.policy_steps import Batch, pack_loss
from tests.support.learner_batches import make_batch

CPU = torch.device("cpu")
CLIPPED = {"clip_low": 0.1, "clip_high": 0.05, "dual_clip": 1.2}
LOSSES = {
    "policy_gradient": {},
    "likelihood": {"kind": "likelihood"},
    "mirror_descent": {"kind": "mirror_descent", "step": 0.5},
    "ppo": {"kind": "ppo"} | CLIPPED,
    "decoupled": {"kind": "decoupled"} | CLIPPED,
    "masks": {"token_mask": [0.8, 1.25], "sequence_mask": [0.95, 1.1]},
    "k1": {"kl": 0.3, "kl_estimator": "k1"},
    "k2": {"kl": 0.3, "kl_estimator": "k2"},
    "k3": {"kl": 0.3},
    "entropy": {"entropy": 0.2},
    "all": {"kind": "decoupled", "token_mask": [0.3, 3.0], "kl": 0.1, "entropy": 0.1} | CLIPPED,
}


@pytest.fixture(scope="module")
def model(tiny_model):
    return load_model(str(tiny_model), LearnerSettings(), 0)


@pytest.fixture(scope="module")
def batch(model) -> Batch:
    """As at the third step or so of an update: the weights have moved, a third of the tokens is old."""
    episodes, rewards = make_batch(6, seed=71, version=1, most_turns=3)
    rng = np.random.default_rng(71)
    for episode in episodes:
        for turn in episode.turns:
            turn.tokens.versions[:] = rng.random(len(turn.tokens.versions)) < 0.7
    trajectories = collect(episodes, rewards)
    advantages = [rng.normal(size=int(t.turn_tokens.sum())).astype(np.float32) for t in trajectories]
    made = Batch(trajectories, advantages, version=1)
    with torch.no_grad():
        now = pack_logprobs(model, pack_trajectories(trajectories, advantages, 1), 1.0, CPU).numpy()
    now = by_trajectory(now, trajectories)
    made.old_logprobs = {i: each + rng.normal(0, 0.2, len(each)) for i, each in enumerate(now)}
    made.reference = [each + rng.normal(0, 0.4, len(each)) for each in now]
    for trajectory, start in zip(trajectories, made.old_logprobs.values(), strict=True):
        sequence = trajectory.sequence
        sequence.logprobs[sequence.mask] = start + rng.normal(0, 0.5, len(start))
        sequence.logprobs[~sequence.mask] = rng.normal(0, 5, (~sequence.mask).sum())
    return made


def gradient(model, batch: Batch, settings: LearnerSettings) -> dict[str, torch.Tensor]:
    """Summed over ranks and micro-batches, by the learner's own pieces."""
    model.zero_grad()
    everything = range(len(batch.trajectories))
    scale = batch_scale(batch.trajectories, settings.loss_aggregation)
    for rank in plan_share(batch.trajectories, everything, settings):
        for indices in filter(None, rank):
            pack_loss(model, batch.pack(indices), settings, 1.0, scale, CPU)[0].loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_do_not_depend_on_how_the_batch_is_cut(model, batch, name):
    found = [
        gradient(model, batch, LearnerSettings(loss=LOSSES[name], ranks=ranks, tokens_per_micro_batch=budget))
        for ranks, budget in ((1, 4096), (1, 80), (2, 80), (4, 4096))
    ]
    largest = max(float(each.abs().max()) for each in found[0].values())
    assert largest > 1e-2
    for cut in found[1:]:
        assert all(torch.allclose(cut[key], found[0][key], atol=2e-6 * max(largest, 1.0)) for key in cut)


def test_no_two_losses_are_the_same(model, batch):
    gradients = [gradient(model, batch, LearnerSettings(loss=loss))["lm_head.weight"] for loss in LOSSES.values()]
    for place, one in enumerate(gradients):
        assert all((one - other).abs().max() > 1e-4 for other in gradients[:place])


@pytest.mark.parametrize("aggregation", ["token", "turn", "episode"])
def test_aggregations_differ_by_their_count_alone(model, batch, aggregation):
    """Also where a mask drops tokens: the count is of what could have been trained."""
    count = {
        "token": sum(int(t.turn_tokens.sum()) for t in batch.trajectories),
        "turn": sum(len(t.turn_tokens) for t in batch.trajectories),
        "episode": len(batch.trajectories),
    }[aggregation]
    for name in ("all", "masks"):
        whole = gradient(model, batch, LearnerSettings(loss=LOSSES[name], loss_aggregation="episode"))
        found = gradient(model, batch, LearnerSettings(loss=LOSSES[name], loss_aggregation=aggregation))
        for key, each in found.items():
            torch.testing.assert_close(each * count, whole[key] * len(batch.trajectories), atol=1e-4, rtol=1e-4)


def test_nothing_is_taught_where_an_observation_comes_next(model, batch):
    """The gradient at the last hidden states is exactly 0 wherever no sampled token is predicted."""
    for loss in LOSSES.values():
        caught: list[torch.Tensor] = []

        def keep(module, inputs, output, caught=caught):
            output.retain_grad()
            caught.append(output)

        handle = model.model.norm.register_forward_hook(keep)
        pack = batch.pack(range(len(batch.trajectories)))
        pack_loss(model, pack, LearnerSettings(loss=loss), 1.0, 1.0, CPU)[0].loss.backward()
        handle.remove()
        taught = caught[0].grad[0].abs().sum(-1) > 0
        mask = np.concatenate([trajectory.sequence.mask for trajectory in batch.trajectories])
        assert not taught[torch.from_numpy(~np.append(mask[1:], False))].any()
        assert taught[pack.keep].float().mean() > 0.2


@pytest.mark.parametrize("name", LOSSES)
def test_log_probs_of_observations_may_be_anything(model, batch, name):
    settings = LearnerSettings(loss=LOSSES[name])
    before = gradient(model, batch, settings)
    rng = np.random.default_rng(0)

    def shuffled(trajectory: Trajectory) -> Trajectory:
        sequence = trajectory.sequence
        logprobs, versions = sequence.logprobs.copy(), sequence.versions.copy()
        logprobs[~sequence.mask] = rng.permutation(logprobs[~sequence.mask])
        versions[~sequence.mask] = rng.integers(-1, 3, (~sequence.mask).sum())
        return replace(trajectory, sequence=replace(sequence, logprobs=logprobs, versions=versions))

    other = replace(batch, trajectories=[shuffled(trajectory) for trajectory in batch.trajectories])
    after = gradient(model, other, settings)
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize(("count", "minibatches", "epochs"), [(10, 1, 3), (10, 3, 2), (2, 5, 2)])
def test_every_epoch_trains_everything_once(count, minibatches, epochs):
    settings = LearnerSettings(minibatches=minibatches, epochs=epochs)
    steps = shares(count, settings, seed=3, update=8)
    each = min(minibatches, count)
    assert len(steps) == each * epochs
    for epoch in range(epochs):
        parts = steps[epoch * each : (epoch + 1) * each]
        assert sorted(index for part in parts for index in part) == list(range(count))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert shares(count, settings, 3, 8) == steps
    if minibatches == 3:
        assert shares(count, settings, 3, 9) != steps != shares(count, settings, 4, 8)
        assert steps[:3] != steps[3:], "epochs are shuffled anew"
        assert shares(count, settings.model_copy(update={"ranks": 2}), 3, 8) == steps


def test_the_plan_of_a_share_is_in_indices_of_the_batch(batch):
    settings = LearnerSettings(ranks=2, tokens_per_micro_batch=80)
    made = plan_share(batch.trajectories, [1, 4, 5], settings)
    assert sorted(index for rank in made for pack in rank for index in pack) == [1, 4, 5]
