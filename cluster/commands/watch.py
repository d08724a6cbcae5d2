"""`parley watch`: runs in a browser, while they go on."""

from __future__ import annotations

import argparse
import sys

from cluster.commands.command import LOCAL, Command
from cluster.record.manner import busy

PORT = 8420
EXAMPLES = """\
examples:
  parley watch runs/demo-20260101-120000
  parley watch runs/*
  parley watch runs/* --host 0.0.0.0            the address that it prints has a token in it
  ssh -L 8420:localhost:8420 cluster            then, there: parley watch runs/*
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="address to listen on; default: this machine alone"
    )
    parser.add_argument("--port", type=int, default=PORT, metavar="PORT", help=f"default: {PORT}; 0: one that is free")


def run(asked: argparse.Namespace) -> None:
    with busy("starting"):
        from cluster.watch.followed import Followed
        from cluster.watch.server import serve

    runs = [Followed.of(folder) for folder in asked.runs]
    serve(runs, asked.host, asked.port, asked.host in LOCAL, lambda line: print(line, file=sys.stdout, flush=True))


COMMAND = Command("watch", "show runs in a browser, while they go on", run, arguments, EXAMPLES)
