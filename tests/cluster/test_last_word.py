"""What is said of a run whose process ends at once: real processes that end in each way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.errors import LostError
from cluster.run.last_word import SPOKEN_FOR

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, signal, sys
from cluster.run.last_word import last_word
with last_word("go on with: parley resume /runs/some run") as word:
    {end}
"""
LINE = "go on with: parley resume /runs/some run\n"


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("pass", 0, ""),
        ("raise SystemExit(75)", 75, ""),
        ("os._exit(1)", 1, LINE),  # as Ray does
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, LINE),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -11, LINE),
    ],
)
@pytest.mark.parametrize("spoken_for", [False, True])
def test_a_run_that_ends_at_once_has_one_line(end, code, said, spoken_for):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **({SPOKEN_FOR: "1"} if spoken_for else {})}
    command = [sys.executable, "-c", PROGRAM.format(end=end)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == code
    assert ended.stderr.count("\n") == (1 if said and not spoken_for else 0), ended.stderr
    assert ended.stderr.endswith("" if spoken_for else said)


def test_a_process_that_can_only_end_says_why_and_takes_others_with_it():
    other = subprocess.Popen(["sleep", "60"])
    program = PROGRAM.format(
        end="import threading; threading.Thread(target=word.end, args=('Ray is frozen', [int(sys.argv[1])])).start(); "
        "signal.pause()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, str(other.pid)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (LostError.exit_code, f"parley: Ray is frozen; {LINE}")
    assert other.wait(30) == -9
