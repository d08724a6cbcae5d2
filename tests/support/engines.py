"""Engines and the trainer's side of a sync, for the tests of the rollout floor.

An engine is started once in a test session and shared: a test that cares which weights it
holds sends them first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from actors.engines.contract import Completion, Engine, Request
from actors.settings import EngineSettings
from learners.transport.segment import Segment

torch.set_num_threads(1)  # tiny models: more threads only wait for each other

KINDS = ("vllm", "transformers")


def engine_settings(kind: str, dtype: str = "float32") -> EngineSettings:
    return EngineSettings(
        kind=kind, dtype=dtype, max_context=256, max_sequences=32, max_batched_tokens=512, cpu_cache_gib=0.01
    )


@cache
def shared_engine(kind: str, path: str, lora_rank: int = 0, dtype: str = "float32") -> Engine:
    transport = "adapter" if lora_rank else "shared_memory"
    if kind == "vllm":
        from actors.engines.vllm_engine import VllmEngine

        return VllmEngine(engine_settings(kind, dtype), path, transport=transport, lora_rank=lora_rank)
    from actors.engines.transformers_engine import TransformersEngine

    return TransformersEngine(engine_settings(kind, dtype), path, transport=transport, lora_rank=lora_rank)


def model_of(path: str, seed: int = 0, shake: float = 0.0, **options):
    """The folder's model in float32, every weight moved by noise of this size."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, **options).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * shake)
    return model


@torch.no_grad()
def model_logprobs(model, ids: Iterable[int], temperature: float = 1.0) -> np.ndarray:
    """Log-prob of each token after the first, from one whole forward pass."""
    row = torch.tensor([[int(token) for token in ids]])
    logp = torch.log_softmax(model(row).logits[0, :-1].float() / temperature, -1)
    return logp.gather(1, row[0, 1:, None])[:, 0].numpy()


def bucket_of(weights: Iterable[tuple[str, torch.Tensor]]) -> tuple[dict, np.ndarray]:
    info = {"names": [], "dtype_names": [], "shapes": [], "offsets": []}
    runs, end = [], 0
    for name, weight in weights:
        run = weight.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        info["names"].append(name)
        info["dtype_names"].append(str(weight.dtype).removeprefix("torch."))
        info["shapes"].append(list(weight.shape))
        info["offsets"].append(end)
        runs.append(run)
        end += len(run)
    return {**info, "nbytes": end}, np.concatenate(runs)


def send_bucket(engine: Engine, weights: Iterable[tuple[str, torch.Tensor]], **changes) -> None:
    info, payload = bucket_of(weights)
    segment = Segment(len(payload))
    try:
        segment.bytes[:] = payload
        engine.update_weights({**info, "segment": segment.name, **changes})
    finally:
        segment.close()


Weights = list[tuple[str, torch.Tensor]]
CUT = 5  # tensors in the first bucket


def send(engine: Engine, model, version: int, spoil: Callable[[Weights], Weights] = lambda weights: weights) -> None:
    """A whole sync of what `spoil` makes of the model's weights."""
    send_weights(engine, spoil([(name, weight.detach()) for name, weight in model.named_parameters()]), version)


def send_weights(engine: Engine, weights: Weights, version: int) -> None:
    """In two buckets."""
    engine.init_weight_transfer_engine({})
    engine.start_weight_update()
    send_bucket(engine, weights[:CUT])
    send_bucket(engine, weights[CUT:])
    engine.finish_weight_update(str(version))


def send_adapter(engine: Engine, ray, weights: Weights, peft_config: dict, version: int) -> None:
    info, payload = bucket_of(weights)
    info |= {"reference": [ray.put(payload)], "peft_config": peft_config}
    engine.start_weight_update()
    engine.update_weights(info)
    engine.finish_weight_update(str(version))


def drain(engine: Engine) -> dict[str, Completion]:
    done = {}
    while engine.busy():
        done |= {completion.id: completion for completion in engine.step()}
    return done


def requests(
    count: int, vocabulary: int, *, prompt: int = 20, tokens: int = 24, seed: int = 0, temperature: float = 1.0
) -> list[Request]:
    """Random prompts; token 1 stops them. The same arguments give the same requests."""
    rng = np.random.default_rng(seed)
    prompts = rng.integers(3, vocabulary, (count, prompt)).tolist()
    return [
        Request(f"s{seed}-{number}", tuple(ids), tokens, temperature, 1000 * seed + number, (1,))
        for number, ids in enumerate(prompts)
    ]


def run(engine: Engine, wanted: list[Request]) -> dict[str, Completion]:
    for request in wanted:
        engine.submit(request)
    return drain(engine)


def largest_gap(model, request: Request, completion: Completion, only: np.ndarray | None = None) -> float:
    """Between the completion's log-probs and the model's, over the tokens that `only` marks."""
    ids = [*request.prompt_ids, *completion.token_ids.tolist()]
    expected = model_logprobs(model, ids, request.temperature)[len(request.prompt_ids) - 1 :]
    gaps = np.abs(expected - completion.logprobs)
    return float(gaps.max() if only is None else gaps[only].max(initial=0.0))
