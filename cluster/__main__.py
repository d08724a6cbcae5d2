"""`python -m cluster ...` is `parley ...`, for `ray job submit`."""

from __future__ import annotations

import sys

from cluster.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
