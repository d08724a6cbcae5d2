"""Playing data science in tests: whole games, the score as scikit-learn itself gives it, files of data."""

from __future__ import annotations

import csv
import random

import numpy
import pytest
from sklearn.metrics import roc_auc_score

from envs.data_science.sandbox.pool import Limits, pool
from envs.data_science.splits import halves
from envs.data_science.tables import FILES, Table
from envs.registry import make_game, make_player

LIMITS = Limits("process", 30, 2048)
TREE = (
    "def build_model(x_train, y_train): from sklearn.tree import DecisionTreeClassifier; "
    "return DecisionTreeClassifier(max_depth=2).fit(x_train, y_train)"
)


# A test module imports this fixture under its own name (`as`): ruff then takes it for used.
@pytest.fixture(scope="module", autouse=True)
def closed_in_the_end():
    yield
    pool.close()


def play(player: str, seed: int, **options):
    game, coder = make_game("data_science", options), make_player("data_science", player, options)
    game.reset(seed)
    coder.reset(seed)
    said = []
    while game.seat is not None:
        observation = game.observe()
        said.append((observation, coder.reply(observation, game.actions())))
        game.step(said[-1][1])
    return game, said


def noise(seed: int = 0, rows: int = 120) -> Table:
    """Columns that tell nothing about the classes: what is paid for it above 0 was not learned. Tables of
    different seeds differ in the classes alone."""
    x = numpy.random.default_rng(0).normal(size=(rows, 4))
    y = numpy.random.default_rng(100 + seed).permutation(rows) % 2
    return Table("noise", tuple("abcd"), ("no", "yes"), x, y)


def game_on(table: Table, **options):
    """A game of this table, already begun."""
    game = make_game("data_science", {"dataset": "iris", "deals": 1, "isolation": "process", **options})
    game.table = table
    game.reset(0)
    return game


def direct(table, deal: int, fit) -> float:
    """The score as scikit-learn itself gives it, in this process."""
    scores = []
    for split in range(5):
        train, test = halves(table, deal, split)
        given = fit(table.x[train], table.y[train]).predict_proba(table.x[test])
        if len(table.classes) == 2:
            scores.append(roc_auc_score(table.y[test], given[:, 1]))
        else:
            scores.append(roc_auc_score(table.y[test], given, multi_class="ovr", average="macro"))
    return float(numpy.mean(scores))


def write_table(path, name: str, rows: int | None = None, columns: int | None = None, target: str = "") -> None:
    wanted, rng = FILES[name], random.Random(f"table {name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    titles = [f"column {number}" for number in range(wanted.columns if columns is None else columns)]
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow([*titles[:2], target or wanted.target, *titles[2:]])
        for _ in range(wanted.rows + 30 if rows is None else rows):
            cells = [rng.choice(("", "3.5", "-1", "20")), rng.choice(("?", "Mars", "Earth", "Venus"))]
            cells += [str(rng.random()) for _ in titles[2:]]
            out.writerow([*cells[:2], rng.choice(("yes", "no")), *cells[2:]])
