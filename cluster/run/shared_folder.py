"""That `output` is shared: the run, which lists the files of a checkpoint and resumes from them, may be on another node
than the ranks that write them, and so may they be on another than a policy that the run has made in its folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from cluster.errors import RunError
from cluster.record.run_folder import RunFolder

LOOK_SECONDS = 60.0
LEARNED = "learner", "policy"  # folders of a checkpoint that ranks write


class Ranks(Protocol):
    def blind_to(self, file: Path) -> Sequence[int]:
        """The ranks that do not see a file."""


def check_seen(model: Path | str, folder: RunFolder) -> None:
    """Every node that takes work looks for a model that was written into the run's folder."""
    if not Path(model).is_relative_to(folder.path):
        return
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    own = ray.get_runtime_context().get_node_id()
    look = ray.remote(num_cpus=0, max_retries=0)(os.path.exists)
    asked = {
        look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
            str(model)
        ): node["NodeManagerAddress"]
        for node in ray.nodes()
        if node["Alive"] and node["NodeID"] != own and node["Resources"].keys() & {"CPU", "GPU"}
    }
    seen = ray.get(list(asked), timeout=LOOK_SECONDS)
    if blind := [node for node, there in zip(asked.values(), seen, strict=True) if not there]:
        raise RunError(f"node {', '.join(blind)} does not see {model}: {_wanted()}")


def check_shared(folder: Path, ranks: Ranks) -> None:
    """The ranks look for a file that is written here."""
    token = folder / f".seen-{uuid4().hex}"
    token.touch()
    try:
        blind = ranks.blind_to(token)
    finally:
        token.unlink()
    if blind:
        raise RunError(f"learner rank {', '.join(map(str, blind))} does not see {folder}: {_wanted()}")


def check_written(checkpoint: Path) -> None:
    """What they wrote is here."""
    for part in LEARNED:
        if not any((checkpoint / part).glob("*")):
            raise RunError(f"the learners wrote {checkpoint / part} on another disk: {_wanted()}; nothing is deleted")


def _wanted() -> str:
    return "`output` has to be a folder that all nodes share"
