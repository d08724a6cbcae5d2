"""Packing: every token once, nothing over budget, and no log-prob changed by it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from envs.episode import Choice
from learners.batch.packing import balance, pack_sequences, pack_to_read, pack_trajectories, plan, shown_after
from learners.batch.trajectories import collect
from learners.model import attention
from learners.model.attention import BRANCH_TOKENS, heads_may_share, layout, packed_attention, varlen_attention
from learners.model.load import load_model, pack_logprobs
from learners.settings import LearnerSettings
from tests.support.engines import model_of
from tests.support.learner_batches import VOCABULARY, make_batch

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("episodes", "ranks", "budget"), [(1, 1, 80), (3, 4, 80), (50, 1, 80), (50, 3, 100), (50, 2, 9999)]
)
def test_a_plan_holds_each_trajectory_once_in_lockstep(episodes, ranks, budget):
    trajectories = collect(*make_batch(episodes, seed=episodes + ranks))
    made = plan(trajectories, ranks, budget)
    assert len(made) == ranks
    assert len({len(rank) for rank in made}) == 1, "all ranks run the same number of micro-batches"
    placed = [index for rank in made for pack in rank for index in pack]
    assert sorted(placed) == list(range(episodes))
    assert all(sum(len(trajectories[i]) for i in pack) <= budget for rank in made for pack in rank)


def test_work_is_shared_evenly():
    lengths = np.random.default_rng(0).integers(10, 400, 128)
    loads = [sum(lengths[index] for index in share) for share in balance(lengths, 4)]
    assert max(loads) - min(loads) <= min(lengths)


def test_a_sequence_over_the_budget_is_named():
    trajectories = collect(*make_batch(5, seed=5))
    longest = max(len(trajectory) for trajectory in trajectories)
    plan(trajectories, 1, longest)
    with pytest.raises(ValueError, match=f"has {longest} tokens, more than .*micro_batch={longest - 1}"):
        plan(trajectories, 1, longest - 1)


def test_a_pack_predicts_exactly_the_sampled_tokens_from_what_came_before():
    trajectories = collect(*make_batch(7, seed=6, version=3))
    each = [np.arange(t.turn_tokens.sum(), dtype=np.float32) + 100 * i for i, t in enumerate(trajectories)]
    pack = pack_trajectories(trajectories, each, version=3)
    entry, start = 0, 0
    for number, trajectory in enumerate(trajectories):
        sequence = trajectory.sequence
        assert pack.ids[start : start + len(trajectory)].tolist() == sequence.ids.tolist()
        assert pack.positions[start : start + len(trajectory)].tolist() == list(range(len(trajectory)))
        for place in np.flatnonzero(sequence.mask):
            assert pack.keep[entry] == start + place - 1
            assert pack.targets[entry] == sequence.ids[place]
            assert pack.sampler_logprobs[entry] == sequence.logprobs[place]
            assert pack.advantages[entry] == each[number][(sequence.mask[:place]).sum()]
            entry += 1
        start += len(trajectory)
    assert entry == len(pack.targets) == len(pack.keep)
    assert pack.on_policy.all()
    assert not pack_trajectories(trajectories, each, version=4).on_policy.any()
    assert not pack_trajectories(trajectories, each, version=None).on_policy.any()


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_packing_changes_no_log_prob(tiny_model, kernel):
    model = load_model(str(tiny_model), LearnerSettings(attention=kernel), seed=0)
    rng = np.random.default_rng(7)
    sequences = [rng.integers(0, VOCABULARY, n) for n in (1, 2, 37, 5, 90, 33, 2)]
    predicted = [np.arange(len(s)) > 0 for s in sequences]
    with torch.no_grad():
        together = pack_logprobs(model, pack_sequences(sequences, predicted), 1.0, CPU)
        # alone, by the kernel that knows nothing of packs
        plain = model_of(str(tiny_model))
        alone = []
        for sequence in sequences:
            ids = torch.from_numpy(sequence)
            logits = plain(input_ids=ids[None]).logits[0, :-1]
            alone.append(logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0])
    assert torch.allclose(together, torch.cat(alone), atol=1e-5)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("softcap", [None, 0.5])
@pytest.mark.parametrize("window", [None, 4])
def test_packed_attention_against_the_definition(window, softcap, plain):
    torch.manual_seed(0)
    lengths = np.array([3, 11, 1, 6, 10])
    heads, shared, width, tokens = 4, 2, 8, int(lengths.sum())
    query = torch.randn(1, heads, tokens, width, requires_grad=True)
    key, value = (torch.randn(1, shared, tokens, width, requires_grad=True) for _ in range(2))
    owner = torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths))
    place = torch.arange(tokens)
    allowed = (owner[:, None] == owner[None]) & (place[:, None] >= place[None])
    if window:
        allowed &= place[:, None] - place[None] < window
    scores = query @ key.repeat_interleave(2, 1).transpose(-1, -2) * width**-0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    expected = scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ value.repeat_interleave(2, 1)
    found, _ = packed_attention(
        torch.nn.Module(),
        query,
        key,
        value,
        None,
        scaling=width**-0.5,
        sliding_window=window,
        softcap=softcap,
        packed=layout(lengths, CPU),
        plain=plain,
    )
    assert torch.allclose(found.transpose(1, 2), expected, atol=1e-5)
    weight = torch.randn_like(expected)
    slow = torch.autograd.grad((expected * weight).sum(), (query, key, value))
    fast = torch.autograd.grad((found.transpose(1, 2) * weight).sum(), (query, key, value))
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(slow, fast, strict=True))


def test_heads_of_keys_are_shared_only_where_a_fused_kernel_takes_it():
    """torch's documentation: on CUDA flash attention alone takes them; it knows neither masks nor float32."""
    half, single = torch.bfloat16, torch.float32
    table = {("cuda", half, False): True, ("cuda", half, True): False, ("cuda", single, False): False}
    table |= {("cpu", single, True): True, ("cpu", half, True): True}
    assert {case: heads_may_share(*case) for case in table} == table


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_on_cpu_the_fused_kernel_takes_them_with_a_mask(dtype, masked):
    query, key = torch.randn(2, 4, 16, 8, dtype=dtype), torch.randn(2, 2, 16, 8, dtype=dtype)
    mask = torch.ones(16, 16, dtype=torch.bool).tril() if masked else None
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # raises where it does not
        F.scaled_dot_product_attention(query, key, key, mask, is_causal=not masked, enable_gqa=True)


