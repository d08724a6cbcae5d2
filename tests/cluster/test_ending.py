"""A run's folder says how the run ended, whichever way: real processes and real errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from cluster.errors import ConfigError, LostError, RunError
from cluster.recipe.reading import load_recipe
from cluster.record.ending import KILLED, Ending
from cluster.record.run_folder import RunFolder
from cluster.run.failures import in_words, named_failures
from cluster.run.last_word import SPOKEN_FOR

ROOT = Path(__file__).parents[2]
NOW = {"update": 3, "stage": "learn", "since": 1.0, "process": 1}


@pytest.fixture
def folder(tmp_path):
    with RunFolder.create(load_recipe(None, [f"output={tmp_path}"])) as made:
        made.write_summary({"updates": 3, "end": {"how": "stopped"}})
        made.now.write_text(json.dumps(NOW))
        yield made


def summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize(
    ("error", "how", "cause"),
    [
        (LostError("LearnerLost: rank 0 died"), "failed", "LearnerLost: rank 0 died"),
        (MemoryError("no 3 GiB"), "failed", "MemoryError: no 3 GiB"),
        (KeyboardInterrupt(), "stopped", "asked to stop"),
        (None, "finished", None),
    ],
)
def test_every_end_is_in_the_summary_beside_the_figures_and_in_the_log(folder, error, how, cause):
    with pytest.raises(type(error)) if error else nullcontext(), folder.telling_its_end("parley resume here"):
        assert summary(folder.path) == {"updates": 3, "end": None}, "it has not ended yet"
        folder.now.write_text(json.dumps(NOW))
        if error:
            raise error
    end = summary(folder.path)["end"]
    assert summary(folder.path)["updates"] == 3 and (end["how"], end["cause"]) == (how, cause)
    log = (folder.path / "parley.log").read_text()
    if error:
        assert (end["update"], end["stage"], end["go_on"]) == (3, "learn", "parley resume here")
        assert log.endswith(f"ERROR {how}: {cause}; parley resume here\n")


def test_a_run_that_was_refused_leaves_nothing(tmp_path):
    config = load_recipe(None, [f"output={tmp_path}"])
    with pytest.raises(ConfigError), RunFolder.create(config) as made, made.telling_its_end():
        raise ConfigError("no")
    assert list(tmp_path.iterdir()) == []


def test_what_the_kernel_killed_for_memory_meanwhile_is_told(folder):
    ending = Ending(folder.path)
    ending.killed_before -= 2
    assert ending.ended("failed", "rank 0 died") == "rank 0 died (the kernel has killed 2 for want of memory)"
    assert summary(folder.path)["end"]["cause"].endswith("(the kernel has killed 2 for want of memory)")


@pytest.mark.parametrize("spoken_for", [False, True])
def test_a_killed_run_says_so_too(folder, spoken_for):
    program = (
        "import os, signal; from pathlib import Path; from cluster.run.last_word import last_word\n"
        f"with last_word('go on with: parley resume x', None, Path({str(folder.path)!r})):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **({SPOKEN_FOR: "1"} if spoken_for else {})}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    deadline = time.monotonic() + 30
    while summary(folder.path)["end"]["how"] != "killed" and time.monotonic() < deadline:
        time.sleep(0.05)
    end = {"how": "killed", "cause": KILLED, "update": 3, "stage": "learn", "go_on": "parley resume x"}
    assert summary(folder.path) == {"updates": 3, "end": end}
    assert ended.stderr == ("" if spoken_for else f"parley: {KILLED}; go on with: parley resume x\n")


def test_errors_of_ray_name_the_part_and_the_reason_in_one_line(ray_cluster):
    @ray_cluster.remote(num_cpus=0)
    class Shard:
        def die(self):
            os._exit(9)

        def fail(self):
            raise ValueError("first\nsecond")

    shard = Shard.remote()
    with pytest.raises(ray_cluster.exceptions.RayTaskError) as failed:
        ray_cluster.get(shard.fail.remote(), timeout=60)
    assert in_words(failed.value) == "Shard.fail: ValueError: first second"
    with pytest.raises(ray_cluster.exceptions.ActorDiedError) as died:
        ray_cluster.get(shard.die.remote(), timeout=60)
    words = in_words(died.value)
    assert words.startswith("Shard (process ") and words.endswith(" code 2. End of file.") and len(words) < 300, words
    memory = ray_cluster.exceptions.OutOfMemoryError("Task was killed as the node ran low on memory.\nMore.")
    assert in_words(memory) == "Ray killed a process for want of memory: Task was killed as the node ran low on memory."


def test_a_copy_that_fails_is_one_line(tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "model").symlink_to(tmp_path / "gone")
    with pytest.raises(RunError, match=r"/to/model cannot be written: .*No such file") as failed, named_failures():
        shutil.copytree(tmp_path / "from", tmp_path / "to")
    assert "[" not in str(failed.value).replace("[Errno", "")
