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


def sliding_window(config: PretrainedConfig) -> int | None:
    """Of the layers that see so many tokens and no more; None where every layer sees all."""
    kinds = getattr(config, "layer_types", None) or ("sliding_attention",)  # none named: every layer has the window
    return (getattr(config, "sliding_window", None) or None) if "sliding_attention" in kinds else None
