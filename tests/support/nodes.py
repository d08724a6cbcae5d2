"""Nodes of a Ray cluster on this machine, for tests."""

from __future__ import annotations

import subprocess
import sys


def drain(address: str, node) -> None:
    """What a cloud's notice of preemption comes to."""
    told = [
        "--reason",
        "DRAIN_NODE_REASON_PREEMPTION",
        "--reason-message",
        "spot",
        "--deadline-remaining-seconds",
        "60",
    ]
    command = [sys.executable, "-m", "ray.scripts.scripts", "drain-node", "--address", address]
    subprocess.run([*command, "--node-id", node.node_id, *told], check=True, capture_output=True, timeout=90.0)
