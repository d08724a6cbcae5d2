"""One check, in the process that the command starts for it: `python -m benchmarks.gpu.child WHERE DEVICE LINES`."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from benchmarks.gpu.bench import Bench


def main(where: str, device: str, lines: str) -> None:
    module, _, function = where.partition(":")
    bench = Bench(device, Path(lines))
    with bench.part(module.rpartition(".")[2]):
        getattr(import_module(module), function)(bench)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.child", description=__doc__.splitlines()[0])
    parser.add_argument("where", help="MODULE:FUNCTION of the check")
    parser.add_argument("device", choices=("cuda", "cpu"))
    parser.add_argument("lines", help="the file that its lines are added to")
    main(**vars(parser.parse_args()))
