"""`parley config`: every setting, its default and its meaning."""

from __future__ import annotations

import argparse
import difflib

from cluster.commands.command import Command
from cluster.errors import ConfigError
from cluster.recipe.fields import dotted_fields


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", nargs="?", default="", help="only this section or key, e.g. learner.sync")


def run(asked: argparse.Namespace) -> None:
    fields = [(key, default, text) for key, default, text in dotted_fields() if _under(key, asked.key)]
    if not fields:
        known = [key for key, _, _ in dotted_fields()]
        close = difflib.get_close_matches(asked.key, known, n=1)
        raise ConfigError(f"no setting {asked.key!r}{f'; did you mean {close[0]}?' if close else ''}")
    for key, default, text in fields:
        print(f"{key} = {default}\n    {text}")


def _under(key: str, asked: str) -> bool:
    return not asked or key == asked or key.startswith(asked + ".")


COMMAND = Command("config", "list every setting with its default and meaning", run, arguments)
