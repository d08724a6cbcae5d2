"""One check, in the process that the command starts for it: `python -m benchmarks.gpu.child WHERE DEVICE LINES`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.gpu.bench import Bench


def main(where: str, device: str, lines: str) -> None:
    module, _, function = where.partition(":")
    bench = Bench(device, Path(lines))
    with bench.part(module.rpartition(".")[2]):
        getattr(import_module(module), function)(bench)


if __name__ == "__main__":
    main(*sys.argv[1:])
