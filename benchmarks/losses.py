"""Losses: CPU seconds of one pass over a batch, by what the loss asks for, beside the plain policy gradient.

    policy_gradient      forward, loss, backward
    ppo, decoupled, ...  the same, with the other terms; a reference that was read is there
    read                 one more forward pass without a gradient: what a reference, a critic or
                         the log-probs of the update's start cost, each
    compiled             policy_gradient with learner.compile, after its first pass

Random sequences of 128 tokens, half of them trained: how long it takes does not depend on what
they say. CPU seconds are of this process: what others do on the machine is not added to them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from benchmarks.games import demo
from benchmarks.models import untrained
from benchmarks.report import Say, run_alone, spread_of
from benchmarks.rounds import cpu_ratio, spread, take_turns
from learners.batch.packing import Pack, pack_sequences
from learners.model.load import load_model, pack_logprobs
from learners.settings import LearnerSettings
from learners.update.policy_steps import pack_loss

SIZES, ROUNDS = ("0.1M", "10M"), 7
SEQUENCES, LENGTH = 8, 128
CPU = torch.device("cpu")
CLIP = {"clip_low": 0.1, "clip_high": 0.1}
LOSSES = {
    "policy_gradient": {},
    "ppo": {"kind": "ppo"} | CLIP,
    "decoupled, both masks": {"kind": "decoupled", "token_mask": [0.5, 2.0], "sequence_mask": [0.8, 1.2]} | CLIP,
    "kl": {"kl": 0.1},
    "entropy": {"entropy": 0.01},
}


def random_pack(vocabulary: int) -> Pack:
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, vocabulary, LENGTH) for _ in range(SEQUENCES)]
    predicted = [np.arange(LENGTH) % 16 >= 8 for _ in range(SEQUENCES)]
    pack = pack_sequences(sequences, predicted)
    count = len(pack.targets)
    pack.advantages = rng.normal(size=count).astype(np.float32)
    pack.trained_lengths = np.array([int(each.sum()) for each in predicted])
    pack.on_policy = rng.random(count) < 0.5
    uniform = -np.log(vocabulary)
    pack.sampler_logprobs, pack.old_logprobs, pack.reference = (
        rng.normal(uniform, 0.2, count).astype(np.float32) for _ in range(3)
    )
    return pack


def measure(quick: bool, say: Say) -> dict[str, Any]:
    config, results = demo(), {}
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder:
        for size in SIZES[: 1 if quick else None]:
            say(f"{size} parameters")
            model = untrained(size, config, Path(folder))
            plain, compiled = (load_model(str(model), LearnerSettings(compile=on), 0) for on in (False, True))
            pack = random_pack(plain.config.vocab_size)

            def trained(model: torch.nn.Module, loss: dict, pack: Pack = pack) -> int:
                pack_loss(model, pack, LearnerSettings(loss=loss), 1.0, 1e-3, CPU)[0].loss.backward()
                model.zero_grad()
                return len(pack.ids)

            def read(model: torch.nn.Module = plain, pack: Pack = pack) -> int:
                with torch.no_grad():
                    pack_logprobs(model, pack, 1.0, CPU)
                return len(pack.ids)

            contestants: dict[str, Callable[[], int]] = {
                name: lambda loss=loss, model=plain, run=trained: run(model, loss) for name, loss in LOSSES.items()
            }
            contestants |= {"read": read, "compiled": lambda model=compiled, run=trained: run(model, {})}
            for once in contestants.values():  # what is compiled is compiled before it counts
                once()
            samples = take_turns(contestants, 3 if quick else ROUNDS)
            base = samples["policy_gradient"]
            results[size] = {
                "tokens": len(pack.ids),
                "cpu_seconds": asdict(spread([sample.cpu_seconds for sample in base])),
                "cost": {name: asdict(cpu_ratio(base, found)) for name, found in samples.items()},
            }
    return {"sizes": results}


def tables(found: dict[str, Any]) -> list[Table]:
    table = Table(title="CPU time of one pass, beside policy_gradient")
    table.add_column("")
    for size in found["sizes"]:
        table.add_column(size, justify="right")
    sizes = found["sizes"].values()
    table.add_row("policy_gradient, CPU s", *(spread_of(each["cpu_seconds"], ".3f") for each in sizes))
    for name in next(iter(sizes))["cost"]:
        table.add_row(name, *(spread_of(each["cost"][name], ".2f") for each in sizes))
    return [table]


if __name__ == "__main__":
    run_alone("losses", measure, tables)
