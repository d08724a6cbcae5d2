"""`python -m cluster.record.metric_list` writes the files that are made of the list."""

from __future__ import annotations

import sys
from pathlib import Path

from cluster.record.metric_list.dashboard import dashboard
from cluster.record.metric_list.page import page

SOURCE_TREE = Path(__file__).parents[3]
MADE = {"docs/reference/metrics.md": page, "deploy/monitoring/grafana.json": dashboard}


def main() -> int:
    if not (SOURCE_TREE / "deploy").is_dir():
        print(f"metric_list: {SOURCE_TREE} is no source tree of Parley; run this in a checkout", file=sys.stderr)
        return 1
    for path, make in MADE.items():
        (SOURCE_TREE / path).parent.mkdir(parents=True, exist_ok=True)
        (SOURCE_TREE / path).write_text(make(), encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
