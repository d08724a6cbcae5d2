"""When Ray is given up: the state machine, without Ray; and an evaluation whose GCS is frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import psutil
import pytest

from cluster.errors import LostError
from cluster.run import ray_watch
from cluster.run.ray_watch import Patience, watch
from tests.support.runs import ROOT


def watched(answers: str, seconds: float, monkeypatch, apart: float = 1.0) -> str | None:
    """One letter a question: y here, n given up, - no answer. Then it is over."""
    monkeypatch.setattr(ray_watch, "ASK_SECONDS", 0.0)
    left, over, now = list(answers), threading.Event(), [0.0]

    def alive() -> bool:
        now[0] += apart
        answer = left.pop(0)
        if not left:
            over.set()
        if answer == "-":
            raise TimeoutError
        return answer == "y"

    return watch(alive, Patience(seconds, 0.0), over, lambda: now[0])


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ("yyyy", None),
        ("y--y--y--y", None),
        ("y---", "no sign of life for 3 s"),
        ("---", "no sign of life for 3 s"),
        ("yy-n", "given up this node"),
    ],
)
def test_ray_is_given_up_after_silence_on_end(answers, why, monkeypatch):
    found = watched(answers, 3.0, monkeypatch)
    assert (found is None) if why is None else (why in found)


def test_a_machine_that_slept_is_no_silence(monkeypatch):
    assert watched("y-y", 60.0, monkeypatch, apart=3600.0) is None


IMPATIENT = """
import sys
from cluster.commands import cli
from cluster.run import ray_watch
ray_watch.ASK_SECONDS, ray_watch.ANSWER_SECONDS, ray_watch.SILENCE_SECONDS = 0.5, 1.0, 5.0
raise SystemExit(cli.main(["evaluate", *sys.argv[1:]]))
"""


@pytest.mark.long
@pytest.mark.timeout(200)
def test_an_evaluation_whose_gcs_is_frozen_ends_with_one_line_and_takes_its_ray_with_it(parrot_model, tmp_path):
    settings = (
        f"output={tmp_path}",
        "game.name=parrot",
        "evaluation.episodes=50000",  # more than are played
        "rollout.cpus_per_worker=0.5",
        "rollout.max_utterance_tokens=8",
        "rollout.engine.kind=transformers",
    )
    run = subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, str(parrot_model), *settings], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    started: dict[str, psutil.Process] = {}
    try:
        deadline = time.monotonic() + 300
        while "ray::RolloutWorker.finished" not in started:  # it is asked what it has played
            assert time.monotonic() < deadline and run.poll() is None
            time.sleep(0.2)
            started = {each.name(): each for each in psutil.Process(run.pid).children(recursive=True)}
        started["gcs_server"].send_signal(signal.SIGSTOP)
        last = run.communicate(timeout=60)[1].splitlines()[-1]
        assert last.startswith("parley: Ray's GCS has given no sign of life for ") and last.endswith("; evaluate again")
        assert run.returncode == LostError.exit_code
        ended = [started[name] for name in ("gcs_server", "raylet", "ray::RolloutWorker.finished")]
        assert not psutil.wait_procs(ended, timeout=20)[1], "processes outlived the evaluation"
    finally:
        for each in (run, *started.values()):  # nothing if they are gone
            with suppress(psutil.NoSuchProcess):
                each.kill()


def test_a_cluster_that_is_away_is_not_waited_for(tmp_path):
    """Ray itself would ask for a quarter of an hour."""
    hasty = (
        "import sys\nfrom cluster.commands import cli\nfrom cluster.plan import machine\nmachine.HEALTH_SECONDS = 1.0\n"
        "raise SystemExit(cli.main(sys.argv[1:]))"
    )
    words = ["train", "recipes/demo.yaml", f"output={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-c", hasty, *words], cwd=ROOT, env=os.environ | {"RAY_ADDRESS": "127.0.0.1:1"},
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    said = (
        "parley: cannot reach Ray at RAY_ADDRESS=127.0.0.1:1: no answer within 1 s; after that is mended: parley resume"
    )
    assert done.returncode == LostError.exit_code and done.stderr.splitlines()[-1].startswith(said)
