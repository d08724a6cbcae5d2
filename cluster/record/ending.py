"""How a run ended, for whoever looks into its folder: in summary.json, and the last line of parley.log.

    "end": {"how": "failed", "cause": "learner update: rank 0 died", "update": 3, "stage": "learn",
            "go_on": "parley resume runs/demo-20260101-120000"}

"end" is null while it runs, and then

how      finished; stopped: Ctrl-C or SIGTERM; failed: an error; killed: the process ended at once, by kill -9, for want
         of memory, or by Ray, which ends its driver
cause    null where it finished; with the number of processes that the kernel killed meanwhile for want of memory
update   how many updates were done, and in which stage of the next one that was

A killed process cannot say it. This file is also a program, which waits for the end of its standard input: a pipe that
nobody but the run's process holds. So it imports nothing but Python's own library.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

IN_ORDER = b"in order"
KILLED = "the process was killed, or ended by Ray, which does so where its raylet or GCS is gone"


class Ending:
    """Of the run in `folder`: made when it begins."""

    def __init__(self, folder: str | Path):
        self.folder, self.killed_before = Path(folder), _killed_for_memory()

    def running(self) -> None:
        """A resumed run has not ended as the summary of the try before says."""
        if (self.folder / "summary.json").is_file():
            self._write(None)

    def ended(self, how: str, cause: str | None = None, go_on: str | None = None) -> str:
        """Write it down. Returns the cause with what the kernel did."""
        killed = _killed_for_memory() - self.killed_before
        if cause is not None and killed > 0:
            cause += f" (the kernel has killed {killed} for want of memory)"
        now = object_in(self.folder / "now.json")
        at = {"update": now.get("update"), "stage": now.get("stage")} if how != "finished" else {}
        self._write({"how": how, "cause": cause, **at, "go_on": go_on})
        if cause is not None:
            self._log(f"{how}: {cause}{f'; {go_on}' if go_on else ''}")
        return cause or ""

    def _write(self, end: dict | None) -> None:
        """Whole, beside the figures that are there."""
        path = self.folder / "summary.json"
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_text(json.dumps(object_in(path) | {"end": end}, indent=2) + "\n")
        os.replace(beside, path)

    def _log(self, line: str) -> None:
        at = time.strftime("%Y-%m-%d %H:%M:%S")
        with (self.folder / "parley.log").open("a", encoding="utf-8") as file:
            file.write(f"{at},000 ERROR {line}\n")


def object_in(path: Path) -> dict:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _killed_for_memory() -> int:
    """Processes, on this machine since it started."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/vmstat").read_text().partition("oom_kill ")[2].split()[0])
    return 0


def listen(then: str, folder: str, silent: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with the pipe
    ending = Ending(folder) if folder else None
    if sys.stdin.buffer.read() == IN_ORDER:
        return
    cause = KILLED
    if ending is not None:
        with suppress(OSError):  # a folder that is gone, a full disk: the line below is said all the same
            cause = ending.ended("killed", KILLED, then.removeprefix("go on with: "))
    if not silent:
        print(f"parley: {cause}; {then}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    listen(*sys.argv[1:])
