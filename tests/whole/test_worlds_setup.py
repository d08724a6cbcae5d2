"""The packages of worlds: what is pinned, and what `make setup WORLDS=1` makes of one that cannot be had."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.whole.test_packaging import ROOT, declared, lock

VERSION = "1.2"


def test_every_world_is_pinned_exactly_and_so_is_what_it_brings_in():
    worlds, wanted = lock("worlds"), declared()["worlds"]
    assert [str(each) for each in wanted if "==" not in str(each.specifier)] == []
    for device in ("cpu", "gpu"):
        pins = lock(device) | worlds
        for requirement in wanted:
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_worlds_change_no_package_of_the_lock(device):
    assert set(lock("worlds")) & set(lock(device)) == set()


def wheel(folder: Path, name: str) -> None:
    """The least that pip takes for a package."""
    told = f"{name}-{VERSION}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{VERSION}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{told}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n")
        archive.writestr(f"{told}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{told}/RECORD", "")


def run(checkout: Path, wheels: Path) -> subprocess.CompletedProcess:
    """With no index to ask, only a folder."""
    where = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(
        ["deploy/worlds.sh"], cwd=checkout, env={**os.environ, **where}, capture_output=True, text=True, timeout=120
    )


def test_what_can_be_had_is_installed_and_what_cannot_is_a_line(tmp_path):
    checkout, wheels = tmp_path / "checkout", tmp_path / "wheels"
    for folder in (checkout / "deploy", checkout / "requirements", wheels):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "deploy" / "worlds.sh", checkout / "deploy")
    lines = ["# comment", f"parley_test_far=={VERSION}", f"parley_test_near=={VERSION}"]
    (checkout / "requirements" / "worlds.lock").write_text("\n".join([*lines, ""]))
    assert run(checkout, wheels).stderr == "worlds: there is no .venv yet: make setup WORLDS=1\n"
    subprocess.run([sys.executable, "-m", "venv", checkout / ".venv"], check=True, timeout=120)
    wheel(wheels, "parley_test_near")

    first = run(checkout, wheels)
    assert first.returncode == 0, first.stderr
    missing, told = first.stdout.splitlines()
    assert missing.startswith(f"worlds: parley_test_far=={VERSION} cannot be had: Could not find a version")
    assert told == "worlds: 1 of 2 packages are installed"
    near = [checkout / ".venv" / "bin" / "python", "-c", "import parley_test_near"]
    subprocess.run(near, check=True, timeout=60)

    wheel(wheels, "parley_test_far")  # it can be had now: asked for again
    assert run(checkout, wheels).stdout == "worlds: 2 of 2 packages are installed\n"
    again = run(checkout, wheels)
    assert (again.returncode, again.stdout) == (0, ""), "all are there: nothing is done"
    (checkout / "requirements" / "worlds.lock").write_text("# nothing\n")
    assert run(checkout, wheels).stdout == "worlds: all that they need is in .venv already\n"


def test_make_passes_it_on():
    def said(*words: str) -> str:
        done = subprocess.run(
            ["make", "-n", "-o", ".venv/.ready-cpu", "-o", ".venv/.ready-gpu", "setup", *words],
            cwd=ROOT, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "deploy/worlds.sh" in said("WORLDS=1") and "deploy/worlds.sh" not in said()
