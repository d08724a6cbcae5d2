"""The loss: its gradient against a slow one that is plainly right, and what it must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from learners.batch.crediting import assign_credit
from learners.batch.minibatches import batch_scale
from learners.batch.packing import by_trajectory, pack_trajectories, plan
from learners.batch.trajectories import Trajectory, collect
from learners.loss.ratios import sampled_at, truncated
from learners.model.load import load_model
from learners.model.logits import target_logprobs
from learners.settings import LearnerSettings
from learners.update.learning import sampled_by
from learners.update.policy_steps import Batch, pack_loss
from tests.support.engines import model_of
from tests.support.learner_batches import make_batch

CPU = torch.device("cpu")


def fast_gradient(model, trajectories: list[Trajectory], settings: LearnerSettings, ranks: int, temperature: float):
    """Summed over ranks, by the learner's own pieces."""
    credit = assign_credit(trajectories, settings.credit, {})
    batch = Batch(trajectories, by_trajectory(credit.advantages, trajectories), version=1)
    scale = batch_scale(trajectories, settings.loss_aggregation)
    model.zero_grad()
    for rank in plan(trajectories, ranks, settings.tokens_per_micro_batch):
        for chosen in filter(None, rank):
            pack_loss(model, batch.pack(chosen), settings, temperature, scale, CPU)[0].loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def slow_gradient(model, trajectories: list[Trajectory], settings: LearnerSettings, temperature: float):
    """One token at a time, each from its own prompt, in the words of the formula."""
    returns = [np.cumsum(t.rewards[::-1])[::-1] for t in trajectories]
    mean = np.concatenate(returns).mean()
    units = {"token": 0, "turn": 0, "episode": len(trajectories)}
    loss = torch.zeros(())
    for trajectory, value in zip(trajectories, returns, strict=True):
        sequence = trajectory.sequence
        units["turn"] += len(value)
        for place in range(len(sequence.ids)):
            if not sequence.mask[place]:
                continue
            units["token"] += 1
            prompt = torch.from_numpy(sequence.ids[:place].astype(np.int64))
            logits = model(input_ids=prompt[None]).logits[0, -1] / temperature
            logprob = logits.log_softmax(-1)[sequence.ids[place]]
            weight = 1.0
            if sequence.versions[place] != 1:
                ratio = float((logprob.detach() - float(sequence.logprobs[place])).exp())
                weight = min(ratio, settings.loss.importance_cap)
            loss = loss - weight * float(value[sequence.turn[place]] - mean) * logprob
    model.zero_grad()
    (loss / units[settings.loss_aggregation]).backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def mixed_batch(seed: int) -> list[Trajectory]:
    """Tokens of the current weights (version 1) and of older ones, also within an utterance."""
    episodes, rewards = make_batch(6, seed=seed, version=1, most_turns=3)
    rng = np.random.default_rng(seed)
    for episode in episodes:
        for turn in episode.turns:
            turn.tokens.versions[:] = np.sort(rng.integers(0, 2, len(turn.tokens.versions)))
    return collect(episodes, rewards)


@pytest.mark.parametrize("aggregation", ["token", "turn", "episode"])
def test_gradient_equals_the_slow_one(tiny_model, aggregation):
    settings = LearnerSettings(loss_aggregation=aggregation, credit={"baseline": "batch"}, tokens_per_micro_batch=64)
    trajectories = mixed_batch(seed=11)
    fast = fast_gradient(load_model(str(tiny_model), settings, 0), trajectories, settings, ranks=2, temperature=0.7)
    plain = model_of(str(tiny_model))
    slow = slow_gradient(plain, trajectories, settings, temperature=0.7)
    largest = max(float(gradient.abs().max()) for gradient in slow.values())
    for name, gradient in slow.items():
        assert torch.allclose(fast[name], gradient, atol=2e-6 * max(largest, 1.0)), name


