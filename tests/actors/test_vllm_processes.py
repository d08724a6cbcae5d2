"""An engine of several processes that are killed while it starts: real ones, in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from actors.engines.vllm_processes import MADE_BY_VLLM, EngineProcesses
from actors.fleet.places import FleetError, FleetLost
from tests.actors.test_fleet import new_fleet
from tests.support.engines import engine_settings

START = """
import sys
import time
from actors.settings import EngineSettings
from actors.engines.vllm_engine import VllmEngine

if __name__ == "__main__":
    try:
        VllmEngine(EngineSettings.model_validate_json(sys.argv[1]), sys.argv[2])
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        time.sleep(600)
"""


def made_by_vllm() -> set[Path]:
    return {path for path in Path("/dev/shm").iterdir() if path.name.startswith(MADE_BY_VLLM)}


@pytest.fixture
def short_folder():
    """A socket's path has 107 characters at most."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.long
@pytest.mark.timeout(200)
@pytest.mark.parametrize("killed", ["SIGKILL", "SIGSEGV", "no model"])
def test_an_engine_that_does_not_start_leaves_nothing_and_says_what_was_ended(
    killed, parrot_model, tmp_path, short_folder
):
    (tmp_path / "start.py").write_text(START)
    settings = engine_settings("vllm").model_copy(update={"tensor_parallel": 2})
    model = parrot_model
    if killed == "no model":
        model = tmp_path / "broken"
        model.mkdir()
        for file in Path(parrot_model).iterdir():
            (model / file.name).write_bytes(file.read_bytes() if file.suffix != ".safetensors" else b"broken")
    before = made_by_vllm()
    command = [sys.executable, tmp_path / "start.py", settings.model_dump_json(), str(model)]
    environment = os.environ | {"TMPDIR": str(short_folder), "PYTHONPATH": os.getcwd()}
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    started = subprocess.Popen(command, env=environment, start_new_session=True, **quiet)
    if killed != "no model":
        computing = wait_for_its_processes(started.pid)
        assert made_by_vllm() - before, "there is something to remove"
        os.kill(computing, signal.Signals[killed])
    said = next((line for line in started.stdout if "process of the engine" in line or "Exception" in line), "nothing")
    os.killpg(started.pid, signal.SIGKILL)  # as Ray ends a worker: nobody tidies up
    started.communicate(timeout=60)
    if killed == "no model":
        assert "EngineProcessLost" not in said and "Exception: " in said
    else:
        assert f"EngineProcessLost: a process of the engine was ended by {killed} as it started" in said
    assert made_by_vllm() <= before
    assert [path.name for path in short_folder.iterdir() if path.name.startswith("parley")] == []


def wait_for_its_processes(parent: int) -> int:
    """Until both that compute import what they need; returns one."""
    for _ in range(1200):
        children = psutil.Process(parent).children(recursive=True)
        if len(found := [each for each in children if "multiprocessing.spawn" in " ".join(each.cmdline())]) == 2:
            time.sleep(2)
            return found[0].pid
        time.sleep(0.1)
    raise AssertionError("vLLM has started no processes")


def test_what_was_ended_from_outside_is_told_from_what_failed():
    for code, lost in ((-9, True), (-11, True), (-15, False), (0, False), (1, False)):
        processes = EngineProcesses()
        processes.codes = {code}
        with pytest.raises(Exception) as told, processes.starting():
            raise ValueError("no engine")
        assert ("was ended by" in str(told.value)) == lost and not processes.folder.path.exists()


def test_a_worker_that_is_killed_as_it_starts_may_be_tried_again(ray_cluster, tiny_model):
    fleet = new_fleet(str(tiny_model), "killed-early", workers=1)
    fleet.prepare()
    ray_cluster.kill(fleet.processes.handles[0])
    with pytest.raises(FleetLost, match="rollout worker 0 died while starting"):
        fleet.start()
    fleet.close()
    assert issubclass(FleetLost, FleetError)
