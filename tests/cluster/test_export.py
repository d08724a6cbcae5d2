"""`parley export`: what is written is loaded by others, says what the run recorded, and trains again."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
import yaml
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from cluster.commands.cli import main
from cluster.commands.serve_model import _whole
from cluster.errors import RunError
from cluster.recipe.reading import load_recipe
from cluster.record.checkpoints import CheckpointStore
from cluster.record.run_folder import RunFolder, read_config
from cluster.record.terminal import Show
from cluster.run import download
from cluster.run.policy import check_model, lasting, merge_adapter, policy_folder, whole_frozen
from learners.embedded import build
from tests.support.engines import model_of
from tests.support.watched import learned, made_run

BEFORE = {
    "evaluation/episodes": 100,
    "evaluation/win_rate": 0.1,
    "evaluation/win_low": 0.05,
    "evaluation/win_high": 0.18,
}
AFTER = BEFORE | {"evaluation/win_rate": 0.8, "evaluation/win_low": 0.71, "evaluation/win_high": 0.87}
OUTCOME = {"evaluation/outcome": 0.75, "evaluation/outcome_low": 0.7, "evaluation/outcome_high": 0.8}


def trained(output: Path, policy: str | Path, *overrides: str) -> Path:
    folder = made_run(output, "demo", *overrides)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"update": 0, "time": 1.0} | BEFORE | OUTCOME) + "\n")
    learned(folder, 1, **{"rollout/tokens": 40.0})
    learned(folder, 2, **{"rollout/tokens": 40.0}, **AFTER, **OUTCOME)
    store = CheckpointStore(folder / "checkpoints", keep=2)
    for update in (1, 2):
        store.save(update, lambda inside: shutil.copytree(policy, inside / "policy"))
    return folder


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([[3, 5, 7, 11]])).logits


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_model):
    return trained(tmp_path_factory.mktemp("runs"), tiny_model)


def test_the_folder_is_loaded_by_others_and_its_card_says_what_was_recorded(run, tiny_model, tmp_path, capsys):
    to = tmp_path / "made" / "policy"
    assert main(["export", str(run), "--to", str(to)]) == 0
    assert str(to) in capsys.readouterr().out
    model = AutoModelForCausalLM.from_pretrained(to)
    assert torch.equal(logits(model), logits(AutoModelForCausalLM.from_pretrained(tiny_model)))
    asked = [{"role": "user", "content": "your question?"}]
    assert AutoTokenizer.from_pretrained(to).apply_chat_template(asked, tokenize=False)
    _, head, text = (to / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(head)["library_name"] == "transformers" and "base_model" not in yaml.safe_load(head)
    assert "# policy" in text and "after update 2 of 9" in text and "Trained on 8 games with 80 sampled tokens" in text
    assert "| 0 | 100 | 10.0 % (5.0 to 18.0) | 75.0 % (70.0 to 80.0) |" in text
    assert "| 2 | 100 | 80.0 % (71.0 to 87.0) | 75.0 % (70.0 to 80.0) |" in text
    assert load_recipe(to / "recipe.yaml") == read_config(run)
    assert sorted(each.name for each in to.parent.iterdir()) == ["policy"]


def test_an_earlier_checkpoint_has_the_results_of_its_time(run, tmp_path):
    assert main(["export", str(run), "--to", str(tmp_path / "first"), "--checkpoint", "1"]) == 0
    text = (tmp_path / "first" / "README.md").read_text()
    assert "after update 1 of 9" in text and "80.0 %" not in text


def test_where_a_merged_policy_cannot_be_written_it_is_the_place_that_is_named(tmp_path, tiny_model):
    adapter, full = tmp_path / "adapter", tmp_path / "full"
    settings = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), settings).save_pretrained(adapter)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(adapter)
    full.write_text("no folder")
    with pytest.raises(RunError, match=f"cannot be written to {full}/merged: "):
        merge_adapter(adapter, full / "merged")


OWN_CODE = """
from transformers import Qwen3Config, Qwen3ForCausalLM


