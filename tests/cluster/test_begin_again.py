"""A run without a checkpoint begins again, and takes nothing with it that somebody may want."""

from __future__ import annotations

import json

import pytest

from cluster import api
from cluster.errors import ConfigError, RunFolderError
from cluster.recipe.reading import load_recipe
from cluster.record.begin_again import begin_again, check_begins_again
from cluster.record.run_folder import RunFolder, read_config
from cluster.run import session


@pytest.fixture
def config(tmp_path):
    return load_recipe(None, [f"output={tmp_path / 'runs'}", "name=test", "updates=9", "checkpoint.every=4"])


@pytest.fixture
def folder(config):
    with RunFolder.create(config) as folder:
        yield folder


def learned(folder: RunFolder, updates: int) -> None:
    folder.metrics.write_text("".join(f'{{"update": {update}}}\n' for update in range(updates + 1)) + '{"upd')


def test_a_run_that_begins_again_leaves_nothing_of_its_first_try(folder, config):
    (folder.path / "initial_policy").mkdir()
    for file in (folder.metrics, folder.samples, folder.transcripts / "update-00000.txt"):
        file.write_text("{}")
    begin_again(folder)
    assert not folder.metrics.exists() and not folder.samples.exists() and not any(folder.transcripts.iterdir())
    assert (folder.path / "initial_policy").is_dir() and read_config(folder.path) == config


@pytest.mark.parametrize(
    ("updates", "summary", "refused"),
    [
        (0, None, None),
        (4, {"end": {"how": "killed", "go_on": "parley resume it"}}, None),
        (
            5,
            None,
            "has 5 updates and no checkpoint: put one back into .*checkpoints, or begin another run: parley",
        ),
        (4, {"updates": 4, "end": {"how": "finished", "go_on": None}}, "has the summary of a run that ended and no"),
        (None, {"end": {"how": "stopped", "go_on": None}}, "holds an evaluation, which is no run to go on with"),
        (None, {"win_rate": 0.5}, "holds an evaluation, which is no run to go on with"),
    ],
)
def test_only_what_was_stopped_before_its_first_checkpoint_begins_again(folder, updates, summary, refused):
    if updates is not None:
        learned(folder, updates)
    if summary is not None:
        folder.write_summary(summary)
    if refused is None:
        return check_begins_again(folder)
    with pytest.raises(RunFolderError, match=refused):
        check_begins_again(folder)


def test_an_offline_run_goes_on_by_its_own_command(folder):
    (folder.path / "iteration-1").mkdir()
    with pytest.raises(RunFolderError, match="is an offline run: parley offline run"):
        check_begins_again(folder)


def test_what_is_refused_changes_nothing_in_the_folder(config, monkeypatch):
    with RunFolder.create(config) as folder:
        learned(folder, 3)
    kept = folder.metrics.read_text(), (folder.path / "config.yaml").read_text()

    def refused_by_the_plan(*_):
        raise ConfigError("rollout.workers=64 need 64 CPUs")

    monkeypatch.setattr(session, "train", refused_by_the_plan)
    with pytest.raises(ConfigError, match="nope_not_there"):
        api.go_on(folder.path, ['loggers.to=["nope_not_there:X"]'])
    assert kept == (folder.metrics.read_text(), (folder.path / "config.yaml").read_text())
    with pytest.raises(ConfigError, match="64 CPUs"):
        api.go_on(folder.path, ["rollout.workers=64"])
    assert read_config(folder.path).rollout.workers == config.rollout.workers

    def trained(config, folder):
        learned(folder, 9)
        folder.write_summary({"updates": 9})

    monkeypatch.setattr(session, "train", trained)
    api.go_on(folder.path, ["rollout.workers=2"])
    assert read_config(folder.path).rollout.workers == 2
    assert json.loads((folder.path / "summary.json").read_text())["end"]["how"] == "finished"
    with pytest.raises(RunFolderError, match="has the summary of a run that ended and no checkpoint"):
        api.go_on(folder.path, [])


def test_settings_that_the_plan_refuses_do_not_stay_where_a_run_keeps_going(config, monkeypatch):
    with RunFolder.create(config) as folder:
        pass
    seen = []

    def process_of_its_own(path):
        seen.append(read_config(path).rollout.workers)
        return ConfigError.exit_code

    monkeypatch.setattr(api, "keep_going", process_of_its_own)
    assert api.go_on_and_keep_going(folder.path, ["rollout.workers=64"]) == ConfigError.exit_code
    assert seen == [64] and read_config(folder.path) == config
