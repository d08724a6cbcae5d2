"""The command `parley`; `python -m parley ...` is the same, for `ray job submit`."""

from __future__ import annotations

import signal
import sys

from parley.names import put_first


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, until the command has its own way
    try:
        put_first()
        from cluster.commands.cli import main

        return main()
    except KeyboardInterrupt:  # while the commands are imported; once they run, they say more
        print("\nparley: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
