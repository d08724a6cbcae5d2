"""One check, in the process that the command starts for it: `python -m benchmarks.gpu.child NAME DEVICE LINES`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.gpu.bench import Bench


def main(name: str, device: str, lines: str) -> None:
    bench = Bench(device, Path(lines))
    with bench.part(f"{name}, as a whole"):
        import_module(f"benchmarks.gpu.{name}").check(bench)


if __name__ == "__main__":
    main(*sys.argv[1:])
