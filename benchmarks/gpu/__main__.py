"""`make gpu-check`: proves the GPU path on this machine's card, part by part, and writes a report.

Every check runs in a process of its own under a time limit. What cannot be checked here is said
with its reason: the checks that need torch and transformers alone run where nothing else is
installed. The exit code is 0 only if nothing failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks.gpu.bench import FAIL, FIGURE, NOT_CHECKED, OK
from benchmarks.gpu.checks import CHECKS
from benchmarks.gpu.page import counts, report, write
from benchmarks.gpu.runner import PATIENCE, ROOT, run

MINUTES = 24.0
REPORTS = {"cuda": ROOT / "docs" / "results" / "gpu_report.md", "cpu": ROOT / "runs" / "gpu_check_on_cpu.md"}
COLOURS = {OK: "32", FAIL: "31;1", FIGURE: "36", NOT_CHECKED: "33"}


def main() -> int:
    asked = arguments()
    path = asked.report or REPORTS[asked.device]
    if not writable(path):
        print(f"gpu-check: the report cannot be written to {path}: give --report PATH", file=sys.stderr)
        return 2
    if asked.logs is not None:
        asked.logs.mkdir(parents=True, exist_ok=True)
    began, results = time.monotonic(), []
    for check in CHECKS:
        if asked.only and check.name not in asked.only:
            continue
        print(f"{check.name}: {check.proves}", flush=True)
        result = run(
            check, asked.device, asked.minutes * 60 * PATIENCE[asked.device] - (time.monotonic() - began), asked.logs
        )
        results.append(result)
        for line in result.lines:
            print(f"  {coloured(line.status)} {line.what}{': ' if line.found else ''}{line.found}")
    seconds = time.monotonic() - began
    write(path, report(results, asked.device, seconds))
    found = counts(results)
    print(f"{found[OK]} ok, {found[FAIL]} failed, {found[NOT_CHECKED]} not checked in {seconds:.0f} s; {path}")
    return 1 if found[FAIL] or not found[OK] else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make gpu-check", description="prove the GPU path on this machine's card")
    parser.add_argument(
        "only", nargs="*", metavar="CHECK", help=f"which (default: all): {', '.join(c.name for c in CHECKS)}"
    )
    parser.add_argument(
        "--device", choices=tuple(REPORTS), default="cuda", help="cpu: try the checks themselves, small"
    )
    parser.add_argument("--report", type=Path, help="where the report goes (default: docs/results/gpu_report.md)")
    parser.add_argument("--logs", type=Path, help="a folder that keeps all that the checks print")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="longest time in all, on a card (default: %(default)g)"
    )
    asked = parser.parse_args()
    if unknown := set(asked.only) - {check.name for check in CHECKS}:
        parser.error(f"no check {min(unknown)!r}; there are: {', '.join(check.name for check in CHECKS)}")
    return asked


def writable(path: Path) -> bool:
    if path.exists():
        return os.access(path, os.W_OK)
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    return os.access(folder, os.W_OK | os.X_OK)


def coloured(status: str) -> str:
    padded = f"{status:<11}"
    return f"\033[{COLOURS[status]}m{padded}\033[0m" if sys.stdout.isatty() else padded


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
