"""Numbers as GLEE's texts have them: 10,000 and 4,700.50; 33.33 and 19."""

from __future__ import annotations

from fractions import Fraction

from envs.glee.money import dollars


def amount(cents: int) -> str:
    """In dollars, without their sign."""
    return dollars(cents).removeprefix("$")


def share(part: Fraction) -> str:
    """In percent, to two places."""
    return f"{float(100 * part):.2f}".rstrip("0").rstrip(".")
