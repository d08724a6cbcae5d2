"""Where processes that start together find each other."""

from __future__ import annotations

import socket

import ray


def meeting_point() -> tuple[str, int]:
    """This node's address, and a port that is free on it now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return ray.util.get_node_ip_address(), probe.getsockname()[1]
