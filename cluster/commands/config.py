"""`parley config`: every setting, its default and its meaning."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Iterable

from cluster.commands.command import Command
from cluster.errors import ConfigError
from cluster.recipe.fields import dotted_fields, dotted_keys, parts_of_kinds, recipe_schema

EXAMPLES = """
  parley config                           every setting, of the default kinds
  parley config learner.sync              one section, or one setting
  parley config learner.credit            the credit methods, and the default one's settings
  parley config learner.credit poad       the settings of one
  parley config --schema > recipe.json    a JSON schema of recipes, for editors
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", nargs="?", default="", help="only this section or key, e.g. learner.sync")
    parser.add_argument("kind", nargs="?", default="", help="of a part that comes in several kinds: only this one's")
    parser.add_argument("--schema", action="store_true", help="print a JSON schema of recipes instead")


def run(asked: argparse.Namespace) -> None:
    if asked.schema:
        print(json.dumps(recipe_schema(), indent=1))
        return
    for key, default, text in of_kind(asked.key, asked.kind) if asked.kind else of_section(asked.key):
        print(f"{key} = {default}\n    {text}")


def of_section(key: str) -> list[tuple[str, str, str]]:
    """Of the default kinds; where these have no such section, of every kind that has it."""
    fields = _inside(key, dotted_fields()) or _inside(key, dotted_fields(every_kind=True))
    if not fields:
        known = {".".join(parts[:size]) for each in dotted_keys() if (parts := each.split(".")) for size in range(9)}
        close = difflib.get_close_matches(key, sorted(known), n=1)
        raise ConfigError(f"no setting {key!r}{f'; did you mean {close[0]}?' if close else ''}")
    return fields


def _inside(key: str, fields: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return list(dict.fromkeys(each for each in fields if not key or f"{each[0]}.".startswith(f"{key}.")))


def of_kind(key: str, kind: str) -> list[tuple[str, str, str]]:
    parts = parts_of_kinds()
    if key not in parts:
        raise ConfigError(f"{key} does not come in several kinds; these do: {', '.join(parts)}")
    try:
        return list(dotted_fields(parts[key].find(kind), f"{key}."))
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from error


COMMAND = Command("config", "list every setting with its default and meaning", run, arguments, EXAMPLES)
