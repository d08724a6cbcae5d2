"""How much a command says, and where.

    --quiet     warnings and the result; no stages, updates, moving line
    --verbose   what goes to parley.log, on standard error too
    --json      one JSON object on standard output; all else on standard error

It is in the environment, so that the process that --keep-going starts follows it.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

MANNER = "PARLEY_MANNER"
WORDS = ("quiet", "verbose", "json")


def is_said(word: str) -> bool:
    return word in os.environ.get(MANNER, "").split(",")


def console() -> Console:
    """For all that is no result."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, stderr=is_said("json"))


@contextmanager
def busy(what: str) -> Iterator[Callable[[str], None]]:
    """A moving line on standard error while this works, where that is a terminal. What is yielded says something else
    there; elsewhere, where nobody sees it move, a line each. Standard output is for the result."""
    from rich.console import Console
    from rich.live import Live
    from rich.markup import escape
    from rich.spinner import Spinner

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if is_said("quiet"):
        yield lambda text: None
    elif not console.is_terminal:
        yield lambda text: console.print(escape(text))
    else:
        line = Spinner("dots", escape(what))
        with Live(line, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
            yield lambda text: line.update(text=escape(text))


@contextmanager
def manner_of(asked: argparse.Namespace) -> Iterator[None]:
    """While a command works."""
    words = [word for word in WORDS if getattr(asked, word, False)]
    before = os.environ.get(MANNER)
    if words:
        os.environ[MANNER] = ",".join(words)
    handler = logging.StreamHandler() if is_said("verbose") else None
    log = logging.getLogger("parley")
    if handler is not None:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
    try:
        yield
    finally:
        if handler is not None:
            log.removeHandler(handler)
        if words and before is None:
            del os.environ[MANNER]
        elif before is not None:
            os.environ[MANNER] = before
