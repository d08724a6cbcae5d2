"""How many intentions are found where the true number is known, as games get longer.

    python -m benchmarks.granularity            eight seeds
    python -m benchmarks.granularity --quick    two

36 kinds of utterances are worth from 0 to 1, each said in five ways that mean nearly the same. 4,000 games are won with
the mean worth of what was said in them, so in long games each turn says little about the outcome. The rule was chosen
on seeds 0 to 7; these are 100 to 107.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.report import Say, run_alone
from reward_service.intentions.clustering.ward import Ward
from reward_service.intentions.fit import Utterances, fit_space
from reward_service.intentions.gist import NOTHING, Gist
from reward_service.intentions.granularity.granularity import Played
from reward_service.intentions.granularity.held_out import HeldOut, held_out_errors, level_of
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.turns import Turns

KINDS, WAYS, GAMES, FINEST = 36, 5, 4000, 60
LENGTHS, SEEDS = (1, 5, 10, 20), range(100, 108)


def talk(length: int, seed: int) -> tuple[IntentionSpace, Played]:
    """Games of `length` turns: the space of their utterances, and its labels at each cut."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(KINDS, 32))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    points = np.repeat(centres, WAYS, axis=0) + 0.03 * random.normal(size=(KINDS * WAYS, 32))
    points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    worth = random.permutation(np.linspace(0, 1, KINDS))
    said = random.integers(KINDS * WAYS, size=(GAMES, length))
    won = (random.random(GAMES) < worth[said // WAYS].mean(axis=1)).astype(float)
    heard, lengths, player = np.full(said.size, NOTHING), np.full(GAMES, length), np.zeros(GAMES, np.int64)
    turns = Turns(said.ravel(), heard, lengths, player, won, 0.95)
    gists = [Gist(f"{number:03}") for number in range(len(points))]
    space = fit_space(Utterances(gists, points, np.bincount(said.ravel())), Ward(max_k=FINEST))
    return space, Played(turns, space.levels, space.cuts[:, space.nearest(points)[0]])


def measure(quick: bool, say: Say) -> dict[str, Any]:
    found = []
    for length in LENGTHS:
        say(f"games of {length} turns")
        chosen, smallest = [], []
        for seed in SEEDS[:2] if quick else SEEDS:
            space, played = talk(length, seed)
            errors, plain = held_out_errors(played, HeldOut().histories)
            chosen.append(level_of(space, errors, plain, 0))
            smallest.append(min(errors, key=lambda level: errors[level].sum()))
        found.append({"turns": length, "held_out": chosen, "smallest error": smallest})
    return {"chosen": found}


def tables(found: dict[str, Any]) -> list[Table]:
    table = Table("turns a game", "k by held_out", "cut of the smallest error")
    for row in found["chosen"]:
        table.add_row(str(row["turns"]), *(" ".join(map(str, row[rule])) for rule in ("held_out", "smallest error")))
    return [table]


if __name__ == "__main__":
    run_alone("granularity", measure, tables)