def test_gradient_does_not_depend_on_how_the_batch_is_cut(tiny_model):
    trajectories = mixed_batch(seed=12)
    model = load_model(str(tiny_model), LearnerSettings(), 0)
    whole = fast_gradient(model, trajectories, LearnerSettings(tokens_per_micro_batch=4096), 1, 1.0)
    for budget, ranks in ((60, 1), (60, 3), (4096, 4)):
        cut = fast_gradient(model, trajectories, LearnerSettings(tokens_per_micro_batch=budget), ranks, 1.0)
        assert all(torch.allclose(cut[name], whole[name], atol=2e-6) for name in whole)


def test_observations_are_never_trained(tiny_model):
    """With an embedding row only observations use and a head row only observations would
    be predicted with: neither is taught to be said, and their stored log-probs are not read."""
    episodes, rewards = make_batch(4, seed=13, version=1)
    trajectories = collect(episodes, rewards)
    for trajectory in trajectories:
        trajectory.sequence.ids[~trajectory.sequence.mask] %= 32
        trajectory.sequence.ids[trajectory.sequence.mask] = 32 + trajectory.sequence.ids[trajectory.sequence.mask] % 32
    settings = LearnerSettings()
    model = load_model(str(tiny_model), settings, 0)
    said = {int(i) for t in trajectories for i in t.sequence.ids[t.sequence.mask]}
    credit = assign_credit(trajectories, settings.credit, {})
    each = by_trajectory(credit.advantages, trajectories)
    assert set(pack_trajectories(trajectories, each, 1).targets.tolist()) == said
    before = fast_gradient(model, trajectories, settings, 1, 1.0)
    for trajectory in trajectories:
        seen = ~trajectory.sequence.mask
        trajectory.sequence.logprobs[seen] = np.nan
        trajectory.sequence.versions[seen] = 12345
    after = fast_gradient(model, trajectories, settings, 1, 1.0)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_importance_weights():
    logprobs = torch.tensor([-1.0, -1.0, -1.0, -1.0, 300.0])
    sampler_logprobs = torch.tensor([-1.00001, -2.0, -1.2, 0.0, -300.0])
    on_policy = torch.tensor([True, False, False, False, False])
    weights = truncated(logprobs, sampled_at(logprobs, sampler_logprobs, on_policy), cap=2.0)
    assert weights.tolist() == pytest.approx([1.0, 2.0, np.exp(0.2), np.exp(-1.0), 2.0], rel=1e-6)
    assert weights[0] == 1.0, "exactly: rounding differences of the engine must not reach an on-policy update"


def test_credit_knows_fresh_tokens_by_the_trainers_own_log_probs():
    """So V-trace's ratios of theirs are exactly 1, however the engine rounds; unless that is to be corrected."""
    trajectories = mixed_batch(seed=14)
    masks = [trajectory.sequence.mask for trajectory in trajectories]
    stored, versions = (
        np.concatenate([getattr(t.sequence, name)[mask] for t, mask in zip(trajectories, masks, strict=True)])
        for name in ("logprobs", "versions")
    )
    start = np.linspace(-3, -1, len(stored))
    found = sampled_by(trajectories, start, 1, LearnerSettings())
    assert np.array_equal(found[versions == 1], start[versions == 1]) and 0 < (versions == 1).sum() < len(versions)
    assert np.array_equal(found[versions == 0], stored[versions == 0])
    assert np.array_equal(sampled_by(trajectories, start, None, LearnerSettings()), stored)
    assert np.array_equal(sampled_by(trajectories, start, 1, LearnerSettings(loss={"correct_on_policy": True})), stored)


def test_temperature_is_in_the_distribution():
    logits = torch.randn(5, 9)
    targets = torch.tensor([0, 3, 8, 1, 1])
    expected = (logits / 0.5).log_softmax(-1)[torch.arange(5), targets]
    assert torch.allclose(target_logprobs(logits, targets, 0.5), expected)
    assert target_logprobs(logits.bfloat16(), targets, 0.5).dtype == torch.float32
