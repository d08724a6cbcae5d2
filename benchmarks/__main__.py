"""All benchmarks, each in a process of its own, and one JSON file of what they found."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import FAILURE, FOLDER, load, machine, stamp, write
from cluster.record.terminal import page

NAMES = (
    "turns",
    "rollout",
    "cache",
    "learner",
    "memory",
    "losses",
    "credit_speed",
    "intentions",
    "granularity",
    "reward_models",
    "reward_service",
    "sync",
    "families",
    "stages",
    "waiting",
    "worlds",
)
TIME_LIMIT_SECONDS = 3600  # of each


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="what Parley costs on top of what it is made of, on this machine"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--output", type=Path, default=FOLDER / f"{stamp()}.json", help="where the JSON goes")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}")
    out = page()
    result: dict[str, Any] = {"quick": asked.quick, "machine": machine(), "load_at_start": load()}
    failures: dict[str, str] = {}
    started = time.monotonic()
    for name in asked.names or NAMES:
        try:
            result[name] = run(name, asked.quick)
        except RuntimeError as error:
            failures[name] = str(error)
            out.print(f"{name}: no figures", style="red")
    result |= {"seconds": round(time.monotonic() - started, 1), "failures": failures}
    write(asked.output, result)
    out.print(f"{result['seconds'] / 60:.1f} minutes; {asked.output}")
    return 1 if failures else 0


def run(name: str, quick: bool) -> dict[str, Any]:
    """A process of its own: engines and DeepSpeed leave its memory with it."""
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder:
        found = Path(folder) / "found.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", "--output", str(found), *(["--quick"] if quick else [])]
        try:
            ended = subprocess.run(command, timeout=TIME_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"took more than {TIME_LIMIT_SECONDS} s and was stopped") from None
        content = json.loads(found.read_text()) if found.is_file() else {}
        if ended.returncode:
            raise RuntimeError(content.get(FAILURE, f"ended with exit code {ended.returncode}; the reason is above"))
        return content[name]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
