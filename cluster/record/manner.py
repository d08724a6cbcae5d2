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
from collections.abc import Iterator
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
