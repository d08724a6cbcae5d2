"""`parley episodes`: the games that a run keeps."""

from __future__ import annotations

import argparse
from pathlib import Path

from cluster.commands.command import Command, positive

EXAMPLES = """\
examples:
  parley episodes runs/demo-20260101-120000
  parley episodes runs/demo-20260101-120000 --where "outcome < .5 and turns >= 4 and text('elephant')" --show
  parley episodes runs/demo-20260101-120000 --where "failure is not None" --sort ended
  parley episodes runs/demo-20260101-120000 --where held_out --to held_out.parquet

--where is an expression over the columns, with and, or, not, in, is None, and three functions: text('x') looks into all
that was seen and said, said('x') into utterances, intention(7) asks for the label of an utterance.
"""
LISTED = ("update", "number", "seat", "outcome", "turns", "tokens", "staleness", "surprise", "credit", "seconds")
LIMIT = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder; the run may still go on")
    parser.add_argument("--where", metavar="EXPRESSION", help="only games for which it holds")
    parser.add_argument("--sort", metavar="COLUMN", help="those first that have the most of it, such as surprise")
    parser.add_argument("--reverse", action="store_true", help="those first that have the least of it")
    parser.add_argument("--limit", type=positive, metavar="N", help=f"at most so many games (default {LIMIT})")
    parser.add_argument("--show", action="store_true", help="the games themselves, as conversations")
    parser.add_argument("--json", action="store_true", help="one JSON object a game; with --show also the turns")
    parser.add_argument("--to", metavar="FILE.parquet", help="write all of them to a file, and show none")


def run(asked: argparse.Namespace) -> None:
    from cluster.errors import ConfigError
    from cluster.record.manner import busy
    from cluster.record.run import load_run

    if asked.to and (asked.sort or asked.limit or asked.show or asked.json):
        raise ConfigError("--to writes every game that --where finds: leave --sort, --limit, --show and --json away")
    if asked.to and not asked.to.endswith(".parquet"):
        raise ConfigError(f"--to={asked.to} writes Parquet: give it a name that ends in .parquet")
    if asked.reverse and not asked.sort:
        raise ConfigError("--reverse is for --sort: which column?")
    kept = load_run(asked.run)
    games = kept.episodes(asked.where)
    if asked.to:
        with busy("writing the games"):
            many = games.to_parquet(Path(asked.to).expanduser())
        print(f"{many:,} games in {asked.to}")
        return
    by = asked.sort and f"{'' if asked.reverse else '-'}{asked.sort}"
    with busy("reading the games"):
        found = games.first(asked.limit or LIMIT, by)
        counts = (0, 0) if asked.json else (len(games), len(kept.episodes()))
    if asked.json:
        _print_json(found, whole=asked.show)
    else:
        _print(found, *counts, asked.show)


def _print_json(found: list[dict], whole: bool) -> None:
    from cluster.episodes.columns import PLAIN
    from cluster.record.run_folder import to_json

    for game in found:
        print(to_json(game if whole else {name: game[name] for name in PLAIN}, indent=None), end="")


def _print(found: list[dict], fitting: int, of: int, whole: bool) -> None:
    from cluster.episodes.shown import conversation
    from cluster.record.terminal import page

    out = page()
    if whole:
        for game in found:
            out.print(conversation(game), end="\n\n", markup=False, soft_wrap=True)
    elif found:
        out.print(_table(found))
    out.print(f"{len(found):,} shown of {fitting:,} that were found, of {of:,} games")


def _table(found: list[dict]):
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from cluster.episodes.shown import harmless

    table = Table(box=box.SIMPLE_HEAD)
    for name in (*LISTED, "use", "last words"):
        table.add_column(name, no_wrap=True, overflow="ellipsis", justify="right" if name in LISTED[3:] else "left")
    for game in found:
        use = game["failure"] or ("held out" if game["held_out"] else "trained")
        said = game["dialogue"][-1]["utterance"] if game["dialogue"] else ""
        cells = [*(_cell(game[name]) for name in LISTED), use, " ".join(said.split())]
        table.add_row(*(Text(harmless(cell)) for cell in cells))
    return table


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


COMMAND = Command("episodes", "list, show or export the games that a run keeps", run, arguments, EXAMPLES)
