"""The trained model: loading, adapters, kernels, and the one way it is asked for log-probs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from learners import attention
from learners.decisions import decided
from learners.loss import entropies, target_logprobs
from learners.optimiser import half_precision
from learners.packing import Pack
from learners.settings import LearnerSettings


def compute_dtype(settings: LearnerSettings) -> torch.dtype:
    return torch.bfloat16 if half_precision(settings) else torch.float32


def attention_kernel(settings: LearnerSettings) -> str:
    """transformers' name of the attention to use; every one keeps packed sequences apart."""
    return {"auto": attention.NAME, "sdpa": attention.NAME, "eager": attention.PLAIN}.get(
        settings.attention, settings.attention
    )


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
    if settings.compile:
        compile_feed_forward(model)
    return model


def compile_feed_forward(model: torch.nn.Module) -> None:
    """Of each layer: its work depends on the number of tokens alone, so one dynamic shape serves
    all packs. Attention is fused already, and its shapes change with every pack."""
    parts = [module for name, module in model.named_modules() if name.rpartition(".")[2] == "mlp"]
    if not parts:
        raise ValueError(f"learner.compile: the layers of {type(model).__name__} have no part named mlp")
    for part in parts:
        part.compile(dynamic=True)


def _with_adapter(model: PreTrainedModel, settings: LearnerSettings, seed: int) -> torch.nn.Module:
    from peft import LoraConfig, get_peft_model

    lora = settings.lora
    kinds = torch.nn.Linear, torch.nn.Embedding, Conv1D
    able = {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, kinds)}
    missing = sorted(set(lora.targets) - able)
    if missing:
        raise ValueError(
            f"learner.lora.targets: the model has no layer named {', '.join(missing)}; those that can have an "
            f"adapter: {', '.join(sorted(able))}"
        )
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
    """Log-probs of the pack's predicted tokens, and of what was chosen from a list, in one
    forward pass."""
    return _read(_logits(model, pack, device), pack, temperature)[0]


def pack_logprobs_and_entropies(
    model: torch.nn.Module, pack: Pack, temperature: float, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Also the entropy of the whole distribution at each of these tokens."""
    logits = _logits(model, pack, device)
    logprobs, of_choices = _read(logits, pack, temperature)
    entropy = entropies(logits[: len(pack.keep)], temperature)
    if pack.listed is not None:
        entropy = entropy.index_copy(0, torch.from_numpy(pack.listed.decision).to(device), of_choices)
    return logprobs, entropy


def _read(logits: torch.Tensor, pack: Pack, temperature: float) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probs, and the entropy of each choice."""
    own = target_logprobs(logits[: len(pack.keep)], torch.from_numpy(pack.targets).to(logits.device), temperature)
    if pack.listed is None:
        return own, None
    targets = torch.from_numpy(pack.listed.targets).to(logits.device)
    return decided(own, target_logprobs(logits[len(pack.keep) :], targets, 1.0), pack.listed)


def _logits(model: torch.nn.Module, pack: Pack, device: torch.device) -> torch.Tensor:
    """Only of positions that predict a token: the rest of a [tokens, vocabulary] matrix is
    never made."""
    ends = torch.from_numpy(pack.lengths).cumsum(0).to(torch.int32)
    bounds = torch.cat([torch.zeros(1, dtype=torch.int32), ends]).to(device)
    longest = int(pack.lengths.max())
    if pack.listed is None:
        keep, layout = pack.keep, attention.layout(pack.lengths, device)
    else:
        keep = np.concatenate([pack.keep, pack.listed.keep])
        layout = attention.layout(pack.lengths, device, pack.listed.until, pack.listed.begin)
    output = model(
        input_ids=torch.from_numpy(pack.ids)[None].to(device),
        position_ids=torch.from_numpy(pack.positions)[None].to(device),
        use_cache=False,
        logits_to_keep=torch.from_numpy(keep).to(device),
        packed=layout,
        # flash attention's own words for the same boundaries
        cu_seq_lens_q=bounds,
        cu_seq_lens_k=bounds,
        max_length_q=longest,
        max_length_k=longest,
    )
    return output.logits[0]


def adapter_config(module: torch.nn.Module) -> dict[str, Any]:
    """What PEFT writes to adapter_config.json, as plain JSON values."""
    config = module.peft_config["default"].to_dict()
    config["inference_mode"] = True
    return json.loads(json.dumps(config, default=lambda value: sorted(value) if isinstance(value, set) else str(value)))


def write_adapter(folder: Path, module: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    from safetensors.torch import save_file

    save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps(adapter_config(module), indent=2, sort_keys=True))
