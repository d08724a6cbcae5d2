"""The command `parley`; `python -m parley ...` is the same, for `ray job submit`."""

from __future__ import annotations

import sys

from parley.names import put_first


def main() -> int:
    put_first()
    from cluster.commands.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
