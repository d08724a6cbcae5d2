"""`parley report runs/plain-*` and `parley watch runs/*`: among the runs lies what is none, or tells nothing yet."""

from __future__ import annotations

import pytest

from cluster.commands.cli import main
from tests.support.watched import learned, made_run


@pytest.fixture
def folder(tmp_path):
    """Two runs, the evaluation of one, and what others leave there."""
    for name in ("plain-a", "plain-b"):
        learned(made_run(tmp_path, name), 1)
    made_run(tmp_path, "plain-b-evaluation")
    (tmp_path / "mlflow.db").touch()
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_a_report_leaves_out_what_has_nothing_to_report(folder, tmp_path, capsys):
    names = sorted(map(str, folder.glob("*")))
    assert main(["report", *names, "--output", str(tmp_path / "compared.html")]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    mlflow, notes, evaluation = names[0], names[1], names[4]
    assert said == [
        f"parley: {mlflow} is left out: it is no run folder",
        f"parley: {notes} is left out: it is no run folder",
        f"parley: {evaluation} is left out: it has nothing to report yet",
    ]
    assert "2 runs of twenty_questions" in (tmp_path / "compared.html").read_text()


def test_watch_leaves_out_what_is_no_run(folder, monkeypatch, capsys):
    watched = []
    monkeypatch.setattr("cluster.watch.server.serve", lambda runs, *_: watched.extend(run.name[:7] for run in runs))
    assert main(["watch", *sorted(map(str, folder.glob("*")))]) == 0
    assert watched == ["plain-a", "plain-b", "plain-b"] and capsys.readouterr().err.count("left out") == 2


@pytest.mark.parametrize("command", ["report", "watch"])
def test_a_name_that_is_not_there_and_names_without_a_run_are_errors(folder, capsys, command):
    run = next(map(str, folder.glob("plain-a*")))
    assert main([command, run, f"{run}x"]) == 2
    assert "no run folder at" in capsys.readouterr().err
    assert main([command, str(folder / "notes"), str(folder / "mlflow.db")]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("is no run folder: it holds no config.yaml")
