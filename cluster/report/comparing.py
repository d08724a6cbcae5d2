"""Several runs side by side: those that differ in their seed alone are one line with an interval.

What a group is called is what sets it apart from the others: `reward.shaper=aria`. A mean over
seeds has Student's t interval over the runs; a run of its own has that of its games.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from cluster.recipe.fields import flat, parts_of_kinds
from cluster.record.picture import WINDOW, running_mean
from cluster.record.statistics import mean_interval
from cluster.report.figures import column, short, thinned
from cluster.report.reading import Run

OWN = ("name", "output", "seed")  # settings in which runs of one group may differ


def compared(runs: Sequence[Run]) -> list[dict[str, Any]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(json.dumps(_settings(run), sort_keys=True), []).append(run)
    names = _names([_settings(members[0]) for members in groups.values()])
    return [_group(name, members) for name, members in zip(names, groups.values(), strict=True)]


def _settings(run: Run) -> dict[str, Any]:
    plain = run.config.model_dump(mode="json")
    return flat({key: value for key, value in plain.items() if key not in OWN})


def _names(each: Sequence[dict[str, Any]]) -> list[str]:
    keys = sorted({key for settings in each for key in settings})
    apart = [key for key in keys if len({json.dumps(settings.get(key)) for settings in each}) > 1]
    parts = {f"{part}.{kinds.tag}": part for part, kinds in parts_of_kinds().items()}
    for tag in [key for key in apart if key in parts]:  # of two kinds the settings cannot be compared
        apart = [key for key in apart if key == tag or not key.startswith(f"{parts[tag]}.")]
    shown = [[f"{parts.get(key, key)}={settings[key]}" for key in apart if key in settings] for settings in each]
    return [", ".join(names) or "all runs" for names in shown]


def _group(name: str, runs: Sequence[Run]) -> dict[str, Any]:
    smooth, measured = [], []
    for run in runs:
        updates, outcome = column(run.rows, "rollout/outcome")
        smooth.append(dict(zip(updates, running_mean(np.array(outcome), WINDOW), strict=True)) if updates else {})
        measured.append({row["update"]: row for row in run.evaluated})
    return {
        "name": name,
        "runs": [run.name for run in runs],
        "outcome": [_over_runs(update, [each[update] for each in smooth]) for update in thinned(_common(smooth))],
        "evaluations": [_measured(update, [each[update] for each in measured]) for update in _common(measured)],
    }


def _common(each: Sequence[dict[int, Any]]) -> list[int]:
    """Updates that every run of the group has come to."""
    return sorted(set.intersection(*(set(found) for found in each)))


def _measured(update: int, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if len(rows) > 1:
        return _over_runs(update, [row["evaluation/win_rate"] for row in rows])
    names = {"mean": "rate", "low": "low", "high": "high"}
    return {"update": update} | {name: short(rows[0][f"evaluation/win_{key}"]) for name, key in names.items()}


def _over_runs(update: int, values: Sequence[float]) -> dict[str, Any]:
    low, high = mean_interval(values)
    return {
        "update": update,
        "mean": short(sum(values) / len(values)),
        "low": None if len(values) == 1 else short(max(0.0, low)),
        "high": None if len(values) == 1 else short(min(1.0, high)),
    }
