"""Which walls hold model-written code where, and the system-call filter: its list and nothing else."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import time

import numpy
import pytest

from envs.data_science.sandbox import isolation
from envs.data_science.sandbox.inside import syscalls
from envs.data_science.sandbox.pool import Fit, Limits, Prediction, pool
from envs.data_science.tables import table_of
from tests.support.sandbox_payloads import WALLS, code
from tests.support.sandbox_payloads import closed_in_the_end as closed_in_the_end
from tests.support.sandbox_payloads import nothing_remembered as nothing_remembered

# Which walls


@pytest.fixture
def fresh_choice():
    isolation.choose.cache_clear()
    yield
    isolation.choose.cache_clear()


def test_walls_that_are_not_here_are_refused_or_replaced_aloud(fresh_choice, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("PATH", str(tmp_path))  # no bwrap on it
    with pytest.raises(ValueError, match="isolation='bubblewrap' cannot be met here .*bwrap is not on the PATH"):
        isolation.choose("bubblewrap")
    with pytest.raises(ValueError, match="isolation='chroot' must be one of: auto, bubblewrap, namespaces, process"):
        isolation.choose("chroot")
    if "namespaces" not in WALLS:
        pytest.skip("no namespaces here")
    assert isolation.choose("auto") == "namespaces"
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "parley.data_science"]
    assert "bwrap is not on the PATH" in warning and "namespaces that Parley makes itself" in warning


def test_without_user_namespaces_only_the_filter_is_left_and_it_says_so():
    """For real: in a user namespace that may have no further ones."""
    if shutil.which("unshare") is None or "namespaces" not in WALLS:
        pytest.skip("needs the tool unshare, and namespaces to begin with")
    script = """
import logging; logging.basicConfig(format="%(message)s")
from envs.data_science.game import DataScience
for demand in ("bubblewrap", "namespaces"):
    try: DataScience(isolation=demand)
    except ValueError as error: print(error)
game = DataScience()
game.reset(0)
step = game.step("def build_model(x, y): from sklearn.naive_bayes import GaussianNB; return GaussianNB().fit(x, y)")
print(game.limits.walls, game.outcome()["coder"] > 0.9)
"""
    inner = f"echo 0 > /proc/sys/user/max_user_namespaces && exec {sys.executable} -c '{script}'".replace('"', '\\"')
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", inner.replace('\\"', '"')], capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    assert "isolation='bubblewrap' cannot be met here" in lines[0]
    assert "isolation='namespaces' cannot be met here" in lines[1]
    assert lines[2] == "process True"
    assert "without namespaces" in done.stderr and "only the system-call filter and the limits hold it" in done.stderr


# The filter as a program, on both architectures


def judged(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel's interpreter answers: the filter's instructions, step by step."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(arguments + (0,) * 6)[:6])
    code, place, value = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        kind, true, false, constant = code[place]
        if kind == 0x20:
            value = struct.unpack_from("<I", data, constant)[0]
            place += 1
        elif kind in (0x15, 0x35):
            held = value == constant if kind == 0x15 else value >= constant
            place += 1 + (true if held else false)
        else:
            assert kind == 0x06
            return constant


FORBIDDEN = (  # x86-64, 64-bit ARM: open a file, run a program, start a process, signal, connect, trace, mount, ...
    (257, 56), (437, 437), (59, 221), (56, 220), (435, 435), (62, 129), (41, 198), (42, 203), (101, 117), (165, 40),
    (272, 97), (319, 279), (425, 425), (310, 270), (311, 271), (250, 219), (321, 280), (434, 434), (263, 35),
)  # fmt: skip


@pytest.mark.parametrize("machine", syscalls.ARCHITECTURES)
def test_the_filter_allows_the_list_and_nothing_else(machine):
    column, architecture = syscalls.ARCHITECTURES[machine]
    program = syscalls.program(machine, own_process=42)
    allowed = {numbers[column] for numbers in syscalls.CALLS.values()}
    assert len(allowed) == len(syscalls.CALLS), "no number twice"
    conditional = {"x86_64": (72, 234, 302), "aarch64": (25, 131, 261)}[machine]
    for number in range(600):
        if number not in conditional:
            expected = 0x7FFF0000 if number in allowed else 0x0005000D
            assert judged(program, architecture, number, 7, 7) == expected
    for forbidden in FORBIDDEN:  # whatever the list says
        assert judged(program, architecture, forbidden[column], 0, 0) == 0x0005000D
    fcntl, tgkill, prlimit = conditional
    assert [command for command in range(2000) if judged(program, architecture, fcntl, 5, command) == 0x7FFF0000] == [
        0, 1, 2, 3, 1030,
    ]  # fmt: skip
    assert [who for who in range(100) if judged(program, architecture, tgkill, who) == 0x7FFF0000] == [42]
    assert [who for who in range(100) if judged(program, architecture, prlimit, who) == 0x7FFF0000] == [0, 42]
    assert judged(program, architecture, 0x40000000) == 0x80000000
    assert judged(program, 0x40000003, 20) == 0x80000000  # 32-bit x86


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_every_classifier_with_its_defaults_works_inside():
    """Nothing that scikit-learn loads late is missing where no file can be opened."""
    from sklearn.utils import all_estimators

    wide = table_of("breast_cancer", "")
    x, y, worked = wide.x[::4], wide.y[::4], 0
    for name, made_by in all_estimators(type_filter="classifier"):
        try:
            made_by().fit(x, y).predict_proba(x)
        except Exception:
            continue  # needs an estimator to wrap, or gives no probabilities
        body = f"from {made_by.__module__} import {name}; return {name}().fit(x, y)"
        with pool.sandbox("process") as sandbox:
            limits = Limits("process", 60, 2048)
            status, sent = sandbox.run(Fit(code(body), x, y, 0, limits), time.monotonic() + 60)
            assert (status, sent[:1]) == (0, b"M"), (name, sent[:200])
            status, sent = sandbox.run(Prediction(sent[1:], x, 2, 0, limits), time.monotonic() + 60)
        assert (status, sent[:1]) == (0, b"P"), (name, sent[:200])
        assert numpy.isfinite(numpy.frombuffer(sent, "<f8", offset=1)).all()
        worked += 1
    assert worked >= 20
