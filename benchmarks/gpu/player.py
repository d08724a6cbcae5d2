"""The plain engine: whole games, log-probs as the learner reads them, and nothing cached of older weights.

The weights come through the engine's own door, as one bucket in shared memory.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch

from actors.engines.contract import Engine, Request
from actors.engines.transformers_engine import TransformersEngine
from benchmarks.games import demo, new_play, play_out, tickets, tokens_made
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.made_up import prepare, settings
from cluster.recipe.config import RunConfig
from envs.episode import Episode
from learners.batch.packing import pack_trajectories
from learners.batch.trajectories import collect
from learners.embedded.build import build_policy
from learners.model.load import load_model, pack_logprobs
from learners.transport.segment import Segment
from reward_service.settings import RewardSettings

GAMES = {"cuda": 64, "cpu": 8}
GAP = {"float32": 1e-3, "bfloat16": 0.05}  # mean |log-prob of the trainer - stored|
CACHED = 1e-4  # largest difference to an engine that has nothing cached
PLAIN = ("rollout.engine.kind=transformers", "model.embedded.steps=0", "rollout.engine.max_sequences=16")


def check(bench: Bench) -> None:
    device = prepare(bench)
    config = demo(*PLAIN)
    path, other = (
        build_policy(config.game, config.model.embedded.model_copy(update={"seed": seed}), cache=bench.folder)
        for seed in (0, 1)
    )
    for dtype in GAP:
        with bench.part(f"games in {dtype}"):
            engine = engine_of(bench, config, path, dtype)
            bench.judge(engine.device.type == bench.device, f"games in {dtype}: on the device", str(engine.device))
            played(bench, engine, config, path, dtype, device)
    with bench.part("a weight update in the middle of a game"):
        updated(bench, config, path, other)
    with bench.part("asleep and awake again"):
        slept(bench, engine, config, path, device)


def engine_of(bench: Bench, config: RunConfig, path: Path, dtype: str = "float32") -> TransformersEngine:
    chosen = config.rollout.engine.model_copy(update={"dtype": dtype})
    return TransformersEngine(chosen, str(path), on_gpu=bench.on_card)


def played(
    bench: Bench, engine: Engine, config: RunConfig, path: Path, dtype: str, device: torch.device, when: str = ""
) -> None:
    """`engine` plays the policy in `path`, in that type."""
    what = f"games in {dtype}{when}"
    began = time.monotonic()
    episodes = play_out(new_play(config, path, engine), tickets(config, GAMES[bench.device]))
    made = tokens_made(episodes)
    found = f"{len(episodes)} games, {made:,} tokens, {made / (time.monotonic() - began):,.0f} a second"
    bench.judge(len(episodes) == GAMES[bench.device], f"{what}: played to their ends", found)
    gap = gap_of(episodes, config, path, dtype, device)
    bench.within(f"{what}: mean difference to the learner's log-probs", gap, GAP[dtype])


def gap_of(episodes: list[Episode], config: RunConfig, path: Path, dtype: str, device: torch.device) -> float:
    batch = collect(episodes, RewardSettings().shaper.make(config.game).shape(episodes))
    pack = pack_trajectories(batch, [np.zeros(int(t.turn_tokens.sum())) for t in batch], version=0)
    model = load_model(str(path), settings(dtype=dtype), seed=0).to(device).eval()
    with torch.no_grad():
        read = pack_logprobs(model, pack, config.rollout.temperature, device).float().cpu().numpy()
    return float(np.abs(read - pack.sampler_logprobs).mean())


def updated(bench: Bench, config: RunConfig, path: Path, other: Path) -> None:
    """Half of an answer by the old weights, the rest by new ones: it is as if they had read it all."""
    engine, fresh = engine_of(bench, config, path), engine_of(bench, config, other)
    prompt = tuple(np.random.default_rng(0).integers(5, 60, 40).tolist())
    engine.submit(Request("old", prompt, max_tokens=16, temperature=1.0, seed=0, stop_ids=()))
    for _ in range(8):
        engine.step()
    receive(engine, fresh.model)
    while not (done := engine.step()):
        pass
    (answer,) = done
    ids = [*prompt, *answer.token_ids.tolist()]
    after = slice(len(prompt) - 1 + 8, None)
    bench.judge(
        answer.versions.tolist() == [0] * 8 + [1] * 8,
        "every token knows the weights that made it",
        str(answer.versions),
    )
    expected = fresh.score([ids])[0]
    gap = float(np.abs(answer.logprobs[8:] - expected[after]).max())
    bench.within("after a weight update: difference to an engine that has nothing cached", gap, CACHED)
    stale = float(np.abs(engine_of(bench, config, path).score([ids])[0][after] - expected[after]).max())
    bench.judge(stale > 10 * CACHED, "which the old weights would not have passed", f"{stale:.3g}")


def slept(bench: Bench, engine: TransformersEngine, config: RunConfig, path: Path, device: torch.device) -> None:
    held = sum(weight.nbytes for weight in engine.model.state_dict().values())
    before = torch.cuda.memory_allocated() if bench.on_card else 0
    engine.sleep()
    if bench.on_card:
        given = before - torch.cuda.memory_allocated()
        bench.judge(given > held, "asleep it gives its memory back", f"{given:,} bytes; its weights are {held:,}")
    engine.wake("weights")
    engine.wake("cache")
    played(bench, engine, config, path, "bfloat16", device, when=", after it slept")


def receive(engine: TransformersEngine, source: torch.nn.Module) -> None:
    table, runs, end = {"names": [], "dtype_names": [], "shapes": [], "offsets": []}, [], 0
    for name, tensor in source.state_dict().items():
        run = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        entry = name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), end
        for key, value in zip(table, entry, strict=True):
            table[key].append(value)
        runs.append(run)
        end += len(run)
    segment = Segment(end)
    try:
        segment.bytes[:] = np.concatenate(runs)
        engine.start_weight_update()
        engine.update_weights(table | {"nbytes": end, "segment": segment.name})
        engine.finish_weight_update("1")
    finally:
        segment.close()
