"""`parley runs`: what lies in a folder of runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from cluster.commands.command import Command
from cluster.errors import ConfigError, ParleyError
from cluster.record.manner import busy

EXAMPLES = """\
examples:
  parley runs
  parley runs experiments --json
"""
SHOWN = ("name", "game", "state", "update", "of", "score", "first update")
TOLD = ("name", "path", "game", "state", "update", "of", "score", "first_update", "why")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default="runs", metavar="FOLDER", help="default: runs")
    parser.add_argument("--json", action="store_true", help="one JSON object for each run, a line each")


def run(asked: argparse.Namespace) -> None:
    folder = Path(asked.folder).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {str(folder)!r}")
    with busy(f"reading the runs in {folder}"):
        found = [told(each.parent) for each in sorted(folder.glob("*/config.yaml"))]
    if asked.json:
        for each in found:
            print(json.dumps(each))
        return
    if not found:
        print(f"no run in {folder}")
        return
    rows = [SHOWN, *(tuple(_text(each[name.replace(" ", "_")]) for name in SHOWN) for each in found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(SHOWN))]
    for row, why in zip(rows, ["", *(each["why"] or "" for each in found)], strict=True):
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=True)), why]).rstrip())


def told(folder: Path) -> dict[str, Any]:
    """A run that cannot be read is listed, too, with the reason."""
    from cluster.record.run import Run
    from cluster.watch.followed import Followed

    row: dict[str, Any] = dict.fromkeys(TOLD) | {"name": folder.name, "path": str(folder)}
    try:
        read = Run(folder)
        rows = read.metrics
        row |= {
            "game": read.config.get("game", {}).get("name"),
            "state": Followed.of(folder).state(),
            "update": rows[-1]["update"] if rows else 0,
            "of": read.config.get("updates"),
            "score": read.score,
            "first_update": rows[0].get("time") if rows else None,
        }
    except (ParleyError, AttributeError, KeyError) as error:
        row |= {"state": "unreadable", "why": str(error)}
    return row


def _text(value: Any) -> str:
    if isinstance(value, float):
        if value > 1e9:
            import time

            return time.strftime("%Y-%m-%d %H:%M", time.localtime(value))
        return f"{value:.3f}"
    return "-" if value is None else str(value)


COMMAND = Command("runs", "list runs", run, arguments, EXAMPLES)
