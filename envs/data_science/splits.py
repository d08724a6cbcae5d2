"""Which rows are fitted and which are predicted, and the made-up classes of a rehearsal.

Neither is drawn with a look at the classes, so who knows how it is drawn learns nothing from
it: not from which rows are in a half, not from their order, not from what a rehearsal does.
"""

from __future__ import annotations

import random

import numpy

from envs.data_science.tables import Table


def halves(table: Table, deal: int, split: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Row numbers to train on and to predict: any half of the rows, drawn again until every class is in both.
    How often it is drawn again depends on nothing but how many rows of each class are in a half, which the coder
    sees anyway. The smaller half of an odd number of rows is either."""
    rng = random.Random(f"halves {table.name} {deal} {split}")
    rows = list(range(len(table.y)))
    while True:
        rng.shuffle(rows)
        middle = (len(rows) + rng.randrange(2)) // 2
        train, test = numpy.array(rows[:middle]), numpy.array(rows[middle:])
        if all(len(set(table.y[half].tolist())) == len(table.classes) for half in (train, test)):
            return train, test


def rehearsal(table: Table, deal: int) -> Table:
    """The same rows with made-up classes, as many of each: a random weighing of the columns, with a little noise,
    cut into classes. A fit takes about as long as one of the real classes, without a look at which they are."""
    rng = random.Random(f"rehearsal {table.name} {deal}")
    weighed = table.x @ [rng.gauss(0, 1) for _ in table.columns]
    weighed += weighed.std() * numpy.array([rng.gauss(0, 0.02) for _ in table.x])
    made_up = numpy.empty_like(table.y)
    made_up[weighed.argsort(kind="stable")] = numpy.sort(table.y)
    return Table(f"{table.name}, a rehearsal", table.columns, table.classes, table.x, made_up)
