"""A fresh local Ray cluster with token authentication, which takes jobs."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RAY = str(Path(sys.executable).parent / "ray")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@contextmanager
def job_cluster(keys: Path, **variables: str) -> Iterator[dict]:
    """A head node in a process of its own, with these environment variables; ended through that process alone.
    `keys`: an empty folder for its token."""
    token = keys / "token"
    token.write_text(secrets.token_hex(32))
    environment = {
        **os.environ,
        **variables,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
    }
    environment.pop("RAY_ADDRESS", None)
    gcs, dashboard, agent, metrics, client = free_ports(5)
    folder = Path("/tmp") / f"parley-job-{os.getpid()}-{gcs}"  # Ray's sockets need a short path
    head = subprocess.Popen(
        [RAY, "start", "--head", "--block", f"--port={gcs}", f"--dashboard-port={dashboard}",
         f"--dashboard-agent-listen-port={agent}", f"--metrics-export-port={metrics}",
         f"--ray-client-server-port={client}", "--min-worker-port=11000", "--max-worker-port=11200",
         "--num-cpus=3", f"--temp-dir={folder}", "--object-store-memory=300000000"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{dashboard}/api/version", 60, head, environment)
        yield {"dashboard": dashboard, "metrics": metrics, "environment": environment}
    finally:
        head.send_signal(signal.SIGTERM)
        head.wait(timeout=30)


def wait_for(url: str, seconds: float, head: subprocess.Popen, environment: dict) -> None:
    token = Path(environment["RAY_AUTH_TOKEN_PATH"]).read_text()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if head.poll() is not None:
            raise RuntimeError(f"ray start ended: {head.stdout.read()[-2000:]}")
        try:
            request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
            urllib.request.urlopen(request, timeout=2).read()
            return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(f"{url} did not answer within {seconds:.0f} s")
