"""`parley resume`: go on with a run after a stop."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.commands.command import Command, takes_overrides
from cluster.errors import CheckpointError, ConfigError
from cluster.record import checkpoints
from cluster.record.run_folder import RunFolder, read_config

RESUMABLE = (  # a resumed run is the same run: only these may change
    "updates",
    "checkpoint.every",
    "checkpoint.keep",
    "evaluation.every",
    "rollout.workers",
    "rollout.episode_seconds",
    "rollout.batch_seconds",
    "rollout.worker_silence_seconds",
    "rollout.max_worker_restarts",
    "learner.start_seconds",
    "learner.update_seconds",
    "learner.sync.timeout_seconds",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder, e.g. runs/demo-20260101-120000")
    takes_overrides(parser)


def run(asked: argparse.Namespace) -> None:
    for override in asked.overrides:
        key = override.partition("=")[0]
        if key not in RESUMABLE:
            raise ConfigError(
                f"resume cannot change {key!r}: the run would be another. It may change {', '.join(RESUMABLE)}"
            )
    config = read_config(asked.run, asked.overrides)
    with RunFolder.open(asked.run) as folder, continuing(folder):
        newest = checkpoints.latest(folder.checkpoints)
        if newest is None:
            raise CheckpointError(f"{asked.run} holds no complete checkpoint to resume from")
        update = checkpoints.CheckpointStore.update_of(newest)
        if config.updates < update:
            raise ConfigError(f"updates={config.updates}, but {asked.run} is already at update {update}")
        folder.write_config(config)
        from cluster.run import session

        session.resume(config, folder)


@contextmanager
def continuing(folder: RunFolder) -> Iterator[None]:
    """Tells whoever stops a run with Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        newest = checkpoints.latest(folder.checkpoints)
        if newest is None:
            raise KeyboardInterrupt("before the first checkpoint") from stop
        raise KeyboardInterrupt(f"{newest.name} is saved; go on with: parley resume {folder.path}") from stop


ABOUT = "go on with a run from its newest whole checkpoint"
COMMAND = Command("resume", ABOUT, run, arguments, f"may change: {', '.join(RESUMABLE)}")
