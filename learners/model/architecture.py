"""What can be told of a model before one of its weights is read: whether it can be trained as the
settings ask. Each reason is one line that names what to change."""

from __future__ import annotations

import logging

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from actors.wire.routers import check_replayable, router_modules
from learners.model.checkpoint_form import checkpoint_forms
from learners.model.load import adapter_layers, feed_forward, shares_openings
from learners.settings import LearnerSettings

# Each is tried through the whole loop: benchmarks/families.py
TRIED = {
    *("Gemma2ForCausalLM", "Gemma3ForCausalLM", "GPTNeoXForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"),
    *("MixtralForCausalLM", "OPTForCausalLM", "Phi3ForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM"),
}
SENSES = ("vision_config", "audio_config")
BY_CHANCE = {"PhimoeForCausalLM"}  # whose routers draw experts while they are trained
LAYERS = {"full_attention", "sliding_attention"}  # what learners/model/attention.py computes


def check_architecture(
    config: PretrainedConfig, settings: LearnerSettings, trust_remote_code: bool = False
) -> PreTrainedModel:
    """A ValueError says why a model of this configuration cannot be trained; returns its skeleton."""
    kind = config.model_type
    if config.is_encoder_decoder:
        raise ValueError(f"{kind} models have an encoder and a decoder; only causal language models can be trained")
    senses = [name for name in SENSES if getattr(config, name, None) is not None]
    if senses:
        raise ValueError(
            f"{kind} models have a {senses[0]}, and their text part is not trained by itself: save that as a model "
            "of its own and give its folder"
        )
    if class_of(config) is None and not hasattr(config, "auto_map"):
        raise ValueError(f"{kind} models are no causal language models in transformers")
    quantised = getattr(config, "quantization_config", None)
    if quantised is not None and not settings.lora.rank:
        method = quantised["quant_method"] if isinstance(quantised, dict) else quantised.quant_method
        raise ValueError(
            f"its weights are quantised ({method}) and have no gradient: give the model they were made from, or set "
            "learner.lora.rank to train an adapter"
        )
    model = skeleton(config, trust_remote_code)
    check_structure(model, settings)
    return model


def skeleton(config: PretrainedConfig, trust_remote_code: bool) -> PreTrainedModel:
    """The model's modules, with tensors that have no content."""
    warnings = logging.getLogger("transformers")
    level = warnings.level
    warnings.setLevel(logging.ERROR)
    try:
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)
    finally:
        warnings.setLevel(level)


def check_structure(model: PreTrainedModel, settings: LearnerSettings) -> None:
    kind = type(model).__name__
    others = sorted(set(getattr(model.config, "layer_types", None) or ()) - LAYERS)
    if others or model._is_stateful:
        what = f"layers of {others[0]}" if others else "layers that keep a state"
        raise ValueError(f"{kind} has {what}, which would mix the sequences that are packed together")
    if kind in BY_CHANCE:
        raise ValueError(f"{kind} draws its experts by chance while it is trained, and engines do not")
    if any(getattr(module, "is_causal", True) is False for module in model.modules()):
        raise ValueError(f"{kind} attends to what comes after a token, so it cannot play")
    if not model._supports_attention_backend:
        raise ValueError(f"{kind} has an attention of its own, which would mix the sequences that are packed together")
    if any(name.endswith(".sinks") for name, _ in model.named_parameters()):
        raise ValueError(f"{kind} has attention sinks, which no kernel of learner.attention computes")
    if settings.lora.rank:
        adapter_layers(model, settings.lora.targets)
    else:
        checkpoint_forms(model, dict(model.named_parameters()))
    if settings.compile:
        feed_forward(model)
    if settings.loss.router_aux and not router_modules(model):
        raise ValueError(f"learner.loss.router_aux={settings.loss.router_aux:g}, but {kind} has no experts to balance")
    if settings.router_replay:
        check_replayable(model)
    shares_openings(model, settings)


def class_of(config: PretrainedConfig) -> type[PreTrainedModel] | None:
    """transformers' causal language model of this kind, if it has one."""
    return MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)


def tried(config: PretrainedConfig) -> bool:
    return bool(TRIED & set(config.architectures or ()))
