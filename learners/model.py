"""The trained model: loading, adapters, kernels, and the one way it is asked for log-probs."""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from learners import attention
from learners.loss import target_logprobs
from learners.optimiser import half_precision
from learners.packing import Pack
from learners.settings import LearnerSettings


def compute_dtype(settings: LearnerSettings) -> torch.dtype:
    return torch.bfloat16 if half_precision(settings) else torch.float32


def attention_kernel(settings: LearnerSettings) -> str:
    """transformers' name of the attention to use; every one keeps packed sequences apart."""
    choice = settings.attention
    if choice == "auto":
        choice = "flash_attention_2" if settings.gpus_per_rank and find_spec("flash_attn") else "sdpa"
    return attention.NAME if choice == "sdpa" else choice


def load_model(
    path: str, settings: LearnerSettings, seed: int, revision: str | None = None, trust_remote_code: bool = False
) -> torch.nn.Module:
    """A causal LM ready to train; with an adapter when settings.lora.rank is above 0.
    The adapter's first weights depend on `seed` alone, so all ranks make the same."""
    try:
        model = AutoModelForCausalLM.from_pretrained(
            path,
            revision=revision,
            trust_remote_code=trust_remote_code,
            dtype=compute_dtype(settings),
            attn_implementation=attention_kernel(settings),
        )
    except (OSError, ValueError, ImportError) as error:
        raise ValueError(f"model {path!r} cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    model.config.use_cache = False
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if settings.lora.rank:
        model = _with_adapter(model, settings, seed)
    return model


def _with_adapter(model: PreTrainedModel, settings: LearnerSettings, seed: int) -> torch.nn.Module:
    from peft import LoraConfig, get_peft_model

    lora = settings.lora
    suffixes = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    missing = sorted(set(lora.targets) - suffixes)
    if missing:
        raise ValueError(f"learner.lora.targets: the model has no module named {', '.join(missing)}")
    if settings.gradient_checkpointing:
        model.enable_input_require_grads()
    torch.manual_seed(seed)
    return get_peft_model(
        model,
        LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=sorted(lora.targets), task_type="CAUSAL_LM"),
    )


def fingerprint(module: torch.nn.Module) -> str:
    """Of names and shapes: two models share it exactly when one's weights fit the other."""
    shapes = [(name, list(getattr(p, "ds_shape", p.shape))) for name, p in module.named_parameters()]
    return hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16]


def pack_logprobs(model: torch.nn.Module, pack: Pack, temperature: float, device: torch.device) -> torch.Tensor:
    """Log-probs of the pack's predicted tokens, in one forward pass. Only positions that
    predict one get logits: the rest of a [tokens, vocabulary] matrix is never made."""
    ends = torch.from_numpy(pack.lengths).cumsum(0).to(torch.int32)
    bounds = torch.cat([torch.zeros(1, dtype=torch.int32), ends]).to(device)
    longest = int(pack.lengths.max())
    output = model(
        input_ids=torch.from_numpy(pack.ids)[None].to(device),
        position_ids=torch.from_numpy(pack.positions)[None].to(device),
        use_cache=False,
        logits_to_keep=torch.from_numpy(pack.keep).to(device),
        packed=attention.layout(pack.lengths, device),
        # flash attention's own words for the same boundaries
        cu_seq_lens_q=bounds,
        cu_seq_lens_k=bounds,
        max_length_q=longest,
        max_length_k=longest,
    )
    return target_logprobs(output.logits[0], torch.from_numpy(pack.targets).to(device), temperature)


def adapter_config(module: torch.nn.Module) -> dict[str, Any]:
    """What PEFT writes to adapter_config.json, as plain JSON values."""
    config = module.peft_config["default"].to_dict()
    config["inference_mode"] = True
    return json.loads(json.dumps(config, default=lambda value: sorted(value) if isinstance(value, set) else str(value)))


def write_adapter(folder: Path, module: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    from safetensors.torch import save_file

    save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps(adapter_config(module), indent=2, sort_keys=True))
