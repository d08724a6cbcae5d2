"""Memory: what a plan says a learner rank and an engine need, against what their processes come to hold.

Models with random weights, each on the CPU in a process of its own: two updates of two micro-batches of random
tokens, or an engine that plays them. Measured is the growth of the process's resident memory, to its peak, over
what its imports hold. Nothing else on the machine adds to that. These processes give every freed block of 64 KiB
or more back at once: what glibc would keep of it for later is no need of theirs.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.report import Say, run_alone, short
from cluster.plan.decide import plan
from cluster.plan.machine import GIB, Machine
from cluster.plan.memory import Need
from cluster.plan.shape import model_shape
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from envs.episode import Episode, Ticket, Turn, TurnTokens
from reward_service.shaper import ShapedRewards

FEW = "150M, few tokens"
# hidden, layers, heads of width 64, key heads, inner width, vocabulary; tokens of a micro-batch
SIZES = {
    "1M": ((128, 4, 4, 2, 384, 1_000), 8192),
    "8M": ((256, 8, 4, 2, 768, 4_000), 4096),
    "30M": ((512, 8, 8, 4, 1536, 8_000), 2048),
    "85M": ((768, 10, 12, 4, 2304, 16_000), 1024),
    "150M": ((1024, 10, 16, 8, 2816, 16_000), 1024),
    FEW: ((1024, 10, 16, 8, 2816, 16_000), 128),  # a step takes more than a pass
}
HALF = ("1M", "8M", FEW)  # sizes that are measured in bfloat16 too, which CPUs compute slowly
WAYS = {  # overrides of a learner
    "full": ("learner.zero=2",),
    "full, ZeRO 0": ("learner.zero=0",),
    "full, ZeRO 3": ("learner.zero=3",),
    "full, checkpointed": ("learner.zero=2", "learner.gradient_checkpointing=true"),
    "full, ZeRO 1": ("learner.zero=1",),
    "LoRA": ("learner.zero=2", "learner.lora.rank=8"),
}
EVERY_SIZE = "full"  # the way that all sizes are measured in; the others at one size
OF_OTHERS = "30M"
SECONDS = 900.0  # of one measurement
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}  # glibc reads them at its start


def measure(quick: bool, say: Say) -> dict[str, Any]:
    sizes = list(SIZES)[:2] if quick else list(SIZES)
    found = []
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder:
        for size in sizes:
            say(size)
            model = random_model(size, Path(folder))
            for dtype in ("float32", "bfloat16") if size in HALF else ("float32",):
                asked = [("learner", EVERY_SIZE), ("engine", "vllm")]
                if size == FEW:
                    asked = [("learner", way) for way in WAYS if way.startswith("full, ZeRO") or way == EVERY_SIZE]
                if size == OF_OTHERS:
                    asked += [("learner", way) for way in WAYS if way != EVERY_SIZE] + [("engine", "transformers")]
                for part, way in asked:
                    found.append(one(part, size, model, dtype, way))
                    ratio = found[-1]["planned"] / found[-1]["measured"]
                    say(f"{size} {dtype} {part}, {way}: planned / measured {ratio:.2f}")
    return {"rows": found, "worst": max(abs(row["planned"] / row["measured"] - 1) for row in found)}


def random_model(size: str, folder: Path) -> Path:
    import torch
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    (hidden, layers, heads, keys, inner, vocabulary), _ = SIZES[size]
    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        head_dim=64,
        intermediate_size=inner,
        vocab_size=vocabulary,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder / size)
    words = Tokenizer(models.WordLevel({f"w{n}": n for n in range(vocabulary)}, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w1").save_pretrained(folder / size)
    return folder / size


def settings_of(size: str, dtype: str, *overrides: str) -> RunConfig:
    _, tokens = SIZES[size]
    context = min(tokens, 512)
    return load_recipe(
        None,
        [
            f"learner.dtype={dtype}",
            f"rollout.engine.dtype={dtype}",
            f"learner.tokens_per_micro_batch={tokens}",
            f"rollout.engine.max_context={context}",
            "rollout.engine.max_sequences=32",
            "rollout.engine.max_batched_tokens=2048",
            "rollout.engine.cpu_cache_gib=0.25",
            "rollout.max_utterance_tokens=64",
            "learner.logprob_gap_stop=1e9",
            *overrides,
        ],
    )


def one(part: str, size: str, model: Path, dtype: str, way: str) -> dict[str, Any]:
    overrides = WAYS[way] if part == "learner" else (f"rollout.engine.kind={way}",)
    config = settings_of(size, dtype, *overrides)
    shape = model_shape(str(model))
    made = plan(config, Machine("cpu"), shape)
    need = made.memory.learner if part == "learner" else made.memory.engine
    need = replace(need, transit=0.0)  # nothing is sent here
    work = grown_by_learning if part == "learner" else grown_by_playing
    return {
        "part": part,
        "way": f"{way}, few tokens" if size == FEW else way,
        "parameters": shape.parameters,
        "dtype": dtype,
        "planned": need.total,
        "measured": alone(work, made.config, str(model)),
        "parts": {name: getattr(need, name) for name in Need.__dataclass_fields__},
    }


def alone(work: Callable[[RunConfig, str], int], config: RunConfig, model: str) -> int:
    os.environ |= GIVES_BACK
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(work, (config, model)).get(SECONDS)


def grown_by_learning(config: RunConfig, model: str) -> int:
    """Bytes; to be asked in a fresh process."""
    from learners.group import environment

    os.environ |= environment(config.learner)
    from learners.rank import LearnerRank
    from learners.transport.rendezvous import meeting_point

    before = resident("VmRSS", forget_peak=True)
    rank = LearnerRank(config.learner, model, 1.0, seed=0, rank=0, transport="shared_memory")
    rank.start(*meeting_point())
    for _ in range(2):
        rank.update(*batch(config))
        rank.version = 0
    return resident("VmHWM") - before


def grown_by_playing(config: RunConfig, model: str) -> int:
    """Bytes; to be asked in a fresh process."""
    from actors.engines.contract import Request
    from actors.worker_parts import WorkerSpec, make_engine

    if config.rollout.engine.kind == "vllm":  # imports are not the engine's
        from actors.engines.vllm_platform import prepare_environment

        prepare_environment()
        from vllm.v1.engine.llm_engine import LLMEngine  # noqa: F401
    else:
        from transformers import Qwen3ForCausalLM  # noqa: F401

        import actors.engines.transformers_engine  # noqa: F401
    before = resident("VmRSS", forget_peak=True)
    spec = WorkerSpec("memory", model, {}, config.rollout, ray_metrics=False)
    engine = make_engine(spec, index=0)
    settings, rng = config.rollout.engine, np.random.default_rng(0)
    said = config.rollout.max_utterance_tokens
    vocabulary = json.loads((Path(model) / "config.json").read_text())["vocab_size"]
    for number in range(2 * settings.max_sequences):
        prompt = tuple(map(int, rng.integers(2, vocabulary, settings.max_context - said)))
        engine.submit(Request(str(number), prompt, said, 1.0, number, (1,)))
    while engine.busy():
        engine.step()
    return resident("VmHWM") - before


def batch(config: RunConfig) -> tuple[list[Episode], list[ShapedRewards]]:
    """Two micro-batches of games that fill a whole context each, all of it said."""
    rng, length = np.random.default_rng(0), config.rollout.engine.max_context
    games = 2 * config.learner.tokens_per_micro_batch // length
    episodes, rewards = [], []
    for number in range(games):
        seen, said = (rng.integers(2, 900, count).astype(np.int32) for count in (1, length - 1))
        tokens = TurnTokens(seen, said, np.full(len(said), -7, np.float32), np.zeros(len(said), np.int32))
        ticket = Ticket("memory", "", number, number, (("seat", "policy"),))
        episodes.append(
            Episode(ticket, [Turn("seat", "policy", "", "", tokens=tokens)], {"seat": 0.0}, terminated=True)
        )
        rewards.append(ShapedRewards(number, "seat", rng.random(1).astype(np.float32), version=0))
    return episodes, rewards


def resident(field: str, forget_peak: bool = False) -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    if forget_peak:
        Path("/proc/self/clear_refs").write_text("5")
    return int(line.split()[1]) * 1024


def tables(found: dict[str, Any]) -> list[Table]:
    title = f"Memory, GiB: planned and measured, at worst {100 * found['worst']:.0f} % apart"
    table = Table(title=title, title_justify="left")
    for heading in ("part", "", "parameters", "type"):
        table.add_column(heading)
    for heading in ("planned", "measured", "planned / measured"):
        table.add_column(heading, justify="right")
    for row in found["rows"]:
        sizes = [f"{row[name] / GIB:.3f}" for name in ("planned", "measured")]
        table.add_row(
            row["part"],
            row["way"],
            short(row["parameters"]),
            row["dtype"],
            *sizes,
            f"{row['planned'] / row['measured']:.2f}",
        )
    return [table]


if __name__ == "__main__":
    run_alone("memory", measure, tables)
