"""`ray job submit` on a fresh local cluster with token authentication, as a user would."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.support.job_cluster import RAY, job_cluster
from tests.support.offline_games import QUESTIONS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("cluster"), RAY_JOB_STOP_WAIT_TIME_S="60") as started:
        yield started


def scrape(port: int) -> str:
    """What Prometheus would read; empty while the node's agent is still starting."""
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    except urllib.error.URLError:
        return ""


def submission(cluster: dict, *command: str) -> list[str]:
    address = f"http://127.0.0.1:{cluster['dashboard']}"
    return [RAY, "job", "submit", "--address", address, "--working-dir", str(ROOT), "--", *command]


@pytest.mark.timeout(400)
def test_a_submitted_job_trains_and_its_metrics_are_scraped(cluster, tiny_model, tmp_path):
    submit = submission(
        cluster, "python", "-m", "cluster", "train", "recipes/demo.yaml",
        f"model.path={tiny_model}", f"output={tmp_path}", "name=job", "updates=2", "batch_episodes=8",
        "evaluation.episodes=8", "rollout.max_utterance_tokens=8", "rollout.engine.max_context=256",
    )  # fmt: skip
    seen = ""
    with subprocess.Popen(
        submit, env=cluster["environment"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as job:
        deadline = time.monotonic() + 300
        while job.poll() is None and time.monotonic() < deadline:
            text = scrape(cluster["metrics"])
            seen += text if "parley_" in text else ""  # gauges go with their process, a little before the job ends
            time.sleep(1)
        job.terminate()
        output = job.stdout.read()
    assert job.returncode == 0 and "succeeded" in output, output[-4000:]
    for name in ("parley_episodes_total", "parley_tokens_total", "parley_sync_seconds", "parley_parity_gap"):
        assert f"ray_{name}" in seen, f"{name} is not among the metrics: " + str(
            sorted({line.split("{")[0] for line in seen.splitlines() if "parley" in line})
        )
    assert list(tmp_path.glob("job*/summary.json"))

    stranger = cluster["environment"] | {"RAY_AUTH_TOKEN_PATH": "", "RAY_AUTH_TOKEN": "wrong"}
    refused = subprocess.run(submission(cluster, "true"), env=stranger, capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0, "the cluster accepted a job without its token"


CLOSING = """
import pathlib, signal, sys, time

def close(*_):
    time.sleep(6)
    pathlib.Path(sys.argv[1]).write_text("closed")
    sys.exit()

signal.signal(signal.SIGTERM, close)
print("begun", flush=True)
time.sleep(300)
"""


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_job_that_is_stopped_has_the_time_to_close_that_the_head_gives(cluster, tmp_path):
    closed = tmp_path / "closed"
    environment, address = cluster["environment"], f"--address=http://127.0.0.1:{cluster['dashboard']}"
    with subprocess.Popen(
        [RAY, "job", "submit", address, "--submission-id=closing", "--", "python", "-c", CLOSING, str(closed)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as job:  # fmt: skip
        said = next((line for line in job.stdout if line.strip() == "begun"), "")
        subprocess.run([RAY, "job", "stop", address, "closing"], env=environment, check=True, timeout=60)
        job.terminate()
    assert said and closed.read_text() == "closed"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_offline_training_as_a_job_goes_from_raw_messages_to_a_trained_policy(cluster, tiny_model, tmp_path):
    """A file in the shape that ARIA's own tools write, and one command."""
    job = subprocess.run(
        submission(
            cluster, "python", "-m", "cluster", "offline", "run", "recipes/demo.yaml", *QUESTIONS[1:],
            "--input=docs/examples/offline/twenty_questions_msgs.jsonl", f"--folder={tmp_path / 'work'}",
            f"model.path={tiny_model}", "offline.iterations=1", "offline.epochs=2", "offline.batch=256",
            "offline.evaluate=false",
        ),
        env=cluster["environment"], capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert job.returncode == 0 and "succeeded" in job.stdout, job.stdout[-4000:] + job.stderr[-1000:]
    made = tmp_path / "work" / "iteration-1"
    manifest = json.loads((made / "manifest.json").read_text())
    assert list(manifest) == ["embed", "cluster", "choose", "label", "aggregate", "tokenize", "train"]
    before, after = (load_file(folder / "model.safetensors") for folder in (tiny_model, made / "policy"))
    assert any(not np.array_equal(before[name], after[name]) for name in before)
    losses = [json.loads(line)["loss"] for line in (made / "training_log.jsonl").read_text().splitlines()]
    assert len(losses) == 2 and np.isfinite(losses).all()  # one batch, two epochs
