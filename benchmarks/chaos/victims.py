"""The processes of a run by what they are, and what is done to them. Ray names an actor's process by its class, and
while it is at work by its own name, its class and its method."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

SIGNALS = {
    "kill": signal.SIGKILL,
    "stop": signal.SIGSTOP,
    "pause": signal.SIGSTOP,
    "segv": signal.SIGSEGV,
    "term": signal.SIGTERM,
    "interrupt": signal.SIGINT,
}
ACTORS = {"worker": "RolloutWorker", "learner": r"(RankActor|learner\.)", "rewards": r"(RewardActor|rewards\.)"}
ENGINES = "VLLM::Worker"  # of an engine of several processes; others compute in the worker's own
PROGRAMS = {"raylet": "raylet", "gcs": "gcs_server"}
COMMANDS = ("train", "resume")
BALLAST = "ballast"
CHUNK = 2**20


def found(kind: str, processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """The processes of a kind, the oldest first."""
    chosen = []
    for process in sorted(processes, key=lambda each: each.pid):
        with suppress(psutil.NoSuchProcess):
            if is_a(kind, process.cmdline()):
                chosen.append(process)
    if kind == "driver":  # the one that works, not the one that waits for it
        return chosen[-1:]
    return chosen[:1] if kind == "command" else chosen  # which is what the user started


def is_a(kind: str, command: Sequence[str]) -> bool:
    if not command:
        return False
    if kind in ACTORS:
        return re.match(rf"ray::(\S+:)?{ACTORS[kind]}", command[0]) is not None
    if kind == "engine":
        return command[0].startswith(ENGINES)
    if kind in PROGRAMS:
        return Path(command[0]).name == PROGRAMS[kind]
    return len(command) > 3 and list(command[1:3]) == ["-m", "parley"] and command[3] in COMMANDS


def of_a_run(process: psutil.Process) -> bool:
    """Whether it is one of the run's own on a cluster that was there before."""
    with suppress(psutil.NoSuchProcess):
        return any(is_a(kind, process.cmdline()) for kind in (*ACTORS, "engine", "driver"))
    return False


def strike(process: psutil.Process, mode: str) -> None:
    os.kill(process.pid, SIGNALS[mode])


def fill(disk: Path) -> None:
    """Until not a byte more fits."""
    with open(disk / BALLAST, "wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(bytes(CHUNK)) == CHUNK:
            pass
        while ballast.write(b"\0"):
            pass


def empty(disk: Path) -> None:
    (disk / BALLAST).unlink()
