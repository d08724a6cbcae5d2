"""Pythons that have a package which cannot be installed beside Parley's own: each in a virtual environment that is made
once, by `make test-all`, and kept in $PARLEY_CACHE or ~/.cache/parley. PARLEY_PYTHON_OPENENV and so on name one that is
there already."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

OUTSIDE = Path(__file__).with_name("outside")  # what these Pythons run
INSTALL_SECONDS = 540


def python_with(package: str, version: str) -> str:
    """The interpreter, or a skipped test where it cannot be made."""
    if given := os.environ.get(f"PARLEY_PYTHON_{package.upper()}"):
        return given
    cache = Path(os.environ.get("PARLEY_CACHE") or Path.home() / ".cache" / "parley") / "pythons"
    folder = cache / f"{package}-{version}-{sys.version_info.major}.{sys.version_info.minor}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            if "PARLEY_OTHER_PYTHONS" not in os.environ:
                pytest.skip(f"NOT tested here: {package} needs an environment of its own, which `make test-all` makes")
            _make(folder, f"{package}=={version}")
    return str(folder / "bin" / "python")


def _make(folder: Path, requirement: str) -> None:
    python = folder / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", "--clear", folder],
        [python, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check", requirement],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            pytest.skip(f"NOT tested here: {requirement} cannot be installed in an environment of its own: {reason}")
    (folder / "made").touch()
