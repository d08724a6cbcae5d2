"""The list as a page of the docs."""

from __future__ import annotations

from cluster.record.metric_list import METRICS, SECTIONS, Metric

HEAD = """# Metrics

`python -m cluster.record.metric_list` writes this page; `cluster/record/metric_list` is its source.

Each update of a run is one line of `metrics.jsonl`, and the same numbers are in TensorBoard. In a name, `<word>` stands
for any text and `{a,b}` for one of the words. *Better* is left out where neither direction is good by itself.

Ray serves the numbers to Prometheus with the tag `run`. Those of the last column have a name of their own there, to
which Ray adds `ray_` in front. A name that ends with `_total` is a counter, all others are gauges, which go with the
run; `parley_stage_seconds` has the tag `stage`. Two metrics with one name are added up. All other numbers are values of
`parley_value`, with their name in the tag `name`. `parley_updated_at` is when the newest came.
`deploy/monitoring/grafana.json` is a dashboard.
"""

COLUMNS = ("name", "unit", "meaning", "better", "in Prometheus")


def page() -> str:
    return HEAD + "".join(_section(name, text) for name, text in SECTIONS.items())


def _section(name: str, text: str) -> str:
    rows = [_row(metric) for metric in METRICS if metric.section == name]
    table = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    return f"\n## {name}\n\n{text}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in table)


def _row(metric: Metric) -> tuple[str, ...]:
    exported = ", ".join(f"`{name}`" for name in metric.exported)
    return f"`{metric.name}`", metric.unit, metric.meaning, metric.better, exported
