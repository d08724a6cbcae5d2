"""Runs one check in a process of its own, and leaves nothing of it behind.

A check may crash, hang, or start processes that outlive it and hold the card's memory, such as
Ray's, which are in sessions of their own. Everything it starts inherits a mark in its environment:
when the check is over, in whatever way, whoever still bears that mark is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.gpu.bench import FAIL, NOT_CHECKED, Check, Line, read

ROOT = Path(__file__).parents[2]
END_SECONDS = 20.0  # for a process that was killed
MARK = "PARLEY_GPU_CHECK"
LOG = "log"
PATIENCE = {"cuda": 1, "cpu": 4}  # the limits are meant for a machine with a card
OUT_OF_TIME = 5.0  # seconds: with less left, a check is not begun


@dataclass(frozen=True, slots=True)
class Result:
    check: Check
    lines: list[Line]
    seconds: float


def run(check: Check, device: str, seconds_left: float, logs: Path | None = None) -> Result:
    """`logs`: a folder that keeps what the check printed."""
    reason = not_here(check, device)
    if reason is None and seconds_left < OUT_OF_TIME:
        reason = "the time of the whole command was over"
    if reason is not None:
        return Result(check, [Line(NOT_CHECKED, check.proves, reason)], 0.0)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="parley-gpu-check-", ignore_cleanup_errors=True) as folder:
        lines = _run(check, device, min(check.seconds * PATIENCE[device], seconds_left), Path(folder))
        if logs is not None:
            shutil.copy(Path(folder) / LOG, logs / f"{check.name}.log")
    return Result(check, lines, time.monotonic() - began)


def not_here(check: Check, device: str) -> str | None:
    """Why a check cannot be made here at all."""
    if check.card and device == "cpu":
        return "there is nothing to be seen of it without a card"
    for package in check.packages:
        if find_spec(package) is None:
            return f"{package} is not installed"
    return None


def _run(check: Check, device: str, seconds: float, folder: Path) -> list[Line]:
    said, log, mark = folder / "lines", folder / LOG, uuid.uuid4().hex
    command = [sys.executable, "-m", "benchmarks.gpu.child", check.where, device, str(said)]
    here = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}  # not a cluster's other cards
    environment = here | {
        MARK: mark,
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(seconds)
            trouble = None if code == 0 else _ended_with(code)
        except subprocess.TimeoutExpired:
            trouble = f"not done after {seconds:g} s"
        finally:
            kill_marked(mark)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:  # one that hangs in its card's driver cannot be killed
        trouble = f"{trouble or 'done'}, but its process does not end"
    lines = read(said)
    if trouble is not None:
        last = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
        lines.append(Line(FAIL, check.name, "; ".join([trouble, *last])[:400]))
    if not lines:
        lines.append(Line(FAIL, check.name, "it said nothing"))
    return lines


def _ended_with(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def kill_marked(mark: str) -> None:
    """Again and again, as what is being killed may be starting more, until nobody bears the mark."""
    for _ in range(100):
        there = marked(mark)
        if not there:
            return
        for process in there:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:  # gone meanwhile
                continue
        time.sleep(0.05)
    raise RuntimeError(f"processes {there} of a check cannot be killed")


def marked(mark: str) -> list[int]:
    """Processes with this mark in the environment that they were started with."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
        except OSError:  # another user's, or gone meanwhile; of one that has ended nothing can be read
            continue
    return found
