"""The processes of an engine of several, as this one sees them: their folder, what they have in shared memory, and how
they end while they start.

vLLM removes its files when it is shut down, and nobody does if these processes are killed together. So the folder lists
them from the start on, and the next one who makes such a folder removes what a dead one's lists.
"""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from actors.engines.contract import EngineProcessLost
from actors.own_folder import OwnFolder

SOCKETS = "parley-ipc-"  # opens the name of the folder
MADE_BY_VLLM = ("psm_", "vllm_", "sem.loky-", "sem.mp-")
LOOK_SECONDS = 0.25


class EngineProcesses:
    def __init__(self):
        self.folder = OwnFolder(SOCKETS)
        self.close = self.folder.close
        self.files: set[Path] = set()
        self.codes: set[int] = set()  # of those that had ended when the first one had

    @contextmanager
    def starting(self) -> Iterator[None]:
        """The temporary files by which they find each other are in the folder meanwhile: they are left there. What has
        not started leaves nothing."""
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), name="vllm-processes", daemon=True)
        before, tempfile.tempdir = tempfile.tempdir, str(self.folder.path)

        def stop() -> None:
            tempfile.tempdir = before
            over.set()
            watcher.join()

        watcher.start()
        try:
            yield
        except BaseException as error:
            stop()
            self.close()
            if signals := [signal.Signals(-code).name for code in self.codes if code < 0 and code != -signal.SIGTERM]:
                raise EngineProcessLost(f"a process of the engine was ended by {signals[0]} as it started") from error
            raise
        finally:
            stop()

    def _watch(self, over: threading.Event) -> None:
        processes, last = set(), False
        while not last:
            last = over.wait(LOOK_SECONDS)
            processes.update(multiprocessing.active_children())
            self.codes = self.codes or {each.exitcode for each in processes if each.exitcode is not None}
            self.files |= files_in_shared_memory()
            self.folder.goes_with(sorted(self.files))


def files_in_shared_memory() -> set[Path]:
    """What vLLM has made there in this process and its children."""
    found, me = set(), psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        found.update(Path("/dev/shm").glob(f"sem.loky-{process.pid}-*"))
        with suppress(OSError):  # ended meanwhile
            mapped = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
            found.update(Path(parts[5]) for line in mapped if len(parts := line.split(maxsplit=5)) == 6)
    return {path for path in found if path.match("/dev/shm/*") and path.name.startswith(MADE_BY_VLLM)}
