"""The probe: a sync that left an engine with other weights than the trainer's stops the run.

Engine, receiver, probe and the trainer's forward pass are the real ones; only the fleet
and the learners around them are folded into this process.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from cluster.errors import ParityError, SyncError
from cluster.sync import TOLERANCE, WeightSync, largest_gap, probe_sequences
from learners.settings import SyncSettings
from tests.engines import model_logprobs, model_of, send, shared_engine


class OneEngineFleet:
    """What WeightSync needs of a fleet, around one engine."""

    restarts = 0

    def __init__(self, engine):
        self.engine, self.paused = engine, False

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

    def score(self, sequences):
        assert self.paused, "the probe runs before the engines go on"
        return [self.engine.score(sequences)]


class Trainer:
    """What WeightSync needs of the learners: `transfer` says what really goes over."""

    def __init__(self, model, transfer):
        self.model, self.transfer = model, transfer

    def send_weights(self, workers, version):
        (engine,) = workers
        self.transfer(engine, self.model, version)

    def score(self, sequences):
        return [model_logprobs(self.model, sequence) for sequence in sequences]


def sync_of(path: str, transfer, seed: int, shake: float) -> WeightSync:
    engine = shared_engine("vllm", path)
    vocabulary = AutoConfig.from_pretrained(path).vocab_size
    trainer = Trainer(model_of(path, seed=seed, shake=shake), transfer)
    return WeightSync(
        OneEngineFleet(engine), trainer, SyncSettings(), vocabulary=vocabulary, max_context=256, dtype="float32", seed=0
    )


def without(name: str):
    return lambda engine, model, version: send(engine, model, version, keep=lambda other: other != name)


def corrupted(name: str):
    """One value of one weight is another, as a flipped bit would leave it."""

    def transfer(engine, model, version):
        wrong = model_of_same_weights(model)
        with torch.no_grad():
            wrong.get_parameter(name).view(-1)[3] += 4.0
        send(engine, wrong, version)

    return transfer


def model_of_same_weights(model):
    copy = AutoModelForCausalLM.from_config(model.config).eval()
    copy.load_state_dict(model.state_dict())
    return copy


@pytest.fixture(scope="module")
def path(tiny_model):
    return str(tiny_model)


def test_an_honest_sync_passes_and_reports_its_gap(path):
    report = sync_of(path, send, seed=31, shake=0.05).publish(1)
    assert 0 < report.parity_gap < 1e-4 and report.version == 1 and report.seconds > 0


@pytest.mark.parametrize(
    "name", ["lm_head.weight", "model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight"]
)
def test_a_skipped_parameter_stops_the_run(path, name):
    """After an update of the size that one optimiser step makes."""
    sync_of(path, send, seed=32, shake=0.0).publish(1)
    with pytest.raises(ParityError, match="version 2 is wrong: rollout worker 0 differs"):
        sync_of(path, without(name), seed=33, shake=2e-3).publish(2)


@pytest.mark.parametrize("name", ["lm_head.weight", "model.layers.1.mlp.up_proj.weight"])
def test_a_corrupted_transfer_stops_the_run(path, name):
    with pytest.raises(ParityError, match="does not hold the weights sent"):
        sync_of(path, corrupted(name), seed=34, shake=0.05).publish(3)


def test_a_tied_head_that_is_left_stale_stops_the_run(tiny_model, tmp_path, monkeypatch):
    """What vLLM's reload alone does to a tied model on CPU: no error, and old logits."""
    from actors.transport import vllm_receiver

    config = AutoConfig.from_pretrained(tiny_model)
    config.tie_word_embeddings = True
    torch.manual_seed(1)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    assert sync_of(str(tmp_path), send, seed=35, shake=0.05).publish(1).parity_gap < 1e-4

    def reload_only(engine):
        vllm_receiver.finalize_layerwise_reload(engine.model, engine.model_config)

    monkeypatch.setattr(vllm_receiver.BucketEngine, "finish_weight_update", reload_only)
    with pytest.raises(ParityError, match="differs from the trainer"):
        sync_of(str(tmp_path), send, seed=36, shake=0.05).publish(2)


def test_a_transfer_that_fails_is_a_sync_error(path):
    def broken(engine, model, version):
        raise OSError("no route")

    with pytest.raises(SyncError, match="version 5 failed: no route"):
        sync_of(path, broken, seed=37, shake=0.0).publish(5)


def test_the_probe_reaches_every_row_in_time_and_never_calls_nan_equal():
    seen = {token for version in range(20) for row in probe_sequences(95, 256, version) for token in row}
    assert seen == set(range(95))
    nan, one = np.array([np.nan, 0.0]), np.array([0.0, 0.0])
    assert largest_gap([one], [nan]) == largest_gap([nan], [nan]) == float("inf")
    assert largest_gap([one, one], [one, one + 3e-5]) == pytest.approx(3e-5)
    assert TOLERANCE["float32"] == 1e-4
