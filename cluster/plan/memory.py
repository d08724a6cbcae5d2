"""What each part of a run takes of a card, in bytes.

    learner, at rest    weights + optimiser + transit + runtime
    learner, at work    that + gradients + activations + logits
    engine              weights + activations + logits + cache + transit + runtime
    engine, asleep      runtime

P weights of b bytes on N ranks, after what DeepSpeed makes of them:

    stage    weights                  gradients          optimiser (master, two moments)
    0        b P                      b P                8 P, in half precision 12 P
    1        b P                      4 P, half 6 P      12 P / N
    2        b P                      4 P / N            12 P / N
    3        b P / N + gathered       4 P / N            12 P / N

A step copies gradients, when activations and logits are gone; `gradients` has what these leave no room for. With an
adapter the gradients and the optimiser are those of its weights alone. `loss.kl_guard` keeps a copy of what
the optimiser steps, 4 bytes a weight, cut up as its states are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import ceil, log2

from cluster.plan.machine import GIB
from cluster.plan.shape import ModelShape
from cluster.recipe.config import RunConfig
from learners.model.slices import head_bytes
from learners.settings import REDUCE_BUCKET, LearnerSettings

MIB = 2**20
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
CUDA_CONTEXT = 600 * MIB  # of each process on a card: CUDA itself, its kernels, cuBLAS
NCCL = 1024 * MIB  # of a rank: buffers of NCCL, workspaces of cuBLAS; measured on an H100
CUDA_GRAPHS = 1024 * MIB  # of an engine: what its captured graphs keep
HELD_BACK = 0.05  # of a card: what the allocator cannot use, and what arithmetic does not know
GATHERED = 1_000_000_000  # weights that ZeRO-3 holds gathered, and steps, at once
REDUCED = 500_000_000  # weights whose gradients are reduced at once without ZeRO
VLLM_ON_CPU = 100 * MIB  # of an engine: what vLLM holds beside the model and the cache; benchmarks/memory.py
# The products of a layer, by what goes in: the layer's input, heads, the feed-forward part's input and its inside
READ = frozenset({"q_proj", "k_proj", "v_proj", "qkv_proj", "query_key_value"})
MIX = frozenset({"o_proj", "out_proj", "dense"})
WIDEN = frozenset({"gate_proj", "up_proj", "gate_up_proj", "fc1", "dense_h_to_4h"})
NARROW = frozenset({"down_proj", "fc2", "dense_4h_to_h"})
LORA_SLOT_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM reserves room for


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes on one card (of the node's memory where there is no card)."""

    weights: float = 0.0
    gradients: float = 0.0
    optimiser: float = 0.0
    activations: float = 0.0
    logits: float = 0.0
    cache: float = 0.0
    transit: float = 0.0
    runtime: float = 0.0

    @property
    def total(self) -> float:
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def at_rest(self) -> float:
        """Of a learner between two updates, of an engine without its cache."""
        return self.weights + self.optimiser + self.transit + self.runtime


def learner(config: RunConfig, shape: ModelShape) -> Need:
    """Of one rank at the peak of an update."""
    settings = config.learner
    size, on_gpu, ranks = BYTES[settings.dtype], bool(settings.gpus_per_rank), settings.ranks
    adapter = shape.adapter_parameters(settings.lora.rank, settings.lora.targets) if settings.lora.rank else 0
    trained = adapter or shape.parameters
    held = shape.parameters + adapter
    weights = size * held
    if settings.zero == 3:
        own = 0 if settings.offload_parameters and on_gpu else held / ranks
        weights = size * (own + (min(held, GATHERED) if own < held else 0))
    if reads_base(settings) and not adapter:  # the reference, whole on every rank unless ZeRO-3 cuts it up
        weights += size * (own if settings.zero == 3 else shape.parameters)
    gradients, optimiser = _training(trained, settings, size)
    kept = activations(shape, settings, size)
    logits = head_bytes(settings.tokens_per_micro_batch, shape.vocabulary, shape.hidden)
    gradients += max(0.0, _copied(trained, settings, size, shape) - kept - logits)
    if settings.offload_optimizer and on_gpu:
        optimiser = 0.0
        if settings.zero == 3:
            gradients = 0.0
    if settings.zero and on_gpu:  # where there is no card, what is not used of it is never there
        gradients += (4 if settings.zero == 1 else size) * REDUCE_BUCKET
    return Need(
        weights=weights,
        gradients=gradients,
        optimiser=optimiser,
        activations=kept,
        logits=logits,
        transit=transit(config, shape, size),
        runtime=CUDA_CONTEXT + NCCL if on_gpu else 0.0,
    )


