"""The full table of Twenty Questions and its oracle, for tests."""

from __future__ import annotations

from envs.twenty_questions.oracles import oracle_for

FULL = {"table": "full", "turns": 20}
SEAT = "guesser"
ORACLE = oracle_for("full")
TABLE = ORACLE.table


def answer(text: str, secret: str) -> str:
    return ORACLE.answer(ORACLE.understand(text), secret)
