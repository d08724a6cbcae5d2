"""A sync that left an engine with other weights than the trainer's stops the run and names the tensor.

Engine, receiver, digests, probe and the trainer's forward pass are the real ones; only the
fleet and the learners around them are folded into this process.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from actors.transport.digest import digest
from actors.transport.receipt import Receipt
from cluster.errors import ParityError, SyncError
from cluster.run.parity import Gap
from cluster.run.sync import WeightSync
from learners.settings import SyncSettings
from tests.support.engines import KINDS, model_logprobs, model_of, send, send_adapter, send_weights, shared_engine

DTYPES = ("float32", "bfloat16")
Q, K, UP = (f"model.layers.1.{name}_proj.weight" for name in ("self_attn.q", "self_attn.k", "mlp.up"))
HEAD, NORM = "lm_head.weight", "model.layers.0.input_layernorm.weight"


class OneEngineFleet:
    """What WeightSync needs of a fleet, around one engine."""

    gone = 0

    def __init__(self, engine):
        self.engine, self.paused, self.probes = engine, False, 0

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False

    def workers(self):
        return [self.engine]

    def joining(self):
        return []

    def replace_lost(self):
        return False

    def receipts(self):
        return {0: self.engine.receipt}

    def score(self, sequences):
        assert self.paused, "the probe runs before the engines go on"
        self.probes += 1
        return {0: self.engine.score(sequences)}


class Trainer:
    """What WeightSync needs of the learners: `transfer` says what really goes over."""

    rested = False

    def __init__(self, model, transfer=send, weights=None):
        self.model, self.transfer = model, transfer
        self.weights = weights or (lambda model: dict(model.named_parameters()))

    def send_weights(self, workers, version):
        (engine,) = workers
        self.transfer(engine, self.model, version)
        return {name: int(digest(weight)) for name, weight in self.weights(self.model).items()}

    def score(self, sequences):
        return [model_logprobs(self.model, sequence) for sequence in sequences]


def sync_of(engine, trainer, half=False, **settings) -> WeightSync:
    rows = np.random.default_rng(0).integers(0, 90, (4, 48)).tolist()
    return WeightSync(OneEngineFleet(engine), trainer, SyncSettings(**settings), sequences=lambda: rows, half=half)


def trained(path, seed: int, dtype: str = "float32", shake: float = 0.02):
    return model_of(path, seed=seed, shake=shake).to(getattr(torch, dtype))


@pytest.fixture(scope="module")
def path(tiny_model):
    return str(tiny_model)


def without(name):
    return lambda weights: [each for each in weights if each[0] != name]


def changed(name, change):
    return lambda weights: [(other, change(weight) if other == name else weight) for other, weight in weights]


def swapped(one, other):
    def spoil(weights):
        named = dict(weights)
        return [(name, named.get({one: other, other: one}.get(name, name))) for name, _ in weights]

    return spoil


def one_bit(weight):
    wrong = weight.clone()
    wrong.view(torch.int16).view(-1)[7] ^= 1
    return wrong


def half_zero(weight):
    """The rest of it never came."""
    wrong = weight.clone()
    wrong[len(wrong) // 2 :] = 0
    return wrong


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_goes_wrong_on_the_way_is_named(path, kind, dtype):
    """By learning steps of 1e-6, which change no log-prob that a probe could see."""
    engine = shared_engine(kind, path, dtype=dtype)
    old, new = trained(path, 31, dtype), trained(path, 31, dtype)
    with torch.no_grad():
        for weight in new.parameters():
            weight.view(-1)[::7] *= 1 + 2**-7 if dtype == "bfloat16" else 1 + 2**-20
    trainer = Trainer(old)
    sync = sync_of(engine, trainer, dtype == "bfloat16", probe=False)
    stale = dict(old.named_parameters())
    faults = [
        (changed(UP, lambda _: stale[UP].detach()), f"{UP} is stale: the values of the sync before arrived"),
        (swapped("model.layers.0.self_attn.k_proj.weight", K), f"{K} is swapped: the values of model.layers.0"),
        (without(K), f"{K} did not arrive"),
        (changed(HEAD, half_zero), f"{HEAD} was changed on the way"),
        (changed(Q, one_bit), f"{Q} was changed on the way"),
    ]
    for version, (spoil, named) in enumerate(faults):
        trainer.model, trainer.transfer = old, send
        sync.publish(2 * version)
        trainer.model, trainer.transfer = new, lambda *to, spoil=spoil: send(*to, spoil)
        with pytest.raises(ParityError) as error:
            sync.publish(2 * version + 1)
        assert f"version {2 * version + 1} is wrong in rollout worker 0: " in str(error.value) and named in str(
            error.value
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_honest_syncs_raise_no_alarm(path, kind, dtype):
    engine, half = shared_engine(kind, path, dtype=dtype), dtype != "float32"
    sync = sync_of(engine, Trainer(None), half, probe_every=4)
    for version in range(12):
        sync.learners.model = trained(path, version, dtype, shake=(0.0, 1e-3, 0.1)[version % 3])
        report = sync.publish(version)
        assert report.tensors == 25 and 0 <= report.parity_gap < (0.1 if half else 1e-4)
    assert sync.fleet.probes == 3, "at the first sync and every fourth"


def test_a_probe_of_openings_alone_is_made_again_when_there_are_games(path):
    """One token of few weighs much, so their limit is wider: the next sync has to show more."""
    assert Gap(9.0, 0.2, tokens=24).fault(half=True, tolerance=None) == ""
    assert "learner.sync.tolerance=0.1" in Gap(9.0, 0.2, tokens=96).fault(half=True, tolerance=None)
    assert "learner.sync.tolerance=0.15" in Gap(9.0, 0.2, tokens=24).fault(half=True, tolerance=0.15)
    texts = [[list(range(5, 29))], [list(range(5, 69))] * 2]
    sync = sync_of(shared_engine(KINDS[0], path), Trainer(trained(path, 4)), probe_every=0)
    sync.sequences = lambda: texts[min(sync.fleet.probes, 1)]
    for version in range(4):
        sync.publish(version)
    assert sync.fleet.probes == 2


@pytest.mark.parametrize("trainer_dtype", DTYPES)
def test_an_engine_in_another_type_is_compared_in_its_own(path, trainer_dtype):
    """What arrives has the trainer's bits; what is held has them rounded to the engine's type."""
    other = "bfloat16" if trainer_dtype == "float32" else "float32"
    for kind in KINDS:
        sync = sync_of(shared_engine(kind, path, dtype=other), Trainer(trained(path, 3, trainer_dtype)), half=True)
        assert 0 < sync.publish(1).parity_gap < 0.1


def watch_of(engine):
    return engine.engine.engine_core.engine_core.model_executor.driver_worker.worker.weight_watch


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_goes_wrong_inside_vllm_is_named(path, dtype, monkeypatch):
    """After every tensor has arrived as it was sent."""
    from vllm.model_executor.model_loader.reload import layerwise

    engine = shared_engine("vllm", path, dtype=dtype)
    trainer = Trainer(trained(path, 41, dtype))
    sync = sync_of(engine, trainer, dtype != "float32", probe=False)
    sync.publish(1)
    trainer.model = trained(path, 42, dtype)
    watch, copy_back = watch_of(engine), layerwise._copy_and_restore_kernel_tensors
    load = watch.load

    def reused(weights):
        """The buffer that one tensor came in is written again before its layer is complete."""
        kept = list(weights)
        result = load(kept)
        dict(kept)[Q].zero_() if Q in dict(kept) else None
        return result

    def skipped(weights):
        return load([each for each in weights if each[0] != NORM])

    def not_copied(layer, info):
        if type(layer).__name__ == "VocabParallelEmbedding" or layer.__class__.__name__ == "RMSNorm":
            layerwise._place_kernel_tensors(layer, info)
        else:
            copy_back(layer, info)

    with monkeypatch.context() as patch:
        patch.setattr(watch, "load", reused)
        patch.setattr("tests.support.engines.CUT", 13)  # q_proj comes in another bucket than k_proj and v_proj
        with pytest.raises(ParityError, match=f"{Q} is not what arrived: model.layers.1.self_attn.qkv_proj.weight"):
            sync.publish(2)
    with monkeypatch.context() as patch:
        patch.setattr(watch, "load", skipped)
        with pytest.raises(ParityError, match=f"{NORM} was left out: it keeps its old values; {NORM} arrived, but no"):
            sync.publish(3)
    trainer.model = trained(path, 43, dtype)
    with monkeypatch.context() as patch:
        patch.setattr(layerwise, "_copy_and_restore_kernel_tensors", not_copied)
        with pytest.raises(ParityError, match="(stale: model.layers.0|embed_tokens.weight is not what the kernels)"):
            sync.publish(4)
    sync.publish(5)


def test_a_tied_head_that_is_left_stale_stops_the_run(tiny_model, tmp_path, monkeypatch):
    """What vLLM's reload alone does to a tied model on CPU: no error, and old logits."""
    from actors.transport import vllm_receiver

    config = AutoConfig.from_pretrained(tiny_model)
    config.tie_word_embeddings = True
    torch.manual_seed(1)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    trainer = Trainer(trained(tmp_path, 35))
    sync = sync_of(shared_engine("vllm", str(tmp_path)), trainer)
    assert sync.publish(1).parity_gap < 1e-4
    trainer.model = trained(tmp_path, 36)

    def reload_only(engine):
        vllm_receiver.finalize_layerwise_reload(engine.model, engine.model_config)

    with monkeypatch.context() as patch:
        patch.setattr(vllm_receiver.BucketEngine, "finish_weight_update", reload_only)
        with pytest.raises(
            ParityError, match="embed_tokens.weight is stale: lm_head computes with an older packed copy"
        ):
            sync.publish(2)
        trainer.transfer = send_and_sign  # the probe alone finds it too
        with pytest.raises(
            ParityError, match=r"differs from the trainer by \d[\d.]* in a log-prob, .* \(.*tolerance=0.0001\)"
        ):
            sync_of(sync.fleet.engine, trainer).publish(3)


