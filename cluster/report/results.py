"""How games went: by what was asked, by seat, role and opponent, and over the updates; from the games that a run keeps.

    parts of the store -> a tally of each (made once, and anew where a resumed run wrote it again) -> their sum

A case is one game: the mean outcome of the policy's seats in it that belong to a group, for the seats of one game do
not go their ways independently. What is revealed after a game, such as its secret, is what it was about; where it has
the name of a seat, it is that seat's role. Held-out games are counted apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cluster.episodes.store import Part, opened, parts_of
from cluster.record.statistics import CONFIDENCE
from cluster.report.figures import short, shorts, thinned

COLUMNS = ("update", "newest", "held_out", "failure", "game", "tokens", "seats", "facts")
SPOKEN = ("dialogue.list.element.player", "dialogue.list.element.executable")
MOST_GAMES = 50_000  # the newest, that are read
FEWEST = 3  # cases of a group, before it is ranked
SHOWN = 12  # groups of a kind, those that are lost most
MOST_GROUPS = 1_000  # of a kind: beyond them nearly every game has a value of its own
KINDS = ("seat", "opponent", "game")  # that have no name of the game's own

Sums = tuple[float, float, float]  # cases, their outcomes, the squares of these


@dataclass(slots=True)
class Tally:
    cases: Counter = field(default_factory=Counter)  # by (kind, value, held_out, update, which of Sums)
    spoken: Counter = field(default_factory=Counter)  # by (held_out, update, what)

    def add(self, game: Mapping[str, Any]) -> None:
        if game["failure"] is not None:
            return
        # held-out games may end an update after the weights that played them
        of_weights = game["held_out"] and game["newest"] is not None
        part = (game["held_out"], game["newest"] if of_weights else game["update"])
        turns = [turn for turn in game["dialogue"] if turn["player"] == "policy"]
        self.spoken[*part, "games"] += 1
        self.spoken[*part, "tokens"] += game["tokens"]
        self.spoken[*part, "utterances"] += len(turns)
        self.spoken[*part, "not_understood"] += sum(not turn["executable"] for turn in turns)
        names = {seat["seat"] for seat in game["seats"]}
        of_groups = defaultdict(list)
        for seat in game["seats"]:
            if seat["player"] == "policy" and seat["outcome"] is not None:
                for group in _groups_of(game, seat["seat"], names):
                    of_groups[group].append(seat["outcome"])
        for group, outcomes in of_groups.items():
            mean = sum(outcomes) / len(outcomes)
            for which, amount in enumerate((1, mean, mean**2)):
                self.cases[*group, *part, which] += amount


def _groups_of(game: Mapping[str, Any], seat: str, names: set[str]) -> Iterator[tuple[str, str]]:
    yield "seat", seat
    yield "game", game["game"]
    for player in sorted({each["player"] for each in game["seats"] if each["player"] != "policy"}):
        yield "opponent", player
    for about, value in game["facts"]:
        if about == seat:
            yield "role", value
        elif about not in names:
            yield about, value


class Results:
    """Of one run's store, which may grow between two questions."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.tallies: dict[tuple[Part, int, int], Tally] = {}  # by the part, its time and its size

    def told(self) -> dict[str, Any] | None:
        """None where there is no game yet."""
        if not self.folder.is_dir():
            return None
        try:
            read = self._tallies()
        except FileNotFoundError:  # a part was merged between two looks at it
            read = self._tallies()
        self.tallies = read
        whole = Tally()
        for tally in read.values():
            whole.cases.update(tally.cases)
            whole.spoken.update(tally.spoken)
        games = sum(count for (*_, what), count in whole.spoken.items() if what == "games")
        return {"games": games, "over": _over(whole), "groups": _groups(whole)} if games else None

    def _tallies(self) -> dict[tuple[Part, int, int], Tally]:
        found: dict[tuple[Part, int, int], Tally] = {}
        rows = 0
        for part in reversed(parts_of(self.folder)):
            if rows >= MOST_GAMES:
                break
            written = part.path.stat()
            file, key = opened(part), (part, written.st_mtime_ns, written.st_size)
            rows += file.metadata.num_rows
            found[key] = self.tallies.get(key) or _tally(file)
        return found


