"""Settings and recipes that had another name: who writes the old one is told the new one."""

from __future__ import annotations

from pathlib import Path

SPACE, AGGREGATE = "reward.shaper.intentions.space", "reward.shaper.intentions.aggregate"
RENAMED = {
    "learner.critic": "learner.credit.critic",
    "learner.credit.tau": "learner.credit.critic.tau",
    "learner.credit.vtrace_step": "learner.credit.step",
    "reward.aria_rm": "reward.shaper",
    "reward.intentions": "reward.shaper.intentions",
    "reward.oni": "reward.shaper",
    "reward.regressed": "reward.shaper",
    "reward.spa": "reward.shaper",
    "reward.shaper.model.embedding": "reward.shaper.model",
    "reward.shaper.model.transformer": "reward.shaper.model",
    "learner.loss.correct_fresh": "learner.loss.correct_on_policy",
    "learner.importance_cap": "learner.loss.importance_cap",
    **{f"{SPACE}.{key}": f"{SPACE}.granularity.{key}" for key in ("k", "epsilon", "patience")},
    **{f"{AGGREGATE}.{key}": f"{AGGREGATE}.pooling.{key}" for key in ("histories", "smallest", "coarser", "strength")},
}


def renamed(key: str) -> str | None:
    """What to write in place of an unknown key that was known once."""
    new = RENAMED.get(key)
    return None if new is None else f"is called {new} now"


ONI = "recipes/games/virtualhome.yaml recipes/shapers/oni.yaml"
GONE = {  # below recipes/, and what to write
    "credit/critic_1b": "learner.credit.critic.states=base learner.credit.critic.learning_rate=5e-5",
    "credit/gigpo_intentions": "recipes/credit/gigpo.yaml learner.credit.anchor=labels reward.shaper=aria "
    "reward.shaper.gives=outcome",
    "credit/intentions": "recipes/shapers/aria.yaml",
    "credit/ntpo": "recipes/credit/poad.yaml learner.credit.method=ntpo",
    "credit/reinforce": "learner.credit.method=reinforce learner.credit.baseline=turn",
    "debug_transformers": "recipes/demo.yaml rollout.engine.kind=transformers updates=5 batch_episodes=32 "
    "evaluation.episodes=100",
    "deterministic": "recipes/demo.yaml max_staleness=0",
    "games/twenty_questions": "recipes/demo.yaml",
    "gpu/1x24_full": "recipes/demo.yaml recipes/gpu/1x24.yaml",
    "gpu/1x24_lora": "recipes/demo.yaml recipes/gpu/1x24.yaml recipes/gpu/lora.yaml model.path=Qwen/Qwen3-4B",
    "gpu/1x80_full": "recipes/demo.yaml recipes/gpu/1x80.yaml",
    "gpu/1x80_lora": "recipes/demo.yaml recipes/gpu/1x80.yaml recipes/gpu/lora.yaml model.path=Qwen/Qwen3-8B",
    "gpu/2x8x80_full": "recipes/demo.yaml recipes/gpu/2x8x80.yaml",
    "gpu/2x8x80_lora": "recipes/demo.yaml recipes/gpu/2x8x80.yaml recipes/gpu/lora.yaml rollout.workers=12 "
    "learner.ranks=4",
    "gpu/4x80_full": "recipes/demo.yaml recipes/gpu/1x80.yaml rollout.workers=2 learner.ranks=2 learner.zero=3 "
    "learner.tokens_per_micro_batch=16384",
    "gpu/8x80_full": "recipes/demo.yaml recipes/gpu/8x80.yaml",
    "gpu/8x80_lora": "recipes/demo.yaml recipes/gpu/8x80.yaml recipes/gpu/lora.yaml rollout.workers=6 learner.ranks=2",
    "gpu/qwen3": "recipes/gpu/1x24.yaml",
    "models/llama_8b": "recipes/gpu/1x80.yaml recipes/gpu/lora.yaml rollout.engine.max_context=8192 "
    "model.path=meta-llama/Meta-Llama-3-8B-Instruct rollout.workers=2 learner.ranks=2 learner.zero=3",
    "models/qwen3_1.7b": "recipes/gpu/1x24.yaml recipes/gpu/lora.yaml rollout.engine.max_context=8192",
    "offline/twenty_questions": "recipes/demo.yaml rollout.engine.kind=transformers learner.loss=likelihood "
    "learner.loss_aggregation=turn reward.shaper=aria offline.games=800 offline.batch=256",
    "parrot": "recipes/games/parrot.yaml",
    "shapers/oni_endpoint": f"{ONI} reward.shaper.annotator=endpoint reward.shaper.endpoint.constrained=true "
    "reward.shaper.endpoint.url=http://127.0.0.1:8000/v1 reward.shaper.endpoint.model=Qwen/Qwen3-0.6B",
    "shapers/regressed": "recipes/games/bargaining.yaml reward.shaper=regressed",
    "shapers/spa": "recipes/demo.yaml reward.shaper=spa",
    "tiny_lora": "recipes/demo.yaml learner.learning_rate=3e-3 learner.lora.rank=8",
    "two_workers": "recipes/demo.yaml rollout.workers=2 learner.ranks=2 learner.zero=3",
}
WHOLE_ONCE = {  # layers now, which a game's recipe comes before
    "shapers/aria": "recipes/games/bargaining.yaml reward.shaper=aria",
    "shapers/aria_rm": "recipes/demo.yaml recipes/shapers/aria_rm.yaml",
    "shapers/oni": ONI,
}


def instead_of(path: Path, table: dict[str, str]) -> str | None:
    """What a table says of a file that lies, or lay, below a folder `recipes`."""
    name = path.resolve().as_posix().rpartition("/recipes/")[2]
    return table.get(name.removesuffix(".yaml"))
