"""What an engine can play, told from a model's configuration and vLLM's registry: no model is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.engines.vllm_platform import prepare_environment

if TYPE_CHECKING:
    from transformers import PretrainedConfig

# Whose output head is the embedding, whatever the configuration says
ALWAYS_TIED = {"Gemma2ForCausalLM"}


def check_head(architectures: list[str], tied: bool) -> None:
    """A ValueError if vLLM would leave out a head of the model's own."""
    if not tied and (untied := sorted(ALWAYS_TIED & set(architectures))):
        raise ValueError(
            f"vLLM plays {untied[0]} with the embedding as output head only, and this model has a head of its own "
            "(tie_word_embeddings is false); set rollout.engine.kind=transformers"
        )


def check_vllm_plays(architectures: list[str], backend_compatible: bool) -> None:
    """A ValueError if vLLM has no code for any of these. What it has none of its own for it runs
    by transformers' code, where that leaves attention to its caller (`backend_compatible`)."""
    prepare_environment()
    from vllm.model_executor.models.registry import ModelRegistry

    known = ModelRegistry.get_supported_archs()
    if not backend_compatible and not any(name in known for name in architectures):
        raise ValueError(
            f"vLLM does not know {' or '.join(architectures) or 'a model that names no architecture'}; "
            "set rollout.engine.kind=transformers"
        )


def check_plain_plays(config: PretrainedConfig, model_path: str, max_context: int) -> None:
    """A ValueError if the transformers engine, which keeps keys and values of whole contexts, cannot play it."""
    others = sorted(set(getattr(config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"})
    if others:
        raise ValueError(f"{model_path}: its layers of {others[0]} need rollout.engine.kind=vllm")
    window = sliding_window(config)
    if window is not None and window < max_context:
        raise ValueError(
            f"{model_path}: layers with a sliding window of {window} need rollout.engine.kind=vllm, "
            f"or rollout.engine.max_context of at most {window}"
        )
    limit = getattr(config, "max_position_embeddings", max_context)
    if max_context > limit:
        raise ValueError(f"rollout.engine.max_context={max_context}, but {model_path} reaches only {limit} positions")


def sliding_window(config: PretrainedConfig) -> int | None:
    """Of the layers that see so many tokens and no more; None where every layer sees all."""
    kinds = getattr(config, "layer_types", None) or ("sliding_attention",)  # none named: every layer has the window
    return (getattr(config, "sliding_window", None) or None) if "sliding_attention" in kinds else None