@pytest.mark.parametrize("window", [None, 4])
def test_keys_for_each_head_change_nothing(window, monkeypatch):
    torch.manual_seed(0)
    lengths = np.array([3, 11, 6])
    query, key, value = (torch.randn(1, heads, 20, 8, requires_grad=True) for heads in (4, 2, 2))
    found = []
    for shared in (True, False):
        monkeypatch.setattr(attention, "heads_may_share", lambda *case, shared=shared: shared)
        out, _ = packed_attention(
            torch.nn.Module(), query, key, value, None, sliding_window=window, packed=layout(lengths, CPU)
        )
        found.append((out, *torch.autograd.grad(out.square().sum(), (query, key, value))))
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*found, strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch's varlen attention is for CUDA: NOT tested here")
@pytest.mark.parametrize("window", [None, 4])
def test_varlen_attention_is_the_packed_one(window):
    lengths = np.array([3, 11, 1, 6, 10])
    device = torch.device("cuda")
    query, key, value = (
        torch.randn(1, heads, 31, 32, dtype=torch.bfloat16, device=device, requires_grad=True) for heads in (4, 2, 2)
    )
    bounds = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32, device=device)
    packed, _ = packed_attention(
        torch.nn.Module(), query, key, value, None, sliding_window=window, packed=layout(lengths, device)
    )
    ends, _ = varlen_attention(
        torch.nn.Module(), query, key, value, None, sliding_window=window, cu_seq_lens_q=bounds, max_length_q=11
    )
    for one, other in zip(
        (packed, *torch.autograd.grad(packed.float().square().sum(), (query, key, value))),
        (ends, *torch.autograd.grad(ends.float().square().sum(), (query, key, value))),
        strict=True,
    ):
        assert (one - other).float().norm() < 0.02 * one.float().norm()


def test_varlen_attention_refuses_what_it_does_not_know():
    tensors = [torch.randn(1, 2, 3, 8)] * 3
    bounds = torch.tensor([0, 3], dtype=torch.int32)
    for own, reason in (
        ({"softcap": 5.0, "cu_seq_lens_q": bounds}, "uses softcap"),
        ({"dropout": 0.1, "cu_seq_lens_q": bounds}, "uses dropout"),
        ({}, "does not hand its arguments on"),
    ):
        with pytest.raises(ValueError, match=f"Module {reason}.*set sdpa"):
            varlen_attention(torch.nn.Module(), *tensors, None, **own)


