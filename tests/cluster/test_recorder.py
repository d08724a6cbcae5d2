"""The thread that keeps a run's games: each one that a ledger consumed is in the store once, and nothing waits for it
without an end."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cluster.episodes.recorder as recorder_module
from actors.fleet.finished import Finished
from cluster.episodes.reader import Episodes
from cluster.episodes.recorder import Recorder
from cluster.episodes.store import EpisodeStore
from cluster.errors import RunError, RunFolderError
from cluster.recipe.config import RecordSettings
from envs.episode import Episode, Ticket
from reward_service.shaper import ShapedRewards
from tests.cluster.test_episode_store import SEATS, policy_turn

BATCH, HELD_OUT = 4, 10**9


def finished(number: int, reason: str | None = None, attempt: int = 0) -> Finished:
    ticket = Ticket("run", "parrot", number, number, SEATS, attempt)
    return Finished(ticket, None if reason else f"ref {number}", reason, None, tokens=6, worker=number % 2, ended=5.0)


def fetch(results: list[Finished]) -> list[Episode]:
    return [Episode(each.ticket, [policy_turn("hello", 3), policy_turn("bye", 3)], {"buyer": 1.0}, True)
            for each in results]  # fmt: skip


def learn(recorder: Recorder, numbers: range) -> None:
    rewards = [ShapedRewards(n, "buyer", np.array([0.0, n], np.float32), 3, labels=np.array([1, 2])) for n in numbers]
    credit = {(n, "buyer"): np.full(6, n / 2, np.float32) for n in numbers}
    recorder.trained([finished(n) for n in numbers], rewards, credit)


def evaluate(recorder: Recorder, count: int = 2) -> None:
    results = [finished(HELD_OUT + n) for n in range(count)]
    recorder.held_out(results, fetch(results))


def recorder_in(folder: Path, **settings) -> Recorder:
    return Recorder(folder / "episodes", RecordSettings(**settings), fetch)


def rows(folder: Path, where: str | None = None) -> list[dict]:
    return list(Episodes(folder / "episodes", where))


def test_each_game_is_kept_with_what_the_run_made_of_it(tmp_path):
    with recorder_in(tmp_path) as recorder:
        evaluate(recorder)
        recorder.end(0)
        learn(recorder, range(4))
        recorder.unused(replace(finished(9, "timeout"), what="no answer (oracle.py, line 3)"), held_out=False)
        recorder.unused(Finished(finished(8).ticket, "ref 8", "no_spread", None, worker=1), held_out=False)
        recorder.unused(finished(HELD_OUT, "worker_died"), held_out=True)
        recorder.end(1)
        recorder.settle()
        assert recorder.metrics()["record/games"] == 9 and recorder.metrics()["record/mib"] > 0
        held_out = rows(tmp_path, "held_out")
        assert [(row["update"], row["failure"]) for row in held_out] == [(0, None), (0, None), (1, "worker_died")]
        trained = rows(tmp_path, "not held_out and failure is None")
        assert [(row["update"], row["number"], row["worker"], row["credit"]) for row in trained] == [
            (1, n, n % 2, n / 2) for n in range(4)
        ]
        assert trained[3]["dialogue"][1]["credit"] == [1.5] * 3 and trained[3]["dialogue"][1]["shaped"] == 3.0
        assert [turn["label"] for turn in trained[0]["dialogue"]] == [1, 2] and trained[0]["staleness"] == -4
        failed, redrawn = rows(tmp_path, "not held_out and failure is not None")
        assert (failed["failure"], failed["turns"], failed["tokens"], failed["staleness"]) == ("timeout", 0, 6, None)
        assert failed["why"] == "no answer (oracle.py, line 3)"
        assert (redrawn["failure"], redrawn["turns"], redrawn["why"]) == ("no_spread", 2, None)
        recorder.unused(finished(12, "timeout"), held_out=False)
    assert [row["update"] for row in rows(tmp_path, "number == 12")] == [2], "why a run ended is kept, too"


def under(lock: threading.Lock, method: Callable) -> Callable:
    def locked(*arguments):
        with lock:
            return method(*arguments)

    return locked


@pytest.mark.parametrize("seed", range(6))
def test_what_a_checkpoint_has_consumed_is_there_once_whenever_the_run_is_killed(tmp_path, seed, monkeypatch):
    """Kills are copies of the folder: what the disk held when the process was gone, between two of its operations."""
    still = threading.Lock()
    for name in ("_add", "_remove"):
        monkeypatch.setattr(EpisodeStore, name, under(still, getattr(EpisodeStore, name)))
    monkeypatch.setattr(recorder_module, "APART_SECONDS", seed % 2 + 0.01)
    chance, checkpoint, folder = random.Random(seed), 0, tmp_path / "0"
    folder.mkdir()
    for life in range(1, 5):
        recorder = recorder_in(folder)
        recorder.cut_back(checkpoint)
        found = Counter(row["number"] for row in rows(folder, "not held_out and failure is None"))
        assert found == Counter(range(BATCH * checkpoint)), "of what is consumed none is missing, none is twice"
        assert {row["update"] for row in rows(folder)} <= set(range(checkpoint + 1))
        for update in range(checkpoint + 1, checkpoint + 4):
            learn(recorder, range(BATCH * update - BATCH, BATCH * update))
            if chance.random() < 0.5:
                evaluate(recorder)
            recorder.end(update)
            if chance.random() < 0.5:
                recorder.settle()
                checkpoint = update
            if chance.random() < 0.3:
                break
        time.sleep(chance.choice([0.0, 0.1]))  # the thread may have come so far, or farther
        killed, folder = folder, tmp_path / str(life)
        with still:
            shutil.copytree(killed, folder)
        recorder.close()


def test_so_many_games_of_each_update_are_kept_and_none_where_none_are_asked_for(tmp_path):
    with recorder_in(tmp_path, episodes=3) as recorder:
        evaluate(recorder, 7)
        learn(recorder, range(9))
        for number in range(20, 26):
            recorder.unused(finished(number, "timeout"), held_out=False)
        recorder.end(1)
    numbers = [row["number"] for row in rows(tmp_path)]
    assert numbers == [HELD_OUT, HELD_OUT + 2, HELD_OUT + 4, 0, 3, 6, 20, 21, 22]
    with recorder_in(tmp_path / "none", episodes="none") as recorder:
        assert not recorder.active and recorder.metrics() == {}
        learn(recorder, range(9))
        recorder.unused(finished(20, "timeout"), held_out=False)
        recorder.end(1)
        recorder.settle()
    assert not (tmp_path / "none").exists()
    with recorder_in(tmp_path, episodes="none") as recorder:
        recorder.cut_back(0)
    assert rows(tmp_path) == [], "what is played again is not there from before"


def test_what_the_thread_cannot_do_stops_the_run_in_one_line(tmp_path, monkeypatch):
    with (
        pytest.raises(RunFolderError, match=r"cannot write .*part-000000001") as error,
        recorder_in(tmp_path) as recorder,
    ):
        (tmp_path / "episodes" / ".part-000000001-000000001.parquet").mkdir()
        learn(recorder, range(4))
        recorder.end(1)
        recorder.settle()
    assert len(str(error.value)) < 300
    gone = Recorder(tmp_path / "gone", RecordSettings(), lambda results: [None])
    learn(gone, range(1, 2))
    with pytest.raises(RunError, match="episode 1 was learned from and is gone"):
        gone.close()
    with (
        pytest.raises(RuntimeError, match="the run's own"),
        Recorder(tmp_path / "own", RecordSettings(), fetch) as recorder,
    ):
        recorder.error = RunError("another")
        raise RuntimeError("the run's own")
    busy = threading.Event()
    monkeypatch.setattr(recorder_module, "WAIT_SECONDS", 0.05)
    late = Recorder(tmp_path / "late", RecordSettings(), lambda results: busy.wait(10) and [])
    late.trained([], [], {})
    late.end(1)
    with pytest.raises(RunError, match=r"could not be written .* record\.episodes=none"):
        late.settle()
    busy.set()
