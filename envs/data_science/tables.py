"""The data sets: rows of numbers and a class for each row.

    bundled with scikit-learn   breast_cancer, iris, wine
    made by a formula           balance_scale
    read from the user's file   airlines, breast_w, health_insurance, pharyngitis, spaceship_titanic

A file is `NAME.csv` in the option `folder`: a header line, the target column by its name, and
as many other columns as `FILES` says. A column of numbers stays as it is, an empty cell in it
becomes the median; any other column is numbered by the alphabetical order of its values, an
empty cell becoming -1. Classes are numbered by the alphabetical order of their names. A file
with more rows than the published shape is sampled down to it, always to the same rows.

Rows are kept in the order of their numbers (left column first), not in that of the file,
which may tell the class: nothing that is made of row numbers alone can then give it away.
"""

from __future__ import annotations

import csv
import itertools
import math
import random
import statistics
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy

EMPTY = {"", "?", "na", "n/a", "nan", "null", "none"}


class TableError(ValueError):
    """A data set that cannot be had; the message names it and says where it comes from."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[str, ...]
    classes: tuple[str, ...]  # in the order of their numbers
    x: numpy.ndarray  # rows x columns, float64
    y: numpy.ndarray  # rows, int64: the number of each row's class

    def __post_init__(self):
        order = numpy.lexsort(self.x.T[::-1])
        object.__setattr__(self, "x", numpy.ascontiguousarray(self.x[order], dtype=numpy.float64))
        object.__setattr__(self, "y", numpy.ascontiguousarray(self.y[order], dtype=numpy.int64))


@dataclass(frozen=True, slots=True)
class File:
    source: str
    target: str
    columns: int  # besides the target
    rows: int


FILES = {
    "airlines": File("OpenML data set 1169 (airlines)", "Delay", 7, 2000),
    "breast_w": File("OpenML data set 15 (breast-w)", "Class", 9, 69),
    "health_insurance": File(
        "Kaggle data set owaiskhan9654/health-insurance-lead-prediction-raw-data", "Response", 13, 2000
    ),
    "pharyngitis": File("Kaggle data set yoshifumimiya/pharyngitis", "radt", 19, 512),
    "spaceship_titanic": File("Kaggle competition spaceship-titanic, train.csv", "Transported", 13, 2000),
}
BUNDLED = ("breast_cancer", "iris", "wine")
BALANCE_SCALE_ROWS = 125
NAMES = tuple(sorted((*FILES, *BUNDLED, "balance_scale")))


def file_of(name: str, folder: str) -> Path:
    return Path(folder).expanduser() / f"{name}.csv"


def table_of(name: str, folder: str) -> Table:
    """The data set of that name: read once in a process, and again if its file changes."""
    if name not in NAMES:
        raise TableError(f"game option dataset={name!r} must be one of: {', '.join(NAMES)}")
    if name not in FILES:
        return _own(name)
    path, wanted = file_of(name, folder), FILES[name]
    try:
        return _read(name, path, path.stat().st_mtime_ns)
    except OSError as error:
        raise TableError(
            f"data set {name!r} needs the file {path} ({error.strerror}): {wanted.source}, "
            f"saved as CSV with a header, target column {wanted.target!r} and {wanted.columns} other columns"
        ) from None


@lru_cache(maxsize=8)
def _own(name: str) -> Table:
    if name == "balance_scale":
        return _balance_scale()
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    columns = tuple(str(each).replace(" ", "_") for each in bunch.feature_names)
    return Table(name, columns, tuple(map(str, bunch.target_names)), bunch.data, bunch.target)


def _balance_scale() -> Table:
    """Which way a scale tips: weight times distance on the left against the right, each from 1 to 5.
    All 625 cases are known; the published experiments have a fifth of them."""
    rows = [*itertools.product(range(1, 6), repeat=4)]
    rows = [rows[place] for place in _sampled("balance_scale", len(rows), BALANCE_SCALE_ROWS)]
    torques = [left * far - right * wide for left, far, right, wide in rows]
    columns = ("left_weight", "left_distance", "right_weight", "right_distance")
    classes = ("balanced", "left", "right")
    y = [0 if torque == 0 else 1 if torque > 0 else 2 for torque in torques]
    return Table("balance_scale", columns, classes, numpy.array(rows), numpy.array(y))


def _sampled(name: str, rows: int, count: int) -> list[int]:
    return sorted(random.Random(f"rows {name}").sample(range(rows), count))


@lru_cache(maxsize=8)
def _read(name: str, path: Path, _modified: int) -> Table:
    wanted = FILES[name]
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise TableError(f"{path}: not a CSV file with a header ({error})") from None
    header = [title.strip() for title in header]
    if wanted.target not in header or len(header) != wanted.columns + 1:
        raise TableError(
            f"{path}: must have the target column {wanted.target!r} and {wanted.columns} others "
            f"({wanted.source}); it has {len(header)}: {', '.join(header)[:200]}"
        )
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise TableError(f"{path}: row {number} has {len(row)} cells, the header has {len(header)}")
    place = header.index(wanted.target)
    rows = [row for row in rows if row[place].strip().lower() not in EMPTY]
    if len(rows) < wanted.rows:
        raise TableError(f"{path}: has {len(rows)} rows with a class, needs at least {wanted.rows}")
    rows = [rows[chosen] for chosen in _sampled(name, len(rows), wanted.rows)]
    classes = sorted({row[place].strip() for row in rows})
    y = [classes.index(row[place].strip()) for row in rows]
    if len(classes) < 2 or len(classes) > 20 or min(map(y.count, range(len(classes)))) < 4:
        raise TableError(f"{path}: the target {wanted.target!r} must have 2 to 20 classes of at least 4 rows each")
    columns = [_numbered([row[each].strip() for row in rows]) for each in range(len(header)) if each != place]
    names = tuple("_".join(title.split()) for title in header if title != wanted.target)
    return Table(name, names, tuple(classes), numpy.array(columns).T, numpy.array(y))


def _numbered(cells: list[str]) -> list[float]:
    """A column as numbers."""
    filled = [cell for cell in cells if cell.lower() not in EMPTY]
    numbers = [_number(cell) for cell in filled]
    if None not in numbers:
        middle = statistics.median(numbers) if numbers else 0.0
        return [middle if cell.lower() in EMPTY else float(cell) for cell in cells]
    order = {cell: place for place, cell in enumerate(sorted(set(filled)))}
    return [-1.0 if cell.lower() in EMPTY else float(order[cell]) for cell in cells]


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
