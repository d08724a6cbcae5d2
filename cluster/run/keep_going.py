"""A run that outlives its own process: `parley train RECIPE --keep-going`.

    run folder --> parley resume --+--> ended by itself: so does this
         ^                         |
         +---- after a pause ------+--> killed, frozen, or lost what it needs (a machine, Ray, a learner)

Each try goes on from the newest checkpoint with the ledger that is in it: games that were in flight are played again.
A run that fails by an error of its own (a setting, a proof of sync, a full disk) ends: another try would end so too.
Until an update is done again after something was lost, every error is taken for its absence: no room, too few cards, no
Ray. It is waited for as long as `PATIENCE_SECONDS`. A run that makes no checkpoint in several tries, though it makes
updates, ends as well.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster.errors import ConfigError, LostError, ParleyError, RunError
from cluster.record import checkpoints
from cluster.record.run import Run
from cluster.record.run_folder import RunFolder
from cluster.run.last_word import SPOKEN_FOR

FRUITLESS = 5  # tries with updates, but without a new checkpoint
PATIENCE_SECONDS = 3600.0  # without an update
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 300.0
FROZEN_SECONDS = 60.0  # for which a process may be stopped (SIGSTOP) before it is given up
LOOK_SECONDS = 0.5
STOPPED = 130  # exit code, as shells give it for Ctrl-C
PR_SET_PDEATHSIG = 1  # of Linux's prctl


class Stopped:
    """Whether somebody asked for the end; the process that works is told, and is waited for."""

    def __init__(self) -> None:
        self.asked = False
        self.working: subprocess.Popen | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = {each: signal.signal(each, self._ask) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _ask(self, signum: int, frame: object) -> None:
        self.asked = True
        if self.working is not None and self.working.poll() is None:
            self.working.send_signal(signum)


def keep_going(folder: Path) -> int:
    """Work on the run in `folder` until it ends; its exit code."""
    stopped, lost, idle, fruitless = Stopped(), False, 0, 0
    since = time.monotonic()  # no update was done
    with stopped.listening():
        while True:
            newest, last = checkpoints.latest(folder / "checkpoints"), _last_update(folder)
            code = _try(folder, stopped)
            if stopped.asked:
                return code if code >= 0 else STOPPED
            saved, learned = checkpoints.latest(folder / "checkpoints") != newest, _last_update(folder) > last
            fruitless = 0 if saved else fruitless + learned
            if saved or learned:
                since, idle, lost = time.monotonic(), 0, False
            else:
                idle += 1
            from_outside = code < 0 or code == LostError.exit_code or RunFolder.was_left_open(folder)
            lost = lost or (from_outside and code > 0)
            if not from_outside and not (lost and code in (RunError.exit_code, ConfigError.exit_code)):
                return code
            what = f"signal {-code}" if code < 0 else f"code {code}"
            if given_up := _given_up(fruitless, time.monotonic() - since):
                _say(f"{given_up}, the last with {what}: {folder} is left as it is")
                return LostError.exit_code if lost else 1
            pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**idle)
            _say(f"the run's process ended with {what}; in {pause:.0f} s it goes on: parley resume {folder}")
            _pause(pause, stopped)
            if stopped.asked:
                return STOPPED


def _given_up(fruitless: int, idle_seconds: float) -> str | None:
    if fruitless == FRUITLESS:
        return f"{FRUITLESS} tries ended without a new checkpoint"
    if idle_seconds > PATIENCE_SECONDS:
        return f"all tries of {PATIENCE_SECONDS / 60:.0f} minutes ended without an update"
    return None


def _last_update(folder: Path) -> float:
    """When it was done; 0 where there is none."""
    try:
        return max((row["time"] for row in Run(folder).metrics if row.get("update")), default=0.0)
    except (ParleyError, KeyError, TypeError):
        return 0.0


def _try(folder: Path, stopped: Stopped) -> int:
    """The exit code of one process."""
    command = [sys.executable, "-m", "parley", "resume", str(folder)]
    # a session of its own: a Ctrl-C of the terminal comes through `Stopped`, once
    environment = {**os.environ, SPOKEN_FOR: "1"}
    stopped.working = subprocess.Popen(command, start_new_session=True, preexec_fn=_end_with_parent, env=environment)
    if stopped.asked:  # before there was somebody to tell
        stopped.working.send_signal(signal.SIGTERM)
    code = _end_of(stopped.working)
    stopped.working = None
    return code


def _end_of(process: subprocess.Popen) -> int:
    """Its exit code. One that is stopped does not end by itself; the kernel tells its parent."""
    frozen_since = None
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(LOOK_SECONDS)
        with suppress(ChildProcessError):  # it has just ended, and a signal's handler has asked for its code
            if change := os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG):
                frozen_since = time.monotonic() if change.si_code == os.CLD_STOPPED else None
        if frozen_since is not None and time.monotonic() - frozen_since > FROZEN_SECONDS:
            _say(f"the run's process has been frozen for {FROZEN_SECONDS:.0f} s, and is killed")
            process.kill()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _pause(seconds: float, stopped: Stopped) -> None:
    deadline = time.monotonic() + seconds
    while not stopped.asked and time.monotonic() < deadline:
        time.sleep(0.1)


def _say(text: str) -> None:
    print(f"parley: {text}", file=sys.stderr, flush=True)
