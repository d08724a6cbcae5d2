"""What the commands of all contests can be told."""

from __future__ import annotations

import argparse
import os

from cluster.commands.command import positive

SEEDS = 8


def contest_parser(module: str, what: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{module}", description=what.splitlines()[0])
    parser.add_argument("--seeds", type=positive, default=SEEDS, help="reported seeds of each method")
    parser.add_argument("--processes", type=positive, default=os.cpu_count(), help="runs at once, a thread each")
    parser.add_argument("--tables", action="store_true", help="run nothing, show what has been recorded")
    return parser
