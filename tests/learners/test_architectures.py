"""Every family that is trained: sequences packed together never meet, in any kernel, and a model's weights
leave it under the names and in the shapes of the checkpoint that it came from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors import safe_open
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    BertConfig,
    BloomConfig,
    Gemma2Config,
    Gemma3Config,
    GPT2Config,
    GptOssConfig,
    MambaConfig,
    MistralConfig,
    OPTConfig,
    PhimoeConfig,
    Qwen3Config,
    Qwen3NextConfig,
    T5Config,
    ViTConfig,
)

from actors.engines.transformers_engine import TransformersEngine
from benchmarks.architectures import EXPERTS, FORMS, SHAPES, WINDOW, projections
from cluster.errors import ConfigError
from cluster.plan.shape import shape_of
from cluster.recipe.reading import load_recipe
from cluster.run.policy import check_model
from learners.batch.openings import BLOCK
from learners.batch.packing import pack_sequences
from learners.model.architecture import TRIED
from learners.model.load import load_model, pack_logprobs, places_of, shares_openings
from learners.settings import ALL_LINEAR, LearnerSettings, LoraSettings
from learners.transport.source import ModuleWeights, size_of
from tests.support.engines import engine_settings, largest_gap, model_of, requests, run, send_bucket

CPU = torch.device("cpu")
LENGTHS = (2 * WINDOW, 1, WINDOW - 3, 3 * WINDOW, 2)


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


@pytest.mark.parametrize("family", SHAPES)
def test_what_sequences_begin_with_alike_is_computed_once_where_a_family_can(folder_of, family):
    path = str(folder_of(family, True))
    model = load_model(path, LearnerSettings(), seed=0).eval()
    windowed = family in ("mistral", "gemma2", "gemma3_text")
    assert shares_openings(model, LearnerSettings()) is not windowed
    if windowed:
        return
    plain = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    rng = np.random.default_rng(4)
    opening = rng.integers(0, model.config.vocab_size, 2 * BLOCK)
    sequences = [np.append(opening, rng.integers(0, model.config.vocab_size, length)) for length in (5, 2, 9)]
    predicted = [np.arange(len(sequence)) > len(opening) for sequence in sequences]
    pack = pack_sequences(sequences, predicted, openings=[opening] * 3)
    assert len(pack.ids) == len(opening) + 5 + 2 + 9
    with torch.no_grad():
        together = pack_logprobs(model, pack, 1.0, CPU)
        expected = torch.cat([alone(plain, sequence)[len(opening) :] for sequence in sequences])
    assert (together - expected).abs().max() < 2e-5


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


@pytest.mark.parametrize("family", SHAPES)
def test_the_transformers_engine_plays_every_family(folder_of, family):
    """By the weights sent, prompt by prompt and token by token; what it would play wrong it refuses."""
    path = str(folder_of(family, False) if (family, False) in FORMS else folder_of(family, True))
    settings = engine_settings("transformers").model_copy(update={"max_context": 2 * WINDOW})
    if getattr(AutoConfig.from_pretrained(path), "sliding_window", None):
        with pytest.raises(ValueError, match="sliding window of 16 need rollout.engine.kind=vllm"):
            TransformersEngine(settings, path)
        settings.max_context = WINDOW
    engine = TransformersEngine(settings, path)
    model = model_of(path, seed=1, shake=0.05, attn_implementation="eager")
    engine.start_weight_update()
    send_bucket(engine, ModuleWeights(model, adapter=False, bucket_bytes=1 << 30))
    engine.finish_weight_update("1")
    wanted = requests(6, model.config.vocab_size, prompt=settings.max_context // 2, tokens=settings.max_context // 2)
    done = run(engine, wanted)
    assert max(largest_gap(model, request, done[request.id]) for request in wanted) < 1e-4


def test_the_models_are_what_they_say(folder_of):
    for family, tied in FORMS:
        config = AutoConfig.from_pretrained(folder_of(family, tied))
        assert config.model_type == family and config.tie_word_embeddings is tied


REFUSED = {
    "an encoder": (T5Config(), {}, "t5 models have an encoder and a decoder; only causal"),
    "pictures": (Gemma3Config(), {}, "gemma3 models have a vision_config, and their text part"),
    "no language": (ViTConfig(), {}, "vit models are no causal language models"),
    "both ways": (BertConfig(), {}, "BertLMHeadModel attends to what comes after"),
    "a state": (MambaConfig(), {}, "MambaForCausalLM has layers of linear_attention, which would mix"),
    "its own attention": (BloomConfig(), {}, "BloomForCausalLM has an attention of its own"),
    "experts by chance": (PhimoeConfig(), {}, "PhimoeForCausalLM draws its experts by chance while it is trained"),
    "sinks": (GptOssConfig(), {}, "GptOssForCausalLM has attention sinks"),
    "no such layer": (
        OPTConfig(),
        {"lora": {"rank": 2}},
        r"learner\.lora\.targets: .* named o_proj; .*out_proj",
    ),
    "no mlp": (OPTConfig(), {"compile": True}, "learner.compile: the layers of OPTForCausalLM have no part named mlp"),
    "no experts": (
        Qwen3Config(),
        {"loss": {"router_aux": 0.1}},
        "router_aux=0.1, but Qwen3ForCausalLM has no",
    ),
    "openings": (MistralConfig(), {"share_openings": True}, "share_openings: mistral has a sliding window"),
    "quantised": (
        Qwen3Config(quantization_config={"quant_method": "gptq", "bits": 4}),
        {},
        r"quantised \(gptq\) and have no gradient: .*learner\.lora\.rank",
    ),
}


def test_layers_of_other_kinds_are_refused_by_the_plain_engine(tmp_path):
    Qwen3NextConfig(num_hidden_layers=4).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="its layers of linear_attention need rollout.engine.kind=vllm"):
        TransformersEngine(engine_settings("transformers"), str(tmp_path))


def test_who_is_sent_no_weights_keeps_no_places_of_experts(folder_of):
    engine = TransformersEngine(engine_settings("transformers"), str(folder_of("qwen3_moe", False)))
    assert "parts" not in vars(engine.weights) and engine.weights.parts


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens"])
def test_an_adapter_of_an_end_is_refused_where_engines_play(folder_of, target):
    run = load_recipe("recipes/demo.yaml", [f"model.path={folder_of('qwen3', False)}"])
    run.learner.lora = LoraSettings(rank=2, targets=["q_proj", target])
    with pytest.raises(ConfigError, match=f"learner.lora.targets: {target} is an end of the model"):
        check_model(folder_of("qwen3", False), run, trained=True)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_is_refused_by_its_configuration_alone(case, tmp_path):
    config, changes, reason = REFUSED[case]
    config.save_pretrained(tmp_path)
    run = load_recipe("recipes/demo.yaml", [f"model.path={tmp_path}"])
    run.learner = LearnerSettings(**changes)
    with pytest.raises(ConfigError, match=f"model.path={tmp_path}: .*{reason}") as refused:
        check_model(tmp_path, run, trained=True)
    assert "\n" not in str(refused.value)


def test_listed_actions_and_a_window_shorter_than_a_game_are_refused(folder_of):
    run = load_recipe("recipes/games/virtualhome.yaml", [f"model.path={folder_of('mistral', False)}"])
    run.rollout.choose_listed, run.rollout.engine.max_context = True, 2 * WINDOW
    with pytest.raises(ConfigError, match="a sliding window of 16 tokens: set rollout.choose_listed=false"):
        check_model(folder_of("mistral", False), run, trained=True)
    for family, context in (("mistral", WINDOW), ("qwen3", 2 * WINDOW)):
        run.rollout.engine.max_context = context
        check_model(folder_of(family, False), run, trained=True)


def test_longrope_is_trained_up_to_where_its_angles_change(folder_of, tmp_path):
    """Beyond it the longest game of a pack turns the tokens of all the others."""
    limits = {"max_position_embeddings": 64, "original_max_position_embeddings": 16}
    config = AutoConfig.from_pretrained(folder_of("phi3", False), **limits)
    pairs = config.hidden_size // config.num_attention_heads // 2
    rope = {"rope_type": "longrope", "short_factor": [1.0] * pairs, "long_factor": [4.0] * pairs}
    config.rope_parameters |= rope
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    model = load_model(str(tmp_path), LearnerSettings(), seed=0).eval()
    assert places_of(model) == 16
    short, fits, long = (np.arange(size) for size in (8, 16, 24))
    with torch.no_grad():
        of_short = [pack_logprobs(model, pack_of([short, *more]), 1.0, CPU)[:7] for more in ([], [fits], [long])]
    assert torch.allclose(of_short[0], of_short[1], atol=1e-5) and not torch.allclose(
        of_short[0], of_short[2], atol=0.01
    )
    run = load_recipe("recipes/demo.yaml", [f"model.path={tmp_path}", "rollout.engine.max_context=17"])
    with pytest.raises(ConfigError, match="beyond 16 tokens.*rollout.engine.max_context to at most 16"):
        check_model(tmp_path, run, trained=True)
    run.rollout.engine.max_context = 16
    check_model(tmp_path, run, trained=True)


def test_a_family_without_code_in_the_engine_is_refused(tmp_path):
    """Asked of vLLM's own registry; transformers' code serves where it leaves attention to its caller."""
    BloomConfig(architectures=["BloomForCausalLM"]).save_pretrained(tmp_path)
    run = load_recipe("recipes/demo.yaml", [f"model.path={tmp_path}", "rollout.engine.max_context=128"])
    assert check_model(tmp_path, run) == BloomConfig().vocab_size
    BloomConfig(architectures=["BlossomForCausalLM"]).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="vLLM does not know BlossomForCausalLM; set rollout.engine.kind=transf"):
        check_model(tmp_path, run)
    GPT2Config(architectures=["BlossomForCausalLM"]).save_pretrained(tmp_path)
    assert check_model(tmp_path, run) == GPT2Config().vocab_size


def test_a_head_that_the_engine_would_leave_out_is_refused(tmp_path):
    """vLLM's Gemma-2 has the embedding for its head, whatever its configuration says."""
    shape = SHAPES["gemma2"] | {"architectures": ["Gemma2ForCausalLM"]}
    Gemma2Config(**shape, tie_word_embeddings=False).save_pretrained(tmp_path)
    run = load_recipe("recipes/demo.yaml", [f"model.path={tmp_path}", "rollout.engine.max_context=128"])
    with pytest.raises(ConfigError, match="Gemma2ForCausalLM with the embedding as output head only.*kind=transf"):
        check_model(tmp_path, run, trained=True)
    run.rollout.engine.kind = "transformers"
    check_model(tmp_path, run, trained=True)


