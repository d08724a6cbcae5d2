"""`parley watch`: runs in a browser, while they go on."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

from cluster.commands.command import LOCAL, Command, runs_among
from cluster.record.manner import busy

PORT = 8420
EXAMPLES = """\
examples:
  parley watch --demo                           a small run that comes with Parley
  parley watch runs/demo-20260101-120000
  parley watch runs/*
  parley watch runs/* --host 0.0.0.0            the address that it prints has a token in it
  ssh -L 8420:localhost:8420 cluster            then, there: parley watch runs/*
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run folders; several are compared")
    parser.add_argument("--demo", action="store_true", help="show a small run that comes with Parley")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="address to listen on; default: this machine alone"
    )
    parser.add_argument("--port", type=int, default=PORT, metavar="PORT", help=f"default: {PORT}; 0: one that is free")


def run(asked: argparse.Namespace) -> None:
    from cluster.errors import ConfigError

    if asked.demo == bool(asked.runs):
        raise ConfigError("name the folders of runs to watch (`parley runs` lists them), or --demo alone")
    with busy("starting"):
        from cluster.watch.demo import unpacked
        from cluster.watch.followed import Followed
        from cluster.watch.server import serve

    with unpacked() if asked.demo else nullcontext() as demo:
        runs = [Followed.of(folder) for folder in runs_among(asked.runs) or [demo]]
        serve(runs, asked.host, asked.port, asked.host in LOCAL, lambda line: print(line, file=sys.stdout, flush=True))


COMMAND = Command("watch", "show runs in a browser, while they go on", run, arguments, EXAMPLES)
