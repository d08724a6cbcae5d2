"""Log-probs, entropies and maxima read in slices of the vocabulary: the same numbers as of whole logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from learners.batch.choices import Listed
from learners.batch.packing import Pack, pack_sequences, pack_trajectories
from learners.model import slices
from learners.model.load import load_model, pack_logprobs, pack_logprobs_and_best, pack_logprobs_and_entropies
from learners.model.logits import best_logprobs, entropies, target_logprobs
from learners.model.output_head import HeadRead, after_head
from learners.settings import LearnerSettings
from tests.learners.test_twosome_training import batch as batch_of_choices
from tests.support.learner_batches import make_batch
from tests.support.learner_pair import distance

CPU = torch.device("cpu")
WORDS = 101
FAMILIES = {
    "qwen3": {"head_dim": 8},
    "gemma2": {"head_dim": 8, "final_logit_softcapping": 1.0, "tie_word_embeddings": True},
    "cohere": {"logit_scale": 0.25},
    "granite": {"logits_scaling": 3.0},
    "phi": {"tie_word_embeddings": False},  # its head has a bias
    "opt": {"ffn_dim": 32, "word_embed_proj_dim": 16, "tie_word_embeddings": True},
    "gpt_neox": {"tie_word_embeddings": False},
}


@pytest.fixture(autouse=True)
def slices_of_a_few_words(monkeypatch):
    monkeypatch.setattr(slices, "SLICE_LOGITS", 400)


def whole(hidden, weight, bias, targets, temperatures, after):
    logits = torch.nn.functional.linear(hidden, weight, bias)
    logits = (logits if after is None else after(logits)).to(torch.promote_types(hidden.dtype, torch.float32))
    logits = logits if temperatures is None else logits / temperatures[:, None]
    return torch.stack([read(logits) for read in (lambda z: target_logprobs(z, targets, 1.0), *OF_PLACES)], 1)


OF_PLACES = (lambda z: entropies(z, 1.0), lambda z: best_logprobs(z, 1.0).detach())


def soft_cap(logits: torch.Tensor) -> torch.Tensor:
    return torch.tanh(logits / 5) * 5


# of rounding: values as they are, gradients as a share of their norm
ROUNDING = {torch.float64: (1e-13, 1e-13), torch.float32: (1e-5, 2e-6), torch.bfloat16: (1e-5, 5e-3)}


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("after", [None, soft_cap])
@pytest.mark.parametrize("tempered", [False, True])
def test_values_and_gradients_are_those_of_whole_logits(dtype, after, tempered):
    torch.manual_seed(0)
    places = 23
    inputs = [torch.randn(shape).to(dtype).requires_grad_() for shape in ((places, 16), (WORDS, 16), (WORDS,))]
    targets = torch.randint(0, WORDS, (places,))
    temperatures = torch.rand(places).to(torch.promote_types(dtype, torch.float32)) + 0.5 if tempered else None
    expected = whole(*inputs, targets, temperatures, after)
    both = HeadRead.apply(*inputs, targets, temperatures, after, "entropy")
    alone = HeadRead.apply(*inputs, targets, temperatures, after, None)
    best = HeadRead.apply(*inputs, targets, temperatures, after, "best")
    of_values, of_gradients = ROUNDING[dtype]
    for found, wanted in ((both, expected[:, :2]), (alone, expected[:, :1]), (best, expected[:, ::2])):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert (found - wanted).abs().max() < of_values
        weights = torch.randn_like(wanted)
        for mine, true in zip(
            torch.autograd.grad(found, inputs, weights, retain_graph=True),
            torch.autograd.grad(wanted, inputs, weights, retain_graph=True),
            strict=True,
        ):
            assert mine.dtype == true.dtype
            assert (mine - true).double().norm() <= of_gradients * true.double().norm()


def test_entropy_of_a_sure_and_of_an_even_choice():
    hidden, weight = torch.eye(2), torch.zeros(1000, 2)
    weight[:, 0] = -50.0
    weight[17, 0] = 50.0
    found = HeadRead.apply(hidden, weight, None, torch.tensor([17, 3]), torch.full((2,), 0.5), None, "entropy")
    assert found[:, 1].tolist() == pytest.approx([0.0, np.log(1000)], abs=1e-5)
    assert found[:, 0].tolist() == pytest.approx([0.0, -np.log(1000)], abs=1e-5)


# through whole models


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    """Folders of random models."""
    from transformers import AutoConfig, AutoModelForCausalLM

    made = {}
    usual = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    for name, own in FAMILIES.items():
        torch.manual_seed(3)
        config = AutoConfig.for_model(name, vocab_size=WORDS, num_key_value_heads=1, pad_token_id=0, **(usual | own))
        made[name] = tmp_path_factory.mktemp(name)
        model = AutoModelForCausalLM.from_config(config)
        for parameter in model.get_output_embeddings().parameters():
            torch.nn.init.normal_(parameter)
        model.save_pretrained(made[name])
    return made


def some_pack() -> Pack:
    rng = np.random.default_rng(5)
    lengths = (9, 31, 2, 17)
    return pack_sequences(
        [rng.integers(0, WORDS, length) for length in lengths],
        [np.arange(length) % 3 > 0 for length in lengths],
    )


def asked(model: torch.nn.Module, pack: Pack, temperature: float) -> tuple[torch.Tensor, ...]:
    """Log-probs, entropies, the largest probabilities, and the gradient of a sum of the first two, of each weight."""
    model.zero_grad()
    alone = pack_logprobs(model, pack, temperature, CPU)
    logprobs, entropy = pack_logprobs_and_entropies(model, pack, temperature, CPU)
    beside, best = pack_logprobs_and_best(model, pack, temperature, CPU)
    assert torch.allclose(alone, logprobs, atol=1e-6) and torch.equal(alone, beside) and (best >= alone).all()
    weights = torch.linspace(-1, 1, len(logprobs))
    (weights * logprobs + weights.flip(0) * entropy).sum().backward()
    gradients = [p.grad for p in model.parameters() if p.requires_grad]
    return logprobs.detach(), entropy.detach(), best.exp().detach(), *gradients


def same(found: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> None:
    for mine, true in zip(found, expected, strict=True):
        assert (mine - true).norm() <= 1e-5 * true.norm() + 1e-7


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_gives_the_same_in_slices(families, family, monkeypatch):
    """With what it does to its logits behind its head."""
    model = load_model(str(families[family]), LearnerSettings(attention="eager"), 0)
    assert (after_head(model) is not None) == (family in ("gemma2", "cohere", "granite"))
    pack = some_pack()
    found = asked(model, pack, 0.7)
    monkeypatch.setattr(slices, "SLICE_LOGITS", 10**9)
    same(found, asked(model, pack, 0.7))


@pytest.mark.parametrize("target", ["q_proj", "lm_head"])
def test_so_does_an_adapter(families, target, monkeypatch):
    """Also one of the head itself, whose logits are held."""
    model = load_model(str(families["qwen3"]), LearnerSettings(lora={"rank": 2, "targets": [target]}), 0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    pack = some_pack()
    found = asked(model, pack, 1.0)
    monkeypatch.setattr(slices, "SLICE_LOGITS", 10**9)
    same(found, asked(model, pack, 1.0))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_and_what_was_chosen_from_a_list(tiny_model, temperature, monkeypatch):
    model = load_model(str(tiny_model), LearnerSettings(), 0)
    trajectories = batch_of_choices(4, seed=9, choices=0.7)
    each = [np.zeros(int(t.turn_tokens.sum()), np.float32) for t in trajectories]
    pack = pack_trajectories(trajectories, each, None)
    assert isinstance(pack.listed, Listed)
    found = asked(model, pack, temperature)
    monkeypatch.setattr(slices, "SLICE_LOGITS", 10**9)
    same(found, asked(model, pack, temperature))


class Largest(TorchDispatchMode):
    """Elements of the largest tensor that is made while it is on."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        sizes = [tensor.numel() for tensor in tree_leaves(made) if isinstance(tensor, torch.Tensor)]
        self.elements = max(self.elements, *sizes, 0)
        return made