def listed_choices(rng: np.random.Generator, size: int, turns: int, longest: int) -> dict[int, Choice]:
    """By place; each lists up to a dozen actions of up to `longest` tokens."""
    made = {}
    for place in np.sort(rng.choice(np.arange(1, size), turns, replace=False)):
        tokens = rng.integers(1, longest + 1, rng.integers(1, 13)).astype(np.int32)
        made[int(place)] = Choice(np.zeros(tokens.sum(), np.int32), tokens, np.ones(len(tokens)), 0)
    return made


@pytest.mark.parametrize("longest", [1, 2, 7])
def test_attention_of_branches_against_the_definition(longest):
    """Sequences without a branch, with few, and with more than one row of branches holds."""
    rng = np.random.default_rng(longest)
    sizes = [5, 40, 90, 60]
    choices = [listed_choices(rng, size, turns, longest) for size, turns in zip(sizes, (0, 2, 30, 25), strict=True)]
    pack = pack_sequences([np.zeros(n, np.int64) for n in sizes], [np.arange(n) > 0 for n in sizes], choices)
    until, begin = (torch.from_numpy(of) for of in (pack.listed.until, pack.listed.begin))
    assert longest < 7 or (begin > 0).sum() > 4 * BRANCH_TOKENS
    owner = torch.from_numpy(np.repeat(np.arange(4), pack.lengths))
    place = torch.from_numpy(np.concatenate([np.arange(n) for n in pack.lengths]))
    shared = (place[None] < until[:, None]) | (begin == 0)[:, None]
    allowed = (owner[:, None] == owner[None]) & (place[:, None] >= place[None])
    allowed &= shared | (place[None] >= begin[:, None])
    generator = torch.Generator().manual_seed(longest)
    query, key, value = (torch.randn(1, 2, len(pack.ids), 8, generator=generator, requires_grad=True) for _ in range(3))
    expected = (query @ key.transpose(-1, -2)).masked_fill(~allowed, -torch.inf).softmax(-1) @ value
    made = layout(pack.lengths, CPU, pack.listed.until, pack.listed.begin)
    found = packed_attention(torch.nn.Module(), query, key, value, None, scaling=1.0, packed=made)[0].transpose(1, 2)
    assert torch.allclose(found, expected, atol=1e-5)
    weight = torch.randn(expected.shape, generator=generator)
    slow = torch.autograd.grad((expected * weight).sum(), (query, key, value))
    fast = torch.autograd.grad((found * weight).sum(), (query, key, value))
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(slow, fast, strict=True))


def test_attention_that_would_be_wrong_is_refused():
    tensor = torch.zeros(1, 1, 2, 4)
    with pytest.raises(ValueError, match="does not hand its arguments on .* mix what is packed"):
        packed_attention(torch.nn.Module(), tensor, tensor, tensor, None)
    with pytest.raises(ValueError, match="s_aux"):
        both = layout(np.array([2]), CPU)
        packed_attention(torch.nn.Module(), tensor, tensor, tensor, None, packed=both, s_aux=tensor)


def test_what_follows_a_cut_off_game_is_read_as_far_as_there_is_room():
    """The newest of it. The model has no places beyond `most`, and a pass no room beyond the budget."""
    trajectories = [trajectory for trajectory in collect(*make_batch(6, seed=1))]
    longest = max(map(len, trajectories))
    for number, each in enumerate(trajectories):
        each.terminated, each.closing_ids = number == 0, np.arange(50, dtype=np.int32)
    most, budget = longest + 7, longest + 30
    for packs in plan(trajectories, 1, budget, most):
        for indices in filter(None, packs):
            chosen = [trajectories[index] for index in indices]
            pack = pack_to_read(chosen, most)
            assert pack.positions.max() < most and len(pack.ids) <= budget
            for start, size, each in zip(np.cumsum(pack.lengths) - pack.lengths, pack.lengths, chosen, strict=True):
                after = pack.ids[start + len(each) : start + size]
                assert len(after) == (0 if each.terminated else min(50, most - len(each)))
                assert after.tolist() == list(range(50))[50 - len(after) :]
    assert max(len(shown_after(each, most)) for each in trajectories) > 7 > 0 == len(shown_after(trajectories[1], 0))
