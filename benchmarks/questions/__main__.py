"""How often is an oracle right, when people ask as they like?

    python -m benchmarks.questions            the held-out questions
    python -m benchmarks.questions --tuning   those that the oracles were developed with
    python -m benchmarks.questions --second   more held-out questions, by another author
    python -m benchmarks.questions --nearest  also ask the oracle that takes the nearest of known questions
    python -m benchmarks.questions --list wrong   also print the pairs of one verdict

The questions were written as by twelve persons (a child, a lawyer, a fast typist with spelling mistakes, a chatty
language model, ...) by an author who had seen the names of the objects and cities, but no rule of the oracles. Each
has a right answer for two or three objects. "Either" as the right answer means that people would disagree: then no
answer is wrong. HELD OUT: nothing is chosen on these, and whoever works on an oracle does not read them; the files are
packed so that nobody reads them by accident. The second ones are closed questions and guesses alone, written when the
oracles had been measured with the first. GOAL: at least 88 % right, less than .7 % wrong.

A question that can be answered is right, refused or wrong. One that should be refused (nonsense, "is it big or
small?", a question about the name) is right if it is refused and wrong if it is answered.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lab.pages import table
from envs.registry import make_game

FOLDER = Path(__file__).parent
REFUSALS = ("invalid", "i cannot answer that.", "i say nothing about the name.")
FULL = {"table": "full", "turns": 20}
GAMES = {"twenty_questions": FULL, "guess_my_city": {}}
NEAREST = {"twenty_questions": FULL | {"oracle": "nearest"}, "guess_my_city": {"nearest": True}}
VERDICTS = ("right", "refused", "wrong")


@dataclass(frozen=True)
class Pair:
    persona: str
    kind: str
    question: str
    secret: str
    expected: str | tuple[str, ...]  # of an open question: pieces, one of which the answer has

    def verdict(self, answer: str) -> str:
        answer = answer.lower()
        refused = answer in REFUSALS
        if self.expected == "refuse":
            return "right" if refused else "wrong"
        if refused:
            return "refused"
        if isinstance(self.expected, tuple):
            return "right" if any(piece in answer for piece in self.expected) else "wrong"
        return "right" if self.expected == "either" or answer.startswith(self.expected) else "wrong"


def pairs_of(game: str, which: str) -> list[Pair]:
    lines = lzma.decompress((FOLDER / f"{game}_{which}.jsonl.xz").read_bytes()).decode().splitlines()
    return [
        Pair(
            line["persona"], line["kind"], line["question"], secret, tuple(right) if isinstance(right, list) else right
        )
        for line in map(json.loads, lines)
        for secret, right in line["answers"].items()
    ]


def judged(game: str, options: dict, which: str) -> Iterator[tuple[Pair, str, str]]:
    """Each pair with the oracle's answer and the verdict."""
    oracle = make_game(game, options).oracle
    for pair in pairs_of(game, which):
        answer = oracle.answer(oracle.understand(pair.question), secret_of(oracle, pair.secret))
        yield pair, answer, pair.verdict(answer)


def secret_of(oracle, name: str) -> str:
    """As the oracle writes it: cities in small letters, without apostrophes."""
    return name.lower().replace("'", "") if hasattr(oracle, "atlas") else name


def row(name: str, verdicts: list[str]) -> list[object]:
    found = Counter(verdicts)
    return [name, len(verdicts), *(f"{100 * found[each] / len(verdicts):.1f}" for each in VERDICTS)]


def page(which: str, nearest: bool, listed: str | None) -> str:
    parts = []
    for game, options in [*GAMES.items(), *(NEAREST.items() if nearest else ())]:
        found = list(judged(game, options, which))
        rows = []
        for key in ("kind", "persona"):
            groups = defaultdict(list)
            for pair, _, verdict in found:
                groups[getattr(pair, key)].append(verdict)
            rows += [row(name, verdicts) for name, verdicts in groups.items()]
        rows.append(row("all", [verdict for _, _, verdict in found]))
        parts += [
            f"{game}{', nearest' if options in NEAREST.values() else ''}, {which.replace('_', ' ')}",
            table(["", "pairs", *(f"{each}, %" for each in VERDICTS)], rows),
        ]
        parts += [
            f"{pair.question!r} {pair.secret}: {answer!r}, expected {pair.expected!r}"
            for pair, answer, verdict in found
            if verdict == listed
        ]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.questions", description=__doc__.splitlines()[0])
    sets = parser.add_mutually_exclusive_group()
    sets.add_argument("--tuning", action="store_true", help="the questions that the oracles were developed with")
    sets.add_argument("--second", action="store_true", help="held-out questions of another author")
    parser.add_argument(
        "--nearest", action="store_true", help="also the oracles that take the nearest of known questions"
    )
    parser.add_argument("--list", choices=VERDICTS, help="also print the pairs of this verdict")
    asked = parser.parse_args()
    which = "tuning" if asked.tuning else "second" if asked.second else "held_out"
    print(page(which, asked.nearest, asked.list))


if __name__ == "__main__":
    main()
