"""A run's folder and its numbers: one owner, nothing half-written, nothing twice."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cluster.errors import ConfigError, RunError, RunFolderError
from cluster.recipe.reading import load_recipe
from cluster.record.metrics import COMMON_FAILURES, Metrics, RayMetrics, truncate_after
from cluster.record.run_folder import RunFolder, read_config, write_whole
from cluster.record.terminal import Show
from envs.episode import Episode, Ticket, Turn, TurnTokens
from learners.credit.method import CREDIT

ROOT = Path(__file__).parents[2]


@pytest.fixture
def config(tmp_path):
    return load_recipe(None, [f"output={tmp_path / 'runs'}", "name=test", "updates=9"])


@pytest.fixture
def folder(config):
    with RunFolder.create(config) as folder:
        yield folder


def test_a_new_folder_holds_config_and_versions(folder, config):
    assert read_config(folder.path) == config
    assert read_config(folder.path, ["updates=11"]).updates == 11
    versions = json.loads((folder.path / "versions.json").read_text())
    assert versions["packages"]["ray"] == "2.60.0" and versions["python"].startswith("3.")
    assert folder.checkpoints.is_dir() and folder.transcripts.is_dir() and folder.tensorboard.is_dir()


def test_a_name_that_is_taken_gets_the_next_number(config, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda form: "20260101-120000")
    made = []
    for _ in range(3):
        with RunFolder.create(config) as folder:
            made.append(folder.name)
    assert made == ["test-20260101-120000", "test-20260101-120000-2", "test-20260101-120000-3"]


def test_a_folder_that_cannot_be_made_is_one_line(config, tmp_path):
    (tmp_path / "file").write_text("")
    config.output = str(tmp_path / "file")
    with pytest.raises(RunFolderError, match=r"cannot create a run folder in .*file' \(output\)"):
        RunFolder.create(config)


@pytest.mark.parametrize(("error", "stays"), [(ConfigError, False), (RunError, True), (KeyboardInterrupt, True)])
def test_what_was_refused_leaves_no_folder(config, error, stays):
    with pytest.raises(error), RunFolder.create(config) as folder:
        raise error("no")
    assert folder.path.exists() is stays


RESULTS = ["metrics.jsonl", "episodes.jsonl", "transcripts/update-00000.txt", "iteration-1/manifest.json"]


@pytest.mark.parametrize("result", RESULTS)
def test_a_folder_with_something_in_it_stays_whatever_is_refused(config, result):
    with pytest.raises(ConfigError), RunFolder.create(config) as folder:
        (folder.path / result).parent.mkdir(exist_ok=True)
        (folder.path / result).write_text("{}")
        raise ConfigError("no")
    with pytest.raises(ConfigError), RunFolder.open(folder.path):
        raise ConfigError("no")
    assert folder.path.exists()


def test_resuming_what_never_began_leaves_it_there(config):
    with RunFolder.create(config) as folder:
        pass
    with pytest.raises(ConfigError), RunFolder.open(folder.path):
        raise ConfigError("no")
    assert folder.path.exists()


def test_a_folder_in_use_names_its_owner(folder):
    with pytest.raises(RunFolderError, match=f"in use by process {os.getpid()} on "):
        RunFolder.open(folder.path)
    folder.close()
    with RunFolder.open(folder.path):
        pass
    folder._lock = os.open(folder.path / "other.lock", os.O_RDWR | os.O_CREAT)  # for the fixture's own close


def test_a_killed_owner_leaves_the_folder_free(config):
    with RunFolder.create(config) as folder:
        path = folder.path
    program = f"""
        import time
        from cluster.record.run_folder import RunFolder
        folder = RunFolder.open({str(path)!r})
        print("mine", flush=True)
        time.sleep(60)
    """
    owner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, stdout=subprocess.PIPE)
    assert owner.stdout.readline() == b"mine\n"
    with pytest.raises(RunFolderError, match=f"in use by process {owner.pid} on "):
        RunFolder.open(path)
    assert not RunFolder.was_left_open(path.parent), "no run folder"
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait(timeout=10)
    owner.stdout.close()
    assert RunFolder.was_left_open(path)
    with RunFolder.open(path):
        pass
    assert not RunFolder.was_left_open(path)


@pytest.mark.parametrize("damage", [lambda text: text[:300], lambda text: text.replace("updates: 9", "updates: 90")])
def test_a_config_that_was_cut_off_or_edited_is_refused(config, damage):
    with RunFolder.create(config) as folder:
        path = folder.path / "config.yaml"
    whole = path.read_text()
    assert damage(whole) != whole
    path.write_text(damage(whole))
    with pytest.raises(RunFolderError, match="config.yaml is not as the run wrote it: it was cut off or edited"):
        read_config(folder.path)
    path.write_text(whole)
    assert read_config(folder.path) == config
    with RunFolder.open(folder.path) as opened:
        opened.write_config(config.model_copy(update={"updates": 12}))
    assert read_config(folder.path).updates == 12
    (folder.path / "versions.json").unlink()  # a run of an earlier version has no digest
    path.write_text(whole.rpartition("# sha256")[0])
    assert read_config(folder.path) == config


def test_a_disk_that_cannot_be_written_is_named_once(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "replace", refused)
    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(RunFolderError, match="cannot write .*summary.json: Read-only file system"):
        write_whole(tmp_path / "summary.json", "text")


def test_a_whole_file_or_the_one_before(tmp_path):
    path = tmp_path / "summary.json"
    write_whole(path, "first")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "x" * 100_000 + "\ud800")  # fails after part of it is written
    with path.open() as before:
        write_whole(path, "second")
        assert before.read() == "first"  # another file took its name; its own text was never touched
    assert path.read_text() == "second"
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


def test_summary_is_strict_json(folder):
    folder.write_summary({"gap": float("inf"), "rates": [float("nan"), np.float32(0.5)], "wins": np.int64(3)})
    text = (folder.path / "summary.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"gap": None, "rates": [None, 0.5], "wins": 3}


def test_a_transcript_reads_as_the_game_went(folder):
    ticket = Ticket("run", "twenty_questions", 5, 1_000_005, (("guesser", "policy"),))
    tokens = TurnTokens(np.arange(3), np.arange(2), np.zeros(2), np.array([4, 5]), "length")
    turns = [
        Turn("guesser", "policy", "Ask.\nTurn 1.", "is it alive", tokens=tokens),
        Turn("guesser", "policy", "yes", "grmpf", executable=False, reward=-0.5, caption="nobody understood"),
    ]
    episode = Episode(
        ticket, turns, {"guesser": 0.0}, False, closing={"guesser": "time is up"}, facts={"secret": "dog"}
    )
    path = folder.write_transcripts(3, [episode] * 20)
    assert path == folder.transcripts / "update-00003.txt"
    heading, *games = path.read_text().split("\n=== ")
    assert heading == "Update 3: 8 of 20 held-out games\n" and len(games) == 8
    assert games[0].splitlines() == [
        "twenty_questions, seed 1000005 (guesser: policy)",
        "    Ask.",
        "    Turn 1.",
        "guesser> is it alive    (weights 4, 5; cut off)",
        "    yes",
        "guesser> grmpf    (not understood; reward -0.5)",
        "    [nobody understood]",
        "    (guesser) time is up",
        "--- cut off after 2 turns; outcome: guesser 0, secret: dog",
    ]


EVALUATION = {
    "evaluation/win_rate": 0.25,
    "evaluation/win_low": 0.2,
    "evaluation/win_high": 0.3,
    "evaluation/episodes": 8,
}


def lines(folder: RunFolder) -> list[dict]:
    return [json.loads(line) for line in folder.metrics.read_text().splitlines()]


def test_one_line_an_update_with_its_evaluation(folder, config):
    with Metrics(folder, config) as metrics:
        metrics.evaluated(0, EVALUATION)
        metrics.updated(1, {"loss": 1.0})
        metrics.evaluated(2, EVALUATION)
        metrics.updated(2, {"loss": float("nan")})
    assert [(line["update"], "loss" in line, "evaluation/win_rate" in line) for line in lines(folder)] == [
        (0, False, True), (1, True, False), (2, True, True)
    ]  # fmt: skip
    assert lines(folder)[2]["loss"] is None


def warnings_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("warning:")]


@pytest.mark.parametrize(
    ("method", "gamma", "cut_off", "warned"),
    [("poad", 1.0, 1.0, 1), ("poad", 0.99, 1.0, 0), ("poad", 1.0, 0.9, 0), ("reinforce", 1.0, 1.0, 0)],
)
def test_games_without_an_end_a_critic_and_no_discount(folder, config, capsys, method, gamma, cut_off, warned):
    config.learner.credit = CREDIT.make(method, gamma=gamma)
    with Show(config, folder) as show, Metrics(folder, config, show) as metrics:
        for update in (1, 2):
            metrics.updated(update, {"rollout/cut_off": cut_off})
    told = warnings_in(capsys.readouterr().out)
    assert len(told) == warned and all("learner.credit.gamma=1" in line for line in told)


def test_what_goes_wrong_in_an_update_is_told_in_the_terminal_and_in_the_log(folder, config, capsys):
    with Show(config, folder) as show, Metrics(folder, config, show) as metrics:
        metrics.updated(
            1, {"learner/logprob_gap_warned": 0.0, "learner/logprob_gap_mean": 1e-6, "learner/applied": 1.0}
        )
        metrics.updated(2, {"learner/logprob_gap_warned": 1.0, "learner/logprob_gap_mean": 0.0213})
        metrics.updated(3, {"learner/applied": 0.0, "learner/bad_updates": 2.0})
    told = warnings_in(capsys.readouterr().out)
    assert told == [
        "warning: update 2: trainer and engines differ by 0.021 in log-prob on tokens of the same weights "
        "(logprob_gap_warn)",
        "warning: update 3: no finite gradient, the weights stay (2 such updates)",
    ]
    logged = (folder.path / "parley.log").read_text()
    assert all(line.removeprefix("warning: ") in logged for line in told)


def test_a_batch_that_taught_nothing_is_told_once(folder, config, capsys):
    with Show(config, folder) as show, Metrics(folder, config, show) as metrics:
        for update, nothing in enumerate([0.0, 1.0, 1.0], start=1):
            metrics.updated(update, {"learner/nothing_to_learn": nothing, "learner/applied": 1.0})
    (told,) = warnings_in(capsys.readouterr().out)
    assert told.startswith("warning: update 2: nothing to learn from: all returns are equal")


def test_resume_continues_the_numbers_without_doubles(folder, config):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Metrics(folder, config) as metrics:
        for update in range(1, 6):
            metrics.updated(update, {"loss": float(update)})
    with open(folder.metrics, "a") as file:
        file.write('{"update": 6, "lo')  # killed in the middle of a line
    with Metrics(folder, config, resume_at=3) as metrics:
        for update in range(4, 6):
            metrics.updated(update, {"loss": 10.0 * update})
    assert [(line["update"], line["loss"]) for line in lines(folder)] == [(1, 1), (2, 2), (3, 3), (4, 40), (5, 50)]
    events = EventAccumulator(str(folder.tensorboard)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 1), (2, 2), (3, 3), (4, 40), (5, 50)]


def test_truncating_what_is_not_there_is_nothing(tmp_path):
    truncate_after(tmp_path / "metrics.jsonl", 3)
    assert list(tmp_path.iterdir()) == []


def test_metrics_on_a_full_disk_are_one_line(folder, config):
    with Metrics(folder, config) as metrics:
        metrics.file.close()
        metrics.file = Path("/dev/full").open("w")
        with pytest.raises(RunFolderError, match=r"cannot write .*metrics.jsonl: No space left on device"):
            metrics.updated(1, {"loss": 1.0})
        metrics.file = folder.metrics.open("a")


VALUES = {
    "rollout/outcome": 0.5, "rollout/episodes": 8, "rollout/tokens": 80, "rollout/staleness": 1,
    "ledger/playing": 3, "ledger/waiting": 2, "seconds/learn": 0.2, "failures/timeout": 2, "learner/loss": 1.5,
}  # fmt: skip


@pytest.mark.timeout(120)
def test_ray_exports_the_numbers_with_the_runs_tag(ray_cluster):
    metrics = RayMetrics.if_running("a-run")
    metrics.record(VALUES | {"seconds/update": 1.0, "seconds/checkpoint": 0.8})
    metrics.record(VALUES | {"seconds/update": 0.5, "failures/timeout": 3})  # without a checkpoint
    port = next(node["MetricsExportPort"] for node in ray_cluster.nodes() if node["Alive"])
    expected = {
        "parley_episodes_total": 16, "parley_tokens_total": 160, "parley_failures_total": 3, "parley_reward": 0.5,
        "parley_staleness": 1, "parley_ledger_in_flight": 5, "parley_finished_waiting": 2,
        "parley_stage_seconds": 0.7,
    }  # fmt: skip
    seen, deadline = {}, time.monotonic() + 60
    while time.monotonic() < deadline and not expected.items() <= seen.items():
        time.sleep(0.5)
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        ours = [line for line in text.splitlines() if 'run="a-run"' in line]
        seen = Counter()
        for line in ours:
            seen[line.partition("{")[0].removeprefix("ray_")] += float(line.rpartition(" ")[2])
    assert {name: seen.get(name) for name in expected} == expected
    assert any('stage="learn"' in line for line in ours)
    failures = dict(re.findall(r'failures_total\{.*reason="(\w+)".* (\S+)$', "\n".join(ours), re.MULTILINE))
    assert {reason: float(count) for reason, count in failures.items()} == {
        **dict.fromkeys(COMMON_FAILURES, 0.0),
        "timeout": 3.0,
    }, "a rate needs a series from the start"


def test_a_job_tells_ray_where_it_is_until_it_is_closed(ray_cluster, monkeypatch):
    """On a real cluster's store, with a record as the job's supervisor writes it."""
    from ray.dashboard.modules.job.common import JobInfo, JobInfoStorageClient, JobStatus
    from ray.experimental.internal_kv import internal_kv_get_gcs_client

    from cluster.record.job_status import JobMessage

    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps({"metadata": {"job_submission_id": "job-1"}}))
    store, key = internal_kv_get_gcs_client(), JobInfoStorageClient.JOB_DATA_KEY.format(job_id="job-1").encode()

    def message_after(status: JobStatus) -> str:
        record = JobInfo(status=status, entrypoint="python -m cluster", message="as the supervisor left it").to_json()
        store.internal_kv_put(key, json.dumps(record).encode(), True, namespace=b"job")
        JobMessage().say("update 3/9")
        return JobInfo.from_json(json.loads(store.internal_kv_get(key, namespace=b"job"))).message

    assert message_after(JobStatus.RUNNING) == "update 3/9"
    assert message_after(JobStatus.STOPPED) == "as the supervisor left it"
    monkeypatch.delenv("RAY_JOB_CONFIG_JSON_ENV_VAR")
    JobMessage().say("outside a job: nothing happens")


def test_an_error_tells_how_to_go_on_where_there_is_a_way(tmp_path):
    from cluster.api import continuing
    from cluster.errors import LostError, RunError
    from cluster.record.checkpoints import CheckpointStore

    def told(error: Exception) -> str:
        with pytest.raises(type(error)) as raised, continuing(folder):
            raise error
        return str(raised.value)

    with RunFolder.create(load_recipe(None, [f"output={tmp_path}"])) as folder:
        way = f"; after that is mended: parley resume {folder.path}"
        assert told(LostError("Ray is gone")) == f"Ray is gone{way}", "it begins again"
        assert told(RunError("wrong")) == "wrong"
        CheckpointStore(folder.checkpoints, 1).save(1, lambda where: (where / "x").write_text("x"))
        assert told(RunError("wrong")) == f"wrong{way}"
        assert told(RunFolderError("cannot write: no space")) == f"cannot write: no space{way}"
