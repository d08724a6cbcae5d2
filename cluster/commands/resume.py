"""`parley resume`: go on with a run after a stop."""

from __future__ import annotations

import argparse
import textwrap

from cluster.api import go_on, go_on_and_keep_going
from cluster.commands.command import Command, keeps_going, says_how_much, takes_overrides
from cluster.recipe.resumable import RESUMABLE


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder, e.g. runs/demo-20260101-120000")
    takes_overrides(parser)
    keeps_going(parser)
    says_how_much(parser)


def run(asked: argparse.Namespace) -> int | None:
    if asked.keep_going:
        return go_on_and_keep_going(asked.run, asked.overrides)
    go_on(asked.run, asked.overrides)
    return None


ABOUT = "go on with a run from its newest whole checkpoint"
COMMAND = Command("resume", ABOUT, run, arguments, textwrap.fill(f"may change: {', '.join(RESUMABLE)}", 100))
