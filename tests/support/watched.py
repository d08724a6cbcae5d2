"""A run folder to watch, made without a run: its config, rows of metrics, and games in its store."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from cluster.episodes.columns import Kept, table_of
from cluster.episodes.store import EpisodeStore
from cluster.recipe.reading import load_recipe
from cluster.record.run_folder import RunFolder
from envs.episode import Episode, Ticket, Turn, TurnTokens

TIMES = (0.1, 0.2, 0.3)
SEATS = (("guesser", "policy"),)
SECRETS = ("teapot", "elephant")  # of games that are lost, and of those that are won
HOSTILE = '<img src=x onerror="document.title=1"></td><script>document.title=1</script>'


def made_run(output: Path, name: str = "demo", *overrides: str) -> Path:
    config = load_recipe("recipes/demo.yaml", [f"output={output}", f"name={name}", "updates=9", *overrides])
    with RunFolder.create(config) as folder:
        return folder.path


def learned(folder: Path, update: int, games: int = 4, **figures: float) -> None:
    """One more update, as the run writes it."""
    store = EpisodeStore(folder / "episodes", 2**30)
    played = [game(update, number) for number in range(games * update, games * (update + 1))]
    store.write(update, update, table_of(played))
    seconds = {"seconds/update": 4.0, "seconds/collect": 1.0, "seconds/learn": 2.0, "seconds/sync": 0.5}
    row = {"update": update, "time": 1000.0 + 4 * update, "rollout/outcome": 0.1 * update, "rollout/episodes": games}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row | seconds | figures) + "\n")


def game(update: int, number: int) -> Kept:
    ticket = Ticket("run", "twenty_questions", number, 100 + number % 2, SEATS)
    ids = np.arange(3, dtype=np.int32)
    tokens = TurnTokens(ids, ids + 7, np.array([-0.5, -1.0, -2.0], np.float32), np.full(3, update - 1, np.int32))
    said = HOSTILE if number % 4 == 3 else f"is it a thing like {number}?"
    turn = Turn("guesser", "policy", "your question?", said, said != HOSTILE, tokens=tokens, times=TIMES)
    turns, facts = [turn] * (1 + number % 3), {"secret": SECRETS[number % 2]}
    episode = Episode(ticket, turns, {"guesser": float(number % 2)}, True, facts=facts, seconds=2.0)
    credit = {"guesser": np.full(3 * len(turns), 0.25 - number % 2, np.float32)}
    return Kept(ticket, update, episode, worker=number % 2, ended=1000.0 + 4 * update - 1, credit=credit)


def at_work(folder: Path, process: int, update: int, stage: str) -> None:
    told = {"update": update, "stage": stage, "since": time.time(), "process": process}
    (folder / "now.json").write_text(json.dumps(told))
