"""The page docs/reference/methods.md: what credit methods, losses and reward shapers compute, told by their files."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from cluster.recipe.config import RunConfig
from cluster.recipe.fields import kinds_of

METHODS_PAGE = """\
# Every method

What each [credit method](../concepts/credit.md), [loss](../concepts/learner.md) and
[reward shaper](../concepts/shapers.md) computes. [Notation](../concepts/credit.md#notation);
[settings](settings.md).
"""

PARTS = {"learner.credit": "Credit methods", "learner.loss": "Losses", "reward.shaper": "Reward shapers"}


def methods_page() -> str:
    return "\n".join([METHODS_PAGE, *(line for key, title in PARTS.items() for line in section(key, title))])


def section(key: str, title: str) -> Iterator[str]:
    yield f"## {title}\n"
    inside, _, name = key.rpartition(".")
    kinds = kinds_of(RunConfig.model_fields[inside].annotation.model_fields[name])
    for kind in kinds.names:
        yield f"### {kind}\n\n```text\n{told_of(kinds.find(kind))}\n```\n"


def told_of(kind: type) -> str:
    """What its file says of it; of a room what its shaper's file says, which is read and not loaded."""
    file = Path(sys.modules[kind.__module__].__file__)
    file = file.with_name("shaper.py") if file.name == "__init__.py" else file
    return inspect.cleandoc(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))))
