"""The page docs/reference/python.md: the public names of `parley`, from their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise, takewhile
from typing import Any

import parley

PYTHON = """\
# Python

Everything that `import parley` offers. [How to use it](../how-to/python.md), and how to write
[a game](../how-to/new_game.md) or [a method](../how-to/new_method.md) with it.
"""


def python_page() -> str:
    found = [(name, getattr(parley, name)) for name in parley.__all__]
    functions = [part for name, each in found if inspect.isfunction(each) for part in function(name, each, 3)]
    classes = [part for name, each in found if inspect.isclass(each) for part in of_class(name, each)]
    return "\n".join([PYTHON, "## Functions\n", *functions, "## Classes\n", *classes])


def function(name: str, of: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name.rpartition('.')[2]}\n"
    yield f"```python\n{signature(name, of)}\n```\n"
    if text := inspect.getdoc(of):
        yield f"{markdown(text)}\n"


def signature(name: str, of: Any) -> str:
    """On one line, or with a parameter a line."""
    whole = inspect.signature(of)
    line = f"{name}{whole}".replace("'", "")
    if len(line) <= 100:
        return line
    kinds = inspect.Parameter
    parts, star = [], False
    for each in whole.parameters.values():
        if each.kind is kinds.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        parts.append(str(each).replace("'", "") if each.default is kinds.empty else shown(each))
    returned = "" if whole.return_annotation is whole.empty else f" -> {whole.return_annotation}"
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){returned}"])


def shown(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation if isinstance(parameter.annotation, str) else parameter.annotation.__name__
    return f"{parameter.name}: {annotation} = {parameter.default!r}"


def of_class(name: str, of: type) -> Iterator[str]:
    yield f"### {name}\n"
    if (text := of.__doc__) and not text.startswith(f"{name}("):  # what dataclasses make up
        yield f"{markdown(inspect.cleandoc(text))}\n"
    if declared := attributes(of):
        yield f"```python\n{declared}\n```\n"
    members = [row(each, found) for each, found in vars(of).items() if is_member(of, each, found)] + hooks(of)
    if members:
        yield "\n".join(["| member | |", "|---|---|", *members, ""])


def attributes(of: type) -> str:
    """What the class declares at its beginning, with the comments there."""
    lines, body = parsed(of)
    first = 1 if isinstance(body[0], ast.Expr) else 0
    declared = list(takewhile(lambda each: isinstance(each, ast.AnnAssign | ast.Assign), body[first:]))
    declared = [each for each in declared if not ast.unparse(each).startswith("_")]
    if not declared:
        return ""
    start = body[first - 1].end_lineno if first else declared[0].lineno - 1
    return textwrap.dedent("\n".join(lines[start : declared[-1].end_lineno])).strip("\n")


def hooks(of: type) -> list[str]:
    """Rows of the attributes that have a docstring below them."""
    found = []
    for each, below in pairwise(parsed(of)[1]):
        if isinstance(each, ast.AnnAssign) and each.value and isinstance(below, ast.Expr):
            declared = f"{ast.unparse(each.target)} = {ast.unparse(each.value)}"
            found.append(f"| `{declared}` | {' '.join(below.value.value.split())} |")
    return found


def parsed(of: type) -> tuple[list[str], list[ast.stmt]]:
    source = textwrap.dedent(inspect.getsource(of))
    return source.splitlines(), ast.parse(source).body[0].body


def is_member(of: type, name: str, found: Any) -> bool:
    validators = getattr(of, "__pydantic_decorators__", None)
    if name.startswith("_") or (validators and name in validators.model_validators):
        return False
    return inspect.isfunction(plain(found)) or isinstance(found, property | cached_property)


def plain(found: Any) -> Any:
    return found.__func__ if isinstance(found, classmethod | staticmethod) else found


def row(name: str, found: Any) -> str:
    called = plain(found)
    if inspect.isfunction(called):
        given = [each for each in inspect.signature(called).parameters if each not in ("self", "cls")]
        name = f"{name}({', '.join(given)})"
    text = inspect.cleandoc(called.__doc__ or "")
    return f"| `{name}` | {' '.join(text.split())} |"


def markdown(text: str) -> str:
    """A docstring: its indented blocks are code already; stars are none of markdown's."""
    return re.sub(r"(?<!\*)\*\*(?=\w)", r"\\*\\*", text)
