"""What games begin with alike is computed once: the same log-probs, the same gradients, fewer tokens."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.gpu.made_up import behind
from benchmarks.lab.trainee import Driver, alone
from learners.batch.openings import BLOCK, common_blocks, segments
from learners.batch.packing import divide, pack_sequences, pack_to_read, pack_trajectories, plan
from learners.batch.trajectories import Trajectory, collect
from learners.model import attention
from learners.model.attention import Layout, Rows, layout, packed_attention
from learners.model.load import load_model, pack_logprobs, shares_openings
from learners.model.shared_attention import SharedAttention
from learners.optimiser import make_optimiser
from learners.settings import LearnerSettings
from learners.update.learning import Learning, make_critic
from tests.support.learner_batches import MADE_UP, VOCABULARY, make_batch

CPU = torch.device("cpu")


def games(count: int, seed: int, tasks: int = 3, rules: int = 40, shown: int = 24) -> list[Trajectory]:
    """All begin with the same rules, those of a task with what it shows, too; games of one task stand apart."""
    rng = np.random.default_rng(seed)
    told, openings = rng.integers(0, VOCABULARY, rules), rng.integers(0, VOCABULARY, (tasks, shown))
    made = []
    for number, each in enumerate(collect(*make_batch(count, seed))):
        front = np.concatenate([told, openings[number % tasks]]).astype(np.int32)
        made.append(replace(behind(front, each), terminated=number % 4 > 0, closing_ids=front[: number % 5]))
    return made


@pytest.mark.parametrize("seed", range(20))
def test_segments_are_the_sequences_and_nothing_twice(seed):
    rng = np.random.default_rng(seed)
    openings = [np.repeat(rng.integers(0, 2, rng.integers(0, 6)), BLOCK) for _ in range(rng.integers(1, 12))]
    openings.sort(key=lambda ids: ids.astype(">i4").tobytes())
    sequences = [np.append(ids, rng.integers(5, 9, rng.integers(1, 5))) for ids in openings]
    common = common_blocks(openings)
    laid = segments([len(ids) for ids in sequences], common)
    assert laid.lengths.sum() == sum(map(len, sequences)) - common.sum()
    distinct = {tuple(ids[: BLOCK * n]) for ids in openings for n in range(1, len(ids) // BLOCK + 1)}
    alone = sum(len(ids) for ids in sequences) - sum(len(ids) for ids in openings)
    assert laid.lengths.sum() == BLOCK * len(distinct) + alone, "in this order nothing in common is laid twice"
    for number, ids in enumerate(sequences):
        own = laid.own[number]
        path = [each for each in range(own + 1) if laid.until[each] > own or each == own]
        found = [sequences[laid.sequence[each]][laid.begin[each] : laid.end[each]] for each in path]
        assert np.concatenate(found).tolist() == ids.tolist()


@pytest.mark.parametrize(("ranks", "budget"), [(1, 200), (1, 9999), (3, 200)])
def test_a_plan_that_shares_holds_each_game_once_within_the_budget(ranks, budget):
    trajectories = games(40, seed=1)
    made = plan(trajectories, ranks, budget, shared=True)
    assert len({len(rank) for rank in made}) == 1
    assert sorted(index for rank in made for pack in rank for index in pack) == list(range(40))
    apart = plan(trajectories, ranks, budget)
    packs = [pack_of([trajectories[i] for i in each], shared=True) for rank in made for each in rank if each]
    assert max(len(pack.ids) for pack in packs) <= budget
    assert len(packs) < sum(len(each) > 0 for rank in apart for each in rank) or budget == 9999


@pytest.mark.parametrize("seed", range(20))
def test_the_rank_with_most_to_do_has_as_little_as_can_be(seed):
    rng = np.random.default_rng(seed)
    games, ranks = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    lengths, common = rng.integers(20, 60, games).tolist(), [0] + [int(rng.integers(0, 20)) for _ in range(games - 1)]
    order = rng.permutation(games).tolist()
    lengths_in_order = [lengths[index] for index in order]

    def most(cuts):
        pieces = zip((0, *cuts), (*cuts, games), strict=True)
        return max(sum(lengths_in_order[a:b]) - sum(common[a + 1 : b]) for a, b in pieces)

    shares = divide(lengths, order, ranks, common)
    assert len(shares) == ranks and sum(shares, []) == order
    cuts = np.cumsum([len(each) for each in shares])[:-1].tolist()
    assert most(cuts) == min(map(most, combinations_with_replacement(range(games + 1), ranks - 1)))


def test_nothing_changes_where_little_is_in_common():
    trajectories = collect(*make_batch(30, seed=2))
    assert plan(trajectories, 2, 100, shared=True) == plan(trajectories, 2, 100)
    pack, apart = (pack_of(trajectories, shared) for shared in (True, False))
    assert pack.until is None and pack.ids.tolist() == apart.ids.tolist()


def pack_of(trajectories, shared):
    each = [np.arange(t.turn_tokens.sum(), dtype=np.float32) for t in trajectories]
    return pack_trajectories(trajectories, each, version=0, shared=shared)


def small_model(dtype: torch.dtype, heads_of_keys: int) -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "head_dim": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": heads_of_keys}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=VOCABULARY, **sizes, **heads)).to(dtype)
    model.set_attn_implementation(attention.NAME)
    return model


@pytest.mark.parametrize(("dtype", "far"), [(torch.float64, 1e-6), (torch.float32, 1e-5), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("heads_of_keys", [2, 4])
def test_log_probs_and_gradients_are_those_of_games_by_themselves(dtype, far, heads_of_keys):
    model, trajectories = small_model(dtype, heads_of_keys), games(12, seed=3)
    (order,) = plan(trajectories, 1, 9999, shared=True)[0]
    found = []
    for shared in (False, True):
        pack = pack_of([trajectories[index] for index in order], shared)
        model.zero_grad()
        logprobs = pack_logprobs(model, pack, 0.7, CPU)
        (logprobs * torch.sin(torch.arange(len(logprobs)))).sum().backward()
        found.append((len(pack.ids), logprobs.detach().double(), [p.grad.double() for p in model.parameters()]))
    (fed, apart, gradients), (fewer, together, theirs) = found
    assert fewer < 0.5 * fed
    assert (together - apart).abs().max() <= far
    for ours, of_apart in zip(theirs, gradients, strict=True):
        assert (ours - of_apart).norm() <= far * of_apart.norm()


def test_what_is_read_behind_a_game_is_found_where_openings_are_shared(tiny_model):
    model, trajectories = load_model(str(tiny_model), LearnerSettings(), 0), games(9, seed=4)
    trajectories = [trajectories[index] for index in plan(trajectories, 1, 9999, shared=True)[0][0]]
    read = []
    for shared in (False, True):
        pack = pack_to_read(trajectories, most=999, said=True, shared=shared)
        assert len(pack.keep) == len(pack.targets)
        pack.targets[:] = pack.ids[pack.keep]  # where it is read, not what comes then
        with torch.no_grad():
            read.append((pack, pack_logprobs(model, pack, 1.0, CPU)))
    (apart, plain), (pack, found) = read
    assert len(pack.ids) < len(apart.ids) and pack.until is not None
    assert pack.ids[pack.keep].tolist() == apart.ids[apart.keep].tolist()
    assert pack.positions[pack.keep].tolist() == apart.positions[apart.keep].tolist()
    torch.testing.assert_close(found, plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "more", [{}, {"minibatches": 2, "epochs": 2}, {"credit": {"method": "poad"}}, {"credit": {"method": "hcapo"}}]
)
def test_an_update_is_the_same(tiny_model, more):
    alone()
    outcomes = []
    for share in (False, None):
        settings = LearnerSettings(zero=0, share_openings=share, tokens_per_micro_batch=300, **MADE_UP, **more)
        model = load_model(str(tiny_model), settings, 0)
        optimiser = make_optimiser(list(model.parameters()), settings)
        critic = make_critic(settings, model.get_output_embeddings().in_features, CPU, 0)
        learning = Learning(Driver(model, optimiser), optimiser, settings, 1.0, CPU, 0, 0, critic)
        figures = learning.update(games(24, seed=5), version=0)
        outcomes.append((figures, torch.cat([p.detach().flatten() for p in model.parameters()])))
    (apart, plain), (figures, weights) = outcomes
    assert apart["shared_tokens"] == 0 and figures["shared_tokens"] > 0.4
    assert figures["micro_batches"] < apart["micro_batches"]
    assert figures["tokens"] == apart["tokens"]
    for name in ("loss", "grad_norm", "logprob_gap_mean", "trained_tokens", "return_mean"):
        assert figures[name] == pytest.approx(apart[name], rel=1e-4, abs=1e-6)
    start = torch.cat([p.detach().flatten() for p in load_model(str(tiny_model), LearnerSettings(), 0).parameters()])
    assert (weights - plain).norm() < 0.02 * (plain - start).norm()


@pytest.mark.parametrize("widths", [(16, 16), (24, 16), (16, 24)])
@pytest.mark.parametrize("strided", [False, True])
def test_heads_may_lie_anyhow_and_values_may_have_another_width(widths, strided):
    """A model's own code may cut queries, keys and values out of one tensor, or give values fewer numbers."""
    torch.manual_seed(0)
    lengths, until = np.array([16, 5, 7, 20]), np.array([3, 2, 3, 4])
    ends, seen = np.cumsum([0, *lengths]), torch.zeros(48, 48, dtype=torch.bool)
    for own in range(4):
        for other in range(own + 1):
            if other == own or until[other] > own:
                seen[ends[own] : ends[own + 1], ends[other] : ends[other + 1]] = True
    wide = torch.randn(1, 4, 48, max(widths), 3, dtype=torch.float64, requires_grad=True)
    whole = wide if strided else wide.permute(4, 0, 1, 2, 3).contiguous().permute(1, 2, 3, 4, 0)
    query, key, value = (part[..., :width] for part, width in zip(whole.unbind(-1), (widths[0], *widths), strict=True))
    made = layout(lengths, torch.device("cpu"), gone_on=until)
    out, _ = packed_attention(torch.nn.Module(), query, key, value, None, packed=made)
    mask = seen & torch.ones(48, 48, dtype=torch.bool).tril()
    expected = F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2)
    weight = torch.randn_like(expected)
    back, expected_back = (
        torch.autograd.grad((each * weight).sum(), wide, retain_graph=True)[0] for each in (out, expected)
    )
    torch.testing.assert_close(out, expected, atol=1e-10, rtol=0)
    torch.testing.assert_close(back, expected_back, atol=1e-10, rtol=0)