def offloaded(config: RunConfig, shape: ModelShape) -> float:
    """Of one rank on a card, what lies in its node's memory: states and gradients of the optimiser, weights."""
    settings, found = config.learner, 0.0
    if not settings.gpus_per_rank:
        return found
    size, ranks = BYTES[settings.dtype], settings.ranks
    adapter = shape.adapter_parameters(settings.lora.rank, settings.lora.targets) if settings.lora.rank else 0
    trained = adapter or shape.parameters
    if settings.offload_optimizer:
        share, guard = trained / ranks, 4 if settings.loss.kl_guard is not None else 0
        if settings.zero == 3:
            found += (20 + guard) * share
        else:  # moments; weights, gradients and what goes to the card and back are page-locked
            found += (8 + guard) * share + 2 * locked(4 * share) + locked(size * share)
            found += locked(size * shape.largest_tensor)
    if settings.offload_parameters and settings.zero == 3:
        found += size * (shape.parameters + adapter) / ranks
    return found


def asleep(config: RunConfig, shape: ModelShape) -> float:
    """Of one vLLM engine in the memory of its node, which keeps it for as long as the engine lives."""
    engine = config.rollout.engine
    size = BYTES[engine.dtype]
    return engine.tensor_parallel * sum(locked(size * tensor / engine.tensor_parallel) for tensor in shape.tensors)


def locked(size: float) -> float:
    """Page-locked memory: torch takes a power of two."""
    return 2.0 ** ceil(log2(size)) if size else 0.0


def reads_base(settings: LearnerSettings) -> bool:
    """Whether a rank holds the weights that the run started from, beside those it trains."""
    penalty, critic = settings.loss.kl or settings.credit.penalty, settings.credit.critic_settings
    return bool(penalty) or (critic is not None and critic.states == "base")


def transit(config: RunConfig, shape: ModelShape, size: int) -> float:
    """A bucket of weights on its way, at most all of them; a tensor that is larger than a bucket travels alone."""
    if config.learner.lora.rank:
        return 0.0
    return max(min(config.learner.sync.bucket_mib * MIB, size * shape.parameters), size * shape.largest_tensor)


def _training(trained: float, settings: LearnerSettings, size: int) -> tuple[float, float]:
    """Gradients, and the optimiser's states."""
    ranks, guard = settings.ranks, 4 if settings.loss.kl_guard is not None else 0
    if settings.zero == 0:
        return size * trained, ((12 if size == 2 else 8) + guard) * trained
    shared = ranks if settings.zero > 1 else 1
    beside = 0.0  # those of a pass, beside their sum
    if settings.zero == 1 and size == 2:
        beside = 2 * trained
    if settings.zero == 2 and size == 4 and settings.gpus_per_rank:
        beside = 4 * trained / ranks
    return 4 * trained / shared + beside, (12 + guard) * trained / ranks


def _copied(trained: float, settings: LearnerSettings, size: int, shape: ModelShape) -> float:
    """What a step copies of the gradients: in float32 the whole part that a rank steps, in one piece. In half precision
    ZeRO 1 and 2 sum them in one piece, and copy them to be sent, or tensor by tensor in 8 bytes for their norm."""
    if settings.zero == 0:
        return 4 * (trained if size == 2 else min(trained, REDUCED))
    if settings.zero == 3:
        return 4 * min(trained / settings.ranks, GATHERED)
    if size == 4:
        return 4 * trained / settings.ranks
    return 2 * trained if settings.zero == 1 else 8 * min(shape.largest_tensor, trained / settings.ranks)


