"""The folder of a model, as others read it."""

from __future__ import annotations

from pathlib import Path
from stat import S_IMODE


def make_readable(folder: Path) -> None:
    """safetensors makes files that their owner alone can read; they become like the folder's others."""
    mode = next(folder.glob("*config.json")).stat().st_mode
    for weights in folder.glob("*.safetensors"):
        weights.chmod(S_IMODE(mode))
