"""Which walls this machine can put around model-written code, and how to start a keeper behind them.

    bubblewrap   bwrap: an empty root with Python in it, read-only; no network, own processes
    namespaces   the same from the kernel's own calls, where bwrap is missing
    process      none: a process with the filter and the limits only

Behind each of them the system-call filter and the limits of `inside` hold, so that even in
`process` the code can neither start nor signal a process, nor open a socket or a file: the
walls are what holds if the filter has a hole. "auto" takes the first that works and says so
where it is not the first. Where not even the filter can be had (it needs Linux on x86-64 or
64-bit ARM), no code is run.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

log = logging.getLogger("parley.data_science")

INSIDE = Path(__file__).parent / "inside"
WALLS = ("bubblewrap", "namespaces", "process")
NEEDED = ("cloudpickle", "numpy", "scipy", "sklearn", "joblib", "threadpoolctl")
PROBE_SECONDS = 30
ENVIRONMENT = {  # all that the sandbox knows of it
    "HOME": "/",
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONWARNINGS": "ignore",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JOBLIB_MULTIPROCESSING": "0",  # n_jobs=-1 then means one, without an error
}


def python() -> str:
    """The interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@lru_cache(maxsize=1)
def packages() -> tuple[str, ...]:
    """The folders that scikit-learn and what it needs are installed in. ValueError names what is missing."""
    folders: dict[str, None] = {}
    for name in NEEDED:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            raise ValueError(f"the game data_science needs the package {name}: pip install scikit-learn")
        inside = found.origin if found.submodule_search_locations is None else os.path.dirname(found.origin)
        folders[os.path.realpath(os.path.dirname(inside))] = None
    return tuple(folders)


@lru_cache(maxsize=1)
def visible() -> tuple[tuple[str, ...], ...]:
    """The only places of this machine that the sandbox sees, read-only: (path,), or (path, target) for a link."""
    interpreter = python()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    libraries = os.path.join(sys.base_prefix, "lib")
    wanted = [
        *("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache"),  # the linker's
        *(libraries, os.path.join(libraries, version), interpreter),
        *packages(),
        str(INSIDE),
    ]
    places: list[tuple[str, ...]] = []
    for path in wanted:
        if os.path.islink(path) and path in ("/lib", "/lib64"):
            places.append((path, os.readlink(path)))
        elif os.path.exists(path) and not any(path == seen or path.startswith(seen + "/") for seen, *_ in places):
            places.append((path,))
    return tuple(places)


def command(walls: str, program: Sequence[str]) -> list[str]:
    """The command line that runs a program behind these walls."""
    if walls == "bubblewrap":
        around = [shutil.which("bwrap") or "bwrap", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "sandbox"]
        around += ["--uid", "65534", "--gid", "65534", "--chdir", "/"]
        around += [f"--unshare-{each}" for each in ("user", "pid", "net", "ipc", "uts", "cgroup-try")]
        for path, *link in visible():
            around += ["--symlink", link[0], path] if link else ["--ro-bind", path, path]
        return [*around, "--remount-ro", "/", "--", *program]
    if walls == "namespaces":
        return [python(), "-sPS", str(INSIDE / "namespaces.py"), json.dumps(visible()), "--", *program]
    return list(program)


def keeper(walls: str, results: int, null: int, what: str) -> list[str]:
    """The command line of a keeper; `what` is "serve", or "probe": put the limits in force once and end."""
    program = [python(), "-sPS", str(INSIDE / "keeper.py"), str(results), str(null), what, *packages()]
    return command(walls, program)


def missing(walls: str) -> str:
    """Why these walls cannot be had here, in words; empty where they can. Tried for real, once in a process."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return "the system-call filter is made for Linux on x86-64 and 64-bit ARM only"
    return _probed(walls, shutil.which("bwrap") if walls == "bubblewrap" else None)


@lru_cache(maxsize=8)
def _probed(walls: str, bwrap: str | None) -> str:
    if walls == "bubblewrap" and bwrap is None:
        return "bwrap is not on the PATH (install the package bubblewrap)"
    with tempfile.TemporaryFile() as complaints, open(os.devnull, "r+b") as null:
        try:
            done = subprocess.run(
                keeper(walls, null.fileno(), null.fileno(), "probe"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                pass_fds=(null.fileno(),),
                env=ENVIRONMENT,
                timeout=PROBE_SECONDS,
            )
        except OSError as error:
            return str(error)
        except subprocess.TimeoutExpired:
            return f"it did not start within {PROBE_SECONDS} s"
        if done.returncode == 0:
            return ""
        complaints.seek(0)
        said = complaints.read(10_000).decode("utf-8", "replace").strip().splitlines()
        return said[-1] if said else f"it ended with status {done.returncode}"


@lru_cache(maxsize=8)
def choose(isolation: str) -> str:
    """The walls that a demand comes to here. ValueError where it cannot be met."""
    if isolation not in ("auto", *WALLS):
        raise ValueError(f"game option isolation={isolation!r} must be one of: auto, {', '.join(WALLS)}")
    reasons: dict[str, str] = {}
    for walls in WALLS if isolation == "auto" else (isolation,):
        reasons[walls] = missing(walls)
        if not reasons[walls]:
            break
    else:
        why = "; ".join(f"{walls}: {reason}" for walls, reason in reasons.items())
        raise ValueError(f"game option isolation={isolation!r} cannot be met here ({why})")
    if isolation == "auto" and walls == "namespaces":
        log.warning("%s; model-written code runs in namespaces that Parley makes itself", reasons["bubblewrap"])
    if walls == "process":
        why = "" if isolation == "process" else f" (bubblewrap: {reasons['bubblewrap']}; {reasons['namespaces']})"
        log.warning(
            "model-written code runs without namespaces%s: no file system, network and process list of its own; "
            "only the system-call filter and the limits hold it",
            why,
        )
    return walls
