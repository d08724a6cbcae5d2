"""Held-out games as a report shows them: of the first evaluation and of the newest, from a run's store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.episodes.reader import Episodes
from cluster.report.figures import short
from cluster.report.games import clipped

HELD_OUT = 12  # games of an evaluation that are shown


def held_out(folder: Path) -> list[dict[str, Any]]:
    if not folder.is_dir():
        return []
    kept = Episodes(folder, "held_out == True and failure == None")
    # by the weights that played: two evaluations may end within one update
    found = [*kept.first(HELD_OUT, by="newest"), *kept.first(HELD_OUT, by="-newest")]
    once = {(each["update"], each["newest"], each["number"]): each for each in found}
    # without a token of the policy there is no newest
    in_order = sorted(once, key=lambda key: (key[0], -1 if key[1] is None else key[1], key[2]))
    return [_of_store(once[key]) for key in in_order]


def _of_store(kept: Mapping[str, Any]) -> dict[str, Any]:
    turns = []
    for turn in kept["dialogue"]:
        row = {"seat": turn["seat"], "heard": clipped(turn["observation"]), "said": clipped(turn["utterance"])}
        row |= {"executable": turn["executable"], "caption": turn["caption"], "paid": short(turn["reward"])}
        turns.append(row)
    players = {seat["seat"]: seat["player"] for seat in kept["seats"]}
    return {
        **{name: kept[name] for name in ("number", "game", "facts")},
        "update": kept["update"] if kept["newest"] is None else kept["newest"],
        "players": players,
        "outcome": {seat["seat"]: seat["outcome"] for seat in kept["seats"]},
        "terminated": not kept["cut_off"],
        "seats": [seat for seat, player in players.items() if player == "policy"],
        "turns": turns,
        "closing": {seat: text for seat, text in kept["closing"].items() if text},
    }
