"""A run of the demo recipe that keeps its games in some blocks of updates and in others not: `benchmarks.episodes`.

python -m benchmarks.episodes_run updates=60 output=FOLDER
"""

from __future__ import annotations

import sys

import cluster.episodes.recorder as recorder_module
from benchmarks.episodes import BLOCK
from cluster.api import start
from cluster.recipe.reading import load_recipe


class InBlocks(recorder_module.Recorder):
    def end(self, update: int) -> None:
        super().end(update)
        self.active = update // BLOCK % 2 == 0

    def settle(self) -> None:
        active, self.active = self.active, True
        super().settle()
        self.active = active

    def close(self) -> None:
        self.active = True
        super().close()


if __name__ == "__main__":
    recorder_module.Recorder = InBlocks
    start(load_recipe("recipes/demo.yaml", ["evaluation.episodes=32", "checkpoint.every=1000", *sys.argv[1:]]))
