"""The list of all metrics that a run records: name, unit, meaning. Everything that shows them is made of it.

    training, rewards -> METRICS -> gauges and counters in Ray        cluster.record.metrics
                                 -> panels of a report                cluster.report.figures
                                 -> docs/reference/metrics.md         page
                                 -> deploy/monitoring/grafana.json    dashboard

`python -m cluster.record.metric_list` writes the two files again. A run that records a metric which is
not in the list fails its tests, and so does a listed one that no code makes.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.record.metric_list.metric import Metric
from cluster.record.metric_list.rewards import REWARDS
from cluster.record.metric_list.training import SECTIONS, STAGES, TRAINING

__all__ = ["METRICS", "SECTIONS", "STAGES", "Metric", "exported", "unlisted"]

METRICS = (*TRAINING, *REWARDS)


def unlisted(names: Iterable[str]) -> list[str]:
    """Those that no entry of the list stands for."""
    return [name for name in names if not any(metric.matches(name) for metric in METRICS)]


def exported() -> dict[str, list[Metric]]:
    """Name in Ray and Prometheus -> the metrics that it shows the sum of."""
    found: dict[str, list[Metric]] = {}
    for metric in METRICS:
        for name in metric.exported:
            found.setdefault(name, []).append(metric)
    return found
