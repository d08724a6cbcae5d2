"""A small random model of each family that Parley trains, with a game's own vocabulary.

The weights are random and nothing is learnt; what makes a family different is there: windows
shorter than a game, capped scores and logits, learnt positions, biases, grouped heads, experts.
Weights are large enough that every part of a model moves its log-probs by more than rounding does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerBase

WIDTH = 32  # of a head: the smallest that vLLM's CPU attention supports
WINDOW = 16  # tokens: games are longer
CONTEXT = 512

LLAMA_LIKE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}
GEMMA = LLAMA_LIKE | {
    "head_dim": WIDTH,
    "query_pre_attn_scalar": 32,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"],
    "hidden_activation": "gelu_pytorch_tanh",
}
SHAPES: dict[str, dict[str, Any]] = {
    "qwen3": LLAMA_LIKE | {"head_dim": WIDTH},
    "llama": LLAMA_LIKE | {"head_dim": WIDTH},
    "mistral": LLAMA_LIKE | {"head_dim": WIDTH, "sliding_window": WINDOW},
    "gemma2": GEMMA | {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0},
    "gemma3_text": GEMMA,
    "phi3": LLAMA_LIKE | {"hidden_size": 128, "resid_pdrop": 0.0},
    "gpt_neox": {
        "hidden_size": 128,
        "intermediate_size": 192,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": CONTEXT,
    },
    "opt": {
        "hidden_size": 128,
        "ffn_dim": 192,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "word_embed_proj_dim": 128,
        "max_position_embeddings": CONTEXT,
        "dropout": 0.0,
    },
    "qwen3_moe": LLAMA_LIKE
    | {"head_dim": WIDTH, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
    | {"norm_topk_prob": True},
    "mixtral": LLAMA_LIKE | {"head_dim": WIDTH, "num_local_experts": 4, "num_experts_per_tok": 2},
}
EXPERTS = ("qwen3_moe", "mixtral")
# Where the code of the family ties the output head to the embedding whatever the configuration says
ALWAYS_TIED = ("gemma2",)
FORMS = [(family, tied) for family in SHAPES for tied in (False, True) if tied or family not in ALWAYS_TIED]


def projections(family: str) -> list[str]:
    """The layers that get an adapter."""
    fused = {"phi3": ["qkv_proj", "o_proj"], "gpt_neox": ["query_key_value", "dense"]}
    return fused.get(family, ["q_proj", "v_proj", "out_proj" if family == "opt" else "o_proj"])


def make(family: str, tied: bool, tokenizer: PreTrainedTokenizerBase, folder: Path, seed: int = 0) -> Path:
    """A folder that transformers and vLLM load like any other model."""
    config = AutoConfig.for_model(
        family,
        **SHAPES[family],
        vocab_size=len(tokenizer),
        tie_word_embeddings=tied,
        initializer_range=0.1,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        dtype=torch.float32,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config).float()
        with torch.no_grad():
            for parameter in model.parameters():  # norms and biases too: at 1 and 0 a swapped pair would not show
                parameter.add_(torch.randn_like(parameter) * 0.05)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
