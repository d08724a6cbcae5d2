"""The tools that runs are watched in: what they hold, read back by their own means, is what metrics.jsonl has."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections import defaultdict
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cluster import api
from cluster.errors import ConfigError
from cluster.recipe.loggers import LoggerSettings
from cluster.recipe.reading import load_recipe
from cluster.record.loggers.kept import Once, kept_id
from cluster.record.loggers.logger import Logged
from cluster.record.loggers.tensorboard_ import Made
from cluster.record.metrics import Metrics
from cluster.record.run_folder import RunFolder
from cluster.record.transcript import Row

DEMO = Path(__file__).parents[2] / "recipes" / "demo.yaml"
GAMES = [Row(7, "guesser: policy", 0.5, 2, "a game of <b>twenty</b> questions"), Row(8, "", 1.0, 1, "another")]
RESULT = {"result/outcome_after": {5: 0.5}, "result/updates": {5: 5.0}}
EVALUATED = {"evaluation/win_rate": 0.25, "evaluation/episodes": 8.0}
Curves = dict[str, dict[int, float]]  # name -> update -> value


def needs(package: str):
    there = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not there, reason=f"{package} is not installed: pip install '.[loggers]'")


def rows_of(update: int) -> dict[str, float]:
    """The outcome begins at 0, which is an outcome; a count that is 0 is of nothing."""
    return {"rollout/outcome": (update - 1) / 7, "learner/loss": -0.5 * update, "failures/timeout": float(update > 2)}


def ran(output: Path, to: str, *more: str) -> Path:
    """A run of three updates that is stopped, and gone on with from its second."""
    config = load_recipe(str(DEMO), [f"output={output}", f"loggers.to=[{to}]", *more])
    with RunFolder.create(config) as folder:
        page = folder.path / "report.html"
        page.write_text("<p>a report</p>")
        with Metrics(folder, config) as metrics:
            metrics.evaluated(0, EVALUATED, GAMES)
            for update in (1, 2, 3):
                metrics.updated(update, rows_of(update))
        with Metrics(folder, config, resume_at=2) as metrics:
            metrics.updated(3, rows_of(3))
            metrics.updated(4, rows_of(4))
            metrics.evaluated(4, EVALUATED, GAMES[:1])
            metrics.updated(5, rows_of(5))
            metrics.ended({"outcome_after": 0.5, "updates": 5, "evaluations": []})
            metrics.loggers.report(page)
    return folder.path


def recorded(run: Path) -> Curves:
    found: Curves = defaultdict(dict)
    for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()):
        for name in row.keys() - {"update", "time"}:
            found[name][row["update"]] = row[name]
    return found


def add(points: dict[int, float], update: int, value: float) -> None:
    assert update not in points, "an update that was done again is told once"
    points[update] = value


def own_id(run: Path, tool: str) -> str:
    found = (run / f"{tool}.id").read_text().strip()
    assert found not in ("", run.name), "two runs of one second have the same name"
    return found


def check(curves: Curves, run: Path, result: Curves | None = None) -> None:
    wanted = recorded(run) | (result or {})
    assert set(wanted) <= set(curves)
    for name, points in wanted.items():
        assert curves[name] == pytest.approx(points, rel=1e-6), name


def test_tensorboard(tmp_path):
    run = ran(tmp_path, "tensorboard")
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    curves = {name: {each.step: each.value for each in events.Scalars(name)} for name in events.Tags()["scalars"]}
    assert curves["failures/timeout"] == {3: 1.0, 4: 1.0, 5: 1.0}, "a counter that has not moved is no curve"
    curves["failures/timeout"] |= {1: 0.0, 2: 0.0}
    check(curves, run)
    games, _ = events.Tensors("held-out games/text_summary")
    assert b"&lt;b>twenty" in games.tensor_proto.string_val[0] and b"another" in games.tensor_proto.string_val[0]
    (settings,) = events.Tensors("settings/text_summary")
    assert b"| learner.learning_rate |" in settings.tensor_proto.string_val[0]


def test_an_evaluation_that_a_resumed_run_plays_again_is_one_point(tmp_path):
    """It was being played when the checkpoint was saved, and ended before the stop."""
    for resume_at in (0, 2):
        made = Made(Logged("demo-1", tmp_path, {}, resume_at), LoggerSettings())
        for update in (2, 3):
            made.log(update, EVALUATED)
            made.games(update, GAMES)
        made.end({})
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [each.step for each in events.Scalars("evaluation/win_rate")] == [2, 3]
    assert [each.step for each in events.Tensors("held-out games/text_summary")] == [2, 3]


def entries(file: bytes):
    """Of a W&B file: after seven bytes a log in LevelDB's format, blocks of 32 KiB with pieces of entries."""
    place, whole = 7, b""
    while place + 7 <= len(file):
        if 2**15 - place % 2**15 < 7:
            place += 2**15 - place % 2**15
            continue
        size, kind = int.from_bytes(file[place + 4 : place + 6], "little"), file[place + 6]
        whole += file[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or its last piece
            yield whole
            whole = b""


def records(run: Path, starts: int) -> list:
    """Of all starts of a run; W&B's own process may write the last ones a moment after a run has ended."""
    from wandb.proto.wandb_internal_pb2 import Record

    deadline = time.monotonic() + 30
    while True:
        files = sorted(run.glob("wandb/offline-run-*/*.wandb"))
        found = [Record.FromString(data) for file in files for data in entries(file.read_bytes())]
        if sum(each.WhichOneof("record_type") == "exit" for each in found) == starts:
            return found
        assert time.monotonic() < deadline, "W&B has not written the end"
        time.sleep(0.1)


def test_a_run_of_before_ids_were_kept_goes_on_under_its_name(tmp_path):
    (tmp_path / "old").mkdir()
    assert kept_id(Logged("demo-1", tmp_path / "old", {}, resume_at=3), "wandb", "random") == "demo-1"
    assert kept_id(Logged("demo-1", tmp_path, {}, resume_at=0), "wandb", "random") == "random"
    assert kept_id(Logged("demo-1", tmp_path, {}, resume_at=3), "wandb", "another") == "random"


def test_what_a_tool_has_is_not_told_again_and_an_evaluation_that_comes_late_is(tmp_path):
    once = Once(tmp_path, "wandb")
    for update in (1, 2):
        once.logged(update, once.new(update, {"learner/loss": 0.5}))
    assert once.new(2, {"evaluation/outcome": 0.5}) == {"evaluation/outcome": 0.5}
    resumed = Once(tmp_path, "wandb")
    both = {"learner/loss": 0.1, "evaluation/outcome": 0.5}
    assert resumed.new(2, both) == {"evaluation/outcome": 0.5} and resumed.new(3, both) == both


@needs("wandb")
def test_wandb_offline(tmp_path):
    run = ran(tmp_path, "wandb", "loggers.wandb.mode=offline")
    curves: Curves = defaultdict(dict)
    ids, codes, summary, reports = set(), [], {}, {}
    for record in records(run, starts=2):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            ids.add(record.run.run_id)
        if kind == "exit":
            codes.append(record.exit.exit_code)
        items = {".".join(each.nested_key) or each.key: json.loads(each.value_json) for each in record.history.item}
        for name, value in items.items():
            if isinstance(value, int | float) and "update" in items and "/" in name:
                add(curves[name], int(items["update"]), value)
        if kind == "artifact" and record.artifact.type == "report":
            reports[record.artifact.name] = [each.path for each in record.artifact.manifest.contents]
        for each in record.summary.update:
            summary[".".join(each.nested_key) or each.key] = each.value_json
    check(curves, run)
    assert ids == {own_id(run, "wandb")} and any("outcome_after" in key for key in summary)
    assert codes == [1, 0], "the first start was stopped"
    tables = [json.loads(path.read_text()) for path in run.glob("wandb/offline-run-*/files/media/table/*.json")]
    assert {tuple(table["columns"]) for table in tables} == {("update", *Row._fields)}
    assert sorted(table["data"] for table in tables) == [[[0, *row] for row in GAMES], [[4, *GAMES[0]]]]
    assert reports == {f"report-{own_id(run, 'wandb')}": ["report.html"]}


@needs("mlflow")
def test_mlflow(tmp_path, monkeypatch):
    from mlflow.tracking import MlflowClient

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    run = ran(tmp_path, "mlflow")
    assert list(elsewhere.iterdir()) == [] and (tmp_path / "mlflow-artifacts").is_dir()
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    number = client.get_experiment_by_name("parley").experiment_id
    (found,) = client.search_runs([number])
    history = {name: client.get_metric_history(found.info.run_id, name) for name in found.data.metrics}
    curves: Curves = defaultdict(dict)
    for name, points in history.items():
        for each in points:
            add(curves[name], each.step, each.value)
    check(curves, run, RESULT)
    assert found.data.params["learner.credit.method"] and found.info.status == "FINISHED"
    held = {"held_out_games.json", "report.html", "summary.json"}
    assert {each.path for each in client.list_artifacts(found.info.run_id)} == held
    monkeypatch.chdir(tmp_path)  # whose database `load_table` asks for the runs
    table = client.load_table(number, "held_out_games.json")
    assert table[["update", "seed", "turns"]].to_numpy().tolist() == [[0, 7, 2], [0, 8, 1], [4, 7, 2]]
    assert table["game"][0] == GAMES[0].game


@needs("mlflow")
def test_a_run_ends_in_mlflow_though_its_result_is_not_taken(tmp_path, monkeypatch):
    from cluster.record.loggers.mlflow_ import Made

    (tmp_path / "demo-1").mkdir()
    made = Made(Logged("demo-1", tmp_path / "demo-1", {}, resume_at=0), LoggerSettings())
    (tmp_path / "mlflow-artifacts").write_text("in the way")
    with pytest.raises(OSError):
        made.end({"updates": 5})
    assert made.client.get_run(made.id).info.status == "FINISHED"


@needs("trackio")
def test_trackio(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    run = ran(tmp_path, "trackio")
    from trackio.sqlite_storage import SQLiteStorage

    curves: Curves = defaultdict(dict)
    assert own_id(run, "trackio").startswith(f"{run.name}-")
    logs = SQLiteStorage.get_logs("parley", own_id(run, "trackio"))
    for row in logs:
        for name, value in row.items():
            if isinstance(value, int | float) and name not in ("step", "timestamp"):
                add(curves[name], row["step"], value)
    check(curves, run, RESULT)
    tables = {row["step"]: row["held-out games"]["_value"] for row in logs if "held-out games" in row}
    assert [row["seed"] for row in tables[0]] == [7, 8] and "<b>twenty" in tables[0][0]["game"] and len(tables[4]) == 1
    (report,) = SQLiteStorage.get_artifacts("parley")
    assert (report["name"], report["type"]) == (f"report-{own_id(run, 'trackio')}", "report")


def test_a_resumed_run_may_have_other_loggers(tmp_path):
    with RunFolder.create(load_recipe(str(DEMO), [f"output={tmp_path}"])) as folder:
        config = api._continued(folder.path, ["loggers.to=[wandb]", "loggers.wandb.mode=offline"])
    assert (config.loggers.to, config.loggers.wandb.mode) == (("wandb",), "offline")


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("wandbb", "'wandbb' is none of tensorboard, wandb, mlflow, trackio, nor module:Class of your own"),
        ("tensorboard, tensorboard", "a logger is named twice"),
        ("nowhere.to.be:Found", "there is no module nowhere"),
        ("json:Nothing", "json has no class Nothing"),
    ],
)
def test_a_logger_that_cannot_be_is_one_line(tmp_path, to, said):
    with pytest.raises(ConfigError, match=said):
        ran(tmp_path, to)
    assert "\n" not in said and os.listdir(tmp_path) in ([], [each.name for each in tmp_path.iterdir()])
