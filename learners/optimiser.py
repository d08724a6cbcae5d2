"""AdamW under DeepSpeed ZeRO: its configuration, and the guard of its step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from learners.settings import REDUCE_BUCKET, LearnerSettings


class GuardedAdamW(torch.optim.AdamW):
    """AdamW that leaves everything as it is when a gradient is not finite. DeepSpeed reads
    `overflow` to know that no step was taken. The ZeRO optimisers make the same check
    over all ranks before they get here; without ZeRO this is the only one, and there
    every rank holds the same gradient, so all of them decide alike.

    With `clip` it also clips, and keeps the `norm` from before: DeepSpeed clips a plain
    optimiser's gradients without telling their norm.

    With `keeps` the weights from before a step are kept: one more copy of those that this rank
    steps. While `shorten_to` is set a step looks at no gradient, but leaves of the way that the
    weights have gone since then this share: with 0 they are what they were, bit for bit. DeepSpeed
    does with it as with any step, so copies in half precision and on other ranks follow under
    every ZeRO stage. The moments stay: what the gradient was is remembered, however far it led."""

    overflow = False

    def __init__(self, parameters, clip: float | None = None, keeps: bool = False, **options: Any):
        super().__init__(parameters, **options)
        self.clip, self.keeps = clip, keeps
        self.norm: float | None = None
        self.shorten_to: float | None = None
        self.before: dict[torch.Tensor, torch.Tensor] = {}

    def _stepped(self) -> Iterator[torch.Tensor]:
        return (parameter for group in self.param_groups for parameter in group["params"])

    @torch.no_grad()
    def _keep(self) -> None:
        for parameter in self._stepped():
            if parameter in self.before:
                self.before[parameter].copy_(parameter)
            else:
                self.before[parameter] = parameter.detach().clone()

    @torch.no_grad()
    def _shorten(self, share: float) -> None:
        for parameter in self._stepped():
            before = self.before[parameter]
            if share:
                parameter.sub_(before).mul_(share).add_(before)
            else:
                parameter.copy_(before)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """A checkpoint also says how its optimiser stepped, which older ones did in another way than this one does."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            group |= {"fused": True, "foreach": None}
            for parameter in group["params"]:
                if "step" in (state := self.state.get(parameter, {})):
                    state["step"] = torch.as_tensor(state["step"]).to(parameter.device, torch.float32)

    def step(self, closure=None):
        if self.shorten_to is not None:
            self.overflow = False
            return self._shorten(self.shorten_to)
        gradients = [each.grad for each in self._stepped() if each.grad is not None and each.numel()]
        self.overflow = bool(gradients) and not _all_finite(gradients)
        if self.overflow:
            return None
        if self.clip is not None:
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
            torch._foreach_mul_(gradients, (self.clip / (norm + 1e-6)).clamp(max=1.0))
            self.norm = float(norm)
        if self.keeps:
            self._keep()
        return super().step(closure)


def _all_finite(tensors: list[torch.Tensor]) -> bool:
    """By the largest size of each: to look at every number by itself would take as much room as they all do."""
    return bool(torch.isfinite(torch.stack(torch._foreach_norm(tensors, torch.inf))).all())


def take_step(engine: Any) -> bool:
    """Whether it was applied. ZeRO 1 and 2 drop the gradients of a step that they leave out, but not where the
    optimiser is offloaded: there a number that is not finite would stay in the sum for ever."""
    engine.step()
    applied = engine.was_step_applied()
    if not applied and (kept := getattr(engine.optimizer, "averaged_gradients", None)):
        kept.update(dict.fromkeys(kept))
    return applied


def make_optimiser(parameters: list[torch.nn.Parameter], settings: LearnerSettings) -> GuardedAdamW:
    return GuardedAdamW(
        parameters,
        clip=None if _deepspeed_clips(settings) else settings.gradient_clip,
        keeps=settings.loss.kl_guard is not None,
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        fused=True,  # a step takes no room of its own; the other kinds hold a copy or two of all weights
    )


def half_precision(settings: LearnerSettings) -> bool:
    return settings.dtype == "bfloat16"


def _deepspeed_clips(settings: LearnerSettings) -> bool:
    return settings.zero > 0 or half_precision(settings)


def deepspeed_config(settings: LearnerSettings) -> dict[str, Any]:
    """An update ends when `step` is called, however many micro-batches it had: DeepSpeed
    is told not to count them."""
    zero: dict[str, Any] = {"stage": settings.zero, "reduce_bucket_size": REDUCE_BUCKET}
    if settings.zero == 3:
        zero["stage3_param_persistence_threshold"] = 10_000
    if settings.offload_optimizer and settings.zero and settings.gpus_per_rank:  # on CPU it is there already
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if settings.offload_parameters and settings.gpus_per_rank:
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "gradient_clipping": settings.gradient_clip if _deepspeed_clips(settings) else 0.0,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": zero,
    }
    if half_precision(settings):
        config["bf16"] = {"enabled": True, "check_grad_overflow": True}
        if settings.zero:  # without ZeRO DeepSpeed offers no wider sum
            config["data_types"] = {"grad_accum_dtype": "fp32"}
    return config
