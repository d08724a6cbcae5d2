"""The trained model: loading, adapters, kernels, and the one way it is asked for log-probs."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from learners.batch.decisions import decided
from learners.batch.packing import Pack
from learners.model import attention, by_hand
from learners.model.logits import BESIDE, target_logprobs
from learners.model.output_head import in_slices, read_at_head
from learners.optimiser import deepspeed_config, half_precision
from learners.settings import ALL_LINEAR, EXPERT_COUNTS, LearnerSettings


def compute_dtype(settings: LearnerSettings) -> torch.dtype:
    return torch.bfloat16 if half_precision(settings) else torch.float32


def attention_kernel(settings: LearnerSettings) -> str:
    """transformers' name of the attention to use; every one keeps packed sequences apart."""
    if settings.attention == "varlen" and not (settings.gpus_per_rank and half_precision(settings)):
        raise ValueError("learner.attention=varlen runs on GPUs in bfloat16 alone; sdpa runs everywhere")
    ours = {"auto": attention.NAME, "sdpa": attention.NAME, "eager": attention.PLAIN, "varlen": attention.VARLEN}
    return ours.get(settings.attention, settings.attention)


def shares_openings(model: torch.nn.Module, settings: LearnerSettings) -> bool:
    """Whether what games of a micro-batch begin with alike is computed once."""
    config = causal_model(model).config.get_text_config()
    on_card, why_not = bool(settings.gpus_per_rank), None
    if attention_kernel(settings) != attention.NAME:
        why_not = f"learner.attention={settings.attention} computes every game by itself: set it to sdpa"
    elif on_card and not half_precision(settings):
        why_not = "on GPUs its kernel computes in bfloat16 alone: set learner.dtype=bfloat16"
    elif getattr(config, "sliding_window", None) or getattr(config, "attn_logit_softcapping", None):
        why_not = f"{config.model_type} has a sliding window or capped scores, which its kernel does not know"
    elif settings.loss.router_aux or settings.router_replay:
        why_not = "learner.loss.router_aux and learner.router_replay count every game's own tokens"
    if settings.share_openings and why_not:
        raise ValueError(f"learner.share_openings: {why_not}, or leave learner.share_openings out")
    asked = settings.share_openings if settings.share_openings is not None else not on_card
    return asked and why_not is None


