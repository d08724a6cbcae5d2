"""The list as a dashboard for Grafana: rows of three panels, and what each asks Prometheus for.

Beside the run's own metrics it shows those of vLLM's engines, which have names of vLLM's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import Any

from cluster.record.metric_list import METRICS

WINDOW = "5m"  # that rates are taken over
RUN = '{run=~"$run"}'
ENGINE = '{model_name=~"$run"}'  # an engine serves its model under the name of the run
COLUMNS, WIDTH, HEIGHT = 3, 8, 8
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    unit: str  # in Grafana's words
    what: str = ""  # shown with it; "": the meaning of the metrics
    asks: tuple[tuple[str, str], ...] = ()  # queries and their legends; (): the metrics of this title
    signed: bool = False  # values below 0 are shown too


SHARE = "percentunit"
GPU = "{{instance}} GPU {{GpuIndex}}"
ROWS = {
    "Learning": (
        Panel("Reward", SHARE, "Mean outcome of each batch, and the win rate on held-out games."),
        Panel("Staleness", "short"),
        Panel("Parity gap", "sci"),
    ),
    "Learner": (
        Panel("Loss", "short", signed=True),
        Panel("Entropy", "short"),
        Panel("Gradient norm", "short"),
        Panel("KL", "sci", "To the start of the run and of the update, and of engines to learners.", signed=True),
    ),
    "Throughput": (
        Panel("Tokens trained on per second", "short", "Sampled tokens by all seconds of the update."),
        Panel("Episodes trained on per second", "short", "By all seconds of the update."),
        Panel("Where an update's time goes", "s", "Seconds of each stage of the newest update."),
    ),
    "Health": (
        Panel(
            "Tickets in flight",
            "short",
            "Issued and not yet consumed, and of those the finished episodes that wait for the learner.",
        ),
        Panel("Failed episodes", "short", "By reason, in the last five minutes. Their tickets are issued again."),
        Panel("Weight sync", "s"),
    ),
    "Machines": (
        Panel("GPUs at work", SHARE, "Of every node of the cluster.", (("ray_node_gpus_utilization / 100", GPU),)),
        Panel("GPU memory in use", "decmbytes", "Of every node of the cluster.", (("ray_node_gram_used", GPU),)),
    ),
    "Engines": (
        Panel(
            "Requests in the engines",
            "short",
            "vLLM's own count over all rollout workers.",
            (
                (f"sum(ray_vllm_num_requests_running{ENGINE})", "running"),
                (f"sum(ray_vllm_num_requests_waiting{ENGINE})", "waiting"),
            ),
        ),
        Panel(
            "Key-value cache in use",
            SHARE,
            "The fullest engine and the mean.",
            (
                (f"max(ray_vllm_kv_cache_usage_perc{ENGINE})", "fullest"),
                (f"avg(ray_vllm_kv_cache_usage_perc{ENGINE})", "mean"),
            ),
        ),
        Panel(
            "Prefix cache hits",
            SHARE,
            "Share of prompt tokens found in the cache, over five minutes.",
            (
                (
                    f"sum(rate(ray_vllm_prefix_cache_hits_total{ENGINE}[{WINDOW}])) / "
                    f"sum(rate(ray_vllm_prefix_cache_queries_total{ENGINE}[{WINDOW}]))",
                    "hit share",
                ),
            ),
        ),
    ),
}


def dashboard() -> str:
    numbers, panels, top = count(1), [], 0
    for title, row in ROWS.items():
        panels.append(_heading(next(numbers), title, top))
        for place, panel in enumerate(row):
            below, column = divmod(place, COLUMNS)
            panels.append(_panel(next(numbers), panel, column, top + 1 + below * HEIGHT))
        top += 1 + HEIGHT * (below + 1)
    return json.dumps(_frame(panels), indent=1, ensure_ascii=False) + "\n"


def asks_of(panel: Panel) -> tuple[tuple[str, str], ...]:
    """Queries of a panel, each with its legend."""
    if panel.asks:
        return panel.asks
    exported = dict.fromkeys(name for metric in METRICS if metric.dashboard == panel.title for name in metric.exported)
    gauges = [name for name in exported if not name.endswith("_total")]
    return tuple(_ask(name) for name in gauges or exported)


def _ask(name: str) -> tuple[str, str]:
    metric, words = f"ray_{name}{RUN}", name.removeprefix("parley_").replace("_", " ")
    if name == "parley_failures_total":
        return f"sum by (run, reason) (increase({metric}[{WINDOW}]))", "{{reason}} {{run}}"
    if name == "parley_stage_seconds":
        return metric, "{{stage}} {{run}}"
    return metric, f"{words} {{{{run}}}}"


def _panel(number: int, panel: Panel, column: int, top: int) -> dict[str, Any]:
    drawn = {"showPoints": "never", "fillOpacity": 5}
    defaults = {"unit": panel.unit, "custom": drawn} | ({} if panel.signed else {"min": 0})
    defaults |= {"max": 1} if panel.unit == SHARE else {}
    meanings = dict.fromkeys(metric.meaning for metric in METRICS if metric.dashboard == panel.title)
    asks = zip("ABCDEF", asks_of(panel), strict=False)
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.what or " ".join(meanings),
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": top, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": letter, "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for letter, (query, legend) in asks
        ],
    }


def _heading(number: int, title: str, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": COLUMNS * WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _frame(panels: list[dict[str, Any]]) -> dict[str, Any]:
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}}
    run = {
        "name": "run",
        "label": "Run",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": "label_values(ray_parley_reward, run)", "refId": "run"},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "sort": 2,
        "current": {"text": "All", "value": "$__all"},
    }
    return {
        "title": "Parley",
        "uid": "parley",
        "description": "One or more training runs of Parley on a Ray cluster.",
        "tags": ["parley", "ray"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [source, run]},
        "annotations": {"list": []},
        "panels": panels,
    }
