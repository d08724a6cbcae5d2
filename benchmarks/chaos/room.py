"""A room for one trial: processes, shared memory and (where asked) a small disk of its own.

    with Room(folder) as room:
        room.start(command, output)     a process in the room; nothing in it sees another room
        room.processes()                all that is at work there now, whoever started it
        room.ended                      the exit code of the command, when it has ended
    # here the kernel has ended whatever was left

Made of Linux namespaces (`unshare`): the first process of the room is process 1 in it, takes in the orphans as an
operating system does, and ends when this process closes its input or dies. From outside, the room's processes have
ordinary numbers, so a fault is a signal like any other.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
OPEN_SECONDS = 20.0
CLOSE_SECONDS = 20.0
DISK = "disk"  # the folder in the room's folder that is a small disk
LOOK_SECONDS = 0.02
ZOMBIE = psutil.STATUS_ZOMBIE


class Room:
    def __init__(
        self, folder: Path, disk_mib: int = 0, environment: dict[str, str] | None = None, network: bool = False
    ):
        """`disk_mib`: the size of a disk at `folder/disk`; 0: a plain folder. `network`: one of its own, without a
        cable."""
        self.folder, self.disk_mib, self.network = folder, disk_mib, network
        self.environment = environment or {}
        self.ended: int | None = None

    def __enter__(self) -> Room:
        (self.folder / DISK).mkdir()
        (self.folder / "t").mkdir()
        rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        rights += ["--net"] if self.network else []
        command = ["unshare", *rights, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += [sys.executable, "-m", __name__, str(self.folder), str(self.disk_mib)]
        environment = {**os.environ, **self.environment, "TMPDIR": str(self.folder / "t")}
        self.outer = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if not self._hear(OPEN_SECONDS):
            self.outer.kill()
            raise RuntimeError("no room of its own for a trial: it needs unshare, and leave to make namespaces")
        (first,) = psutil.Process(self.outer.pid).children()
        self.first = first.pid
        self.space = os.readlink(f"/proc/{self.first}/ns/pid")
        return self

    def start(self, command: list[str], output: Path) -> None:
        self.ended = None
        self._tell({"command": command, "output": str(output)})

    def _tell(self, what: dict) -> None:
        self.outer.stdin.write(json.dumps(what) + "\n")
        self.outer.stdin.flush()

    def _hear(self, seconds: float) -> str:
        ready, _, _ = select.select([self.outer.stdout], [], [], seconds)
        return self.outer.stdout.readline() if ready else ""

    def look(self) -> int | None:
        """The exit code of the command (that of a signal is below 0), None while it is at work."""
        if self.ended is None and (told := self._hear(0.0)):
            self.ended = json.loads(told)["ended"]
        return self.ended

    def processes(self) -> list[psutil.Process]:
        """All but the first one and those that have ended."""
        found = []
        for name in os.listdir("/proc"):
            with suppress(psutil.Error, OSError):
                here = name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == self.space
                if here and int(name) != self.first and (one := psutil.Process(int(name))).status() != ZOMBIE:
                    found.append(one)
        return found

    def path(self, path: Path | str) -> Path:
        """What processes of the room find at `path`."""
        return Path(f"/proc/{self.first}/root{path}")

    def __exit__(self, *exception) -> None:
        self.outer.stdin.close()
        try:
            self.outer.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.outer.kill()  # and with it the first process, and with that all others
            self.outer.wait(CLOSE_SECONDS)
        self.outer.stdout.close()


def first_process(folder: Path, disk_mib: int) -> None:
    """In the room: starts what it is told to, says when it has ended, buries the dead."""
    _mount("/dev/shm", "mode=1777")
    if disk_mib:
        _mount(str(folder / DISK), f"size={disk_mib}m")
    print("{}", flush=True)
    at_work, heard = None, b""
    while True:
        if select.select([0], [], [], LOOK_SECONDS)[0]:
            more = os.read(0, 65536)
            if not more:
                return
            heard += more
            while b"\n" in heard:
                line, _, heard = heard.partition(b"\n")
                at_work = _begin(**json.loads(line))
        for pid, status in _dead():
            if pid == at_work:
                print(json.dumps({"ended": os.waitstatus_to_exitcode(status)}), flush=True)


def _mount(where: str, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", where], check=True, timeout=OPEN_SECONDS)


def _begin(command: list[str], output: str) -> int:
    opened = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, output, opened, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    heard = [signal.SIGINT, signal.SIGTERM]  # also where whoever opened the room was told to hear nothing
    return os.posix_spawn(command[0], command, os.environ, file_actions=files, setsid=True, setsigdef=heard)


def _dead():
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def wait_until(true, seconds: float, every: float = 0.1) -> bool:
    deadline = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < deadline:
        time.sleep(every)
    return bool(found)


if __name__ == "__main__":
    first_process(Path(sys.argv[1]), int(sys.argv[2]))
