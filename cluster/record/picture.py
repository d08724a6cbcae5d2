"""The learning curve of a run as one picture: curve.svg in the run folder.

Points are held-out games with 95 % intervals; the line is the mean outcome of each
training batch, thin as it was and thick as a running mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

WINDOW = 7  # updates in the running mean


def draw_curve(metrics: Path, summary: Mapping, picture: Path) -> None:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    trained = [(row["update"], row["rollout/outcome"]) for row in rows if "rollout/outcome" in row]
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    if trained:
        updates, outcomes = (np.array(column, float) for column in zip(*trained, strict=True))
        axes.plot(updates, outcomes, color="#9db8d2", linewidth=1, label="training batch, mean outcome")
        axes.plot(
            updates, running_mean(outcomes, WINDOW), color="#1f5f99", linewidth=2, label=f"mean of {WINDOW} updates"
        )
    held_out = summary["evaluations"]
    rates = np.array([each["evaluation/win_rate"] for each in held_out])
    low = rates - [each["evaluation/win_low"] for each in held_out]
    high = [each["evaluation/win_high"] for each in held_out] - rates
    axes.errorbar(
        [each["version"] for each in held_out], rates, yerr=[low, high], fmt="o", color="#c2410c", capsize=4,
        label=f"win rate, {summary['held_out_games']} held-out games, 95 % interval",
    )  # fmt: skip
    axes.set(xlabel="learner update", ylabel="outcome", ylim=(0, 1), title=f"{summary['game']}: {summary['run']}")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", fontsize=9)
    figure.savefig(picture, format="svg", metadata={"Date": None})


def running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Centred; shorter at both ends."""
    half = window // 2
    return np.array([values[max(0, i - half) : i + half + 1].mean() for i in range(len(values))])
