"""A policy as one whole model: an adapter is merged into the model that it was made for."""

from __future__ import annotations

from pathlib import Path

from cluster.errors import ConfigError


def is_adapter(model: str | Path) -> bool:
    return (Path(model) / "adapter_config.json").is_file()


def merge(adapter: str | Path, into: Path) -> Path:
    """`into` holds the whole model then, with its tokenizer."""
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoTokenizer

    from actors.serving import base_of

    try:
        AutoPeftModelForCausalLM.from_pretrained(adapter).merge_and_unload().save_pretrained(into)
        AutoTokenizer.from_pretrained(adapter).save_pretrained(into)
    except OSError as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"adapter {adapter} was made for {base_of(Path(adapter))!r}, which cannot be loaded: {reason}"
        ) from error
    return into
