"""deploy/slurm/train.sbatch on a real Slurm of one node: Debian's slurm-wlm."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.support.slurm import MISSING, ask, slurm

ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "deploy/slurm/train.sbatch")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"no Slurm here: {', '.join(MISSING)} is missing (apt install slurm-wlm)"),
    pytest.mark.skipif(os.getuid() != 0, reason="slurmd needs root"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def checkout(tmp_path):
    """As `make setup` leaves it: with an environment, and without runs/."""
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    return tmp_path


def ended(cluster: dict[str, str], job: str, seconds: float) -> tuple[str, str]:
    """Its exit code, and how Slurm calls that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        told = dict(word.split("=", 1) for word in ask(cluster, "scontrol", "show", "job", job).split() if "=" in word)
        if told["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"):
            return told["ExitCode"].partition(":")[0], told["JobState"]
        time.sleep(0.5)
    raise AssertionError(f"job {job} is still there after {seconds:g} s")


def test_a_fresh_checkout_runs_a_cpu_recipe_without_flags_and_two_jobs_share_a_node(cluster, checkout):
    command = ["sbatch", "--parsable", SCRIPT, "train", "parrot", "--dry-run"]
    share = ["--exclusive=user", "--cpus-per-task=1", "--mem=400"]
    halves = ["rollout.cpus_per_worker=0.5", "learner.cpus_per_rank=0.5"]
    jobs = [ask(cluster, *command[:2], *share, *command[2:], *halves, cwd=checkout).strip() for _ in range(2)]
    jobs.append(ask(cluster, *command, cwd=checkout).strip())
    for job in jobs:
        code = ended(cluster, job, 400)
        log = (checkout / f"slurm-{job}.log").read_text()
        assert code == ("0", "COMPLETED"), log[-3000:]
        assert "# machine        CPU build, 1 node\n" in log, log[-3000:]


def test_a_head_that_dies_ends_the_job_within_a_minute(cluster, checkout):
    job = ask(cluster, "sbatch", "--parsable", SCRIPT, "train", "parrot", "--keep-going", cwd=checkout).strip()
    log, deadline = checkout / f"slurm-{job}.log", time.monotonic() + 300
    while not (log.is_file() and "run folder" in log.read_text()):
        assert time.monotonic() < deadline, log.read_text() if log.is_file() else "no log"
        time.sleep(0.5)
    os.kill(head_of(job), signal.SIGKILL)
    assert ended(cluster, job, 60) == ("75", "FAILED"), log.read_text()[-3000:]
    assert "train.sbatch: Ray's head on localhost has ended" in log.read_text()


def head_of(job: str) -> int:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            named = (process / "comm").read_text() == "gcs_server\n"
            if named and f"SLURM_JOB_ID={job}".encode() in (process / "environ").read_bytes().split(b"\0"):
                return int(process.name)
        except OSError:
            continue
    raise AssertionError(f"no head of job {job}")


def test_a_job_has_all_memory_of_its_node_and_is_not_started_again_by_slurm(cluster, tmp_path):
    job = ask(cluster, "sbatch", "--parsable", SCRIPT, "version", cwd=tmp_path).strip()
    ended(cluster, job, 60)
    told = ask(cluster, "scontrol", "show", "job", job)
    assert " Requeue=0 " in told, "a second start would be a second run"
    assert ",mem=1000M," in told, "and not what a job has by default"


@pytest.mark.parametrize(("words", "said"), [([], "give a command of parley"), (["version"], "no .venv in")])
def test_what_cannot_be_is_said_in_the_log_at_once(cluster, tmp_path, words, said):
    job = ask(cluster, "sbatch", "--parsable", SCRIPT, *words, cwd=tmp_path).strip()
    assert ended(cluster, job, 60) == ("2", "FAILED")
    assert f"train.sbatch: {said}" in (tmp_path / f"slurm-{job}.log").read_text()
