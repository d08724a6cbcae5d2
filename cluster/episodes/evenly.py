"""Some of many, evenly over their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def evenly(all_of_them: Sequence[T], most: int) -> Sequence[T]:
    count = len(all_of_them)
    return all_of_them if count <= most else [all_of_them[place * count // most] for place in range(most)]
