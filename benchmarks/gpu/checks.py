"""The checks, in the order in which they run: what the later ones need is looked at by the earlier ones."""

from __future__ import annotations

from benchmarks.gpu.bench import Check

TORCH = ("torch", "transformers", "numpy", "pydantic", "yaml", "rich")

CHECKS = (
    Check("card", "the card multiplies right, in every type that is used", ("torch",), 25),
    Check("packs", "log-probs, entropies, losses and gradients of packed games are the CPU's", TORCH, 60),
    Check("updates", "whole updates move the weights where the CPU moves them, and stay finite", TORCH, 45),
    Check(
        "player",
        "games played by the plain engine are what the learner reads; no cache outlives its weights",
        TORCH,
        35,
    ),
    Check("speed", "learner and engine are near a bare loop's tokens a second", TORCH, 45),
    Check("memory", "an update needs the memory that it should", TORCH, 30, card=True),
    Check(
        "zero",
        "DeepSpeed's ranks, at every ZeRO stage and with an adapter, learn what the CPU learns",
        (*TORCH, "ray", "deepspeed", "peft"),
        80,
    ),
    Check("rollout", "vLLM's log-probs are the learner's", (*TORCH, "vllm"), 60),
    Check(
        "one_card",
        "learner and engine share one card: a run with weights handed over on it",
        (*TORCH, "ray", "deepspeed", "vllm"),
        75,
        card=True,
    ),
)
assert sum(check.seconds for check in CHECKS) < 8 * 60
