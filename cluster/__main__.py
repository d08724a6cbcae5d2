"""`python -m cluster ...` is `parley ...`, in a source tree where it is not installed."""

from __future__ import annotations

import sys

from parley.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
