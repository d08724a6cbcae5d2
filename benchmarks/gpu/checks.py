"""The checks, in the order in which they run: what the later ones need is looked at by the earlier ones."""

from __future__ import annotations

from benchmarks.gpu.bench import Check

TORCH = ("torch", "transformers", "numpy", "pydantic", "yaml", "rich")
STACK = (*TORCH, "ray", "deepspeed", "vllm")

CHECKS = (
    Check("card", "the card multiplies right, in every type that is used", ("torch",), 30),
    Check("packs", "log-probs, entropies, losses and gradients of packed games are the CPU's", TORCH, 90),
    Check("updates", "updates move the weights where the CPU moves them, and stay finite", TORCH, 60),
    Check("player", "the plain engine plays what the learner reads, and forgets what older weights made", TORCH, 60),
    Check("speed", "learner and engine are near a bare loop's tokens a second", TORCH, 90),
    Check("memory", "an update takes the memory that is planned for it", TORCH, 60, card=True),
    Check("zero", "DeepSpeed's ranks learn what the CPU learns", (*TORCH, "ray", "deepspeed", "peft"), 120),
    Check("rollout", "vLLM plays what the learner reads, asleep in between", (*TORCH, "vllm"), 150),
    Check("demo", "the demo as it stands, and learner and engine taking turns on one card", STACK, 360),
    Check("large", "a model as large as recipes/gpu/1x80.yaml has plays and learns on one card", STACK, 360),
)