def test_the_kernels_of_a_card_are_asked_as_they_are_declared():
    """Shapes alone, on no device: whether a card computes the same is NOT tested here."""
    lengths, gone_on = np.array([16, 5, 7, 20]), np.array([3, 2, 3, 4])
    made = layout(lengths, torch.device("meta"), gone_on=gone_on)
    assert made.shared == [(0, 16, 28)] and isinstance(made, Layout) and isinstance(made.rows[0], Rows)
    shapes = [(48, 4, 16), (48, 2, 16), (48, 2, 16)]
    asked = [torch.empty(shape, dtype=torch.bfloat16, device="meta", requires_grad=True) for shape in shapes]
    out = SharedAttention.apply(*asked, made, None)
    assert out.shape == shapes[0] and out.dtype == torch.bfloat16
    out.sum().backward()
    assert [tuple(each.grad.shape) for each in asked] == shapes


def test_where_openings_cannot_be_shared_it_is_said(tiny_model):
    model, card = load_model(str(tiny_model), LearnerSettings(), 0), {"gpus_per_rank": 1}
    assert shares_openings(model, LearnerSettings())
    assert not shares_openings(model, LearnerSettings(share_openings=False))
    assert not shares_openings(model, LearnerSettings(attention="eager"))
    assert not shares_openings(model, LearnerSettings(dtype="bfloat16", **card))
    assert shares_openings(model, LearnerSettings(dtype="bfloat16", share_openings=True, **card))
    with pytest.raises(ValueError, match=r"share_openings: learner.attention=eager .*: set it to sdpa"):
        shares_openings(model, LearnerSettings(attention="eager", share_openings=True))
    with pytest.raises(ValueError, match="bfloat16 alone"):
        shares_openings(model, LearnerSettings(dtype="float32", share_openings=True, **card))
    model.config.sliding_window = 64
    with pytest.raises(ValueError, match="sliding window"):
        shares_openings(model, LearnerSettings(share_openings=True))


def test_sequences_without_openings_are_laid_end_to_end():
    sequences = [np.arange(5), np.arange(3)]
    pack = pack_sequences(sequences, [np.arange(5) > 0, np.arange(3) > 0])
    assert pack.lengths.tolist() == [5, 3] and pack.begins.tolist() == [0, 5] and pack.until is None