def load_model(
    path: str,
    settings: LearnerSettings,
    seed: int,
    revision: str | None = None,
    trust_remote_code: bool = False,
    sharded: bool = False,
) -> torch.nn.Module:
    """A causal LM ready to train; with an adapter when settings.lora.rank is above 0.
    The adapter's first weights depend on `seed` alone, so all ranks make the same. With `sharded`,
    a collective of all ranks, each of them only ever holds its part of the weights, as ZeRO-3
    cuts them, and one layer's tensor at a time."""
    try:
        config = AutoConfig.from_pretrained(path, revision=revision, trust_remote_code=trust_remote_code)
        without_noise(config)
        with in_shards(settings) if sharded else nullcontext():
            model = AutoModelForCausalLM.from_pretrained(
                path,
                config=config,
                revision=revision,
                trust_remote_code=trust_remote_code,
                dtype=compute_dtype(settings),
                attn_implementation=attention_kernel(settings),
            )
        if sharded:
            restore_buffers(model, trust_remote_code)
    except (OSError, ValueError, ImportError) as error:
        raise ValueError(f"model {path!r} cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    model.config.use_cache = False
    if compute_dtype(settings) == torch.float32:
        by_hand.take_over(model)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if settings.lora.rank:
        model = _with_adapter(model, settings, seed)
    if settings.compile:
        compile_feed_forward(model)
    return model


def without_noise(config: PreTrainedConfig) -> None:
    """Engines play without dropout and jitter, and a ratio compares the policy with what played."""
    inner = [value for value in vars(config).values() if isinstance(value, PreTrainedConfig)]
    for part in (config, config.get_text_config(), *inner):
        for name, value in part.to_dict().items():
            if ("drop" in name or "jitter" in name) and isinstance(value, float):
                setattr(part, name, 0.0)


@contextmanager
def in_shards(settings: LearnerSettings) -> Iterator[None]:
    """What transformers loads meanwhile is cut up by DeepSpeed, tensor by tensor, as it is made."""
    from transformers.integrations.deepspeed import HfDeepSpeedConfig, unset_hf_deepspeed_config

    kept = HfDeepSpeedConfig(deepspeed_config(settings))  # transformers knows it as long as somebody holds it
    try:
        yield
    finally:
        unset_hf_deepspeed_config()
        del kept


def restore_buffers(model: PreTrainedModel, trust_remote_code: bool) -> None:
    """What is computed and not loaded, as rotary frequencies: DeepSpeed made it in the type of the weights."""
    from accelerate import init_empty_weights

    with init_empty_weights(include_buffers=False):
        plain = AutoModelForCausalLM.from_config(model.config, dtype=model.dtype, trust_remote_code=trust_remote_code)
    loaded = model.state_dict().keys()
    for (name, own), (_, exact) in zip(model.named_buffers(), plain.named_buffers(), strict=True):
        if name not in loaded:
            own.data = exact.to(own.device)


def compile_feed_forward(model: torch.nn.Module) -> None:
    """Of each layer: its work depends on the number of tokens alone, so one dynamic shape serves
    all packs. Attention is fused already, and its shapes change with every pack."""
    for part in feed_forward(model):
        part.compile(dynamic=True)


def feed_forward(model: torch.nn.Module) -> list[torch.nn.Module]:
    parts = [module for name, module in model.named_modules() if name.rpartition(".")[2] == "mlp"]
    if not parts:
        raise ValueError(f"learner.compile: the layers of {type(model).__name__} have no part named mlp")
    return parts


def _with_adapter(model: PreTrainedModel, settings: LearnerSettings, seed: int) -> torch.nn.Module:
    from peft import LoraConfig, get_peft_model

    lora = settings.lora
    targets = adapter_layers(model, lora.targets)
    if settings.gradient_checkpointing:
        model.enable_input_require_grads()
    torch.manual_seed(seed)
    return get_peft_model(
        model,
        LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=targets, task_type="CAUSAL_LM"),
        autocast_adapter_dtype=False,  # under ZeRO-3 it would stay in float32, and engines hold it in half precision
    )


def adapter_layers(model: torch.nn.Module, targets: Sequence[str]) -> list[str]:
    """The names of the layers that get an adapter; targets that the model does not have are refused."""
    kinds = torch.nn.Linear, torch.nn.Embedding, Conv1D
    found = [name.split(".") for name, module in model.named_modules() if isinstance(module, kinds)]
    able = {name[-1] for name in found}
    if ALL_LINEAR in targets:  # of the blocks, which are numbered: neither the embedding nor the head
        inside = [name for name in found if any(map(str.isdigit, name))]
        if any(getattr(model.config.get_text_config(), count, None) for count in EXPERT_COUNTS):
            inside = [name for name in inside if any("attn" in part or "attention" in part for part in name)]
        targets = [*(target for target in targets if target != ALL_LINEAR), *(name[-1] for name in inside)]
    missing = sorted(set(targets) - able)
    if missing:
        raise ValueError(
            f"learner.lora.targets: the model has no layer named {', '.join(missing)}; those that can have an "
            f"adapter: {', '.join(sorted(able))}"
        )
    return sorted(set(targets))


def fingerprint(module: torch.nn.Module) -> str:
    """Of names and shapes: two models share it exactly when one's weights fit the other."""
    shapes = [(name, list(getattr(p, "ds_shape", p.shape))) for name, p in module.named_parameters()]
    return hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16]


def pack_logprobs(model: torch.nn.Module, pack: Pack, temperature: float, device: torch.device) -> torch.Tensor:
    """Log-probs of the pack's predicted tokens, and of what was chosen from a list, in one
    forward pass."""
    return _read(model, pack, temperature, device, None)[0]


