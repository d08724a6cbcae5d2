"""The command line. Everything that can be wrong with a recipe is said before torch, vllm
or ray are imported.

Exit codes: 0 done; 1 the run failed; 2 the command or the recipe is wrong; 75 what it needs is lost: try again;
130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence

from cluster.commands import (
    completion,
    config,
    doctor,
    episodes,
    evaluate,
    export,
    games,
    offline,
    play,
    report,
    resume,
    rewards,
    runs,
    serve_model,
    timeline,
    train,
    version,
    watch,
)
from cluster.errors import ParleyError, shortened
from cluster.record.manner import manner_of

IN_ORDER = (
    *(train, resume, evaluate, serve_model, rewards, offline, watch, runs, report, episodes, timeline, export),
    *(doctor, games, play, config, completion, version),
)
COMMANDS = [each.COMMAND for each in IN_ORDER]

OVERVIEW = """\
Parley trains language agents by online reinforcement learning in multi-turn text games:
Ray actors play with vLLM, DeepSpeed learners update, weights sync back while they play.

examples:
  parley train recipes/demo.yaml                      a whole run on a laptop's CPU
  parley train recipes/demo.yaml seed=1 updates=100   the same with other settings
  parley train recipes/demo.yaml --dry-run            show what would run, start nothing
  parley resume runs/demo-20260101-120000             go on after a stop
  parley evaluate runs/demo-20260101-120000           win rate on held-out games
  parley report runs/demo-20260101-120000             one page about it: curves, intentions, games
  parley episodes runs/demo-20260101-120000           its games: found, shown, exported
  parley games                                        what can be played; then: parley play GAME
  parley config learner                               every setting, with its meaning
"""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parse(arguments)
    try:
        with manner_of(asked):
            return asked.command(asked) or 0
    except ParleyError as error:
        if debugging():
            raise
        print(f"parley: {shortened(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as stop:
        if debugging():
            raise
        print(f"\nparley: stopped{f': {stop}' if str(stop) else ''}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, e.g. `parley config | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """argparse takes all of `key=value ...` in one place only; people put options between them."""
    top = parser()
    words = sys.argv[1:] if arguments is None else arguments
    first, names = words[0] if words else "", [each.name for each in COMMANDS]
    if not first.startswith("-") and first not in names and (close := difflib.get_close_matches(first, names, n=1)):
        top.error(f"there is no command {first!r}; did you mean {close[0]}?")
    asked, rest = top.parse_known_args(arguments)
    unknown = [word for word in rest if word.startswith("-") or not hasattr(asked, "overrides")]
    if unknown:
        top.error(f"unrecognized arguments: {' '.join(unknown)}")
    if rest:
        asked.overrides = [*asked.overrides, *rest]
    return asked


def debugging() -> bool:
    return os.environ.get("PARLEY_DEBUG") == "1"


def parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser("parley", description=OVERVIEW, formatter_class=plain)
    top.set_defaults(parser=top)
    top.add_argument("--version", nargs=0, action=version.AsOption, help="print the versions, as `parley version`")
    named = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for each in COMMANDS:
        about = each.about[:1].upper() + each.about[1:] + "."
        made = named.add_parser(
            each.name, help=each.about, description=about, epilog=each.examples, formatter_class=plain
        )
        made.set_defaults(command=each.run)
        each.arguments(made)
    return top