def send_and_sign(engine, model, version):
    """An engine whose receipt says that all is well."""
    send(engine, model, version)
    engine.receipt = Receipt(version, {name: int(digest(weight)) for name, weight in model.named_parameters()})


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_that_says_all_is_well_and_computes_with_other_weights_fails_the_probe(path, kind):
    """In half precision, by the mean; old weights by their own log-probs."""
    engine = shared_engine(kind, path, dtype="bfloat16")
    trainer = Trainer(trained(path, 51, "bfloat16", 0.05), send_and_sign)
    sync = sync_of(engine, trainer, half=True, probe_every=1)
    assert sync.publish(1).parity_gap < 0.1
    old, trainer.model = trainer.model, trained(path, 52, "bfloat16", 0.05)
    trainer.transfer = lambda engine, model, version: send_and_sign(engine, old, version)
    sync.learners.weights = lambda _: dict(old.named_parameters())
    with pytest.raises(ParityError, match=r"rollout worker 0 holds the weights sent, but differs from the trainer by"):
        sync.publish(2)


def mixture_of_experts(folder: Path):
    from transformers import Qwen3MoeConfig

    sizes = {"vocab_size": 90, "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32}
    shape = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "decoder_sparse_step": 1, "max_position_embeddings": 512}
    config = Qwen3MoeConfig(**sizes, **shape, **experts, tie_word_embeddings=False)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return str(folder)


