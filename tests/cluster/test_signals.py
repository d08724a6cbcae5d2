"""A SIGTERM while Ray starts, whose own handlers would end the process with a code of theirs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.runs import ROOT

STRUCK = """
import os, signal, sys
from cluster.commands import cli

plain = signal.signal
def struck(number, handler):
    before = plain(number, handler)
    if number == signal.SIGTERM and getattr(handler, "__module__", "").startswith("ray."):
        os.kill(os.getpid(), number)
    return before
signal.signal = struck
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "command",
    [
        ("train", "recipes/games/parrot.yaml", "model.path=embedded"),
        ("rewards", "serve", "--no-key", "reward.shaper=aria"),
    ],
)
def test_while_ray_starts_sigterm_is_ctrl_c(tmp_path, command):
    program = [sys.executable, "-c", STRUCK, *command]
    program += [f"output={tmp_path}"] if command[0] == "train" else [f"reward.http.state={tmp_path}"]
    made = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=150)
    assert made.returncode == 130, made.stdout + made.stderr
    assert made.stderr.strip().splitlines()[-1].startswith("parley: stopped"), made.stderr
    assert "Traceback" not in made.stderr