def test_all_logits_are_never_held(families, monkeypatch):
    model = load_model(str(families["qwen3"]), LearnerSettings(), 0)
    rng = np.random.default_rng(6)
    pack = pack_sequences([rng.integers(0, WORDS, 25) for _ in range(4)], [np.arange(25) > 0] * 4)
    largest = {}
    for held in (4000, 10**9):
        monkeypatch.setattr(slices, "SLICE_LOGITS", held)
        with Largest() as seen:
            asked(model, pack, 0.7)
        largest[held] = seen.elements
    assert largest[4000] <= 4000 and largest[10**9] == len(pack.targets) * WORDS


# where it does not fit


def test_a_model_that_moves_its_logits_about_is_refused(families):
    model = load_model(str(families["qwen3"]), LearnerSettings(), 0)
    plain = type(model)

    class Backwards(plain):
        def forward(self, *inputs, **options):
            output = plain.forward(self, *inputs, **options)
            output.logits = output.logits.flip(-1)
            return output

    model.__class__ = Backwards
    with pytest.raises(ValueError, match="Backwards does more to its logits.*lower learner.tokens_per_micro_batch"):
        pack_logprobs(model, some_pack(), 1.0, CPU)


def test_so_is_one_that_asks_its_head_for_every_place(families):
    model = load_model(str(families["qwen3"]), LearnerSettings(), 0)
    plain = type(model)

    class Wasteful(plain):
        def forward(self, *inputs, logits_to_keep=0, **options):
            return plain.forward(self, *inputs, **options)

    model.__class__ = Wasteful
    pack = some_pack()
    with pytest.raises(ValueError, match=f"asks its head for {len(pack.ids)} places and not for the {len(pack.keep)}"):
        pack_logprobs(model, pack, 1.0, CPU)


# under ZeRO

BATCH = make_batch(10, seed=21)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_two_ranks_of_every_stage_make_the_same_update(learners, zero):
    learned = []
    try:
        for most in (400, 2**24):
            learners.become(zero=zero, loss={"entropy": 0.01})
            before = learners.call("parameters")
            learners.hold_logits(most)
            assert learners.call("update", *BATCH)["applied"] == 1
            learned.append(learners.call("parameters"))
    finally:
        learners.hold_logits(2**24)
    assert 0 < distance(*learned) < 1e-3 * distance(before, learned[1])
