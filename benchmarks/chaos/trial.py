"""One trial: a small real run, one fault, and what became of it.

    start -> the moment of the fault -> fault -> the next update, or the end -> what is left over -> the books

A run that ends with a line that says how to go on, or that was itself what was killed, is gone on with once, as its
user would. A process that is frozen for ever stays so until the run has ended; what is still there then counts as an
orphan, and ends with the room.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks.chaos.evidence import Books, books, ending, faults_of_end
from benchmarks.chaos.nodes import Nodes
from benchmarks.chaos.room import DISK, Room, wait_until
from benchmarks.chaos.schedule import BATCH, CLUSTERS, COMMAND, IMPORT, NEVER, NODE, UPDATES, Trial, settings
from benchmarks.chaos.victims import empty, fill, found, of_a_run, strike
from benchmarks.lab.trial import Record

START_SECONDS = 300.0  # for a run to come to the moment of its fault
LIMIT_SECONDS = 420.0  # from the fault to the end; beyond, it hangs
GONE_SECONDS = 100.0  # for the processes of a run that has ended: Ray's agents first wait a minute for its GCS
LOOK_SECONDS = 0.003
RAYS = ("ray", "pymp-")
DISK_MIB = 48
STAGES = {"play": "collect", "reward": "shape", "learn": "learn", "sync": "sync", "evaluate": "evaluate"}
STARTING = "starting learners and rollout workers"
NOTHING = Books(0, 0, 0, 0, UPDATES * BATCH, 0, None)  # of a run that did not begin
ONE_THREAD = "learner.threads=1"  # trials share the machine, and bytes are those of so many threads
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
    "RAY_worker_niceness": "0",  # or whatever else the machine does takes the CPUs from Ray's workers
    "RAY_ADDRESS": "",
}


@dataclass
class Watched:
    """A run in a room, looked at from outside."""

    room: Room
    folder: Path  # of the room
    nodes: Nodes | None = None  # where the room is the head of a cluster
    struck: float | None = None  # when
    stage: str = ""
    highest: int = 0  # update that the run came to after the fault
    advanced: float = 0.0  # when it did
    recovery: float | None = None  # the longest time from one such advance to the next, from the fault on
    then: list[Callable[[], object]] = field(default_factory=list)  # what ends the fault, one after the other

    @property
    def rooms(self) -> list[Room]:
        return [self.room, *(self.nodes.others if self.nodes else [])]

    def processes(self) -> list[psutil.Process]:
        """Those that are there for the run."""
        every = [process for room in self.rooms for process in room.processes()]
        return [process for process in every if of_a_run(process)] if self.nodes else every

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def run(self) -> Path | None:
        found = sorted(self.room.path(self.folder / DISK).glob("*/config.yaml"))
        return found[0].parent if found else None

    def now(self) -> dict[str, Any]:
        """What the run says it is doing; empty before it says anything."""
        run = self.run
        try:
            return json.loads((run / "now.json").read_text()) if run else {}
        except FileNotFoundError:
            return {}

    def advance(self) -> None:
        """The run has come further than it was at the fault, or to its end."""
        now = time.monotonic()
        self.recovery, self.advanced = max(self.recovery or 0.0, now - self.advanced), now

    def further(self) -> bool:
        """One step towards the end of the fault; False if it is too early for it."""
        with suppress(psutil.NoSuchProcess):
            if self.then[0]() is False:
                return False
        self.then.pop(0)
        return True

    def reached(self, trial: Trial) -> bool:
        if trial.moment == IMPORT:
            return True
        if trial.moment == "start":
            return self.output.is_file() and STARTING in self.output.read_text()
        now = self.now()
        if now.get("update", -1) < trial.update:  # a run that starts says no update
            return False
        if trial.moment == "save":
            return any((self.run / "checkpoints").glob(".saving-*"))
        return now["stage"] == STAGES[trial.moment]


def processor() -> str:
    """Its kind: on another one sums are rounded otherwise."""
    first, *_ = Path("/proc/cpuinfo").read_text().split("\n\n")
    kept = [line for line in first.splitlines() if line.startswith(("vendor", "cpu family", "model", "flags"))]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12]


def run(trial: Trial, keep: Path | None = None, wanted: Callable[[dict], bool] = bool) -> Record:
    """`keep`: where the run's folder, its output and Ray's logs go if what was found makes them `wanted`."""
    folder = Path(tempfile.mkdtemp(prefix="parley-chaos-"))
    try:
        with _place(trial, folder) as watched:
            record = _run(trial, watched)
            if keep is not None and wanted(record.figures):
                _keep(watched.room, folder, keep)
            return record
    finally:
        shutil.rmtree(folder)


@contextmanager
def _place(trial: Trial, folder: Path) -> Iterator[Watched]:
    """A room, or the head of a cluster of them."""
    if trial.setup in CLUSTERS:
        number, cpus = CLUSTERS[trial.setup]
        with Nodes(folder, ENVIRONMENT, cpus) as nodes:
            for _ in range(number):
                nodes.add()
            yield Watched(nodes.head, folder, nodes)
    else:
        with Room(folder, DISK_MIB if trial.process == "disk" else 0, ENVIRONMENT) as room:
            yield Watched(room, folder)


def _run(trial: Trial, watched: Watched) -> Record:
    room, began = watched.room, time.monotonic()
    command = [sys.executable, "-m", "parley", "train", str(watched.folder / "recipe.yaml"), *settings(trial.setup)]
    (watched.folder / "recipe.yaml").write_text("name: chaos\n")
    command += [ONE_THREAD, f"output={watched.folder / DISK}", *(["--keep-going"] if trial.keep_going else [])]
    room.start(command, watched.output)
    if trial.process != NEVER and wait_until(lambda: room.look() is not None or watched.reached(trial), START_SECONDS,
                                             LOOK_SECONDS):  # fmt: skip
        _strike(trial, watched)
    _until_the_end(trial, watched)
    orphans, leftovers = _left_over(watched)
    first = ending(room.ended, _text(watched.output))
    wrong = faults_of_end(first, trial.process if watched.struck else NEVER, trial.mode, trial.keep_going)
    resumed = 0
    if first.code is not None and first.code != 0 and (watched.run is not None or trial.process == COMMAND):
        resumed = 1
        _go_on(trial, watched, command)
        more, left = _left_over(watched)
        orphans, leftovers = orphans + more, leftovers + left
        again = ending(room.ended, _text(watched.folder / "again"))
        wrong += [f"{fault} when resumed" for fault in faults_of_end(again, NEVER, "", False)]
        if again.code not in (0, None):
            wrong.append(f"code {again.code} when resumed")
    run_folder = watched.run
    account = asdict(books(run_folder, UPDATES, BATCH) if run_folder else NOTHING)
    figures = {
        "processor": processor(),
        "struck": watched.struck is not None,
        "stage": watched.stage,
        "code": first.code,
        "said": first.said,
        "tries": first.tries,
        "resumed": resumed,
        "recovery": watched.recovery,
        "seconds": time.monotonic() - began,
        "wrong": wrong,
        "orphans": len(orphans),
        "leftovers": len(leftovers),
        "left": [*orphans, *leftovers],
        **account,
    }
    return Record(asdict(trial), figures=figures)


def _strike(trial: Trial, watched: Watched) -> None:
    if watched.room.look() is not None:
        return
    time.sleep(trial.delay)
    if trial.process == "disk":
        fill(watched.room.path(watched.folder / DISK))
    elif trial.process == NODE:
        if not _strike_node(trial, watched.nodes, watched):
            return
    else:
        victims = _victims(trial, watched)
        if not victims:
            return
        strike(victims[-1], trial.mode)
        if trial.mode == "pause":
            watched.then = [victims[-1].resume]
    now = watched.now()
    watched.struck = watched.advanced = time.monotonic()
    watched.highest = now.get("update", -1)
    watched.stage = now.get("stage") or ("start" if not now else "between")


def _strike_node(trial: Trial, nodes: Nodes, watched: Watched) -> bool:
    """The node of a rollout worker; False where no node has one."""

    def with_workers() -> Room | None:
        return next((room for room in nodes.others if found("worker", room.processes())), None)

    def cut() -> bool:
        """Once the run has gone on, where it has."""
        room = with_workers() if watched.struck is None or watched.recovery else None
        if room:
            nodes.cut(room)
            watched.then.append(partial(nodes.mend, room))
        return room is not None

    if trial.mode == "cut":
        return cut()
    room = with_workers()
    if room:
        nodes.lose(room)
        watched.then = [nodes.add, *([cut] if trial.mode == "both" else [])]
    return room is not None


def _victims(trial: Trial, watched: Watched) -> list[psutil.Process]:
    """At the start of a run it may take a while until there is one."""
    victims: list[psutil.Process] = []

    def look() -> bool:
        victims[:] = found(trial.process, watched.room.processes())
        return bool(victims) or watched.room.look() is not None

    wait_until(look, START_SECONDS if trial.moment in ("start", IMPORT) else 0.0, LOOK_SECONDS)
    return victims


def _until_the_end(trial: Trial, watched: Watched) -> None:
    room = watched.room
    struck = last = watched.struck or time.monotonic()
    while room.look() is None and time.monotonic() - struck < LIMIT_SECONDS:
        further = watched.struck and trial.process != COMMAND  # which shall end, and not come further
        if further and watched.now().get("update", -1) > watched.highest:
            watched.highest = watched.now()["update"]
            watched.advance()
        if watched.then and time.monotonic() - last > trial.pause and watched.further():
            last = time.monotonic()
        time.sleep(0.02)
    if watched.struck and room.ended is not None:
        watched.advance()
    while trial.process == NODE and watched.then and watched.further():
        pass  # nothing reaches a node that has no cable


def _left_over(watched: Watched) -> tuple[list[str], list[str]]:
    """Processes that outlive the run, which are then ended, and files that it leaves outside of its folder. Ray's
    session folder is meant to stay: it holds the logs. Its dashboard leaves an empty folder behind at every end. A
    cluster that was there before the run goes on."""
    if watched.room.ended is not None:
        wait_until(lambda: not watched.processes(), GONE_SECONDS)
    names = []
    for process in watched.processes():
        with suppress(psutil.NoSuchProcess):
            names.append(f"{process.status()} {' '.join(process.cmdline())[:80]}")
            process.kill()
    wait_until(lambda: not watched.processes(), GONE_SECONDS)
    shared = [f"/dev/shm/{each.name}" for room in watched.rooms for each in room.path("/dev/shm").iterdir()]
    temporary = [f"t/{each.name}" for room in watched.rooms for each in (room.folder / "t").iterdir()]
    temporary = [name for name in temporary if not name.startswith(tuple(f"t/{own}" for own in RAYS))]
    return names if watched.room.ended is not None else [], [*shared, *temporary]


def _go_on(trial: Trial, watched: Watched, command: list[str]) -> None:
    """Resume the run, or begin it again if it had no folder yet."""
    if trial.process == "disk":
        empty(watched.room.path(watched.folder / DISK))
    if watched.run is not None:
        command = [*command[:3], "resume", str(watched.folder / DISK / watched.run.name)]
    watched.room.start(command, watched.folder / "again")
    wait_until(lambda: watched.room.look() is not None, LIMIT_SECONDS)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _keep(room: Room, folder: Path, keep: Path) -> None:
    shutil.rmtree(keep, ignore_errors=True)
    keep.mkdir(parents=True)
    for file in folder.glob("*"):
        if file.is_file():
            shutil.copy(file, keep)
    shutil.copytree(
        room.path(folder / DISK), keep / "runs", ignore=shutil.ignore_patterns("ballast", "initial_policy*")
    )
    for logs in (folder / "t").glob("ray/session_2*/logs"):
        shutil.copytree(logs, keep / f"logs-{logs.parent.name[-12:]}", ignore_dangling_symlinks=True)
