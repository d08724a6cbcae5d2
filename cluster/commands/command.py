"""What a command is: a name, what it takes, and what it does.

    COMMAND = Command("report", "make one page about a run", run, arguments, EXAMPLES)

A file of this room holds one; `cli.py` lists them. A file imports torch, vllm or ray inside of functions
only, so that what is wrong with a command is said before they are loaded.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

KEY_VARIABLE = "PARLEY_API_KEY"  # holds the key that clients of a served model, or of the reward service, send
LOCAL = {"127.0.0.1", "localhost", "::1"}  # addresses that this machine alone reaches
OVERRIDES = "settings by dotted key, values are YAML; or a layer of them, e.g. recipes/credit/poad.yaml or poad"


def no_arguments(parser: argparse.ArgumentParser) -> None: ...


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    about: str  # one line, for the list of commands
    run: Callable[[argparse.Namespace], int | None] | None  # the exit code, 0 where there is none; None: it has actions
    arguments: Callable[[argparse.ArgumentParser], None] = no_arguments
    examples: str = ""


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"should be a whole number above 0, not {text!r}")
    return int(text)


def takes_overrides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value|LAYER", help=OVERRIDES)


def says_how_much(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("-q", "--quiet", action="store_true", help="print warnings and the result only")
    how.add_argument("-v", "--verbose", action="store_true", help="print what goes to parley.log, too")


def gives_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and all else on standard error")


def keeps_going(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="work in a process of its own; where that is killed or loses a machine, go on from the last checkpoint",
    )


def layers_and_settings(asked: argparse.Namespace) -> list[str]:
    """Where the recipe may be left out, it is the first layer if it is there."""
    return asked.overrides if asked.recipe is None else [asked.recipe, *asked.overrides]


def runs_among(names: Sequence[str], begun: bool = False) -> list[str]:
    """Of several names, as a shell makes of `runs/*`, those of runs; `begun`: that have a line of metrics. The others
    are told of in a line each."""
    kept = []
    for name in names:
        folder = Path(name).expanduser()
        if len(names) == 1 or not folder.exists():  # whoever works with it says what is wrong
            kept.append(name)
        elif not (folder / "config.yaml").is_file():
            print(f"parley: {name} is left out: it is no run folder", file=sys.stderr)
        elif begun and not _lines(folder / "metrics.jsonl"):
            print(f"parley: {name} is left out: it has nothing to report yet", file=sys.stderr)
        else:
            kept.append(name)
    return kept or list(names[:1])


def _lines(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 0
