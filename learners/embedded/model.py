"""The embedded policy's network: a small Qwen3, the shape that both transformers and vLLM know.

The output head is its own matrix: vLLM's in-place weight update leaves a tied head stale.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from learners.settings import EmbeddedSettings

HEAD_WIDTH = 32  # the smallest that vLLM's CPU attention supports
ROPE_BASE = 100.0  # games are short: most of the rotations then tell near places apart
LONGEST = 4096  # tokens of context; rotary positions make it free


def make_model(settings: EmbeddedSettings, tokenizer: PreTrainedTokenizerBase) -> Qwen3ForCausalLM:
    """Fresh weights from torch's global random state, float32."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden,
        intermediate_size=4 * settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        head_dim=HEAD_WIDTH,
        max_position_embeddings=LONGEST,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE},
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        initializer_range=0.1,
        dtype=torch.float32,
    )
    return Qwen3ForCausalLM(config).float()
