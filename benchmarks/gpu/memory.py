"""The card's memory at its peak, as torch's allocator counts it: of the log-probs of a large vocabulary, and
of updates, against what is planned for them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks.gpu.bench import Bench, NotHere
from benchmarks.gpu.made_up import LARGE, TINY, games, large_model, prepare, settings, trajectories
from benchmarks.gpu.packs import pack_of
from benchmarks.gpu.speed import BUDGET, GAMES, SAID, ours
from cluster.plan import memory as planned
from cluster.plan.shape import model_shape
from cluster.recipe.config import RunConfig
from learners.model.load import load_model
from learners.update.policy_steps import pack_loss

WORDS, TOKENS = 151_936, 16_384  # Qwen3's vocabulary; trained tokens of a pack
LEAST, MOST = 0.5, 1.15  # of what is planned: a plan must not be short, and not keep half of a card empty
RANKS = (  # ZeRO stage, tokens of a micro-batch, games; where they are few, the optimiser's step takes more than a pass
    ("an update of a DeepSpeed rank", 2, BUDGET, GAMES),
    ("an update of a DeepSpeed rank by few tokens", 2, 1024, 8),
    ("an update of a DeepSpeed rank by few tokens, ZeRO 3", 3, 1024, 8),
)
BATCH, LONG = (GAMES, 0), {"words": LARGE["vocab_size"], "said": SAID}
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
    path = large_model(bench.folder, device)
    with bench.part("an update"):
        alone(bench, path, device)
    for what, zero, tokens, count in RANKS:
        with bench.part(what):
            for package in ("ray", "deepspeed"):
                if find_spec(package) is None:
                    raise NotHere(f"{package} is not installed")
            of_rank(bench, path, what, zero, tokens, count)


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
        outcome, _ = pack_loss(model, pack, chosen, 1.0, 1.0, device)
        outcome.loss.backward()
        del outcome
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
    return peak, len(pack.targets)


def alone(bench: Bench, path: Path, device: torch.device) -> None:
    """Without DeepSpeed: what comes on top of what is held between two updates."""
    chosen = settings(dtype="bfloat16", tokens_per_micro_batch=BUDGET, zero=0, gpus_per_rank=1.0)
    update = ours(path, chosen, trajectories(*BATCH, **LONG), device)
    before, peak = peak_of(update)
    need = planned.learner(RunConfig(learner=chosen), model_shape(str(path)))
    against(bench, "an update", peak - before, need.gradients + need.activations + need.logits)


def of_rank(bench: Bench, path: Path, what: str, zero: int, tokens: int, count: int) -> None:
    """All that a rank has of the card, but for CUDA's own and for weights in transit."""
    from learners.rank import LearnerRank

    chosen = settings(dtype="bfloat16", tokens_per_micro_batch=tokens, zero=zero, gpus_per_rank=1.0)
    gc.collect()
    earlier = torch.cuda.memory_allocated()  # what an earlier part has not given back
    rank = LearnerRank(chosen, str(path), 1.0, 0, 0, "shared_memory")
    rank.start("127.0.0.1", 0)  # the group of one is there already
    batch = games(count, 0, **LONG)
    _, peak = peak_of(lambda: rank.update(*batch))
    need = planned.learner(RunConfig(learner=chosen), model_shape(str(path)))
    against(bench, f"{what}, with weights and optimiser", peak - earlier, need.total - need.runtime - need.transit)


def peak_of(update: Callable[[], object]) -> tuple[int, int]:
    """Bytes before the second update and at its peak: by then the optimiser is there."""
    gc.collect()
    for _ in range(2):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        update()
    torch.cuda.synchronize()
    return before, torch.cuda.max_memory_allocated()


def against(bench: Bench, what: str, found: float, expected: float) -> None:
    bench.judge(
        LEAST * expected <= found <= MOST * expected,
        f"{what}, against the plan",
        f"{found / 1e9:.2f} GB, planned {expected / 1e9:.2f}, allowed {LEAST:g} to {MOST:g} of that",
    )