@pytest.mark.parametrize("family", SHAPES)
def test_all_linear_is_what_peft_takes_for_it(folder_of, family):
    plain = AutoModelForCausalLM.from_pretrained(folder_of(family, False))
    expected = get_peft_model(plain, LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM"))
    made = load_model(str(folder_of(family, False)), LearnerSettings(lora={"rank": 8, "targets": [ALL_LINEAR]}), 0)
    adapted = [{name for name, _ in model.named_parameters() if "lora_" in name} for model in (made, expected)]
    assert adapted[0] == {name for name in adapted[1] if family not in EXPERTS or ".self_attn." in name} != set()


def test_all_linear_leaves_the_experts_where_some_layers_have_none(folder_of, tmp_path):
    """There PEFT would take the names of the dense layers for those of the experts."""
    config = AutoConfig.from_pretrained(folder_of("qwen3_moe", False), mlp_only_layers=[0])
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    model = load_model(str(tmp_path), LearnerSettings(lora={"rank": 2, "targets": [ALL_LINEAR]}), 0)
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert trained and all(".self_attn." in name for name in trained)
    assert sum(weight.numel() for weight in model.parameters() if weight.requires_grad) == shape_of(
        config.to_dict()
    ).adapter_parameters(2, [ALL_LINEAR])


def test_every_family_that_is_tried_passes(folder_of):
    """Named as tried, so that vLLM need not be asked; and with an adapter on experts only where something plays it."""
    kinds = set()
    for family, tied in FORMS:
        folder = folder_of(family, tied)
        kinds |= set(AutoConfig.from_pretrained(folder).architectures)
        run = load_recipe("recipes/demo.yaml", [f"model.path={folder}"])
        for rank in (0, 2):
            run.learner.lora = LoraSettings(rank=2, targets=projections(family)) if rank else LoraSettings()
            if rank and family in EXPERTS:
                with pytest.raises(ConfigError, match="learner.lora.rank=2: vLLM has no kernel on CPU for experts"):
                    check_model(folder, run, trained=True)
                run.rollout.engine.kind = "transformers"
            assert check_model(folder, run, trained=True) == AutoConfig.from_pretrained(folder).vocab_size
    assert kinds == TRIED
