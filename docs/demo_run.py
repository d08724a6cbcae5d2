"""The run that `parley watch --demo` shows: `python -m docs.demo_run [RUN]`. Without a run it trains one first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cluster.watch.demo import pack

HERE = Path(__file__).parent
TARGET = HERE.parent / "cluster" / "watch" / "demo.tar.xz"
OVERRIDES = (
    *("updates=40", "evaluation.episodes=200", "evaluation.every=10", "output=runs"),
    *("record.episodes=5", "samples.updates=20", "samples.episodes=2"),
)


def main() -> None:
    if len(sys.argv) > 1:
        run = Path(sys.argv[1])
    else:
        subprocess.run(["parley", "train", "recipes/demo.yaml", *OVERRIDES], check=True)
        run = max(Path("runs").glob("demo-*"), key=lambda path: path.stat().st_mtime)
    print(f"{TARGET}: {pack(run, TARGET):,} bytes, from {run}")


if __name__ == "__main__":
    main()
