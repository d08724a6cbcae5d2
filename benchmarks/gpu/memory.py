"""The card's memory at its peak: of the log-probs of a large vocabulary, and of a whole update.

Counted by torch's own allocator, above what the weights and their gradients hold.
"""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.made_up import prepare, random_model, settings, trajectories
from benchmarks.gpu.packs import pack_of
from benchmarks.gpu.speed import BUDGET, GAMES, LARGE, SAID, ours
from learners.model import load_model
from learners.policy_steps import pack_outcome

WORDS, TOKENS = 151_936, 16_384  # Qwen3's vocabulary; trained tokens of a pack
LOGITS_LIMIT = 1.5e9  # bytes; float32 logits of all these places would be 10e9


def check(bench: Bench) -> None:
    device = prepare(bench)
    with bench.part(f"log-probs of {TOKENS:,} tokens over {WORDS:,} words"):
        path = random_model(bench.folder, "qwen3", torch.bfloat16, vocab_size=WORDS, max_position_embeddings=4096)
        extra, count = of_logits(path, device)
        bench.judge(
            extra < LOGITS_LIMIT,
            f"log-probs of {count:,} tokens over {WORDS:,} words, forward and backward",
            f"{extra / 1e9:.2f} GB above weights and gradients, limit {LOGITS_LIMIT / 1e9:g}",
        )
    with bench.part("a whole update"):
        path = random_model(bench.folder, "qwen3", torch.bfloat16, **LARGE)
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
    chosen = settings(dtype="bfloat16", tokens_per_micro_batch=BUDGET)
    batch = trajectories(GAMES, 0, words=LARGE["vocab_size"], said=SAID)
    update = ours(path, chosen, batch, device)
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        update()
    bench.figure("a whole update: peak", f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")