def pack_logprobs_and_entropies(
    model: torch.nn.Module, pack: Pack, temperature: float, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Also the entropy of the whole distribution at each of these tokens."""
    return _read(model, pack, temperature, device, "entropy")


def pack_logprobs_and_best(
    model: torch.nn.Module, pack: Pack, temperature: float, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Also the log-prob of the likeliest token at each of these places, without a gradient."""
    return _read(model, pack, temperature, device, "best")


def causal_model(model: torch.nn.Module) -> torch.nn.Module:
    """The one inside DeepSpeed's engine and PEFT's wrapper."""
    model = getattr(model, "module", model)
    return model.get_base_model() if hasattr(model, "peft_config") else model


def places_of(model: torch.nn.Module) -> int:
    """How many tokens a sequence of it may have."""
    text = causal_model(model).config.get_text_config()
    return min(getattr(text, "max_position_embeddings", None) or sys.maxsize, longrope_limit(text) or sys.maxsize)


def longrope_limit(text: PreTrainedConfig) -> int | None:
    """The length beyond which its longest sequence changes how all tokens of a pack are turned."""
    rope = getattr(text, "rope_parameters", None) or {}
    kinds = (rope, *(of_layers for of_layers in rope.values() if isinstance(of_layers, dict)))
    found = [each["original_max_position_embeddings"] for each in kinds if each.get("rope_type") == "longrope"]
    return min(found, default=None)


def _read(
    model: torch.nn.Module, pack: Pack, temperature: float, device: torch.device, beside: str | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    own, inner = len(pack.keep), causal_model(model)
    listed = pack.listed
    targets = torch.from_numpy(pack.targets if listed is None else np.concatenate([pack.targets, listed.targets]))
    targets = targets.to(device)
    if in_slices(inner, len(targets)):
        temperatures = None
        if temperature != 1:
            temperatures = torch.ones(len(targets), device=device)
            temperatures[:own] = temperature  # what is listed is scored at 1
        with read_at_head(inner, targets, temperatures, beside) as read:
            _forward(model, pack, device)
        logprobs, found = read[0][:, 0], read[0][:own, 1] if beside else None
    else:
        logits = _forward(model, pack, device).logits[0]
        logprobs = target_logprobs(logits[:own], targets[:own], temperature)
        found = BESIDE[beside](logits[:own], temperature) if beside else None
        if listed is not None:
            logprobs = torch.cat([logprobs, target_logprobs(logits[own:], targets[own:], 1.0)])
    if listed is None:
        return logprobs, found
    logprobs, of_choices = decided(logprobs[:own], logprobs[own:], listed)
    if beside:
        found = found.index_copy(0, torch.from_numpy(listed.decision).to(device), of_choices[beside])
    return logprobs, found


def _forward(model: torch.nn.Module, pack: Pack, device: torch.device) -> Any:
    """The head is asked only at positions that predict a token."""
    ends = torch.from_numpy(pack.lengths).cumsum(0).to(torch.int32)
    bounds = torch.cat([torch.zeros(1, dtype=torch.int32), ends]).to(device)
    longest = int(pack.lengths.max())
    if pack.listed is None:
        keep, layout = pack.keep, attention.layout(pack.lengths, device, gone_on=pack.until)
    else:
        keep = np.concatenate([pack.keep, pack.listed.keep])
        layout = attention.layout(pack.lengths, device, pack.listed.until, pack.listed.begin)
    return model(
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


def adapter_config(module: torch.nn.Module) -> dict[str, Any]:
    """What PEFT writes to adapter_config.json, as plain JSON values. A base model in a node's cache of the
    hub goes by the name and the commit that it has there, which hold everywhere."""
    config = module.peft_config["default"].to_dict()
    config["inference_mode"] = True
    cached = re.fullmatch(r".*/models--([^/]+)/snapshots/([0-9a-f]{40})", config["base_model_name_or_path"] or "")
    if cached:
        config |= {"base_model_name_or_path": cached[1].replace("--", "/"), "revision": cached[2]}
    return json.loads(json.dumps(config, default=lambda value: sorted(value) if isinstance(value, set) else str(value)))


def write_adapter(folder: Path, module: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    from safetensors.torch import save_file

    save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps(adapter_config(module), indent=2, sort_keys=True))
