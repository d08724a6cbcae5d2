"""What a contest found, as Markdown tables that a terminal shows as well, and learning curves as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np

from benchmarks.lab.contest import Contest, Estimate, estimate, gain
from benchmarks.lab.store import Store
from benchmarks.lab.trial import Game, Method, Record

NONE = "-"
WIDE = 4  # panels of a picture, beside each other
Of = Callable[[Record], float]


def mean_of(record: Record) -> float:
    return record.mean


def final_of(record: Record) -> float:
    return record.final


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def outcomes(contest: Contest, store: Store, seeds: int) -> Iterator[str]:
    """Held out and while learning, each game and their mean; best of each column in bold."""
    for title, of in (("Held-out games after the last update", final_of), ("Mean of all batches played", mean_of)):
        columns = {}
        for method in contest.methods:
            by_game = [contest.records(store, game, method, seeds) for game in contest.games]
            if any(by_game):
                cells = [estimate([of(record) for record in found]) if found else None for found in by_game]
                columns[method.name] = [*cells, _over_games(by_game, of)]
        best = [max((cell.mean for cell in cells if cell), default=0) for cells in zip(*columns.values(), strict=True)]
        rows = [
            [name, *(_bold(cell, top) for cell, top in zip(found, best, strict=True)), _seeds(found)]
            for name, found in sorted(columns.items(), key=lambda item: -(item[1][-1].mean if item[1][-1] else 0))
        ]
        yield f"**{title}**, score in percent, mean ± 95 % interval\n\n" + table(
            ["method", *(game.name for game in contest.games), "mean of the games", "seeds"], rows
        )


def _over_games(by_game: Sequence[Sequence[Record]], of: Of) -> Estimate | None:
    """Seeds are paired over games: the interval is that of the mean over games, seed by seed."""
    count = min(len(records) for records in by_game)
    return estimate(np.mean([[of(record) for record in found[:count]] for found in by_game], axis=0)) if count else None


def _seeds(cells: Sequence[Estimate | None]) -> int:
    return min(cell.count for cell in cells if cell)


def _bold(cell: Estimate | None, best: float) -> str:
    if cell is None:
        return NONE
    return f"**{cell}**" if cell.mean == best else str(cell)


def standing(contest: Contest, store: Store, seeds: int, baselines: Sequence[str]) -> Iterator[str]:
    yield from outcomes(contest, store, seeds)
    yield gains(contest, store, seeds, baselines)
    yield gains(contest, store, seeds, baselines, mean_of)


def speeds(contest: Contest, store: Store, seeds: int) -> str:
    """How soon a method's mean curve comes to 90 % of the best score that any method's reaches."""
    rows: list[list[object]] = [[method.name] for method in contest.methods]
    for game in contest.games:
        curves = {}
        for method in contest.methods:
            if found := contest.records(store, game, method, seeds):
                curves[method.name] = mean_curve(found)
        aim = 0.9 * max((curve.max() for _, curve in curves.values()), default=0.0)
        for row, method in zip(rows, contest.methods, strict=True):
            steps, curve = curves.get(method.name, ([], np.empty(0)))
            there = np.flatnonzero(curve >= aim)
            row.append(f"{steps[there[0]]:,.0f}" if len(there) else NONE if not len(curve) else "not reached")
    return "**Steps to 90 % of the best**, of mean curves\n\n" + table(
        ["method", *(g.name for g in contest.games)], rows
    )


def undone(contest: Contest, store: Store, seeds: int, batches: int = 3) -> str:
    """A mean of few runs is pulled far by one that forgot what it knew."""
    rows = []
    for method in contest.methods:
        by_game = [contest.records(store, game, method, seeds) for game in contest.games]
        if any(by_game):
            rows.append([method.name, *(_undone(found, batches) if found else NONE for found in by_game)])
    return f"**Runs whose last {batches} batches score less than their first {batches}**\n\n" + table(
        ["method", *(game.name for game in contest.games)], rows
    )


def _undone(records: Sequence[Record], batches: int) -> str:
    lost = [sum(record.outcomes[-batches:]) < sum(record.outcomes[:batches]) for record in records]
    return f"{sum(lost)} of {len(records)}"


def transfers(contest: Contest, store: Store, seeds: int) -> str:
    """Games that were not trained, played with what was learned, and before anything was."""
    tables = []
    for game in contest.games:
        if not game.transfer:
            continue
        rows, before = [], {}
        for method in contest.methods:
            if found := contest.records(store, game, method, seeds):
                before |= {_start_of(record): record.untrained for record in found}
                rows.append(
                    [method.name, *(estimate([each.transfer[other] for each in found]) for other in game.transfer)]
                )
        if before:
            means = (np.mean([scores[other] for scores in before.values()]) for other in game.transfer)
            rows.insert(0, ["warm start", *(f"{100 * mean:.1f}" for mean in means)])
        head = ["method", *(other.rpartition("=")[2].replace("_", " ") for other in game.transfer)]
        tables.append(f"**Trained on {game.name}, played elsewhere**, score in percent\n\n" + table(head, rows))
    return "\n\n".join(tables)


def _start_of(record: Record) -> tuple[int, int]:
    return record.trial["warm_start"], record.trial["seed"]


def gains(contest: Contest, store: Store, seeds: int, baselines: Sequence[str], of: Of = final_of) -> str:
    """Seed by seed against the baseline that is best on the mean over games."""

    played = {(game.name, method.name) for game, method in contest.pairs()}

    def over_games(method: Method) -> list[list[Record]]:
        return [contest.records(store, game, method, seeds) for game in contest.games]

    complete = {
        m.name: over_games(m) for m in contest.methods if all((g.name, m.name) in played for g in contest.games)
    }
    count = min(len(records) for found in complete.values() for records in found)
    if not count:
        return ""
    means = {name: np.mean([[of(r) for r in g[:count]] for g in found], axis=0) for name, found in complete.items()}
    best = max((name for name in baselines if name in means), key=lambda name: means[name].mean())
    rows = []
    for name, found in complete.items():
        if name != best:
            each = [gain(one[:count], other[:count], of) for one, other in zip(found, complete[best], strict=True)]
            rows.append([name, *each, estimate(means[name] - means[best])])
    rows.sort(key=lambda row: -row[-1].mean)
    head = ["method", *(game.name for game in contest.games), "mean of the games"]
    when = "held out" if of is final_of else "while learning"
    return f"**Gain over {best}**, points, {when}, in pairs of equal seeds\n\n" + table(head, rows)


def step_sizes(contest: Contest, store: Store) -> str:
    rows = [
        [method.name, *(_rate(contest, store, game, method) for game in contest.games)] for method in contest.methods
    ]
    return "**Step sizes**, chosen on seeds that are not reported\n\n" + table(
        ["method", *(game.name for game in contest.games)], rows
    )


def _rate(contest: Contest, store: Store, game: Game, method: Method) -> str:
    if (game.name, method.name) in contest.left_out or store.missing(contest.tuning(store, game, method)):
        return NONE
    return f"{contest.best_rate(store, game, method):g}"


def costs(contest: Contest, store: Store, seeds: int) -> str:
    """CPU seconds of an update by stage, mean over runs of all games."""
    stages = ("play", "shape", "learn")
    rows = []
    for method in contest.methods:
        records = [record for game in contest.games for record in contest.records(store, game, method, seeds)]
        if records:
            found = [float(np.mean([record.seconds.get(stage, 0.0) for record in records])) for stage in stages]
            rows.append([method.name, *(f"{seconds:.3f}" for seconds in found), f"{sum(found):.3f}"])
    return "**CPU seconds of an update**\n\n" + table(["method", *stages, "all"], rows)


def gradient_table(contest: Contest, store: Store) -> str:
    """`store`: of records whose figures are those of gradients."""
    found = {(trial.game, trial.method): _quality(store.get(trial)) for trial in contest.gradients()}
    rows = [[m.name, *(found.get((game, m), NONE) for game in contest.games)] for m in contest.methods]
    return "**Gradients at the warm start**: cosine with the true one (± deviation over batches), noise\n\n" + table(
        ["method", *(game.name for game in contest.games)], rows
    )


def _quality(record: Record | None) -> str:
    if record is None:
        return NONE
    cosine, spread, noise = (record.figures[name] for name in ("cosine", "cosine_spread", "noise"))
    return f"{cosine:.2f} ± {spread:.2f}, {noise:,.1f}"


def write_curves(contest: Contest, store: Store, seeds: int, shown: Sequence[str], picture: Path) -> None:
    """Outcome of each batch, mean over seeds with the 95 % interval, a panel for each game."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plot

    lines = -(-len(contest.games) // WIDE)
    columns = -(-len(contest.games) // lines)
    figure, panels = plot.subplots(
        lines, columns, figsize=(4 * columns, 3.4 * lines), layout="constrained", squeeze=False
    )
    for panel, game in zip_longest(panels.flat, contest.games):
        if game is None:
            panel.set_axis_off()
            continue
        for number, method in enumerate(contest.methods):
            records = contest.records(store, game, method, seeds)
            if method.name not in shown or not records:
                continue
            steps, curves = curves_of(records)
            half = [estimate(column).half for column in curves.T]
            color = f"C{number}"  # the same in every panel, whoever is left out of it
            panel.plot(steps, 100 * curves.mean(axis=0), label=method.name, linewidth=1.6, color=color)
            low, high = curves.mean(axis=0) - half, curves.mean(axis=0) + half
            panel.fill_between(steps, 100 * low, 100 * high, color=color, alpha=0.12, linewidth=0)
        panel.set_title(game.name, fontsize=10)
        panel.set_xlabel("turns of the policy")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25)
    for panel in panels[:, 0]:
        panel.set_ylabel("score, %")
    panels[0, 0].legend(fontsize=7, frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=100, pil_kwargs={"quality": 75, "method": 6})
    plot.close(figure)


def curves_of(records: Sequence[Record], points: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Smoothed scores at equal steps, as far as all of them go: steps [points], curves [records, points]."""
    played = [np.cumsum(record.steps) for record in records]
    steps = np.linspace(max(each[0] for each in played), min(each[-1] for each in played), points)
    curves = [np.interp(steps, each, _smooth(record.outcomes)) for each, record in zip(played, records, strict=True)]
    return steps, np.array(curves)


def mean_curve(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    steps, curves = curves_of(records)
    return steps, curves.mean(axis=0)


def _smooth(outcomes: Sequence[float], width: int = 5) -> np.ndarray:
    """The mean of the last `width` batches."""
    total = np.cumsum([0.0, *outcomes])
    end = np.arange(1, len(outcomes) + 1)
    start = np.maximum(end - width, 0)
    return (total[end] - total[start]) / (end - start)
