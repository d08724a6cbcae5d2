"""A writer of the store of games, killed with SIGKILL at random moments: what its ledger has consumed is there, once.

the harness forks a writer --> it writes, merges, and every third update its ledger says what it has consumed
        ^                                                            |
        +---- the next one cuts the store back to that, as a resume does <---- SIGKILL
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

import cluster.episodes.store as store_module
from cluster.episodes.columns import Kept, table_of
from cluster.episodes.reader import Episodes
from envs.episode import Episode, Ticket, Turn, TurnTokens

GAMES = 3  # of an update
MERGED = 4
CONSUMED_EVERY = 3  # updates
UPDATES, SECONDS = 7, 0.05  # a writer is killed after at most so many of the one and then of the other


def numbers_of(update: int) -> range:
    return range(GAMES * update, GAMES * update + GAMES)


def written_game(number: int, update: int) -> Kept:
    ids = np.arange(5, dtype=np.int32)
    tokens = TurnTokens(ids, ids, -ids / np.float32(4), ids)
    turns = [Turn("me", "policy", "seen", f"said {number}", tokens=tokens)] * 4
    ticket = Ticket("run", "game", number, number, (("me", "policy"),))
    return Kept(ticket, update, Episode(ticket, turns, {"me": 1.0}, True))


def consumed(folder: Path) -> int:
    ledger = folder / "consumed"
    return int(ledger.read_text()) if ledger.exists() else 0


def write_for_ever(folder: Path) -> None:
    store_module.MERGED = MERGED
    done = consumed(folder)
    store = store_module.EpisodeStore(folder / "episodes", most_bytes=2**30)
    store.cut_back(done)
    while True:
        done += 1
        store.write(done, done, table_of([written_game(number, done) for number in numbers_of(done)]))
        if done % CONSUMED_EVERY == 0:
            (folder / ".consumed").write_text(str(done))
            os.replace(folder / ".consumed", folder / "consumed")
        print("wrote", flush=True)
        store.merge()


def harness(folder: Path) -> None:
    """Forks a writer for each line that it reads, and says its process."""
    print("ready", flush=True)
    for _ in sys.stdin:
        writer = os.fork()
        if not writer:
            try:
                print(os.getpid(), flush=True)
                write_for_ever(folder)
            finally:
                os._exit(1)
        os.waitpid(writer, 0)
        print("gone", flush=True)


def kill_at_random(folder: Path, times: int, seed: int = 0) -> dict[str, int]:
    """Games that were lost or doubled, over so many kills; there should be none."""
    folder.mkdir(parents=True, exist_ok=True)
    chance, found = random.Random(seed), Counter(kills=0, consumed=0, lost=0, doubled=0)
    command = [sys.executable, "-m", "benchmarks.episodes_killed", str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], text=True, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        for _ in range(times):
            print(file=process.stdin, flush=True)
            writer = int(process.stdout.readline())
            for _ in range(chance.randint(0, UPDATES)):
                assert process.stdout.readline() == "wrote\n"
            time.sleep(chance.uniform(0.0, SECONDS))
            os.kill(writer, signal.SIGKILL)
            while process.stdout.readline() != "gone\n":
                pass
            found["kills"] += 1
            found["consumed"] = GAMES * consumed(folder)
            if (folder / "episodes").is_dir():
                found.update(_wrong(folder))
        process.stdin.close()
    return dict(found)


def _wrong(folder: Path) -> Counter[str]:
    kept = Counter(Episodes(folder / "episodes").table(["number"])["number"].to_pylist())
    expected = {number for update in range(1, consumed(folder) + 1) for number in numbers_of(update)}
    return Counter(lost=len(expected - set(kept)), doubled=sum(count - 1 for count in kept.values()))


if __name__ == "__main__":
    harness(Path(sys.argv[1]))
