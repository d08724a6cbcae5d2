"""A real Slurm of one node, for a test: controller and node as processes of our own, in a folder of our own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEEDED = ("slurmctld", "slurmd", "sbatch", "squeue")
MISSING = [name for name in NEEDED if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None]
CONFIG = """\
ClusterName=parley
SlurmctldHost=localhost
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerNode=100
KillWait=5
ReturnToService=2
MailProg=/bin/true
NodeName=localhost CPUs={cpus} RealMemory=1000
PartitionName=all Nodes=localhost Default=YES
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("", 0))
        return taken.getsockname()[1]


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which its commands work."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    text = CONFIG.format(folder=folder, controller=free_port(), node=free_port(), cpus=os.cpu_count())
    (folder / "slurm.conf").write_text(text)
    path = f"{os.environ['PATH']}:/usr/sbin"
    environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}
    log = (folder / "slurm.log").open("w")
    daemons = [
        subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        for command in (["slurmctld", "-D"], ["slurmd", "-D", "-N", "localhost"])
    ]
    try:
        deadline = time.monotonic() + 60
        while "idle" not in ask(environment, "sinfo", "-h", "-o", "%t"):
            assert time.monotonic() < deadline, (folder / "slurm.log").read_text()
            time.sleep(0.5)
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)
        log.close()


def ask(environment: dict[str, str], *command: str, cwd: Path | None = None, seconds: float = 60.0) -> str:
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=seconds)
    return done.stdout
