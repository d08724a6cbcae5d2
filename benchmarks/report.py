"""What a benchmark says on the terminal and leaves in JSON, and how one is run by itself."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from cluster.record.run_folder import versions, write_whole
from cluster.record.terminal import page

FOLDER = Path("runs") / "benchmarks"
FAILURE = "failure"  # key of the reason why there are no figures

Say = Callable[[str], None]
Measure = Callable[[bool, Say], dict[str, Any]]
Tables = Callable[[dict[str, Any]], list[Table]]


def spread_of(found: dict[str, float], form: str) -> str:
    """The median, and the quartiles in brackets."""
    return f"{found['median']:{form}} ({found['low']:{form}}-{found['high']:{form}})"


def short(parameters: int) -> str:
    return f"{parameters / 1e6:.2g}M" if parameters < 1e6 else f"{parameters / 1e6:.0f}M"


def load() -> list[float]:
    """Runnable processes over the last 1, 5 and 15 minutes; above the number of CPUs, they wait."""
    return [round(value, 2) for value in os.getloadavg()]


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%d-%H%M%S")


def write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1) + "\n")


def machine() -> dict[str, Any]:
    return versions() | {"machine": platform.machine(), "memory_gib": round(_memory_bytes() / 2**30, 1)}


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def quiet() -> None:
    """Only what the benchmark itself says: no bars for every model that is loaded."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore", FutureWarning)


def run_alone(name: str, measure: Measure, tables: Tables) -> None:
    """`python -m benchmarks.NAME`: measure, print, write. A benchmark that fails leaves its reason."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=f"the {name} benchmark")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--output", type=Path, default=FOLDER / f"{stamp()}-{name}.json", help="where the JSON goes")
    asked = parser.parse_args()
    quiet()
    out, started, before = page(), time.monotonic(), load()
    try:
        found = measure(asked.quick, lambda text: out.print(f"[dim]{name}: {text}[/dim]"))
    except RuntimeError as error:
        write(asked.output, {"quick": asked.quick, "machine": machine(), FAILURE: str(error)})
        raise SystemExit(f"benchmarks.{name}: {error}") from error
    found |= {"seconds": round(time.monotonic() - started, 1), "load_before": before, "load_after": load()}
    write(asked.output, {"quick": asked.quick, "machine": machine(), name: found})
    for table in tables(found):
        out.print(table)
