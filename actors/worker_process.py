"""The process of a rollout worker: what it is given, and what is told of its end."""

from __future__ import annotations

from actors.settings import RolloutSettings

MESSAGE = 300  # characters of a cause


def environment(settings: RolloutSettings) -> dict[str, str]:
    """Ray does not hide GPUs from a process that asked for none."""
    variables = {"OMP_NUM_THREADS": str(max(1, int(settings.cpus_per_worker)))}
    return variables if settings.gpus_per_worker else variables | {"CUDA_VISIBLE_DEVICES": ""}


def last_line(error: Exception) -> str:
    """Where Ray says what happened."""
    return (str(error).strip().splitlines() or [""])[-1].strip()[:MESSAGE]
