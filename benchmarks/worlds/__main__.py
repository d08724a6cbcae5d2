"""Worlds of other packages beside themselves without Parley, and what scripted players score on their trials.

    python -m benchmarks.worlds                          the speed of every world that is installed
    python -m benchmarks.worlds nethack --scores 20      the speed of one, and 20 episodes of each of its trials
    python -m benchmarks.worlds nethack --only-scores 20

With the same utterances each time, what a turn takes of a CPU, and turns a second:

    environment    the package's own environment, in this process
    calls          the least of the package's calls that tell what Parley tells, where these are fewer
    one            Parley's game, an episode at a time
    at once        Parley's game, 16 episodes at a time; worlds without a process of their own have no such line

Both ratios are how fast Parley is beside the bare package, round by round, with 16 at once where there is such a line;
1: as fast. A world whose package is missing is named, and left out.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.report import FOLDER, load, machine, spread_of, stamp, write
from benchmarks.strength import strengths, table_of
from benchmarks.worlds.bare import BARE
from benchmarks.worlds.speed import AT_ONCE, WORLDS, measured
from cluster.record.terminal import page
from envs.registry import make_game

BARE_LINES = {"environment": "steps", "calls": "calls", "in a process": "process"}


def lacking(world: str) -> str:
    """Why it cannot be played here; nothing where it can."""
    try:
        make_game(world)
    except ValueError as error:
        return str(error)
    return ""


def speeds(found: dict[str, dict[str, Any]]) -> list[Table]:
    lines = {**BARE_LINES, "Parley, one": "one", f"Parley, {AT_ONCE} at once": "many"}
    tables = []
    for title, of, beside in (
        ("Microseconds of CPU a turn, of all processes", "microseconds_per_turn", "cpu_beside"),
        ("Turns a second", "turns_per_second", "speed_beside"),
    ):
        table = Table(title=title, title_justify="left")
        for column in ("world", *lines, *(f"Parley / {each}" for each in BARE_LINES)):
            table.add_column(column, justify="left" if column == "world" else "right")
        for line, each in found.items():
            cells = [spread_of(each[of][name], ",.0f") if name in each[of] else "" for name in lines.values()]
            ratios = [
                spread_of(each[beside][name], ".2f") if name in each[beside] else "" for name in BARE_LINES.values()
            ]
            table.add_row(line, *cells, *ratios)
        tables.append(table)
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worlds", description=__doc__.splitlines()[0])
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help=f"which: {', '.join(BARE)} (default: all)")
    parser.add_argument("--scores", type=int, metavar="N", help="play N episodes of each trial, too")
    parser.add_argument("--only-scores", type=int, metavar="N", help="play these, and measure no speed")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--output", type=Path, default=FOLDER / f"{stamp()}-worlds.json", help="where the JSON goes")
    asked = parser.parse_args()
    if unknown := [each for each in asked.worlds if each not in BARE]:
        parser.error(f"no world {unknown[0]!r} here; there are: {', '.join(BARE)}")
    out, started = page(), time.monotonic()
    result: dict[str, Any] = {"quick": asked.quick, "machine": machine(), "load_before": load()}
    wanted = asked.worlds or list(BARE)
    missing = {world: why for world in wanted if (why := lacking(world))}
    for world, why in missing.items():
        out.print(f"NOT measured: {world}: {why}", style="yellow", markup=False)
    found: dict[str, Any] = {"missing": missing, "speed": {}, "scores": {}}
    for line in WORLDS:
        world = line.partition(":")[0]
        if world in wanted and world not in missing and asked.only_scores is None:
            found["speed"][line] = measured(line, asked.quick, lambda text: out.print(f"[dim]worlds: {text}[/dim]"))
            write(asked.output, result | {"worlds": found})  # what is stopped leaves what it has
    if found["speed"]:
        out.print(*speeds(found["speed"]))
    if episodes := asked.scores or asked.only_scores:
        for world in wanted:
            if world not in missing:
                found["scores"][world] = {line: asdict(each) for line, each in strengths(world, episodes)}
                out.print(table_of(world, found["scores"][world]))
                write(asked.output, result | {"worlds": found})
    seconds = round(time.monotonic() - started, 1)
    write(asked.output, result | {"worlds": found, "load_after": load(), "seconds": seconds})
    out.print(f"{seconds:.0f} s; {asked.output}")


if __name__ == "__main__":
    main()
