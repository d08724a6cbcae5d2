"""Ctrl-C and SIGTERM: both unwind what is under way."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_sigterm() -> Iterator[None]:
    """`ray.init` sets handlers of its own, which end the process in the middle of what closes it: while it starts Ray,
    and for good."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit as end:  # Ray's answer, as nothing else here ends the process
        raise KeyboardInterrupt from end
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """The first SIGTERM (a job being stopped) or Ctrl-C unwinds, so that everything is closed, and sets what this
    yields. The second one is answered with a line, the third ends the process as it is; Ray then ends what it had
    started. In a thread that is not the main one, to which Python gives no signals, it does nothing."""
    asked, received = threading.Event(), 0
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def interrupt(signum, frame):
        nonlocal received
        received += 1
        asked.set()
        if received == 1:
            raise KeyboardInterrupt
        if received == 2:
            os.write(2, b"\nparley: everything is being closed; once more ends it at once\n")
        else:
            os._exit(130)

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
