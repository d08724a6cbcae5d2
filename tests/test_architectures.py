"""Every family that is trained: sequences packed together never meet, in any kernel, and a model's weights
leave it under the names and in the shapes of the checkpoint that it came from."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM

from benchmarks.architectures import EXPERTS, FORMS, SHAPES, WINDOW, make
from envs.registry import make_game
from learners.embedded.tokenizer import make_tokenizer
from learners.model import load_model, pack_logprobs
from learners.packing import pack_sequences
from learners.settings import LearnerSettings
from learners.transport.source import ModuleWeights, size_of

CPU = torch.device("cpu")
LENGTHS = (2 * WINDOW, 1, WINDOW - 3, 3 * WINDOW, 2)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    tokenizer = make_tokenizer(make_game("twenty_questions", {}).language(), 512)

    @cache
    def made(family: str, tied: bool) -> Path:
        return make(family, tied, tokenizer, tmp_path_factory.mktemp(f"{family}-{tied}"))

    return made


def pack_of(sequences: list[np.ndarray]):
    return pack_sequences(sequences, [np.arange(len(sequence)) > 0 for sequence in sequences])


def alone(model: torch.nn.Module, sequence: np.ndarray) -> torch.Tensor:
    ids = torch.from_numpy(sequence)
    return model(input_ids=ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("family", SHAPES)
def test_what_is_packed_together_stays_apart(folder_of, family, kernel):
    """Log-probs are those of each sequence alone, by transformers' own code; and no gradient reaches another's
    tokens, not one bit of it."""
    path = str(folder_of(family, True))
    model = load_model(path, LearnerSettings(attention=kernel), seed=0).eval()
    plain = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    rng = np.random.default_rng(3)
    sequences = [rng.integers(0, model.config.vocab_size, length) for length in LENGTHS]
    seen = []
    model.get_input_embeddings().register_forward_hook(lambda _, __, states: seen.append(states))
    together = pack_logprobs(model, pack_of(sequences), 1.0, CPU)
    with torch.no_grad():
        expected = torch.cat([alone(plain, sequence) for sequence in sequences])
    assert (together.detach() - expected).abs().max() < 2e-5
    own = np.split(np.arange(sum(LENGTHS)), np.cumsum(LENGTHS)[:-1])
    starts = np.cumsum([0, *(length - 1 for length in LENGTHS)])
    for number in (0, 3):
        (moved,) = torch.autograd.grad(together[starts[number] : starts[number + 1]].sum(), seen[0], retain_graph=True)
        reached = moved[0].abs().sum(-1).nonzero()[:, 0].tolist()
        assert reached == own[number].tolist()[: len(reached)] and len(reached) >= LENGTHS[number] - 1


@pytest.mark.parametrize(("family", "tied"), FORMS)
def test_weights_leave_as_the_checkpoint_holds_them(folder_of, family, tied):
    """Names, shapes, types and values, in the order that was declared, whatever the bucket."""
    folder = folder_of(family, tied)
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a mapping)
    model = load_model(str(folder), LearnerSettings(), seed=0)
    for bucket_bytes in (1, 1 << 30):
        source = ModuleWeights(model, adapter=False, bucket_bytes=bucket_bytes)
        sent = list(source)
        assert [(meta.name, meta.dtype, meta.shape) for meta in source.metadata()] == [
            (name, tensor.dtype, tuple(tensor.shape)) for name, tensor in sent
        ]
        assert {name for name, _ in sent} == held.keys()
        assert all(torch.equal(tensor, held[name]) for name, tensor in sent)


def test_experts_leave_in_runs_that_are_whole_at_the_same_time(folder_of):
    """A layer's experts are one parameter here: it is gathered once, and sent in as many runs as it needs."""
    source = ModuleWeights(load_model(str(folder_of("qwen3_moe", False)), LearnerSettings(), 0), False, 1)
    sizes, limit = [size_of(meta) for meta in source.metadata()], 3 * 48 * 64 * 4
    runs = source.runs(limit)
    assert [place for run in runs for place in range(run.start, run.stop)] == list(range(len(sizes)))
    assert max(sum(sizes[run]) for run in runs if run.stop - run.start > 1) <= limit
    names = [[meta.name.partition(".mlp.")[0] for meta in source.metadata()[run]] for run in runs]
    assert all(len(set(of)) == 1 for of in names), "of one parameter"
    assert max(run.stop - run.start for run in runs) == 3


def test_a_checkpoint_that_joins_weights_is_refused(folder_of):
    """A tensor that holds what are several parameters here cannot be made of one of them."""
    from transformers.core_model_loading import Chunk, WeightConverter

    model = load_model(str(folder_of("qwen3", False)), LearnerSettings(), 0)
    halves = WeightConverter("mlp.both.weight", ["mlp.gate_proj.weight", "mlp.up_proj.weight"], [Chunk(dim=0)])
    model._weight_conversions = [halves]
    with pytest.raises(ValueError, match=r"Qwen3ForCausalLM cannot be trained whole.*mlp\.both.*learner\.lora\.rank"):
        ModuleWeights(model, adapter=False, bucket_bytes=1)


@pytest.mark.parametrize("family", EXPERTS)
def test_recomputed_activations_change_nothing_with_experts(folder_of, family):
    gradients = []
    sequences = [np.random.default_rng(5).integers(0, 64, length) for length in LENGTHS]
    for recompute in (False, True):
        settings = LearnerSettings(gradient_checkpointing=recompute)
        model = load_model(str(folder_of(family, False)), settings, 0).train()
        pack_logprobs(model, pack_of(sequences), 1.0, CPU).sum().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    largest = max(float(gradient.abs().max()) for gradient in gradients[0].values())
    assert all(torch.allclose(gradients[0][n], gradients[1][n], atol=1e-6 * largest) for n in gradients[0])


def test_the_models_are_what_they_say(folder_of):
    for family, tied in FORMS:
        config = AutoConfig.from_pretrained(folder_of(family, tied))
        assert config.model_type == family and config.tie_word_embeddings is tied
