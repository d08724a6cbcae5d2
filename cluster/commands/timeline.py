"""`parley timeline`: who did what when, as a file for Perfetto or Chrome."""

from __future__ import annotations

import argparse
from pathlib import Path

from cluster.commands.command import Command, positive

NEWEST = 40  # updates
EXAMPLES = """\
examples:
  parley timeline runs/demo-20260101-120000
  parley timeline runs/demo-20260101-120000 --to demo.json.gz --updates 200

Open the file at ui.perfetto.dev, which keeps it on your machine, or at chrome://tracing.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder; the run may still go on")
    parser.add_argument(
        "--to", type=Path, metavar="FILE", help="default: timeline.json in its folder; NAME.gz is compressed"
    )
    parser.add_argument(
        "--updates", type=positive, default=NEWEST, metavar="N", help=f"the newest N updates (default {NEWEST})"
    )


def run(asked: argparse.Namespace) -> None:
    from cluster.record.manner import busy
    from cluster.record.terminal import display_path

    with busy("reading the run"):
        from cluster.watch.timeline import write_timeline

        path, count = write_timeline(asked.run, asked.to, asked.updates)
    print(f"{count:,} events in {display_path(path)}: open it at ui.perfetto.dev or chrome://tracing")


COMMAND = Command("timeline", "write who did what when, for Perfetto or Chrome", run, arguments, EXAMPLES)
