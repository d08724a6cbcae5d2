"""Several runs side by side: of each game those that differ in their seed alone are one line with an interval.

What a group is called is what sets it apart from the others: `shaper=aria`. A mean over seeds has Student's t interval
over the runs; a run of its own has that of its games. A copy of a run is no second seed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cluster.recipe.fields import flat, parts_of_kinds
from cluster.record.picture import WINDOW, running_mean
from cluster.record.statistics import mean_interval
from cluster.report.figures import TAKEN, column, short, taken_by, thinned
from cluster.report.reading import Run

OWN = ("name", "output", "seed")  # settings in which runs of one group may differ
NAMED = 3  # differences in a group's name; the table has all

Settings = Mapping[str, Any]


def compared(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Of each game its runs: an outcome of one game says nothing beside that of another."""
    games: dict[str, list[Run]] = {}
    for run in runs:
        games.setdefault(run.config.game.name, []).append(run)
    return [{"game": game, **_of_game(members)} for game, members in games.items()]


def _of_game(runs: Sequence[Run]) -> dict[str, Any]:
    originals, copies = _without_copies(runs)
    groups: dict[str, list[Run]] = {}
    for run in originals:
        groups.setdefault(json.dumps(_settings(run), sort_keys=True), []).append(run)
    each = [_settings(members[0]) for members in groups.values()]
    apart = _apart(each)
    return {
        "groups": [_group(name, members) for name, members in zip(_names(each, apart), groups.values(), strict=True)],
        "differ": [{"setting": key, "values": [_shown(settings, key) for settings in each]} for key in apart],
        "copies": copies,
    }


def _without_copies(runs: Sequence[Run]) -> tuple[list[Run], list[tuple[str, str]]]:
    """The runs without copies of others, and (copy, of what). Two runs whose first line is the same to its microsecond
    are one; the longer is kept."""
    kept: dict[str, Run] = {}
    copies = []
    for run in runs:
        first = json.dumps(run.rows[0], sort_keys=True)
        shorter, longer = sorted([run, kept.get(first, run)], key=lambda each: len(each.rows))
        if first in kept:
            copies.append((shorter.name, longer.name))
        kept[first] = longer
    return list(kept.values()), copies


def _settings(run: Run) -> Settings:
    plain = run.config.model_dump(mode="json")
    return flat({key: value for key, value in plain.items() if key not in OWN})


def _apart(each: Sequence[Settings]) -> list[str]:
    """Keys of the settings that differ, those that choose a method first."""
    keys = sorted({key for settings in each for key in settings})
    apart = [key for key in keys if len({json.dumps(settings.get(key)) for settings in each}) > 1]
    parts = {f"{part}.{kinds.tag}": part for part, kinds in parts_of_kinds().items()}
    tags = [key for key in apart if key in parts]
    for tag in tags:  # of two kinds the settings cannot be compared
        apart = [key for key in apart if key == tag or not key.startswith(f"{parts[tag]}.")]
    return sorted(apart, key=lambda key: key not in tags)


def _names(each: Sequence[Settings], apart: Sequence[str]) -> list[str]:
    parts = {f"{part}.{kinds.tag}": part for part, kinds in parts_of_kinds().items()}
    called = {key: parts.get(key, key).rpartition(".")[2] for key in apart}
    for key in apart:  # the last word alone, where no other key has it
        if list(called.values()).count(parts.get(key, key).rpartition(".")[2]) > 1:
            called[key] = parts.get(key, key)
    shown = []
    for settings in each:
        names = [f"{called[key]}={settings[key]}" for key in apart if key in settings]
        more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
        shown.append(", ".join(names[:NAMED] + more) or "all runs")
    return shown


def _shown(settings: Settings, key: str) -> str | None:
    return json.dumps(settings[key], ensure_ascii=False).strip('"') if key in settings else None


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
        "along": _along(runs),
    }


def _along(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """What the updates that all have come to had taken, on average."""
    each = [taken_by(run) for run in runs]
    updates = thinned(_common(each))
    return {"updates": updates} | {
        name: [short(float(np.mean([one[update][name] for one in each]))) for update in updates] for name in TAKEN
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
