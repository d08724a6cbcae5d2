"""Tokens a second: the learner beside a bare training loop, the plain engine beside a bare sampling loop.

Both sides of a ratio run in this process and take turns, on the same model in bfloat16. The bare
training loop is given the learner's own packs, made beforehand, and torch's AdamW. The share of the
card is counted in the products that a token needs (6 for each weight of a projection), over the rate
at which the card was just seen to multiply.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers

from actors.engines.contract import Request
from actors.engines.transformers_engine import TransformersEngine
from actors.settings import EngineSettings
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.card import matmul_rate
from benchmarks.gpu.made_up import LARGE, TINY, large_model, prepare, settings, trajectories
from benchmarks.lab.trainee import Driver
from benchmarks.rounds import ratio, speed, take_turns
from learners.batch.packing import pack_trajectories, plan
from learners.batch.trajectories import Trajectory
from learners.model import attention
from learners.model.load import load_model
from learners.optimiser import GuardedAdamW
from learners.settings import LearnerSettings
from learners.update.learning import Learning

GAMES, SAID, BUDGET, ROUNDS = 96, 200, 8192, 3
ROWS, PROMPT, ANSWER = 64, 128, 64
SLOWEST = {"learner": 0.7, "engine": 0.5}  # of the bare loop's speed


def check(bench: Bench) -> None:
    device = prepare(bench)
    path = large_model(bench.folder, device, **({} if bench.on_card else TINY))
    with bench.part("learner"):
        learner(bench, path, device)
    with bench.part("engine"):
        engine(bench, path, device)


def learner(bench: Bench, path: Path, device: torch.device) -> None:
    chosen = settings(dtype="bfloat16", tokens_per_micro_batch=BUDGET, learning_rate=1e-6)
    count, words = (GAMES, LARGE["vocab_size"]) if bench.on_card else (4, 100)
    batch = trajectories(count, 0, words=words, said=SAID)
    tokens = sum(len(each) for each in batch)
    samples = take_turns(
        {"ours": ours(path, chosen, batch, device), "bare": bare(path, chosen, batch, device)},
        ROUNDS + 1,
    )
    mine, theirs = (samples[name][1:] for name in ("ours", "bare"))  # the first round warms up
    per_second = speed(mine).median
    bench.figure(
        "learner", f"{per_second:,.0f} tokens/s; bare loop {speed(theirs).median:,.0f}; {tokens:,} tokens an update"
    )
    beside(bench, "learner", ratio(mine, theirs).median)
    if bench.on_card:
        share = 6 * projected(path) * per_second / matmul_rate()
        bench.figure("learner: share of the card's own rate of products", f"{share:.0%}")


def projected(path: Path) -> int:
    """Weights that a token is multiplied with: all but the embedding."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(path))
    embedding = model.get_input_embeddings().weight.numel()
    return sum(p.numel() for p in model.parameters()) - embedding


def ours(path: Path, chosen: LearnerSettings, batch: list[Trajectory], device: torch.device) -> Callable[[], int]:
    model = load_model(str(path), chosen, seed=0).to(device)
    optimiser = GuardedAdamW(model.parameters(), clip=chosen.gradient_clip, lr=chosen.learning_rate, fused=True)
    learning = Learning(Driver(model, optimiser), optimiser, chosen, 1.0, device, 0, 0)

    def update() -> int:
        tokens = int(learning.update(batch, version=0)["tokens"])
        wait(device)
        return tokens

    return update


def bare(path: Path, chosen: LearnerSettings, batch: list[Trajectory], device: torch.device) -> Callable[[], int]:
    """Forward, backward, clip, AdamW, as one would write it by hand."""
    model = load_model(str(path), chosen, seed=0).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=chosen.learning_rate)
    (mine,) = plan(batch, 1, chosen.tokens_per_micro_batch)
    packs = []
    for indices in mine:
        together = [batch[index] for index in indices]
        pack = pack_trajectories(together, [np.ones(int(t.turn_tokens.sum())) for t in together], version=0)
        inputs = {
            "input_ids": torch.from_numpy(pack.ids)[None].to(device),
            "position_ids": torch.from_numpy(pack.positions)[None].to(device),
            "packed": attention.layout(pack.lengths, device),
            "logits_to_keep": torch.from_numpy(pack.keep).to(device),
        }
        packs.append((inputs, torch.from_numpy(pack.targets).to(device)))
    tokens = sum(len(each) for each in batch)

    def update() -> int:
        model.train()
        for inputs, targets in packs:
            logits = model(**inputs, use_cache=False).logits[0]
            (F.cross_entropy(logits.float(), targets, reduction="sum") / len(batch)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), chosen.gradient_clip)
        optimiser.step()
        optimiser.zero_grad()
        wait(device)
        return tokens

    return update


def engine(bench: Bench, path: Path, device: torch.device) -> None:
    """Equal prompts and equal answers, so that the bare loop needs no filling either."""
    rows, prompt, answer = (ROWS, PROMPT, ANSWER) if bench.on_card else (4, 16, 8)
    longest = prompt + answer
    chosen = EngineSettings(kind="transformers", dtype="bfloat16", max_context=longest, max_sequences=rows)
    playing = TransformersEngine(chosen, str(path), on_gpu=bench.on_card)
    ids = np.random.default_rng(0).integers(5, 100, (rows, prompt))

    def played() -> int:
        playing.forget()
        for row, own in enumerate(ids.tolist()):
            playing.submit(Request(str(row), tuple(own), answer, 1.0, seed=row, stop_ids=()))
        made = 0
        while playing.busy():
            made += sum(len(done.token_ids) for done in playing.step())
        return made

    asked = torch.from_numpy(ids).to(device)

    def generated() -> int:
        with torch.inference_mode():
            made = playing.model.generate(
                asked,
                attention_mask=torch.ones_like(asked),
                do_sample=True,
                top_k=0,
                min_new_tokens=answer,
                max_new_tokens=answer,
            )
        wait(device)
        return rows * (made.shape[1] - prompt)

    samples = take_turns({"ours": played, "bare": generated}, ROUNDS + 1)
    mine, theirs = (samples[name][1:] for name in ("ours", "bare"))
    bench.figure("engine", f"{speed(mine).median:,.0f} tokens/s; bare loop {speed(theirs).median:,.0f}; {rows} at once")
    beside(bench, "engine", ratio(mine, theirs).median)


def beside(bench: Bench, who: str, found: float) -> None:
    """On a CPU, where sizes are tiny and others compute too, nothing is asked of it."""
    if bench.on_card:
        bench.within(f"{who}: its speed over the bare loop's", found, SLOWEST[who], least=True)
    else:
        bench.figure(f"{who}: its speed over the bare loop's", f"{found:.2g}")


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
