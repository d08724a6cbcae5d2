"""Offline runs that are refused once they have begun: one line, and nothing is left or lost."""

from __future__ import annotations

import pytest
from transformers import MambaConfig, Phi3Config, Qwen3Config

from cluster.commands.cli import main
from cluster.errors import ConfigError
from cluster.offline import pipeline
from cluster.offline.manifest import Manifest
from cluster.recipe.reading import load_recipe
from cluster.run.policy import check_offline
from tests.support.offline_games import QUESTIONS, lone, one_hot, write


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--input", "games.jsonl", "--until", "collect"], "iteration 1 has no collect: it starts from"),
        (["--until", "evaluate", "offline.evaluate=false"], "iteration 1 has no evaluate: offline.evaluate is false"),
        (["--until", "embed"], "the run needs 198 CPUs"),
    ],
)
def test_what_is_refused_once_it_runs_is_one_line_and_leaves_nothing(tmp_path, capsys, monkeypatch, words, told):
    def refused(work, stage, why) -> None:
        raise ConfigError("the run needs 198 CPUs")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "games.jsonl").write_text("{}\n")
    monkeypatch.setattr(pipeline, "do", refused)
    for where in ([], ["--folder", "work"]):
        assert main(["offline", "run", *QUESTIONS, *words, "output=.", *where]) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith("parley: ") and told in said
        left = {each.name for each in tmp_path.iterdir()}
        assert left == {"games.jsonl", *where[1:]}, "a folder that somebody has named stays"


@pytest.mark.parametrize("stage", ["embed", "choose"])
def test_a_stage_that_is_stopped_while_its_files_move_is_done_again(tmp_path, monkeypatch, stage):
    games = [lone("0123", "ynyy", n % 2, action_embeddings=[one_hot(i) for i in range(4)]) for n in range(8)]
    folder, record = tmp_path / "work", Manifest.record
    words = [
        "offline",
        "run",
        *QUESTIONS,
        "--input",
        str(write(tmp_path / "msgs.jsonl", games)),
        "--until",
        "aggregate",
    ]

    def stopped(manifest, name, *given):
        if name == stage:
            raise KeyboardInterrupt
        return record(manifest, name, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "record", stopped)
        assert main([*words, "--folder", str(folder)]) == 130
    assert main(["offline", "run", str(folder), "--until", "aggregate"]) == 0
    assert (folder / "iteration-1" / "training.json").is_file()


def test_a_model_that_would_mix_what_is_packed_together_is_refused(tmp_path):
    MambaConfig(num_hidden_layers=1, hidden_size=32).save_pretrained(tmp_path)
    config = load_recipe("recipes/offline/tiny_bargaining.yaml", [f"model.path={tmp_path}"])
    with pytest.raises(ConfigError, match="mix the sequences"):
        check_offline(str(tmp_path), config)
    rope = {"rope_type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48, "rope_theta": 1e4}
    rope["original_max_position_embeddings"] = 4096
    Phi3Config(rope_parameters=rope, max_position_embeddings=8192).save_pretrained(tmp_path)
    check_offline(str(tmp_path), config)
    config.offline.context = 4097
    with pytest.raises(ConfigError, match="set offline.context to at most 4096"):
        check_offline(str(tmp_path), config)
    Qwen3Config(max_position_embeddings=4096).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="offline.context=4097 is more than its 4096 positions"):
        check_offline(str(tmp_path), config)