class OwnConfig(Qwen3Config):
    model_type = "own"


class OwnModel(Qwen3ForCausalLM):
    config_class = OwnConfig
"""
OWN = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}


def test_an_adapter_of_a_model_with_code_of_its_own_is_merged_where_that_is_trusted(tmp_path, tiny_model, capsys):
    base, adapter = shutil.copytree(tiny_model, tmp_path / "base"), tmp_path / "adapter"
    settings = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    get_peft_model(AutoModelForCausalLM.from_pretrained(base), settings).save_pretrained(adapter)
    AutoTokenizer.from_pretrained(base).save_pretrained(adapter)
    (base / "own.py").write_text(OWN_CODE)
    told = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(told | {"model_type": "own", "auto_map": OWN}))
    run = trained(tmp_path / "runs", adapter)
    assert main(["export", str(run), "--to", str(tmp_path / "refused")]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("parley: adapter ") and f"was made for {str(base)!r}, which cannot be loaded" in said
    config = read_config(run, ["model.trust_remote_code=true"])
    with RunFolder.open(run) as folder:
        folder.write_config(config)
    assert main(["export", str(run), "--to", str(tmp_path / "whole")]) == 0
    assert (tmp_path / "whole" / "own.py").is_file()


def test_an_adapter_is_merged_or_stays_apart(tmp_path, tiny_model):
    adapter = tmp_path / "adapter"
    torch.manual_seed(0)
    settings = LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), settings).save_pretrained(adapter)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(adapter)
    run = trained(tmp_path / "runs", adapter)
    assert main(["export", str(run), "--to", str(tmp_path / "whole")]) == 0
    assert main(["export", str(run), "--to", str(tmp_path / "apart"), "--adapter"]) == 0
    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    plain, whole = logits(base), logits(AutoModelForCausalLM.from_pretrained(tmp_path / "whole"))
    apart = logits(PeftModel.from_pretrained(base, str(tmp_path / "apart")))
    assert torch.allclose(whole, apart, atol=1e-5) and not torch.allclose(whole, plain, atol=1e-3)
    assert not (tmp_path / "whole" / "adapter_config.json").exists()
    modes = {path.name: path.stat().st_mode for path in (tmp_path / "whole").iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]
    assert "--lora-modules policy=.\n" in (tmp_path / "apart" / "README.md").read_text()


def test_the_card_serves_an_adapter_of_a_large_rank_with_room_for_it(tmp_path, tiny_model):
    adapter = tmp_path / "adapter"
    settings = LoraConfig(r=24, target_modules=["q_proj"])
    get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), settings).save_pretrained(adapter)
    run = trained(tmp_path / "runs", adapter, "learner.lora.rank=24")
    assert main(["export", str(run), "--to", str(tmp_path / "apart"), "--adapter"]) == 0
    assert "--lora-modules policy=. --max-lora-rank 32\n" in (tmp_path / "apart" / "README.md").read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--to", "{there}"], 2, "is there already"),
        (["--to", "{new}", "--adapter"], 2, "trained the whole model"),
        (["--to", "{new}", "--checkpoint", "7"], 2, "holds no complete checkpoint '7'"),
        (["--to", "hub:mine"], 2, "should be hub:OWNER/NAME"),
        (["--to", "hub:me/mine"], 1, "cannot upload to me/mine"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(run, tmp_path, capsys, words, code, said):
    there = tmp_path / "there"
    there.mkdir()
    assert main(["export", str(run), *(word.format(there=there, new=tmp_path / "new") for word in words)]) == code
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["there"]


def test_training_starts_from_an_adapter_that_is_merged_once(tmp_path, tiny_model):
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig(r=2, target_modules=["q_proj"]))
    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight)
    model.save_pretrained(tmp_path / "adapter")
    config = load_recipe("recipes/demo.yaml", [f"model.path={tmp_path / 'adapter'}", f"output={tmp_path}"])
    folder = RunFolder.create(config)
    made = policy_folder(config, folder, Show(config, folder))
    with torch.no_grad():
        plain, expected = logits(AutoModelForCausalLM.from_pretrained(tiny_model)), logits(model.eval())
    torch.testing.assert_close(logits(AutoModelForCausalLM.from_pretrained(made)), expected, atol=1e-4, rtol=1e-4)
    assert (expected - plain).abs().max() > 0.01
    check_model(made, config, trained=True)
    config.rollout.frozen = {"older": str(tmp_path / "adapter"), "base": str(tiny_model)}
    whole_frozen(config, folder, Show(config, folder))
    assert config.rollout.frozen["base"] == str(tiny_model)
    frozen = AutoModelForCausalLM.from_pretrained(config.rollout.frozen["older"])
    torch.testing.assert_close(logits(frozen), expected, atol=1e-4, rtol=1e-4)
    (made / "kept").touch()
    assert policy_folder(config, folder, Show(config, folder)) == made
    assert (made / "kept").is_file()


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens"])
def test_an_adapter_of_one_end_leaves_the_other_where_both_are_one(folder_of, tmp_path, target):
    base = folder_of("qwen3", True)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(r=2, target_modules=[target]))
    for name, weight in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight)
    model.save_pretrained(tmp_path / "adapter")
    merged = AutoModelForCausalLM.from_pretrained(merge_adapter(tmp_path / "adapter", tmp_path / "merged"))
    torch.testing.assert_close(logits(merged), logits(model.eval()), atol=1e-3, rtol=1e-4)


def test_who_evaluates_keeps_the_weights_of_a_checkpoint_that_is_removed_meanwhile(run, tiny_model, tmp_path):
    config = read_config(run, [f"output={run.parent}", "name=beside"])
    store, folder = CheckpointStore(run / "checkpoints", keep=2), RunFolder.create(config)
    gone = store.save(3, lambda inside: shutil.copytree(tiny_model, inside / "policy"))
    with lasting(str(gone / "policy"), folder) as kept:
        shutil.rmtree(gone)
        assert torch.equal(logits(AutoModelForCausalLM.from_pretrained(kept)), logits(model_of(str(tiny_model))))
        assert Path(kept).is_relative_to(folder.path)
    assert not Path(kept).exists()
    with lasting(str(tiny_model), folder) as plain:
        assert plain == str(tiny_model), "no checkpoint"
    gone = store.save(3, lambda inside: shutil.copytree(tiny_model, inside / "policy"))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        config.output = elsewhere
        with RunFolder.create(config) as other, lasting(str(gone / "policy"), other) as kept:
            assert kept == str(gone / "policy") and not (other.path / "policy").exists(), "another disk has no links"
    shutil.rmtree(gone)


def test_an_embedded_policy_of_other_settings_is_made_anew(tmp_path, tiny_model, monkeypatch):
    made = []
    monkeypatch.setattr(
        build, "build_policy", lambda game, embedded, progress: made.append(embedded.layers) or tiny_model
    )
    config = load_recipe("recipes/demo.yaml", [f"output={tmp_path}"])
    folder = RunFolder.create(config)
    for layers in (2, 2, 3):
        config.model.embedded.layers = layers
        assert policy_folder(config, folder, Show(config, folder)) == folder.path / "initial_policy"
    assert made == [2, 3]


def test_a_served_model_of_the_hub_is_the_revision_that_was_asked_for(tmp_path, tiny_model, monkeypatch):
    asked = []
    monkeypatch.setattr(download, "fetch", lambda *given: asked.append(given) or str(tiny_model))
    config = load_recipe(None, ["model.path=someone/small", "model.revision=abc"])
    assert _whole(config, "someone/small", tmp_path) == str(tiny_model) and asked == [("someone/small", "abc")]
