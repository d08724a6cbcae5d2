"""A run's process is replaced when it was ended from outside, and only then. Real processes that end in each way;
a whole run that is killed twice is in tests/whole/test_end_to_end.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from cluster.errors import LostError
from cluster.recipe.reading import load_recipe
from cluster.record.run_folder import RunFolder
from cluster.run import keep_going

ROOT = Path(__file__).parents[2]

# In place of `parley resume FOLDER`: takes the folder as it does, notes that it ran, and ends as the next word says.
CHILD = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from cluster.errors import ConfigError, LostError, RunError
from cluster.record.checkpoints import CheckpointStore
from cluster.record.run_folder import RunFolder

folder = Path(sys.argv[-1])
with open(folder / "tries", "a") as file:
    file.write("x")
tries = (folder / "tries").stat().st_size
words = (folder / "words").read_text().split()
word = words[min(tries, len(words)) - 1]
with RunFolder.open(folder) as run:
    if word in ("learns", "errs"):
        with open(run.metrics, "a") as file:
            file.write(json.dumps({"update": tries, "time": time.time()}) + "\\n")
    match word:
        case "saves":
            CheckpointStore(run.checkpoints, 9).save(tries, lambda where: (where / "x").write_text("x"))
            os.kill(os.getpid(), signal.SIGKILL)
        case "killed" | "learns":
            os.kill(os.getpid(), signal.SIGKILL)
        case "frozen":
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(60)
        case "pauses":
            subprocess.Popen(["sh", "-c", f"sleep 0.6; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(2)
        case "quick":
            os._exit(1)  # as Ray does where its raylet is gone
        case "lost":
            raise SystemExit(LostError.exit_code)
        case "wrong" | "errs":
            raise SystemExit(RunError.exit_code)
        case "refused":
            raise SystemExit(ConfigError.exit_code)
        case "stopped":
            raise SystemExit(130)
        case "waits":
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                (folder / "unwound").touch()
                raise SystemExit(130)
"""
PARENT = """
import sys
from pathlib import Path
from cluster.run import keep_going
keep_going.FIRST_PAUSE_SECONDS = 0.01
keep_going.FROZEN_SECONDS, keep_going.LOOK_SECONDS = 1.2, 0.05
{before}
real = keep_going.subprocess.Popen
keep_going.subprocess.Popen = lambda command, **options: real([sys.executable, {child!r}, command[-1]], **options)
sys.exit(keep_going.keep_going(Path({folder!r})))
"""


@pytest.fixture
def start(tmp_path):
    config = load_recipe(None, [f"output={tmp_path / 'runs'}", "name=test"])
    with RunFolder.create(config) as folder:
        path = folder.path
    child = tmp_path / "child.py"
    child.write_text(CHILD)

    def started(words: str, before: str = "") -> tuple[subprocess.Popen, Path]:
        (path / "words").write_text(words)
        program = textwrap.dedent(PARENT.format(child=str(child), folder=str(path), before=before))
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE), path

    return started


@pytest.mark.parametrize(
    ("words", "tries", "code"),
    [
        pytest.param("ends", 1, 0, marks=pytest.mark.long),
        ("wrong", 1, 1),
        ("killed lost quick ends", 4, 0),
        ("lost wrong refused ends", 4, 0),
        ("lost errs", 2, 1),
        ("killed wrong", 2, 1),
        pytest.param("lost stopped", 2, 130, marks=pytest.mark.long),
        ("learns", 5, 1),
        ("frozen ends", 2, 0),
        pytest.param("pauses", 1, 0, marks=pytest.mark.long),
        pytest.param("saves saves saves saves saves saves wrong", 7, 1, marks=pytest.mark.long),
    ],
)
def test_what_was_ended_from_outside_is_tried_again(start, words, tries, code):
    parent, folder = start(words)
    said = parent.communicate(timeout=120)[1].decode()
    assert (parent.returncode, (folder / "tries").stat().st_size) == (code, tries), said
    assert said.count(f"goes on: parley resume {folder}") == tries - 1
    assert ("5 tries ended without a new checkpoint, the last with signal 9" in said) == (words == "learns")
    assert "Traceback" not in said


def test_a_cluster_that_is_away_is_waited_for_until_an_hour_has_brought_no_update(monkeypatch, tmp_path, capsys):
    codes, clock, pauses, learned = iter([75, *[2, 1] * 999]), [0.0], [], [0.0]

    def pause(seconds: float, stopped: keep_going.Stopped) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    def work(folder: Path, stopped: keep_going.Stopped) -> int:
        clock[0] += 10.0
        if len(pauses) == 12:
            learned[0] = clock[0]
            return LostError.exit_code
        return next(codes)

    monkeypatch.setattr(keep_going, "_try", work)
    monkeypatch.setattr(keep_going, "_pause", pause)
    monkeypatch.setattr(keep_going, "_last_update", lambda folder: learned[0])
    monkeypatch.setattr(keep_going, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    assert keep_going.keep_going(tmp_path) == LostError.exit_code
    assert pauses[:9] == [4, 8, 16, 32, 64, 128, 256, 300, 300] and pauses[12:20] == [2, 4, 8, 16, 32, 64, 128, 256]
    assert 3600 < clock[0] - learned[0] < 3900
    assert "all tries of 60 minutes ended without an update, the last with code" in capsys.readouterr().err


def waiting_child(parent: subprocess.Popen, folder: Path) -> psutil.Process:
    deadline = time.monotonic() + 60
    while not RunFolder.was_left_open(folder):
        assert time.monotonic() < deadline and parent.poll() is None
        time.sleep(0.02)
    (child,) = psutil.Process(parent.pid).children()
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_it_stops_the_run(start, number):
    parent, folder = start("waits")
    child = waiting_child(parent, folder)
    parent.send_signal(number)
    said = parent.communicate(timeout=60)[1].decode()
    assert parent.returncode == 130 and "goes on" not in said and not child.is_running()
    assert (folder / "unwound").exists() == (number == signal.SIGINT), "SIGTERM unwinds within the run's own handler"


def test_a_stop_that_comes_before_the_run_s_process_is_not_forgotten(start):
    """While the newest checkpoint is looked for, which may take seconds."""
    stopped = "import os, signal; keep_going.checkpoints.latest = lambda _: os.kill(os.getpid(), signal.SIGTERM)"
    parent, folder = start("waits", stopped)
    said = parent.communicate(timeout=40)[1].decode()
    assert parent.returncode == 130 and "goes on" not in said


def test_the_run_ends_with_a_parent_that_is_killed(start):
    parent, folder = start("waits")
    child = waiting_child(parent, folder)
    parent.kill()
    assert not psutil.wait_procs([child], timeout=20)[1]
    parent.communicate()
