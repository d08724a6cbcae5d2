"""Money: whole cents, read from text and written as text. No float comes near it.

An amount is either dollars ("47", "$4,700.50", "1e3", "80 dollars") or a share of a whole
("47%", "47.5 percent"). Numbers are plain ASCII, never negative, at most two decimals, with
commas only where thousands end; everything else is no amount at all. So "1.000" is
refused rather than guessed at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

LARGEST = 10**14  # cents; beyond any offer of any game here

NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,15})(?:\.[0-9]{1,12}e\+?[0-9]{1,2}|e\+?[0-9]{1,2}|\.[0-9]{1,2})?"
UNIT = r"%|percent\b|per cent\b|dollars?\b"
_AMOUNT = re.compile(rf"(?P<sign>\$?)\s?(?P<number>{NUMBER})\s*(?P<unit>{UNIT})?")


@dataclass(frozen=True, slots=True)
class Amount:
    hundredths: int  # of a dollar, or of a percent
    percent: bool = False

    def __str__(self) -> str:
        return f"{self.hundredths / 100:g} %" if self.percent else dollars(self.hundredths)

    def cents(self, whole: int) -> int:
        """In cents. `whole` is in cents too, and in hundreds of dollars: its shares are exact."""
        return whole * self.hundredths // 10_000 if self.percent else self.hundredths


def read_amount(text: str) -> Amount | None:
    """The amount that `text` is, as a whole."""
    found = _AMOUNT.fullmatch(text.strip(" ").lower()) if len(text) <= 40 else None
    return None if found is None else amount_of(found)


def amount_of(found: re.Match) -> Amount | None:
    """Of a match that names a `sign`, a `number` and a `unit`."""
    unit = found["unit"] or ""
    percent = unit in ("%", "percent", "per cent")
    if percent and found["sign"]:
        return None
    hundredths = Decimal(found["number"].replace(",", "")) * 100
    if hundredths > LARGEST or hundredths != int(hundredths):
        return None
    return Amount(int(hundredths), percent)


def dollars(cents: int) -> str:
    """As a person writes it: $4,700.50, $60."""
    whole, rest = divmod(abs(cents), 100)
    return f"{'-' if cents < 0 else ''}${whole:,}" + (f".{rest:02d}" if rest else "")


def percent(cents: int, whole: int, most: int = 200) -> str:
    """In the closed vocabulary of plain speech: a whole percentage from 0 to `most`, and words
    for what lies between or beyond."""
    share, rest = divmod(cents * 100, whole)
    if share > most or (share == most and rest):
        return f"far over {most} %"
    return f"a little over {share} %" if rest else f"{share} %"
