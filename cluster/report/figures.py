"""A run in figures and curves: what its metrics say, chosen and named for a reader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cluster.record.metric_list import METRICS, Metric
from cluster.record.picture import WINDOW, running_mean
from cluster.report.reading import Run
from learners.credit.method import CREDIT
from reward_service.intentions.pooling.pooling import POOLINGS
from reward_service.shaper import SHAPERS

MOST_UPDATES = 2_000  # on one curve


TAKEN = {"seconds": "seconds/update", "tokens": "rollout/tokens", "games": "rollout/episodes"}


def short(value: float | None) -> float | None:
    """Five digits are finer than any picture."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.5g}")


def shorts(values: Sequence[float | None]) -> list[float | None]:
    return [short(value) for value in values]


def thinned(values: list[Any]) -> list[Any]:
    """At most MOST_UPDATES of them, evenly, the last one among them."""
    return values[::-1][:: -(-len(values) // MOST_UPDATES) or 1][::-1]


def column(rows: Sequence[dict[str, Any]], key: str) -> tuple[list[int], list[float]]:
    """Updates, and the value at each, where there is one."""
    found = [(row["update"], row[key]) for row in rows if isinstance(row.get(key), int | float)]
    return [update for update, _ in found], [float(value) for _, value in found]


def headline(run: Run) -> dict[str, Any]:
    evaluated, trained = run.evaluated, run.trained
    return {
        "before": _evaluation(evaluated[0]) if evaluated and evaluated[0]["update"] == 0 else None,
        "after": _evaluation(evaluated[-1]) if evaluated and evaluated[-1]["update"] else None,
        "updates": run.rows[-1]["update"],
        "asked": run.config.updates,
        "episodes": int(sum(column(trained, "rollout/episodes")[1])),
        "tokens": int(sum(column(trained, "rollout/tokens")[1])),
        "seconds": short(sum(column(trained, "seconds/update")[1])),
    }


def curves(run: Run) -> dict[str, Any]:
    updates, outcome = column(run.rows, "rollout/outcome")
    smooth = running_mean(np.array(outcome), WINDOW).tolist() if outcome else []
    return {
        "evaluations": [_evaluation(row) for row in run.evaluated],
        "updates": thinned(updates),
        "outcome": shorts(thinned(outcome)),
        "smooth": shorts(thinned(smooth)),
        "window": WINDOW,
        "along": along(run),
        "panels": _panels(run),
    }


def along(run: Run) -> dict[str, list[Any]]:
    """At the ends of some updates, evenly."""
    ends = thinned(list(taken_by(run).items()))
    return {"updates": [update for update, _ in ends]} | {
        name: shorts([each[name] for _, each in ends]) for name in TAKEN
    }


def taken_by(run: Run) -> dict[int, dict[str, float]]:
    """What the run had taken at the end of each update: seconds in updates, tokens and games that it learned from."""
    taken, found = dict.fromkeys(TAKEN, 0.0), {}
    for row in run.rows:
        taken = {name: value + (row.get(TAKEN[name]) or 0.0) for name, value in taken.items()}
        found[row["update"]] = taken
    return found


def _evaluation(row: dict[str, Any]) -> dict[str, Any]:
    """The interval is the one that was recorded with it: Wilson's."""
    found = {name: row[f"evaluation/win_{name}"] for name in ("rate", "low", "high")}
    return {"update": row["update"], "games": int(row["evaluation/episodes"])} | {
        name: short(value) for name, value in found.items()
    }


def _panels(run: Run) -> list[dict[str, Any]]:
    """Those that were recorded."""
    panels = []
    for metric in METRICS:
        updates, values = column(run.rows, metric.name) if metric.panel else ([], [])
        if values:
            panels.append(
                {"title": metric.panel, "what": _what(metric), "log": metric.logarithmic}
                | {"updates": thinned(updates), "values": shorts(thinned(values))}
            )
    return panels


def _what(metric: Metric) -> str:
    return metric.meaning.removesuffix(".") + (f", {metric.unit}" if metric.unit else "")


def pooling(run: Run) -> dict[str, Any] | None:
    """Variance before and after returns are shared, and the groups that share them."""
    prefix = next((key[: -len("variance_before")] for key in run.rows[-1] if key.endswith("/variance_before")), None)
    if prefix is None:
        return None
    updates, before = column(run.rows, f"{prefix}variance_before")
    lines = {name: column(run.rows, prefix + name) for name in ("variance_after", "group_size", "singletons", "k")}
    by_turn = f"{prefix}singletons_turn_"
    alone = sorted(
        (int(key.removeprefix(by_turn)), run.rows[-1][key]) for key in run.rows[-1] if key.startswith(by_turn)
    )
    return {
        "updates": thinned(updates),
        "variance_before": shorts(thinned(before)),
        **{name: {"updates": thinned(at), "values": shorts(thinned(values))} for name, (at, values) in lines.items()},
        "turns": [turn for turn, _ in alone],
        "alone": shorts([share for _, share in alone]),
        "window": int(run.rows[-1].get(f"{prefix}episodes", 0)),
    }


def settings(run: Run) -> list[tuple[str, str]]:
    """The settings that a listener asks for."""
    config, learner = run.config, run.config.learner
    given = any(each["kind"] == "advantage" for each in run.samples)
    method = CREDIT.name_of(learner.credit)
    if getattr(learner.credit, "baseline", "none") != "none":
        method += f", {learner.credit.baseline} baseline"
    shown = {
        "game": " ".join([config.game.name, *(f"{key}={value}" for key, value in config.game.options.items())]),
        "players": ", ".join(f"{seat}: {player}" for seat, player in config.game.players.items()) or "the policy",
        "model": config.model.path,
        "rewards": SHAPERS.name_of(config.reward.shaper),
        "credit": "advantages as the rewards give them" if given else method,
        "learning rate": f"{learner.learning_rate:g}",
        "games an update": f"{config.batch_episodes:,}",
        "staleness": f"at most {config.max_staleness}",
        "engine": f"{_engine(run)}, {config.rollout.workers_in_words}",
        "learner": f"{learner.ranks} rank{'s' if learner.ranks > 1 else ''}, ZeRO {learner.zero}",
        "seed": str(config.seed),
    }
    if hasattr(config.reward.shaper, "intentions"):
        shared = config.reward.shaper.intentions.aggregate
        baseline = "" if shared.baseline == "none" else f", {shared.baseline} baseline"
        shown["shared by"] = POOLINGS.name_of(shared.pooling) + baseline
    if cores := run.versions.get("cpus"):
        shown["machine"] = ", ".join([f"{cores} CPUs, {run.versions.get('cpu')}", *(run.versions.get("gpus") or [])])
    return list(shown.items())


def _engine(run: Run) -> str:
    """The one that plays; of a run of an earlier version it is known at its end."""
    return (run.versions | run.summary).get("engine", run.config.rollout.engine.kind)
