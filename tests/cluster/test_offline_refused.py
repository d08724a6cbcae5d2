"""Offline runs that are refused once they have begun: one line, and nothing is left or lost."""

from __future__ import annotations

import pytest

from cluster.commands.cli import main
from cluster.errors import ConfigError
from cluster.offline import pipeline
from cluster.offline.resources import Resources
from cluster.offline.terminal import Terminal
from cluster.recipe.reading import load_recipe
from cluster.record.run_folder import RunFolder
from tests.support.offline_games import QUESTIONS


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


def test_a_model_that_would_mix_what_is_packed_together_is_refused_before_anything_starts(tmp_path):
    from transformers import MambaConfig

    MambaConfig(num_hidden_layers=1, hidden_size=32).save_pretrained(tmp_path / "mamba")
    config = load_recipe(
        "recipes/offline/tiny_bargaining.yaml", [f"model.path={tmp_path / 'mamba'}", f"output={tmp_path}"]
    )
    folder = RunFolder.create(config)
    with Terminal() as terminal, Resources(config, folder, terminal) as resources:
        with pytest.raises(ConfigError, match="mix the sequences"), resources.learners(str(tmp_path / "mamba"), 1):
            pass
        assert resources.machine is None
