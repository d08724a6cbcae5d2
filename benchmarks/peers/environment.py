"""A virtual environment for a library that Parley does not depend on, made once.

What both use (torch, transformers) has Parley's own version, so that the same kernels compute.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(".peers")
PACKAGES = {"trl": ["trl==1.16.0", "torch", "transformers", "accelerate", "numpy", "pydantic"]}
INSTALL_SECONDS = 1200


def python_of(peer: str) -> Path:
    """The interpreter in which `peer` can be imported."""
    home = (FOLDER / peer).absolute()
    ready, wanted = home / "packages.txt", "\n".join(_pinned(package) for package in PACKAGES[peer])
    if not ready.is_file() or ready.read_text() != wanted:
        _call(sys.executable, "-m", "venv", "--clear", str(home))
        _call(str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted.splitlines())
        ready.write_text(wanted)
    return home / "bin" / "python"


def _pinned(package: str) -> str:
    return package if "==" in package else f"{package}=={version(package)}"


def _call(*command: str) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{' '.join(command)} took more than {INSTALL_SECONDS} s") from None
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:]
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}: {''.join(last)}")
