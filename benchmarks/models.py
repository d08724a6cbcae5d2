"""Models of a given size: the embedded policy's shape, untrained, made on the fly.

The vocabulary is the game's, so nearly all weights sit in the layers. How long an update,
a transfer or an engine step takes does not depend on what the weights are.
"""

from __future__ import annotations

from pathlib import Path

from cluster.recipe.config import RunConfig
from learners.embedded.build import build_policy

# parameters -> hidden, layers, heads (of width 32)
SIZES = {"0.1M": (64, 2, 4), "1M": (128, 4, 4), "10M": (384, 4, 12), "100M": (768, 11, 24)}


def untrained(size: str, config: RunConfig, folder: Path) -> Path:
    hidden, layers, heads = SIZES[size]
    shape = {"hidden": hidden, "layers": layers, "heads": heads, "steps": 0}
    return build_policy(config.game, config.model.embedded.model_copy(update=shape), cache=folder)


def parameters_of(folder: Path) -> int:
    """Read from the files' headers; nothing is loaded."""
    from safetensors import safe_open

    count = 0
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="np") as weights:
            for name in weights.keys():  # noqa: SIM118  (not a mapping)
                size = 1
                for extent in weights.get_slice(name).get_shape():
                    size *= extent
                count += size
    return count