def activations(shape: ModelShape, settings: LearnerSettings, size: int) -> float:
    """What the forward pass of a micro-batch keeps for the backward pass."""
    adapted = settings.lora.targets if settings.lora.rank else None
    tokens, layer = settings.tokens_per_micro_batch, layer_activations(shape, size, adapted)
    if settings.gradient_checkpointing:
        return tokens * (shape.layers * size * shape.hidden + layer)
    return tokens * shape.layers * layer


def layer_activations(shape: ModelShape, size: int, adapted: Sequence[str] | None = None) -> float:
    """Bytes that one token leaves behind in one layer. Norms keep what goes in, in float32, and products keep what
    goes in; norms keep what comes out too, where their weights are trained. `adapted`: the modules that have an
    adapter, where the weights are frozen; other products then keep nothing. None: every weight is trained."""
    normed = 2 * shape.hidden + (shape.query_width + shape.key_width if shape.query_norms else 0)
    products = {READ: shape.hidden, MIX: shape.query_width, WIDEN: shape.hidden, NARROW: shape.inner_width}
    kept = sum(width for names, width in products.items() if adapted is None or _adapts(adapted, names))
    activation = shape.inner_width * (3 if shape.gated else 1)
    attention = 2 * shape.query_width + 2 * shape.key_width
    return normed * (4 if adapted is not None else 4 + size) + size * (kept + activation + attention)


def _adapts(targets: Sequence[str], names: frozenset[str]) -> bool:
    """Whether a target is one of these products, or one of an architecture that is not known here."""
    return any(target in names or target not in READ | MIX | WIDEN | NARROW for target in targets)


def engine(config: RunConfig, shape: ModelShape, frozen: float = 0.0) -> Need:
    """Of one card of one rollout worker, its cache left out; `frozen`: bytes of the frozen players."""
    settings = config.rollout.engine
    size, parallel = BYTES[settings.dtype], settings.tensor_parallel
    on_gpu, rank = bool(config.rollout.gpus_per_worker), config.learner.lora.rank
    plain = settings.kind == "transformers"
    weights = size * shape.parameters / parallel
    if rank:
        slot = next((slot for slot in LORA_SLOT_RANKS if slot >= rank), rank)
        weights += size * shape.adapter_parameters(slot, config.learner.lora.targets)
        if plain and not on_gpu:  # the weights without the adapter, which a card's worker keeps beside the card
            weights += size * (shape.parameters - shape.vocabulary * shape.hidden)
    step = max(settings.max_batched_tokens, settings.max_sequences if on_gpu else settings.max_context)
    widest = max(2 * shape.inner_width if shape.gated else shape.inner_width, shape.query_width + 2 * shape.key_width)
    graphs = CUDA_GRAPHS if on_gpu and not plain and not settings.enforce_eager else 0.0
    return Need(
        weights=weights + frozen,
        activations=size * step * (3 * shape.hidden + 2 * widest / parallel),
        logits=4 * 3 * settings.max_sequences * shape.vocabulary,
        transit=transit(config, shape, size),
        runtime=CUDA_CONTEXT + graphs if on_gpu else 0.0 if plain else VLLM_ON_CPU,
    )


def cache_of(config: RunConfig, shape: ModelShape, sequences: float) -> float:
    """Bytes of the keys and values of so many sequences of full length on one card, which has one key head at least."""
    settings = config.rollout.engine
    parts = min(settings.tensor_parallel, shape.key_heads)
    return BYTES[settings.dtype] * shape.cached_width * settings.max_context * sequences / parts


def frozen_player(config: RunConfig, shape: ModelShape) -> float:
    """Bytes of a frozen player's weights and of the rows of its cache."""
    size = BYTES[config.rollout.engine.dtype]
    rows = config.rollout.frozen_sequences + 1
    return size * (shape.parameters + shape.cached_width * config.rollout.engine.max_context * rows)


def usable(gib: float) -> float:
    """Bytes of a card that a plan may fill."""
    return gib * GIB * (1 - HELD_BACK)
