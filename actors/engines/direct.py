"""The forward pass of a small Qwen3, straight from its weights to its logits.

transformers goes through some thirty modules and rebuilds masks and angles in every pass. With a model as small as
the embedded policy that takes longer than its arithmetic. Here the same operations follow one another, on the same
numbers in the same order, so the logits are the same bit for bit. The weights are the model's own parameters, which
an update changes in place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from transformers import PreTrainedModel
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3ForCausalLM

from actors.engines.slot_cache import SlotCache, SlotLayer


def direct(model: PreTrainedModel, cache: SlotCache) -> Direct | None:
    """None for models that only their own code computes: of another class, shape or precision, or on a GPU."""
    config = model.config
    fits = (
        type(model) is Qwen3ForCausalLM
        and config.num_key_value_heads == config.num_attention_heads
        and set(config.layer_types) == {"full_attention"}
        and (config.hidden_act, config.rope_parameters["rope_type"], config.attention_bias)
        == ("silu", "default", False)
        and all((each.dtype, each.device.type) == (torch.float32, "cpu") for each in model.parameters())
    )
    return Direct(model, cache) if fits else None


class Direct:
    def __init__(self, model: Qwen3ForCausalLM, cache: SlotCache):
        config = model.config
        self.cache, self.epsilon = cache, config.rms_norm_eps
        self.words, self.norm, self.head = (
            model.model.embed_tokens.weight,
            model.model.norm.weight,
            model.lm_head.weight,
        )
        self.layers = [Layer.of(layer, config.num_attention_heads) for layer in model.model.layers]
        places = torch.arange(cache.positions)
        angles = places[:, None].float() * model.model.rotary_emb.inv_freq
        angles = torch.cat((angles, angles), -1)[:, None, :]  # the same for every head
        self.cos, self.sin = angles.cos(), angles.sin()
        self.seen, self.unseen = torch.zeros(()), torch.tensor(-torch.inf)

    def __call__(self, ids: torch.Tensor, position: torch.Tensor, visible: torch.Tensor, last: int) -> torch.Tensor:
        """float32 [rows, last, vocabulary]. `ids` and `position`: int64 [rows, queries]; `visible`: bool
        [rows, 1, queries, places]."""
        hidden = F.embedding(ids, self.words)
        mask = torch.where(visible, self.seen, self.unseen)
        turns = self.cos[position], self.sin[position]
        for layer, kept in zip(self.layers, self.cache.layers, strict=True):
            hidden = hidden + layer.attended(self.normed(hidden, layer.before), kept, turns, mask, self.epsilon)
            hidden = hidden + layer.thought(self.normed(hidden, layer.between))
        return F.linear(self.normed(hidden, self.norm)[:, -last:], self.head)

    def normed(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(rows, weight.shape, weight, self.epsilon)


@dataclass(frozen=True)
class Layer:
    """The weights of one layer."""

    heads: int
    scale: float
    before: torch.Tensor  # norms: before attention, between it and the feed-forward part
    between: torch.Tensor
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    query_norm: torch.Tensor
    key_norm: torch.Tensor
    out: torch.Tensor
    gate: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor

    @classmethod
    def of(cls, layer: Qwen3DecoderLayer, heads: int) -> Layer:
        part, inner = layer.self_attn, layer.mlp
        modules = layer.input_layernorm, layer.post_attention_layernorm, part.q_proj, part.k_proj, part.v_proj
        modules = *modules, part.q_norm, part.k_norm, part.o_proj, inner.gate_proj, inner.up_proj, inner.down_proj
        return cls(heads, part.scaling, *(module.weight for module in modules))

    def attended(
        self,
        seen: torch.Tensor,
        kept: SlotLayer,
        turns: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor,
        epsilon: float,
    ) -> torch.Tensor:
        rows, queries, _ = seen.shape
        # queries and keys have norms and turns alike, so one pass serves both
        both = torch.cat((F.linear(seen, self.query), F.linear(seen, self.key)), -1).view(
            rows, queries, 2 * self.heads, -1
        )
        weights = torch.cat((self.query_norm.expand(self.heads, -1), self.key_norm.expand(self.heads, -1)))
        both = turned(F.rms_norm(both, both.shape[-1:], None, epsilon).mul_(weights), *turns)
        query, key = (each.transpose(1, 2) for each in both.chunk(2, 2))
        value = F.linear(seen, self.value).view(rows, queries, self.heads, -1).transpose(1, 2)
        keys, values = kept.update(key, value)
        found = F.scaled_dot_product_attention(query, keys, values, mask, scale=self.scale)
        return F.linear(found.transpose(1, 2).reshape(rows, queries, -1), self.out)

    def thought(self, seen: torch.Tensor) -> torch.Tensor:
        gate = F.silu(F.linear(seen, self.gate), inplace=True)
        return F.linear(gate.mul_(F.linear(seen, self.up)), self.down)


def turned(rows: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Of each pair of numbers, which stand half a row apart, by its angle."""
    found = rows * cos
    (first, second), (one, other), (of_first, of_second) = (each.chunk(2, -1) for each in (found, rows, sin))
    first.sub_(other * of_first)
    second.add_(one * of_second)
    return found
