"""Metrics of all shards in Prometheus' text format. Names begin with parley_rewards_; each carries its shard.

What is counted since a shard's process began ends with _total; a shaper's own metrics are values of
parley_rewards_shaper, by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PREFIX = "parley_rewards_"
COUNTERS = {
    "requests": "requests taken",
    "episodes": "episodes answered",
    "asked_again": "requests that were sent again and got the answer they had",
    "refits": "refits published",
    "failed_refits": "refits that failed",
    "snapshots": "times the state was written whole",
    "failed_snapshots": "times it could not be",
    "refused": "requests refused or failed in the stream, by reason",
    "http_errors": "error answers over HTTP, by kind; of the whole service, kept by shard 0",
}
GAUGES = {
    "recovered": "episodes that were taken from the journal when the process began",
    "waiting": "episodes that wait for their values",
    "ready": "whether the shard takes requests",
    "refitting": "whether a refit is under way",
    "latency_seconds": "of the latest requests, from arrival to answer, by quantile",
    "disk_seconds": "that the disk took to write down the latest micro-batches, by quantile",
    "shaper": "what the shaper says of itself, by name",
}


def text_of(shards: Sequence[Mapping[str, float]]) -> str:
    found: dict[str, list[str]] = {}
    for shard, metrics in enumerate(shards):
        for name, value in metrics.items():
            metric, labels = _place(name)
            marks = ",".join(f'{label}="{_escaped(text)}"' for label, text in {"shard": str(shard), **labels}.items())
            found.setdefault(metric, []).append(f"{{{marks}}} {value!r}")
    lines = []
    for metric, samples in found.items():
        counted = metric in COUNTERS
        name = f"{PREFIX}{metric}_total" if counted else PREFIX + metric
        lines += [f"# HELP {name} {(COUNTERS | GAUGES)[metric]}", f"# TYPE {name} {'counter' if counted else 'gauge'}"]
        lines += [name + sample for sample in samples]
    return "\n".join(lines) + "\n"


def _place(name: str) -> tuple[str, dict[str, str]]:
    """Metric, and its labels beside the shard."""
    kind, _, rest = name.partition("/")
    if kind == "http":
        return "http_errors", {"kind": rest}
    if kind != "stream":
        return "shaper", {"name": name}
    if rest.startswith("refused/"):
        return "refused", {"reason": rest.removeprefix("refused/")}
    what, quantile, percent = rest.rpartition("_p")
    if quantile and percent.isdigit():
        return f"{what}_seconds", {"quantile": f"{int(percent) / 100:g}"}
    return rest, {}


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
