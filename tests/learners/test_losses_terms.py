"""The terms of the loss as functions of log-probs: finite differences, hand-computed values, theorems."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.critic.tokens import value_losses
from learners.loss.clipping import clipped, ppo_loss
from learners.loss.loss import Tokens
from learners.loss.policy_gradient import policy_loss
from learners.loss.ratios import kl_estimates, sampled_at, sequence_mask, token_mask, truncated
from learners.model.logits import entropies, target_logprobs
from learners.settings import LearnerSettings
from learners.update.schedule import critic_learning_rate, learning_rate

EVERY = settings(max_examples=25, deadline=None)
CLIPS = 0.2, 0.3, 2.5


def drawn(seed: int, count: int = 12) -> tuple[torch.Tensor, Tokens]:
    """float64 log-probs and what goes with them, no ratio within .01 of a kink."""
    rng = np.random.default_rng(seed)
    logprobs = rng.uniform(-5, -0.1, count)
    gap = rng.uniform(-1.5, 1.5, count)  # log (pi / start)
    for kink in (math.log(1 - CLIPS[0]), math.log(1 + CLIPS[1]), math.log(CLIPS[2]), 0.0):
        gap = np.where(np.abs(gap - kink) < 0.01, kink + 0.02, gap)
    start = logprobs - gap
    arrays = rng.normal(size=count), start - rng.normal(0, 0.7, count), rng.random(count) < 0.4
    advantages, sampler_logprobs, on_policy = (torch.from_numpy(array) for array in arrays)
    rows = torch.tensor([count // 2, 0, count - count // 2])
    reference = torch.from_numpy(logprobs + rng.normal(0, 0.5, count))
    tokens = Tokens(advantages, sampler_logprobs, on_policy, rows, torch.from_numpy(start), reference)
    return torch.from_numpy(logprobs).requires_grad_(), tokens


def smooth(function, *inputs: torch.Tensor) -> bool:
    """Its gradient is that of finite differences, in float64."""
    return torch.autograd.gradcheck(function, inputs, eps=1e-6, atol=1e-7, rtol=1e-5)


@EVERY
@given(seed=st.integers(0, 10**6))
def test_each_term_against_finite_differences(seed):
    logprobs, tokens = drawn(seed)
    weights = torch.rand(len(logprobs), dtype=torch.float64)
    assert smooth(lambda x: policy_loss(x, tokens.advantages, weights, 0.1), logprobs)
    for clips in (CLIPS, (*CLIPS[:2], None)):
        assert smooth(
            lambda x, c=clips: ppo_loss(x, tokens.old_logprobs, tokens.advantages, weights, 0.1, *c), logprobs
        )
    for estimator in ("k1", "k2", "k3"):
        assert smooth(lambda x, e=estimator: kl_estimates(x, tokens.reference, e), logprobs)
    logits = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    assert smooth(lambda x: entropies(x, 0.7), logits)
    assert smooth(lambda x: target_logprobs(x, torch.tensor([0, 6, 3, 3]), 0.7), logits)
    before = logprobs.detach() - torch.tensor([0.1, -0.1, 0.35, -0.35] * 3, dtype=torch.float64)  # clip .2: either side
    for clip in (None, 0.2):
        assert smooth(lambda x, c=clip: value_losses(x, tokens.advantages, before, c), logprobs)


@EVERY
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["ppo", "decoupled"]))
def test_the_whole_loss_against_finite_differences(seed, kind):
    clips = dict(zip(("clip_low", "clip_high", "dual_clip"), CLIPS, strict=True))
    masks = {"token_mask": [0.5, 2.0], "sequence_mask": [0.7, 1.5]}
    chosen = LearnerSettings(loss={"kind": kind, "kl": 0.1, "kl_estimator": "k2", "entropy": 0.05} | clips | masks)
    logprobs, tokens = drawn(seed)
    entropy = torch.rand(len(logprobs), dtype=torch.float64, requires_grad=True)
    assert smooth(lambda x, h: chosen.loss.of_pack(x, h, tokens, 0.25).loss, logprobs, entropy)


def test_the_weights_of_the_policy_gradient_are_constants():
    """Its gradient is w A, the ratio itself is not differentiated."""
    logprobs, tokens = drawn(3)
    LearnerSettings().loss.of_pack(logprobs, None, tokens, 0.5).loss.backward()
    sampled = torch.where(tokens.on_policy, tokens.old_logprobs, tokens.sampler_logprobs)
    weights = (logprobs.detach() - sampled).exp().clamp(max=2.0)
    torch.testing.assert_close(logprobs.grad, -0.5 * weights * tokens.advantages)


@pytest.mark.parametrize("kind", ["ppo", "decoupled"])
def test_the_first_step_of_ppo_is_the_policy_gradient(kind):
    """On fresh tokens all ratios are 1, so the gradients are the same numbers."""
    gradients = []
    for chosen in (LearnerSettings(), LearnerSettings(loss={"kind": kind, "dual_clip": 3.0})):
        logprobs, tokens = drawn(4)
        tokens.old_logprobs, tokens.on_policy = None, torch.ones_like(tokens.on_policy)
        chosen.loss.of_pack(logprobs, None, tokens, 0.5).loss.backward()
        gradients.append(logprobs.grad)
    assert torch.equal(*gradients) and gradients[0].abs().min() > 0


def test_mirror_descent_goes_as_far_as_the_advantage_says_whoever_sampled():
    logprobs, tokens = drawn(6)
    old, loss = tokens.old_logprobs, LearnerSettings(loss={"kind": "mirror_descent", "step": 0.25}).loss
    for moved in (torch.zeros(len(old)), torch.linspace(-1, 1, len(old)), 0.25 * tokens.advantages):
        now = (old + moved).requires_grad_()
        loss.of_pack(now, None, tokens, 0.5).loss.backward()
        torch.testing.assert_close(now.grad, 0.5 * (moved / 0.25 - tokens.advantages))
    assert smooth(lambda x: loss.of_pack(x, None, tokens, 0.5).loss, logprobs)


def test_dual_clip_by_hand():
    """low .2, high .3, c 3, weights 1. Ratios 4, 2, .5 and 1.25 with advantages -1 and 1:

    gain at A = -1:  max(min(-4, -1.3), -3) = -3     min(-2, -1.3) = -2     min(-.5, -.8) = -.8    -1.25
    gain at A = +1:  min(4, 1.3) = 1.3               1.3                    .5                     1.25
    """
    ratios = torch.tensor([4.0, 2.0, 0.5, 1.25] * 2, dtype=torch.float64)
    advantages = torch.tensor([-1.0] * 4 + [1.0] * 4, dtype=torch.float64)
    start = torch.full((8,), -2.0, dtype=torch.float64)
    logprobs = (start + ratios.log()).requires_grad_()
    one = torch.ones(1, dtype=torch.float64)
    gains = [
        -ppo_loss(logprobs[i : i + 1], start[i : i + 1], advantages[i : i + 1], one, 1.0, 0.2, 0.3, 3.0).item()
        for i in range(8)
    ]
    assert gains == pytest.approx([-3, -2, -0.8, -1.25, 1.3, 1.3, 0.5, 1.25])
    ppo_loss(logprobs, start, advantages, torch.ones(8), 1.0, 0.2, 0.3, 3.0).backward()
    assert logprobs.grad.tolist() == pytest.approx([0, 2, 0, 1.25, 0, 0, -0.5, -1.25])
    held = clipped(logprobs, start, advantages, 0.2, 0.3, 3.0)
    assert held.tolist() == (logprobs.grad == 0).tolist()
    without = clipped(logprobs, start, advantages, 0.2, 0.3)
    assert without.tolist() == [False, False, True, False, True, True, False, False]


def test_decoupled_weighs_what_it_clips():
    start, sampler_logprobs = torch.tensor([-1.0, -1.0, -1.0]), torch.tensor([-1.5, -5.0, -9.0])
    logprobs = (start + 0.1).requires_grad_()
    tokens = Tokens(torch.ones(3), sampler_logprobs, torch.tensor([False, False, True]), torch.tensor([3]), start, None)
    LearnerSettings(loss={"kind": "decoupled"}).loss.of_pack(logprobs, None, tokens, 1.0).loss.backward()
    assert (-logprobs.grad / math.exp(0.1)).tolist() == pytest.approx([math.exp(0.5), 2.0, 1.0], rel=1e-6)


def test_importance_is_1_on_fresh_tokens_until_a_step_moves_them():
    logprobs, sampler_logprobs = torch.tensor([-1.0, -1.0]), torch.tensor([-7.0, math.nan])
    on_policy = torch.tensor([True, True])
    fresh = truncated(logprobs, sampled_at(logprobs, sampler_logprobs, on_policy), 2.0)
    assert fresh.tolist() == [1.0, 1.0], "what is stored is not looked at"
    moved = truncated(logprobs, sampled_at(torch.tensor([-1.5, -0.5]), sampler_logprobs, on_policy), 2.0)
    assert moved.tolist() == pytest.approx([math.exp(0.5), math.exp(-0.5)])


def test_masks_by_hand():
    """Rows of 2, 0 and 3 tokens: geometric means sqrt(4 * 1) = 2, none, and 1."""
    ratios = torch.tensor([4.0, 1.0, 0.25, 4.0, 1.0])
    rows = torch.tensor([2, 0, 3])
    assert token_mask(ratios.log(), 0.25, 3.0).tolist() == [False, True, True, False, True]
    assert token_mask(ratios.log(), 0.0, 3.0).tolist() == [False, True, True, False, True]
    assert sequence_mask(ratios.log(), rows, 0.5, 1.9).tolist() == [False, False, True, True, True]
    assert sequence_mask(ratios.log(), rows, 0.5, 2.1).all()
    assert token_mask(torch.tensor([math.nan]), 0.5, 2.0).all(), "what is not a number is for the guard to find"


def test_masked_tokens_have_no_gradient_of_any_term():
    chosen = LearnerSettings(
        loss={"kind": "decoupled", "token_mask": [0.5, 2.0], "sequence_mask": [0.9, 1.1], "kl": 0.1, "entropy": 0.1}
    )
    logprobs, tokens = drawn(5, count=40)
    tokens.on_policy[:20] = True
    entropy = torch.rand(40, dtype=torch.float64, requires_grad=True)
    chosen.loss.of_pack(logprobs, entropy, tokens, 1.0).loss.backward()
    ratios = (tokens.old_logprobs - tokens.sampler_logprobs).exp()
    dropped = ~tokens.on_policy & ((ratios < 0.5) | (ratios > 2.0))
    assert dropped.any() and (logprobs.grad[dropped] == 0).all() and (entropy.grad[dropped] == 0).all()
    assert (entropy.grad[:20] == -0.1).all(), "a game of fresh tokens is never dropped"
    assert not logprobs.grad[:20].eq(0).all()


def test_what_each_estimator_of_the_kl_teaches():
    """Exactly, over a whole vocabulary: k1 and k3 have the KL's value, k2 the KL's gradient, k3 that
    of the KL the other way round, and k1 none at all."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(9, dtype=torch.float64, generator=generator, requires_grad=True)
    reference = torch.randn(9, dtype=torch.float64, generator=generator).log_softmax(-1)

    def gradient(loss: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(loss, logits, retain_graph=True)[0]

    logprobs = logits.log_softmax(-1)
    chance = logprobs.exp().detach()  # of each token as a sample: no gradient goes through it
    mean = {name: (chance * kl_estimates(logprobs, reference, name)).sum() for name in ("k1", "k2", "k3")}
    kl = (logprobs.exp() * (logprobs - reference)).sum()
    backward = (reference.exp() * (reference - logprobs)).sum()
    assert [float(mean[name].detach()) for name in ("k1", "k3")] == pytest.approx([float(kl.detach())] * 2)
    torch.testing.assert_close(gradient(mean["k2"]), gradient(kl))
    torch.testing.assert_close(gradient(mean["k3"]), gradient(backward))
    torch.testing.assert_close(gradient(mean["k1"]), torch.zeros_like(logits))


def test_entropy_of_known_distributions():
    logits = torch.tensor([[0.0] * 8, [50.0] + [-50.0] * 7])
    assert entropies(logits, 0.5).tolist() == pytest.approx([math.log(8), 0.0], abs=1e-6)
    assert entropies(logits.bfloat16(), 1.0).dtype == torch.float32


def test_value_clip_by_hand():
    """From .5 towards 1 with clip .2: at .6 both errors are .16; at .9 the held value .7 errs more, and
    has no gradient; at .1 it is further away than it began, and is pulled back whole."""
    before, target = torch.full((3,), 0.5, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    values = torch.tensor([0.6, 0.9, 0.1], dtype=torch.float64, requires_grad=True)
    losses = value_losses(values, target, before, 0.2)
    assert losses.tolist() == pytest.approx([0.16, 0.09, 0.81])
    losses.sum().backward()
    assert values.grad.tolist() == pytest.approx([-0.8, 0.0, -1.8])


def test_step_sizes_over_a_run():
    shape = {"learning_rate": 1.0, "warmup_updates": 2, "schedule_updates": 6}
    linear = LearnerSettings(schedule="linear", **shape)
    assert [learning_rate(linear, n) for n in range(8)] == pytest.approx([1 / 3, 2 / 3, 1, 0.75, 0.5, 0.25, 0, 0])
    cosine = LearnerSettings(schedule="cosine", **shape)
    half = math.sqrt(0.5)
    assert [learning_rate(cosine, n) for n in range(2, 7)] == pytest.approx([1, (1 + half) / 2, 0.5, (1 - half) / 2, 0])
    critic = LearnerSettings(credit={"method": "poad", "critic": {"schedule": "linear", "learning_rate": 2.0}})
    with pytest.raises(ValueError, match="schedule=linear outside a run needs schedule_updates"):
        critic_learning_rate(critic, 0)
    critic.end_with(4)
    assert [critic_learning_rate(critic, n) for n in range(5)] == pytest.approx([2, 1.5, 1, 0.5, 0])
    assert learning_rate(critic, 3) == critic.learning_rate, "each of the two has its own"


def test_the_policy_s_step_size_rises_once_the_critic_has_learned_alone():
    waits = {"method": "poad", "critic": {"warmup_updates": 3}}
    shape = {"learning_rate": 1.0, "warmup_updates": 2, "schedule": "linear"}
    settings = LearnerSettings(credit=waits, **shape, schedule_updates=9)
    alone, rising, falling = [0, 0, 0], [1 / 3, 2 / 3, 1], [0.75, 0.5, 0.25, 0]
    assert [learning_rate(settings, n) for n in range(10)] == pytest.approx([*alone, *rising, *falling])
    with pytest.raises(ValueError, match="5 leaves nothing after warmup_updates=2 and credit.critic.warmup_updates=3"):
        LearnerSettings(credit=waits, **shape, schedule_updates=5)


def test_updates_none_of_which_would_move_the_policy_are_named():
    """As the step sizes themselves say."""
    waits = {"method": "gae", "critic": {"warmup_updates": 10}}
    for schedule, warmup, first in (("linear", 10, 21), ("cosine", 0, 11), ("constant", 10, 11)):
        settings = LearnerSettings(credit=waits, schedule=schedule, warmup_updates=warmup)
        for updates in (first - 1, first):
            settings.end_with(updates)
            moves = any(learning_rate(settings, done) for done in range(updates))
            assert moves == (updates == first) == (settings.no_step_within(updates) is None), (schedule, updates)
