"""ZeRO stages, ranks, adapters and precisions: the same learning however it is spread out.

Two processes host one learner after another, so that DeepSpeed starts only once.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from learners.settings import LearnerSettings
from tests.support.learner_batches import VOCABULARY, make_batch
from tests.support.learner_pair import distance

# Of the way that the weights went, as a norm. AdamW divides by the root of the second
# moment, so where a gradient is near 0 a last-bit difference in a sum becomes a visible
# share of that one weight's step; over all weights it stays far below this.
TOLERANCE = 1e-3
BATCHES = [make_batch(10, seed=seed) for seed in (21, 22, 23)]


@pytest.fixture(scope="module")
def expected(tiny_model) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[float]]:
    """Three updates by the bare pieces: one process, no DeepSpeed, one pack a batch. The
    weights before and after, and the gradients' norms."""
    from learners.batch.crediting import assign_credit
    from learners.batch.minibatches import batch_scale
    from learners.batch.packing import pack_trajectories
    from learners.batch.trajectories import collect
    from learners.loss.policy_gradient import policy_loss
    from learners.loss.ratios import sampled_at, truncated
    from learners.model.load import load_model, pack_logprobs

    settings = LearnerSettings()
    model = load_model(str(tiny_model), settings, 0)
    before, norms = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}, []
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=settings.betas, weight_decay=0.0)
    for number, batch in enumerate(BATCHES):
        trajectories = collect(*batch)
        credit = assign_credit(trajectories, settings.credit, {})
        each = np.split(credit.advantages, np.cumsum([int(t.turn_tokens.sum()) for t in trajectories])[:-1])
        pack = pack_trajectories(trajectories, each, version=None if number else 0)
        logprobs = pack_logprobs(model, pack, 1.0, torch.device("cpu"))
        sampled, on_policy = torch.from_numpy(pack.sampler_logprobs), torch.from_numpy(pack.on_policy)
        present = logprobs.detach()
        weights = truncated(present, sampled_at(present, sampled, on_policy), settings.loss.importance_cap)
        scale = batch_scale(trajectories, "episode")
        policy_loss(logprobs, torch.from_numpy(pack.advantages), weights, scale).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)))
        optimiser.step()
        optimiser.zero_grad()
    return before, {name: p.detach().numpy() for name, p in model.named_parameters()}, norms


def test_deepspeed_compiles_nothing_and_maps_no_memory_of_its_own(learners):
    """Its all-reduce for inference would: 64 MiB for each rank, under a name that it never removes."""
    learners.become()
    for what in ("deepspeed_allreduce", "deepspeed_shm_comm"):
        assert not any(learners.ray.get(process.mapped.remote(what), timeout=60) for process in learners.processes)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_two_ranks_of_every_stage_learn_what_one_bare_process_learns(learners, expected, tmp_path, zero):
    learners.become(zero=zero)
    metrics = [learners.call("update", *batch) for batch in BATCHES[:2]]
    learners.call("save", str(tmp_path))
    metrics.append(learners.call("update", *BATCHES[2]))
    before, after, norms = expected
    assert min(norms) > 1.0 and all(m["applied"] == 1 for m in metrics), "clipping has to be in play"
    assert [m["grad_norm"] for m in metrics] == pytest.approx(norms, rel=1e-4)
    mine, other = learners.each("parameters")
    assert all(np.array_equal(mine[name], other[name]) for name in mine), "ranks hold the same weights"
    assert distance(mine, after) < TOLERANCE * distance(before, after)
    if zero == 3:
        assert learners.elements() < sum(values.size for values in after.values()), "the model is really cut up"
    learners.become(zero=zero)
    learners.call("load", str(tmp_path))
    learners.call("update", *BATCHES[2])
    again = learners.call("parameters")
    assert all(np.array_equal(mine[name], again[name]) for name in mine), "a restored learner gives the same bytes"


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_no_stage_steps_on_a_broken_gradient(learners, zero):
    """Also when only the other rank's share of the batch is broken."""
    learners.become(zero=zero)
    learners.call("update", *BATCHES[0])
    before = learners.call("parameters")
    episodes, rewards = make_batch(10, seed=24)
    shortest = min(episodes, key=lambda episode: len(episode.sequence("guesser").ids))
    for turn in shortest.turns:
        turn.tokens.versions[:] = -7
        turn.tokens.logprobs[:] = np.nan
    assert [m["applied"] for m in learners.each("update", episodes, rewards)] == [0, 0]
    after = learners.call("parameters")
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert learners.call("update", *BATCHES[1])["applied"] == 1


def test_fewer_trajectories_than_ranks_stay_in_lockstep(learners):
    learners.become(zero=3)
    metrics = learners.call("update", *make_batch(1, seed=25))
    assert metrics["applied"] == 1 and metrics["trajectories"] == 1


@pytest.mark.parametrize("zero", [2, 3])
def test_an_adapter_learns_alone_and_exports_as_peft(learners, tiny_model, tmp_path, zero):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    learners.become(zero=zero, lora={"rank": 4}, gradient_checkpointing=True)
    start = learners.call("parameters")
    assert all(".lora_" in name for name in start)
    for batch in BATCHES[:2]:
        assert learners.call("update", *batch)["applied"] == 1
    learners.call("save", str(tmp_path / "saved"))
    learners.call("update", *BATCHES[2])
    trained = learners.call("parameters")
    assert any(not np.array_equal(start[name], trained[name]) for name in start)
    learners.call("export", str(tmp_path / "adapter"))
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["r"] == 4
    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    model = PeftModel.from_pretrained(base, tmp_path / "adapter")
    sequence = np.random.default_rng(0).integers(0, VOCABULARY, 40)
    with torch.no_grad():
        ids = torch.from_numpy(sequence)
        logits = model(input_ids=ids[None]).logits[0, :-1]
        with model.disable_adapter():
            bare = model(input_ids=ids[None]).logits[0, :-1]
    assert not torch.allclose(logits, bare, atol=1e-4), "the adapter does something"
    scores = logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0].numpy()
    assert learners.call("score", [sequence.tolist()])[0] == pytest.approx(scores, abs=1e-5)
    learners.become(zero=zero, lora={"rank": 4}, gradient_checkpointing=True)
    learners.call("load", str(tmp_path / "saved"))
    learners.call("update", *BATCHES[2])
    again = learners.call("parameters")
    assert all(np.array_equal(trained[name], again[name]) for name in trained)


@pytest.mark.parametrize("zero", [0, 2, 3])
def test_bfloat16_keeps_whole_precision_weights_behind(learners, zero):
    """Steps far below bfloat16's resolution still add up."""
    learners.become(zero=zero, dtype="bfloat16", learning_rate=1e-4)
    before = learners.call("parameters")
    for _ in range(3):
        assert all(learners.call("update", *batch)["applied"] == 1 for batch in BATCHES)
    after = learners.call("parameters")
    moved = max(np.abs(after[name] - before[name]).max() for name in before)
    assert 3e-4 < moved < 3e-2
    assert all(np.array_equal(a, b) for a, b in zip(*map(dict.values, learners.each("parameters")), strict=True))
