"""What `parley offline` tells the person at the terminal: a line for each thing done, and below them, on
a terminal, one bar for what is going on; elsewhere a plain line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from cluster.record import manner

if TYPE_CHECKING:
    from cluster.record.progress import Progress

QUIET_SECONDS = 20.0  # without a terminal, a sign of life at most this often


class Terminal:
    """Use as a context manager."""

    def __init__(self, console: Console | None = None):
        self.console = console or manner.console()
        self.bars, self.quiet = None, manner.is_said("quiet")
        if self.console.is_terminal and not self.quiet:
            columns = TextColumn("  {task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
            self.bars = Progress(*columns, console=self.console, transient=True)
        self.task = None
        self.what = self.inside = ""
        self.played = self.wanted = 0  # games before the ones that are being played, and in all
        self.last_sign = time.monotonic()

    def __enter__(self) -> Terminal:
        if self.bars is not None:
            self.bars.start()
        return self

    def __exit__(self, *exception) -> None:
        if self.bars is not None:
            self.bars.stop()

    def line(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text)
        self.last_sign = time.monotonic()

    def stage(self, text: str) -> None:
        """Something begins that may take a while, inside of what is going on."""
        self.inside = text
        self.line(f"  {escape(text)}")

    def now(self, text: str) -> None:
        if self.bars is None and time.monotonic() - self.last_sign > QUIET_SECONDS:
            self.line(escape(f"    ... {text}"))

    def at(self, done: int, total: int, of: str = "") -> None:
        """How far what is going on has come."""
        self.now(f"{self.what} {done:,}/{total:,}{f' {of}' if of else ''}")
        self._move(done, total)

    def progress(self, done: int, total: int, loss: float | None = None) -> None:
        """Of the embedded policy, while it is made."""
        self.now(f"{self.inside}: {done}/{total}{'' if loss is None else f', loss {loss:.3f}'}")
        self._move(done, total)

    def _move(self, done: int, total: int) -> None:
        if self.bars is not None and self.task is not None:
            self.bars.update(self.task, completed=done, total=total)

    def playing(self, at: Progress) -> None:
        self.at(self.played + at.played, self.wanted, f"games{at.failed}")

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """One bar."""
        self.what = what
        if self.bars is not None:
            self.task = self.bars.add_task(escape(what), total=None)
        try:
            yield
        finally:
            if self.bars is not None:
                self.bars.remove_task(self.task)
                self.bars.refresh()  # or the next line would bring it back
                self.task = None

    def bytes_of(self, size: int) -> Callable[[int], None]:
        """To be told of each piece that was read of a file of this size."""
        read = 0

        def seen(more: int) -> None:
            nonlocal read
            read += more
            self.now(f"{self.what} {read >> 20:,}/{size >> 20:,} MiB")
            self._move(read, size)

        return seen


def results_table(title: str, rows: Sequence[Mapping[str, str]]) -> Table:
    """One line an iteration; columns that nobody fills are left out."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    columns = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[name] for name in columns))
    return table
