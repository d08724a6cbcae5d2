"""Where things are kept that are made once: $PARLEY_CACHE, or else ~/.cache/parley."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    cache = os.environ.get("PARLEY_CACHE")
    return Path(cache).expanduser() if cache else Path.home() / ".cache" / "parley"
