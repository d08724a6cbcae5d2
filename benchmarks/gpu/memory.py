"""The card's memory at its peak: of the log-probs of a large vocabulary, and of a whole update.

Counted by torch's own allocator, above what the weights and their gradients hold.
"""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.made_up import LARGE, TINY, large_model, prepare, settings, trajectories
from benchmarks.gpu.packs import pack_of
from benchmarks.gpu.speed import BUDGET, GAMES, SAID, ours
from cluster.config import RunConfig
from cluster.plan import memory as planned
from cluster.plan.shape import model_shape
from learners.model import load_model
from learners.policy_steps import pack_outcome

WORDS, TOKENS = 151_936, 16_384  # Qwen3's vocabulary; trained tokens of a pack
LEAST, MOST = 0.5, 1.15  # of what is planned: a plan must not be short, and not keep half of a card empty
LOGITS_LIMIT = 1.5e9  # bytes; float32 logits of all these places would be 10e9


def check(bench: Bench) -> None:
    device = prepare(bench)
    with bench.part(f"log-probs of {TOKENS:,} tokens over {WORDS:,} words"):
        path = large_model(bench.folder, device, **(TINY | {"vocab_size": WORDS}))
        extra, count = of_logits(path, device)
        bench.judge(
            extra < LOGITS_LIMIT,
            f"log-probs of {count:,} tokens over {WORDS:,} words, forward and backward",
            f"{extra / 1e9:.2f} GB above weights and gradients, limit {LOGITS_LIMIT / 1e9:g}",
        )
    with bench.part("a whole update"):
        path = large_model(bench.folder, device)
        whole(bench, path, device)


def of_logits(path: Path, device: torch.device) -> tuple[int, int]:
    """Bytes, and the trained tokens of the pack."""
    chosen = settings(dtype="bfloat16", loss={"entropy": 0.01})
    model = load_model(str(path), chosen, seed=0).to(device)
    batch = trajectories(70, 0, words=WORDS, said=200)
    while sum(int(each.turn_tokens.sum()) for each in batch) > TOKENS:
        batch.pop()
    pack = pack_of(batch)
    for _ in range(2):  # the second time its gradients are there already
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        outcome, _ = pack_outcome(model, pack, chosen, 1.0, 1.0, device)
        outcome.loss.backward()
        del outcome
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
    return peak, len(pack.targets)


def whole(bench: Bench, path: Path, device: torch.device) -> None:
    """What comes on top of what is held between two updates, against what is planned for it."""
    chosen = settings(dtype="bfloat16", tokens_per_micro_batch=BUDGET)
    batch = trajectories(GAMES, 0, words=LARGE["vocab_size"], said=SAID)
    update = ours(path, chosen, batch, device)
    for _ in range(2):  # the second time the optimiser is there already
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        update()
    found = torch.cuda.max_memory_allocated() - before
    config = RunConfig(learner=chosen.model_copy(update={"zero": 0, "gpus_per_rank": 1.0}))
    need = planned.learner(config, model_shape(str(path)))
    expected = need.gradients + need.activations + need.logits
    bench.figure("a whole update: peak", f"{torch.cuda.max_memory_allocated() / 1e9:.2f} GB")
    bench.judge(
        LEAST * expected <= found <= MOST * expected,
        "a whole update: gradients, activations and logits, against the plan",
        f"{found / 1e9:.2f} GB, planned {expected / 1e9:.2f}, allowed {LEAST:g} to {MOST:g} of that",
    )
