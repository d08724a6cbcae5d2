"""A model of the Hugging Face hub, on the disk of every node before any clock of a run starts.

One task on each node fetches it, into the cache that the node's HF_HOME names; then every process
there loads it from that folder and asks the hub for nothing. What the shell that starts the run says
about the hub (HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE, ...) holds on all nodes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.errors import ConfigError, LostError
from cluster.run.failures import in_words

UNUSED = ["original/*", "*.pth", "*.gguf", "*.onnx", "*.h5", "*.msgpack"]  # other forms of the same weights


def fetch(name: str, revision: str | None) -> str:
    from huggingface_hub import snapshot_download

    return snapshot_download(name, revision=revision, ignore_patterns=UNUSED)


def on_every_node(
    name: str,
    revision: str | None,
    seconds: float,
    fetch: Callable[[str, str | None], str] = fetch,
    key: str = "model.path",
) -> str:
    """The folder, which is the same on all nodes. `key`: the setting that names the model."""
    shell = {key: value for key, value in os.environ.items() if key.startswith("HF_")}
    task = ray.remote(num_cpus=0, max_retries=0, runtime_env={"env_vars": shell})(fetch)
    calls = {}
    for node in ray.nodes():
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            calls[task.options(scheduling_strategy=there).remote(name, revision)] = node["NodeManagerAddress"]
    deadline, found = time.monotonic() + seconds, []
    pending = list(calls)
    try:
        while pending:
            ready, pending = ray.wait(pending, timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                late = ", ".join(calls[call] for call in pending)
                raise ConfigError(
                    f"{key}={name} was not fetched within model.download_seconds={seconds:g} by node {late}"
                )
            found.append((_folder(f"{key}={name}", calls[ready[0]], ready[0]), calls[ready[0]]))
    finally:
        for call in pending:
            ray.cancel(call, force=True)
    folders = {folder for folder, _ in found}
    if len(folders) > 1:
        where = "; ".join(f"{folder} on {node}" for folder, node in found)
        raise ConfigError(
            f"{key}={name} has to be in the same folder on every node, but is in {where}: give all of them the "
            "same HF_HOME"
        )
    return folders.pop()


def _folder(model: str, node: str, call: ray.ObjectRef) -> str:
    try:
        return ray.get(call)
    except RayTaskError as error:
        raise ConfigError(f"{model} cannot be fetched by node {node}: {error.cause or error}") from error
    except RayError as error:  # of the node or its process, not of the model
        raise LostError(f"{model} was not fetched by node {node}: {in_words(error)}") from error
