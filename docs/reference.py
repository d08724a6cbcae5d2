"""The generated pages: `python -m docs.reference` writes docs/reference/settings.md and commands.md.

The settings come from the models that read a recipe, the commands from the argument parsers of
cluster/commands. tests/whole/test_docs.py compares the pages with what is generated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from cluster.commands.cli import parser
from cluster.recipe.reading import dotted_fields

FOLDER = Path(__file__).parent / "reference"

SETTINGS = """\
# Settings

Every setting of a recipe, its default and its meaning. In a recipe a dot is one level of YAML; on the command
line a setting is one word, for instance `rollout.workers=2`. `parley config KEY` prints the same for one section.
"""

COMMANDS = """\
# Commands

`python -m cluster` is the same command as `parley`. A word `key=value` is a setting ([settings](settings.md)), and a
word that ends in `.yaml` is a file of settings; they are applied from left to right.

Exit codes: 0 done, 1 the run failed, 2 the command or the recipe is wrong, 130 stopped with Ctrl-C.
`PARLEY_DEBUG=1` shows the whole Python traceback of an error.
"""


def settings_page() -> str:
    sections: dict[str, list[str]] = {}
    for key, default, meaning in dotted_fields():
        section, _, name = key.rpartition(".")
        rows = sections.setdefault(
            section, [f"## {section or 'run'}", "", "| setting | default | meaning |", "|---|---|---|"]
        )
        rows.append(f"| `{name}` | {shown(default)} | {cell(meaning)} |")
    return "\n".join([SETTINGS, *("\n".join([*rows, ""]) for rows in sections.values())])


def shown(default: str) -> str:
    if default in ("''", "null", "[]", "{}"):
        return {"''": "empty", "null": "none", "[]": "empty list", "{}": "empty"}[default]
    return code(default)


def code(text: str) -> str:
    """In a cell of a table, which a bare `|` would end."""
    text = " ".join(text.split())
    return f"<code>{cell(text)}</code>" if "|" in text else f"`{text}`"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "&#124;").replace("<", "&lt;")


def commands_page() -> str:
    top = parser()
    return "\n".join([COMMANDS, *(part for name, each in subparsers(top) for part in command(name, each, 2))])


def subparsers(of: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def command(name: str, of: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """The section of one command, and those of its actions below it."""
    actions = [each for each in of._actions if not isinstance(each, argparse._HelpAction | argparse._SubParsersAction)]
    yield f"{'#' * level} {'parley ' if level == 2 else ''}{name}\n"
    if of.description:
        yield f"{cell(of.description)}\n"
    words = [word(each) for each in actions] or (["ACTION", "..."] if list(subparsers(of)) else [])
    yield f"```text\n{' '.join([of.prog, *words])}\n```\n"
    if actions:
        yield "\n".join(["| argument | meaning |", "|---|---|", *(row(each) for each in actions), ""])
    if of.epilog:
        yield f"```text\n{of.epilog.strip()}\n```\n"
    for below, each in subparsers(of):
        yield from command(below, each, level + 1)


def word(action: argparse.Action) -> str:
    """An argument as the usage line shows it."""
    value = "" if action.nargs == 0 else metavar(action)
    if action.option_strings:
        value = f" [{value}]" if action.nargs == "?" else f" {value}" if value else ""
        return f"[{action.option_strings[-1]}{value}]"
    return {"?": f"[{value}]", "*": f"[{value} ...]", "+": f"{value} [{value} ...]"}.get(str(action.nargs), value)


def row(action: argparse.Action) -> str:
    name = word(action).strip("[]") if action.option_strings else metavar(action)
    return f"| {code(name)} | {cell(action.help or '')} |"


def metavar(action: argparse.Action) -> str:
    if action.choices and not action.metavar:
        return "|".join(map(str, action.choices))
    return str(action.metavar or (action.dest.upper() if action.option_strings else action.dest))


PAGES = {"settings.md": settings_page, "commands.md": commands_page}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
