"""Memory does not grow with the file: many times the cap is read, labelled and made a training set of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.offline_games import BARGAINING, ROOT, one_hot, pair, rows

CAP_MB = 150  # of growth
FILE_MB = 300
GAMES = 8_000

MEASURED = """
import resource, sys
from cluster.commands.cli import main
for file, folder in (sys.argv[2:4], sys.argv[4:6]):
    assert main(["offline", "run", sys.argv[1], "--input", file, "--folder", folder, "--until", "aggregate"]) == 0
    print("PEAK", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def games(path: Path, count: int, filler: int) -> Path:
    notes = "x" * filler
    with open(path, "w") as file:
        for n in range(count):
            vectors = {
                "alice_action_embeddings": [one_hot(n % 5)] * 2,
                "bob_actions_embeddings": [one_hot(5 + n % 3)] * 2,
            }
            said = [f"I offer you {n % 5} %."] * 2, [f"I want {n % 3} more"] * 2
            file.write(json.dumps(pair(*said, n % 2, notes=notes, **vectors)) + "\n")
    return path


@pytest.mark.long
@pytest.mark.timeout(300)
def test_peak_memory_does_not_grow_with_the_file(tmp_path):
    small = games(tmp_path / "small.jsonl", 100, 100)
    large = games(tmp_path / "large.jsonl", GAMES, FILE_MB * 10**6 // GAMES)
    assert large.stat().st_size > FILE_MB * 10**6
    words = [*BARGAINING, small, tmp_path / "s", large, tmp_path / "l"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, words)],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    before, after = (int(line.split()[1]) / 1024 for line in done.stdout.splitlines() if line.startswith("PEAK"))
    assert after - before < CAP_MB, f"peak memory grew by {after - before:.0f} MB with {FILE_MB} MB of games"
    assert len(rows(tmp_path / "l")) == 4 * GAMES
    labelled = next((tmp_path / "l" / "iteration-1").glob("*selected*"))
    with open(labelled) as file:
        first = json.loads(file.readline())
    assert len(first["notes"]) == FILE_MB * 10**6 // GAMES, "fields of others are carried along"
