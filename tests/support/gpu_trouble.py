"""Checks that go wrong in every way that a process can."""

from __future__ import annotations

import os
import subprocess
import time


def crash(bench):
    bench.judge(True, "before")
    print("the last words", flush=True)
    os.abort()


def hang(bench):
    """And leaves a process in a session of its own, as Ray does."""
    left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    bench.figure("left behind", str(left.pid))
    time.sleep(1000)


def leave(bench):
    left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    bench.figure("left behind", str(left.pid))


def silent(bench):
    pass


def half(bench):
    with bench.part("a part"):
        raise ValueError("of no use\nsecond line")
    with bench.part("another"):
        bench.within("small", 1.0, 2.0)
        bench.within("not a number", float("nan"), 2.0)