def _tally(file: pq.ParquetFile) -> Tally:
    found = Tally()
    for batch in file.iter_batches(512, columns=[*COLUMNS, *SPOKEN], use_threads=False):
        for game in batch.to_pylist():
            found.add(game)
    return found


def _over(tally: Tally) -> dict[str, Any]:
    """By held_out: over the updates, the share of utterances that the game could not execute, their tokens, and the
    mean outcome of every seat."""
    told = {}
    for name, held_out in (("training", False), ("held_out", True)):
        updates = thinned(sorted({update for which, update, _ in tally.spoken if which == held_out}))
        seats = sorted({value for kind, value, which, *_ in tally.cases if (kind, which) == ("seat", held_out)})
        spoken = {
            what: [tally.spoken[held_out, update, what] for update in updates]
            for what in ("utterances", "not_understood", "tokens")
        }
        told[name] = {
            "updates": updates,
            "not_understood": _shares(spoken["not_understood"], spoken["utterances"]),
            "tokens": _shares(spoken["tokens"], spoken["utterances"]),
            "seats": {
                seat: _shares(
                    *([tally.cases["seat", seat, held_out, update, which] for update in updates] for which in (1, 0))
                )
                for seat in seats
            },
        }
    return told


def _shares(amounts: Iterable[float], of: Iterable[float]) -> list[float | None]:
    return shorts([amount / whole if whole else None for amount, whole in zip(amounts, of, strict=True)])


def _groups(tally: Tally) -> dict[str, list[dict[str, Any]]]:
    """By held_out: of each kind that has several values, those that are lost most, and how they went at first."""
    return {name: _ranked(tally.cases, held_out) for name, held_out in (("training", False), ("held_out", True))}


def _ranked(cases: Counter, held_out: bool) -> list[dict[str, Any]]:
    updates = sorted({update for _, _, which, update, _ in cases if which == held_out})
    middle = updates[len(updates) // 2] if updates else 0
    sums: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(lambda: [[0, 0, 0], [0, 0, 0]]))
    for (kind, value, which, update, place), amount in cases.items():
        if which == held_out:
            sums[kind][value][update >= middle][place] += amount
    found = []
    for kind in sorted(sums, key=lambda kind: (kind in KINDS, kind)):
        several = {value: halves for value, halves in sums[kind].items() if halves[1][0] >= FEWEST}
        if len(several) > 1 and len(sums[kind]) <= MOST_GROUPS:
            order = sorted(several, key=lambda value: (several[value][1][1] / several[value][1][0], value))
            rows = [_row(value, *several[value]) for value in order[:SHOWN]]
            found.append({"kind": kind, "values": len(sums[kind]), "from": middle, "rows": rows})
    return found


def _row(value: str, before: Sums, after: Sums) -> dict[str, Any]:
    low, high = interval(*after)
    means = {name: short(sums[1] / sums[0]) if sums[0] else None for name, sums in (("before", before), ("now", after))}
    return {"value": value[:80], "cases": int(before[0] + after[0]), **means, "low": short(low), "high": short(high)}


def interval(cases: float, total: float, squares: float) -> tuple[float, float]:
    """Student's t interval of a mean outcome, within [0, 1]; of one case the whole of it."""
    from scipy.special import stdtrit

    if cases < 2:
        return 0.0, 1.0
    mean = total / cases
    spread = sqrt(max(0.0, (squares - cases * mean * mean) / (cases - 1)))
    half = float(stdtrit(cases - 1, (1 + CONFIDENCE) / 2)) * spread / sqrt(cases)
    return max(0.0, mean - half), min(1.0, mean + half)
