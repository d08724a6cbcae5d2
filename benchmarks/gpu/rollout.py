"""vLLM's engine: whole games whose log-probs are the learner's, also after it has slept.

On a card in bfloat16, as it is used there; on a CPU in float32.
"""

from __future__ import annotations

from benchmarks.games import demo
from benchmarks.gpu.bench import Bench, NotHere
from benchmarks.gpu.made_up import prepare
from benchmarks.gpu.player import played
from learners.embedded.build import build_policy

SHARE = 0.3  # of the card
AWAY = 0.8  # of what the engine took, that it gives back asleep
SETTINGS = ("model.embedded.steps=0", "rollout.engine.enforce_eager=true", "rollout.engine.cpu_cache_gib=0.1")


def check(bench: Bench) -> None:
    config, device = demo(*SETTINGS), prepare(bench)
    from actors.engines.vllm_engine import VllmEngine

    path = build_policy(config.game, config.model.embedded, cache=bench.folder)
    dtype = "bfloat16" if bench.on_card else "float32"
    on_card = {"gpu_memory_share": SHARE, "sleep": True} if bench.on_card else {}
    chosen = config.rollout.engine.model_copy(update={"dtype": dtype} | on_card)
    before = free()
    engine = VllmEngine(chosen, str(path), on_gpu=bench.on_card)
    played(bench, engine, config, path, dtype, device)
    with bench.part("asleep and awake again"):
        if not bench.on_card:
            raise NotHere("vLLM sleeps on a card only")
        awake = free()
        engine.sleep()
        share = (free() - awake) / (before - awake)
        bench.within("asleep, part of its memory that it gives back", share, AWAY, least=True)
        engine.wake("weights")
        engine.wake("cache")
        played(bench, engine, config, path, dtype, device, when=", after it slept")
    engine.close()


def free() -> int:
    """Bytes of the card that nobody holds; on a CPU 0."""
    import torch

    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0
