"""Logits: what reading log-probs in slices of the vocabulary costs and saves, at 151,936 words.

    whole      all logits of a micro-batch are held, as where they fit in one slice
    2^n        no more than that many logits are held at a time (learners/model/slices.py has the choice)

A random model of two small layers, so that nearly all of the time and memory is the head's, whose width
is one of the columns. Time is of one forward and backward pass of `TOKENS` trained tokens, as a
ratio to `whole` in the same process. Memory is what a process of its own comes to need for such a pass
on top of the model's weights, gradients included; of `whole` only for few tokens, for it does not fit else.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from benchmarks.learner import resident
from benchmarks.memory import GIVES_BACK
from benchmarks.report import Say, run_alone, spread_of
from benchmarks.rounds import cpu_ratio, ratio, spread, take_turns
from learners.batch.packing import Pack, pack_sequences
from learners.model import slices
from learners.model.load import load_model
from learners.settings import LearnerSettings
from learners.update.policy_steps import pack_loss

WORDS, LENGTH = 151_936, 512
TOKENS, MANY, ROUNDS, EXPONENTS = 512, 16_384, 3, (22, 24, 26)
LIMIT_SECONDS = 900.0  # of one pass in a process of its own
CPU = torch.device("cpu")
READS = {"log-probs": {}, "with entropy": {"loss": {"entropy": 0.01}}}
RECOMPUTED = {"log-probs, layers recomputed": {"gradient_checkpointing": True}}  # as the recipes for GPUs have it
CASES = ((256, "log-probs"), (256, "with entropy"), (1024, "log-probs"))


def random_model(folder: Path, width: int) -> str:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": width, "intermediate_size": width, "num_attention_heads": 4, "num_hidden_layers": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, **shape)).save_pretrained(folder / str(width))
    return str(folder / str(width))


def random_pack(tokens: int) -> Pack:
    """Of which every token but the first of each sequence is trained."""
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, WORDS, LENGTH + 1) for _ in range(tokens // LENGTH)]
    pack = pack_sequences(sequences, [np.arange(LENGTH + 1) > 0] * len(sequences))
    pack.advantages = rng.normal(size=tokens).astype(np.float32)
    pack.trained_lengths = np.full(len(sequences), LENGTH)
    return pack


def one_pass(model: torch.nn.Module, pack: Pack, settings: dict, held: int) -> int:
    slices.SLICE_LOGITS = held
    pack_loss(model, pack, LearnerSettings(**settings), 1.0, 1e-3, CPU)[0].loss.backward()
    model.zero_grad()
    return len(pack.ids)


def peak_bytes(model: str, tokens: int, settings: dict, held: int) -> int:
    """To be asked in a fresh process."""
    loaded, pack = load_model(model, LearnerSettings(**settings), 0).train(), random_pack(tokens)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    one_pass(loaded, pack, settings, held)
    return resident("VmHWM") - before


def alone(*asked: Any) -> int:
    os.environ |= GIVES_BACK
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(peak_bytes, asked).get(LIMIT_SECONDS)


def measure(quick: bool, say: Say) -> dict[str, Any]:
    found: dict[str, Any] = {}
    sizes = {"whole": WORDS * MANY} | {f"2^{n}": 2**n for n in EXPONENTS}
    chosen = slices.SLICE_LOGITS
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder:
        paths = {width: random_model(Path(folder), width) for width in sorted({width for width, _ in CASES})}
        for width, name in CASES[: 1 if quick else None]:
            say(f"width {width}, {name}")
            found[f"{width}, {name}"] = beside_whole(paths[width], READS[name], sizes)
        say(f"{MANY:,} tokens")
        many = {name: alone(paths[CASES[0][0]], MANY, each, chosen) for name, each in (READS | RECOMPUTED).items()}
    return {"slices": found, "many": many, "chosen": chosen}


def beside_whole(path: str, settings: dict, sizes: dict[str, int]) -> dict[str, Any]:
    model, pack = load_model(path, LearnerSettings(), 0), random_pack(TOKENS)
    contestants = {label: lambda held=held: one_pass(model, pack, settings, held) for label, held in sizes.items()}
    contestants["whole"]()  # the first pass of all is slower
    samples = take_turns(contestants, ROUNDS)
    return {
        "seconds": asdict(spread([sample.seconds for sample in samples["whole"]])),
        "time": {label: asdict(ratio(samples["whole"], each)) for label, each in samples.items()},
        "cpu": {label: asdict(cpu_ratio(samples["whole"], each)) for label, each in samples.items()},
        "peak_bytes": {label: alone(path, TOKENS, settings, held) for label, held in sizes.items()},
    }


def tables(found: dict[str, Any]) -> list[Table]:
    table = Table(title=f"{WORDS:,} words, {TOKENS:,} trained tokens: forward and backward", title_justify="left")
    for heading in ("width, read", "logits held", "time / whole", "CPU / whole", "peak MB beyond weights"):
        table.add_column(heading, justify="right")
    for name, one in found["slices"].items():
        for label in one["time"]:
            time, cpu = (spread_of(one[key][label], ".2f") for key in ("time", "cpu"))
            table.add_row(name, label, time, cpu, f"{one['peak_bytes'][label] / 1e6:,.0f}")
        table.add_section()
    many = Table(title=f"{MANY:,} trained tokens, width {CASES[0][0]}", title_justify="left")
    for heading in ("read", "logits held", "peak MB beyond weights"):
        many.add_column(heading, justify="right")
    for name, peak in found["many"].items():
        many.add_row(name, f"{found['chosen']:,}", f"{peak / 1e6:,.0f}")
    return [table, many]


if __name__ == "__main__":
    run_alone("logits", measure, tables)
