"""A SIGTERM while Ray starts, whose own handlers would end the process otherwise; and one that Ray gets too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

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

IMPORTED = """
import os, signal, sys

class Struck:
    def find_spec(self, name, path, target=None):
        if name == "cluster.commands.cli":
            try:
                os.kill(os.getpid(), getattr(signal, sys.argv[1]))
            except KeyboardInterrupt:  # as a library may
                raise ValueError("cannot be imported")

sys.meta_path.insert(0, Struck())
from parley.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_stop_while_commands_are_imported_is_one_line(name):
    made = subprocess.run([sys.executable, "-c", IMPORTED, name], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (made.returncode, made.stdout, made.stderr) == (130, "", "\nparley: stopped\n")


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "command",
    [
        ("train", "recipes/games/parrot.yaml", "model.path=embedded"),
        pytest.param(("rewards", "serve", "--no-key", "reward.shaper=aria"), marks=pytest.mark.long),
    ],
)
def test_while_ray_starts_sigterm_is_ctrl_c(tmp_path, command):
    program = [sys.executable, "-c", STRUCK, *command]
    program += [f"output={tmp_path}"] if command[0] == "train" else [f"reward.http.state={tmp_path}"]
    made = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=150)
    assert made.returncode == 130, made.stdout + made.stderr
    assert made.stderr.strip().splitlines()[-1].startswith("parley: stopped"), made.stderr
    assert "Traceback" not in made.stderr


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_signal_to_all_that_a_run_started_stops_it_in_time(tmp_path):
    """As `timeout`, systemd and Slurm send it: Ray's GCS and raylet go with it, and nothing can ask them any more."""
    command = [sys.executable, "-m", "parley", "train", "recipes/games/parrot.yaml", "model.path=embedded"]
    command += ["updates=1000", "rollout.engine.kind=transformers", f"output={tmp_path}"]
    run = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        before = []
        for line in run.stdout:
            before.append(line)
            if line.startswith("update    3/"):
                break
        assert line.startswith("update    3/"), "".join(before)
        began = time.monotonic()
        os.killpg(run.pid, signal.SIGTERM)
        rest, _ = run.communicate(timeout=90)
    finally:
        run.kill()
    assert run.returncode == 130, rest
    assert time.monotonic() - began < 30
    (said,) = [line for line in rest.splitlines() if line.startswith("parley: ")]
    assert said.startswith("parley: stopped") and "parley resume" in said and "Traceback" not in rest
