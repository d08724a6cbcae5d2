"""`parley report`: one page about a run, or several."""

from __future__ import annotations

import argparse
from pathlib import Path

from cluster.commands.command import Command, runs_among

EXAMPLES = """\
examples:
  parley report runs/demo-20260101-120000
  parley report runs/plain-* runs/aria-* --output compared.html
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="run folders; seeds of the same recipe are taken together"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: report.html in the first run's folder")


def run(asked: argparse.Namespace) -> None:
    from cluster.record.manner import busy
    from cluster.record.terminal import display_path

    runs = runs_among(asked.runs, begun=True)
    with busy("reading the run") as say:
        from cluster.report.page import write_report

        made = write_report(runs, asked.output, say)
    print(f"report in {display_path(made)}: open it in a browser; it needs no network")


COMMAND = Command("report", "make one page about a run, or comparing several", run, arguments, EXAMPLES)
