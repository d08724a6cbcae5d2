"""The command `parley`; `python -m parley ...` is the same, for `ray job submit`."""

from __future__ import annotations

import os
import signal
import sys
from io import TextIOWrapper

from parley.names import put_first

STOPPED, STOPPED_CODE = "\nparley: stopped", 130


def main() -> int:
    # a shell may have its jobs in the background ignore Ctrl-C
    stops = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    for each in stops:
        signal.signal(each, _at_once)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter ends no run
    put_first()
    from cluster.commands.cli import main

    for each in stops:
        signal.signal(each, signal.default_int_handler)  # until the command has its own way
    try:
        return main()
    except KeyboardInterrupt:  # commands that run say more
        print(STOPPED, file=sys.stderr)
        return STOPPED_CODE


def _at_once(*_: object) -> None:
    """While commands are imported nothing is there to be cleaned up, and libraries catch a KeyboardInterrupt."""
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(STOPPED_CODE)


if __name__ == "__main__":
    sys.exit(main())
