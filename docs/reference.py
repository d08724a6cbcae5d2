"""The generated pages: `python -m docs.reference` writes docs/reference.

The settings come from the models that read a recipe, the commands from the argument parsers of cluster/commands, the
metrics from cluster/record/metric_list, the columns of games from cluster/episodes. docs/python_reference.py reads the
Python names, docs/games_page.py what the games say of themselves, and docs/methods_page.py what the methods do.
tests/whole/test_docs.py compares the files with what is generated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from cluster.commands.cli import parser
from cluster.episodes.columns import GAME, SEAT, TURN, Column
from cluster.recipe.config import RunConfig
from cluster.recipe.fields import dotted_fields, is_section, kinds_of, section_inside
from cluster.recipe.renamed import RENAMED
from cluster.record.metric_list.page import page as metrics_page
from docs.games_page import games_page
from docs.methods_page import methods_page
from docs.python_reference import python_page
from envs.kinds import Kinds

FOLDER = Path(__file__).parent / "reference"

SETTINGS = """\
# Settings

Every setting of a recipe, its default and its meaning. In a recipe a dot is one level of YAML; on the command
line a setting is one word, for instance `rollout.workers=2`. `parley config KEY` prints the same for one section.

Some parts come in several kinds, such as credit methods, losses and reward shapers. Each kind has settings of its own:
the section "learner.credit: poad" has those of one. A section that only some kinds have names them. A kind of your own
is named `module:Class` ([how to](../how-to/new_method.md)).

`parley config --schema` prints a JSON schema of recipes, and [this site has it](recipe.schema.json). An editor that
reads it, such as VS Code with its YAML extension, completes and checks a recipe that begins with this line, where PATH
leads to the file:

```yaml
# yaml-language-server: $schema=PATH/recipe.schema.json
```
"""

NEW_NAMES = """\
## Settings with a new name

A recipe with an old name is refused in a line that says the new one.
"""

EPISODES = """\
# Columns of kept games

A run's folder `episodes` holds Parquet files with one row for each game
([how to use them](../how-to/training.md#every-game)). A condition, after `--where` of `parley episodes`, and of
`Run.episodes(where)` may name every column of the first table that is a single value.
"""

COMMANDS = """\
# Commands

`python -m cluster` is the same command as `parley`. A word `key=value` is a setting ([settings](settings.md)), and a
word that ends in `.yaml` is a file of settings; they are applied from left to right.

Exit codes: 0 done, 1 the run failed, 2 the command or the recipe is wrong, 75 the run lost a process or a machine that
it needs and may be resumed, 130 stopped with Ctrl-C.
`PARLEY_DEBUG=1` shows the whole Python traceback of an error.
"""


@dataclass(slots=True)
class Section:
    """One table of the page: a part of a recipe, or one kind of a part."""

    key: str
    kind: str = ""
    summary: str = ""
    kinds: list[str] = field(default_factory=list)  # that have it, of the part around it
    rows: list[tuple[str, str, str]] = field(default_factory=list)  # setting, default, meaning

    def text(self, shared: bool) -> str:
        """`shared`: another section has the same key, so the heading says whose this one is."""
        of = ", ".join(self.kinds)
        title = f"{self.key}: {self.kind}" if self.kind else self.key or "run"
        lines = [f"## {title} ({of})" if shared else f"## {title}", ""]
        lines += [cell(self.summary), ""] if self.summary else []
        lines += [f"Only with {of}.", ""] if of and not shared else []
        rows = [f"| `{name}` | {shown(default)} | {cell(meaning)} |" for name, default, meaning in self.rows]
        lines += ["| setting | default | meaning |", "|---|---|---|", *rows] if rows else ["It has no settings."]
        return "\n".join([*lines, ""])


def settings_page() -> str:
    sections: dict[tuple[str, type], Section] = {}
    collect(sections, RunConfig, Section(""))
    keys = [each.key for each in sections.values() if not each.kind]
    tables = [each.text(keys.count(each.key) > 1) for each in sections.values() if each.rows or each.kind]
    return "\n".join([SETTINGS, *tables, renamed_settings()])


def renamed_settings() -> str:
    rows = [f"| `{old}` | `{new}` |" for old, new in sorted(RENAMED.items())]
    return "\n".join([NEW_NAMES, "| was | is |", "|---|---|", *rows, ""])


def collect(sections: dict[tuple[str, type], Section], model: type[BaseModel], section: Section) -> None:
    """Adds a section and those inside it. One that several kinds have stands there once."""
    if known := sections.get((section.key, model)):
        known.kinds += [each for each in section.kinds if each not in known.kinds]
        section = known
    else:
        section.rows = [each for each in dotted_fields(model) if "." not in each[0]]
        sections[section.key, model] = section
    of = [section.kind] if section.kind else section.kinds
    for name, each in model.model_fields.items():
        key = f"{section.key}.{name}".removeprefix(".")
        if kinds := kinds_of(each):
            part = sections.setdefault((key, type(kinds)), Section(key, kinds=list(of)))
            part.kinds += [kind for kind in of if kind not in part.kinds]
            part.rows = part.rows or [kind_row(model, name, kinds)]
            for kind in kinds.names:
                found = kinds.find(kind)
                collect(sections, found, Section(key, kind, first_sentence(found)))
        elif is_section(each.annotation):
            collect(sections, each.annotation, Section(key, kinds=list(of)))
        elif inside := section_inside(each.annotation):
            more, settings = inside
            collect(sections, settings, Section(key + more, kinds=list(of)))


def kind_row(model: type[BaseModel], name: str, kinds: Kinds) -> tuple[str, str, str]:
    found = {key: (kinds.tag, default, meaning) for key, default, meaning in dotted_fields(model)}
    return found[f"{name}.{kinds.tag}"]


def first_sentence(kind: type) -> str:
    """What the file of a kind says first of it."""
    return (sys.modules[kind.__module__].__doc__ or "").strip().partition("\n\n")[0].partition(". See")[0]


def shown(default: str) -> str:
    if default in ("", "''", "null", "[]", "{}"):
        return {"": "needed", "''": "empty", "null": "none", "[]": "empty list", "{}": "empty"}[default]
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


def episodes_page() -> str:
    return "\n".join([EPISODES, *columns(GAME), "## seats\n", *columns(SEAT), "## dialogue\n", *columns(TURN)])


def columns(of: tuple[Column, ...]) -> Iterator[str]:
    yield "| column | type | meaning |\n|---|---|---|"
    for column in of:
        kind = "list, below" if column.name in ("seats", "dialogue") else str(column.type).replace("element: ", "")
        yield f"| `{column.name}` | {cell(kind)} | {cell(column.meaning)} |"
    yield ""


PAGES = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "episodes.md": episodes_page,
    "python.md": python_page,
    "games.md": games_page,
    "methods.md": methods_page,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