@pytest.mark.long
def test_experts_are_compared_one_by_one(tmp_path, ray_cluster):
    """vLLM holds all experts of a layer in two tensors; a checkpoint has three for each. It runs none
    in a process that has run a model without any, so this is another one."""
    apart = ray_cluster.remote(num_cpus=0)(compare_experts)
    ray_cluster.get([apart.remote(tmp_path / dtype, dtype) for dtype in DTYPES], timeout=200)


def compare_experts(folder: Path, dtype: str) -> None:
    path = mixture_of_experts(folder)
    engine = shared_engine("vllm", path, dtype=dtype)

    def checkpoint(model):
        model.save_pretrained(folder / "out")
        return load_file(folder / "out" / "model.safetensors")

    trainer = Trainer(trained(path, 1, dtype), weights=checkpoint)
    sync = sync_of(engine, trainer, dtype != "float32", probe_every=1)
    spoil = list
    trainer.transfer = lambda engine, model, version: send_weights(engine, spoil(checkpoint(model).items()), version)
    assert sync.publish(1).parity_gap < (0.1 if dtype == "bfloat16" else 1e-4)
    old, trainer.model = checkpoint(trainer.model), trained(path, 2, dtype)
    gate, up, down = (f"model.layers.1.mlp.experts.2.{name}_proj.weight" for name in ("gate", "up", "down"))
    router, neighbour = "model.layers.1.mlp.gate.weight", gate.replace("experts.2", "experts.3")
    faults = [
        (changed(gate, one_bit), f"{gate} was changed on the way"),
        (changed(down, half_zero), f"{down} was changed on the way"),
        (changed(router, half_zero), f"{router} was changed on the way"),
        (changed(up, lambda _: old[up]), f"{up} is stale: the values of the sync before arrived"),
        (changed(router, lambda _: old[router]), f"{router} is stale: the values of the sync before arrived"),
        (swapped(gate, neighbour), f"{gate} is swapped: the values of {neighbour} arrived"),
        (swapped(gate, up), f"{gate} is swapped: the values of {up} arrived"),
        (without(down), f"{down} did not arrive"),
    ]
    for spoil, named in faults:  # noqa: B007  (the transfer reads it)
        with pytest.raises(ParityError, match=re.escape(named)):
            sync.publish(2)
    load = watch_of(engine).load
    watch_of(engine).load = lambda weights: load(each for each in weights if each[0] != gate)
    spoil = list
    with pytest.raises(ParityError, match=f"w13_weight is incomplete.*{gate} arrived, but no layer"):
        sync.publish(3)
    watch_of(engine).load = load
    sync.publish(4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_adapters_are_compared_in_the_slots_they_are_put_in(path, kind, dtype, ray_cluster, monkeypatch):
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

    engine = shared_engine(kind, path, lora_rank=4, dtype=dtype)
    config = LoraConfig(r=3, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)

    def adapter(seed):
        torch.manual_seed(seed)
        return get_peft_model(trained(path, 0, dtype, 0.0), config, autocast_adapter_dtype=False)

    spoil = list

    def transfer(engine, model, version):
        peft_config = model.peft_config["default"].to_dict()
        send_adapter(engine, ray_cluster, spoil(get_peft_model_state_dict(model).items()), peft_config, version)

    trainer = Trainer(adapter(1), transfer, get_peft_model_state_dict)
    sync = sync_of(engine, trainer, dtype != "float32", probe_every=1)
    assert sync.publish(1).parity_gap < (0.1 if dtype == "bfloat16" else 1e-4)
    old, trainer.model = get_peft_model_state_dict(trainer.model), adapter(2)
    one, other = (f"base_model.model.{Q.removesuffix('.weight')}.lora_{which}.weight" for which in "AB")
    faults = [
        (changed(one, lambda _: old[one]), f"{one} is stale"),
        (changed(other, one_bit), f"{other} was changed on the way"),
        (
            swapped(one, one.replace("q_proj", "v_proj")),
            f"{one} is swapped: the values of {one.replace('q_', 'v_')} arr",
        ),
        (changed(other, half_zero), f"{other} was changed on the way"),
    ]
    for version, (each, named) in enumerate(faults, 2):
        spoil = each
        with pytest.raises(ParityError, match=named):
            sync.publish(version)
    spoil = list
    trainer.model = adapter(3)
    if kind == "vllm":  # the slot keeps the adapter before
        with monkeypatch.context() as patch:
            patch.setattr(engine, "load_adapter", lambda: None)
            with pytest.raises(ParityError, match=r"q_proj.lora_A.weight is (stale|not what arrived): model.layers"):
                sync.publish(7)
    sync.publish(8)


def test_a_transfer_that_fails_is_a_sync_error(path):
    def broken(engine, model, version):
        raise OSError("no route")

    with pytest.raises(SyncError, match="version 5 failed: no route"):
        sync_of(shared_engine("vllm", path), Trainer(trained(path, 1), broken)).publish(5)
