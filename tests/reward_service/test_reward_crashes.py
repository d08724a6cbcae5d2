"""A reward stream that is killed at any moment, with refits and snapshots going on beside the traffic."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from hashlib import blake2b
from pathlib import Path

import pytest

from envs.episode import Episode
from reward_service.service import journal as journals
from reward_service.service import stream as streams
from reward_service.service.http.prometheus import text_of
from reward_service.service.journal import Journal, JournalError
from reward_service.service.stream import RewardStream
from tests.support.reward_streams import ROOM, SECONDS, aggregates, answer, episode, opened, plain, waits

ROOT = Path(__file__).parents[2]
REFITTING = {"refit": "beside", "first_fit": 6, "growth": 0.01, "aggregate": {"window": 12}}


def telling(number: int) -> Episode:
    """New words each time, so that each makes the next refit due."""
    return episode(number, said=[f"{word} {number}" for word in ("apple", "bread", "cloud")])


# --- every step of what is written beside the traffic ------------------------------------------------


class Killed:
    """A copy of the folder at every step of a stream's writing, as a kill would leave it there, and what was
    answered and published before."""

    def __init__(self, folder: Path, copies: Path, monkeypatch):
        self.folder, self.copies, self.found, self.answered, self.published = folder, copies, [], {}, 0
        self.one = threading.Lock()
        for name in ("_force", "_remove"):
            self._watch(monkeypatch, journals, name)
        self._watch(monkeypatch, Path, "rename")
        for name in ("write_state", "write_json"):
            self._watch(monkeypatch, journals, name)

    def _watch(self, monkeypatch, owner, name: str) -> None:
        step = getattr(owner, name)

        def watched(*given):
            self.copy(f"before {name} {Path(given[0]).name}")
            done = step(*given)
            self.copy(f"after {name} {Path(given[0]).name}")
            return done

        monkeypatch.setattr(owner, name, watched)

    def copy(self, where: str) -> None:
        with self.one:
            copy = self.copies / str(len(self.found))
            self.found.append((where, copy, dict(self.answered), self.published))
            shutil.copytree(self.folder, copy)


def test_killed_at_any_step_of_a_refit_or_a_snapshot_nothing_is_lost_or_counted_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "PUBLISHED", 3)
    with monkeypatch.context() as patch:
        killed = Killed(tmp_path / "folder", tmp_path / "copies", patch)
        stream = opened(tmp_path / "folder", snapshot=5, **REFITTING)
        may_finish, fitted = threading.Semaphore(0), stream.shaper.fit_again
        stream.shaper.fit_again = lambda: (may_finish.acquire(timeout=SECONDS), fitted())[1]
        states = {(0, 0): aggregates(stream.shaper)}
        for number in range(12):
            killed.answered[number] = plain(answer(stream, telling(number), request=f"request {number}"))
            states[number + 1, stream.shaper.version] = aggregates(stream.shaper)
            if number:  # from the second on each makes a refit due
                may_finish.release()
                assert waits(lambda due=number: stream.shaper.version == due)
                states[number + 1, number] = aggregates(stream.shaper)
                killed.published = number
        stream.close()
    assert stream.counts["snapshots"] >= 2
    steps = {where.rpartition("-")[0] for where, *_ in killed.found}
    assert {
        "before rename version",
        "before rename snapshot",
        "after rename snapshot",
        "after _remove journal",
    } <= steps
    for where, copy, answered, version in killed.found:
        again = opened(copy, **REFITTING)
        known = len(again.known)
        assert known >= len(answered) and again.shaper.version >= version, where
        assert aggregates(again.shaper) == states[known, again.shaper.version], where
        for number, values in answered.items():
            assert plain(answer(again, telling(number), request=f"request {number}")) == values, where
        assert len(again.known) == known, f"{where}: nothing was counted twice"
        again.close()


def test_what_is_named_was_forced_to_the_disk_before(tmp_path, monkeypatch):
    forced, named, rename, force = {}, [], Path.rename, journals._force

    def renaming(part: Path, whole: Path):
        if part.is_dir():
            files = sorted(path.name for path in part.iterdir())
            named.append((whole.name, files))
            assert all(forced.get(part / name) == (part / name).stat().st_size for name in files), whole
            assert part in forced
        return rename(part, whole)

    monkeypatch.setattr(journals, "_force", lambda path: (force(path), forced.update({path: path.stat().st_size})))
    monkeypatch.setattr(Path, "rename", renaming)
    stream = opened(tmp_path, snapshot=5, **REFITTING)
    for number in range(20):
        answer(stream, telling(number))
    assert waits(lambda: stream.counts["snapshots"] >= 1 and stream.counts["refits"] >= 1)
    stream.close()
    files = {whole.partition("-")[0]: names for whole, names in named}
    assert files == {
        "snapshot": ["arrays.npz", "state.json", "stream.json"],
        "version": ["arrays.npz", "state.json"],
    }


# --- kill -9 -----------------------------------------------------------------------------------------

CALLER = """
import json, sys
from hashlib import blake2b
from pathlib import Path
from tests.support.reward_streams import answer, opened, plain, waits
from tests.reward_service.test_reward_crashes import REFITTING, spaces, telling
stream = opened(Path(sys.argv[1]), snapshot=25, **REFITTING)
for number in range(10_000):
    values = plain(answer(stream, telling(number), request=f"request {number}"))
    print(json.dumps([number, values, spaces(stream)]), flush=True)
    if not (stream.counts["refits"] and number % 20):  # the first one starts the process that fits
        waits(lambda: stream.job is None)
"""


def spaces(stream: RewardStream) -> list:
    """The number of the version in use, and a digest of its space."""
    space = stream.shaper.space
    if space is None:
        return [0, ""]
    return [space.version, blake2b(json.dumps(space.state()).encode()).hexdigest()]


def test_kill_9_in_the_middle_of_refits_and_snapshots(tmp_path):
    """Whoever asks again gets what was answered, and no number of a version ever stands for two spaces."""
    chance, answers, meant = random.Random(3), {}, {}
    for death in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", CALLER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        last = 60 * (death + 1) + chance.randrange(30)
        for line in process.stdout:
            number, values, (version, space) = json.loads(line)
            assert answers.setdefault(number, values) == values, f"request {number} after {death} deaths"
            assert meant.setdefault(version, space) == space, f"version {version} after {death} deaths"
            if number >= last:
                os.kill(process.pid, signal.SIGKILL)
                break
        process.wait(SECONDS)
        assert process.returncode == -signal.SIGKILL
    assert list(tmp_path.glob("snapshot-*")) and max(meant) > 8
    stream = opened(tmp_path, **REFITTING)
    for number, values in answers.items():
        assert json.loads(json.dumps(plain(answer(stream, telling(number), request=f"request {number}")))) == values
    assert meant.get(spaces(stream)[0], spaces(stream)[1]) == spaces(stream)[1]
    assert len(stream.shaper.window) == 12
    assert [path.name for path in tmp_path.glob("*.part")] == ["journal.part"], "what was half written is gone"
    stream.close()


def test_a_version_that_the_journal_names_answers_or_nobody_does(tmp_path):
    """Whoever reads the journal would publish it."""
    stream = opened(tmp_path, **REFITTING)
    stream.shaper.publish = lambda space: (_ for _ in ()).throw(MemoryError("no room"))
    for number in range(2):
        answer(stream, telling(number))
    assert waits(lambda: stream.stopped == "the reward stream stopped: MemoryError: no room")
    stream.close()
    again = opened(tmp_path, **REFITTING)
    assert again.shaper.version == 1 and answer(again, telling(3))[0].version == 1
    again.close()


# --- what goes on beside a snapshot ------------------------------------------------------------------


def test_nobody_waits_for_a_snapshot_and_one_is_written_at_a_time(tmp_path, monkeypatch):
    stream, may_write, begun = opened(tmp_path, snapshot=3), threading.Event(), []
    snapshot = stream.journal.snapshot

    def slowly(*given):
        begun.append(threading.current_thread().name)
        assert may_write.wait(SECONDS)
        snapshot(*given)

    stream.journal.snapshot = slowly
    values = [plain(answer(stream, episode(number), request=f"request {number}")) for number in range(20)]
    assert begun == ["snapshot_0"] and stream.counts["snapshots"] == 0
    assert sorted(path.name for path in tmp_path.glob("journal-*")) == ["journal-000000.jsonl", "journal-000001.jsonl"]
    shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name} killed now"))
    may_write.set()
    assert waits(lambda: stream.counts["snapshots"] == 1)
    answer(stream, episode(20))
    assert waits(lambda: stream.counts["snapshots"] == 2), "it was due all along"
    stream.close()
    again = opened(tmp_path.with_name(f"{tmp_path.name} killed now"))
    assert [plain(answer(again, episode(n), request=f"request {n}")) for n in range(20)] == values
    again.close()


def test_a_snapshot_that_fails_is_counted_and_loses_nothing(tmp_path, caplog):
    stream = opened(tmp_path, snapshot=3)
    stream.journal.snapshot = lambda *given: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    values = [plain(answer(stream, episode(number), request=f"request {number}")) for number in range(10)]
    assert waits(lambda: stream.metrics()["stream/failed_snapshots"] >= 1)
    assert "parley_rewards_failed_snapshots_total" in text_of([stream.metrics()])
    assert "a snapshot failed" in caplog.text and stream.metrics()["stream/ready"] == 1
    stream.close()
    again = opened(tmp_path)
    assert [plain(answer(again, episode(n), request=f"request {n}")) for n in range(10)] == values
    again.close()


def test_closing_waits_for_what_is_written_and_no_longer_than_its_limit(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(journals, "LOCK_SECONDS", 0.2)
    monkeypatch.setattr(journals, "CLOSE_SECONDS", 0.2)
    monkeypatch.setattr(streams, "SNAPSHOT_SECONDS", 0.2)
    may_write, write = threading.Event(), journals.write_json
    monkeypatch.setattr(journals, "write_json", lambda *given: (may_write.wait(SECONDS), write(*given))[1])
    stream = opened(tmp_path, snapshot=3)
    for number in range(5):
        answer(stream, episode(number))
    stream.close()
    assert "stays locked: something is still written after 0.2 s" in caplog.text
    with pytest.raises(JournalError, match="is in use"):
        opened(tmp_path)
    monkeypatch.setattr(streams, "SNAPSHOT_SECONDS", SECONDS)
    may_write.set()
    stream.close()
    assert stream.counts["snapshots"] == 1 and (tmp_path / "snapshot-000001").is_dir()
    opened(tmp_path).close()


# --- what is found when a folder is opened -----------------------------------------------------------


def journal_of(folder: Path, generations: int = 3) -> Journal:
    """An entry in each generation, and no snapshot."""
    journal = Journal(folder, {}, ROOM)
    journal.open()
    for number in range(generations):
        journal.append([[number]])
        if number < generations - 1:
            journal.rotate()
    return journal


def test_journals_are_read_one_after_the_other_from_the_newest_snapshot_on(tmp_path):
    journal_of(tmp_path).close()
    journal = Journal(tmp_path, {})
    assert journal.open() == (None, [[0], [1], [2]])
    journal.snapshot(2, {"all": "before"}, {})
    journal.append([[3]])
    journal.close()
    assert Journal(tmp_path, {}).open() == (({"all": "before"}, {}), [[2], [3]])
    assert sorted(path.name for path in tmp_path.glob("*-*")) == ["journal-000002.jsonl", "snapshot-000002"]


def test_a_journal_that_is_missing_or_damaged_among_others_is_an_error(tmp_path):
    journal_of(tmp_path).close()
    middle = tmp_path / "journal-000001.jsonl"
    whole = middle.read_bytes()
    middle.write_bytes(whole.rstrip(b"\0")[:-3])
    with pytest.raises(JournalError, match="journal-000001.jsonl is damaged at line 1: it has no end"):
        Journal(tmp_path, {}).open()
    middle.unlink()
    with pytest.raises(JournalError, match="journal-000001.jsonl is missing"):
        Journal(tmp_path, {}).open()
    middle.write_bytes(whole)
    (tmp_path / "journal-000000.jsonl").unlink()
    with pytest.raises(JournalError, match="journal-000000.jsonl is missing"):
        Journal(tmp_path, {}).open()


def test_a_journal_has_room_before_it_is_needed_and_more_than_that_is_appended_all_the_same(tmp_path):
    journal = Journal(tmp_path, {}, room=600)
    journal.open()
    sizes = []
    for number in range(10):
        journal.append([["x" * 80, number]])
        sizes.append((journal.full, (tmp_path / "journal-000000.jsonl").stat().st_size))
    assert sizes[4] == (False, 600) and sizes[5] == (True, 600) and sizes[6][1] == 679 and sizes[9][1] == 970
    assert journal.rotate() == 1 and (tmp_path / "journal-000001.jsonl").read_bytes() == bytes(600)
    assert not (tmp_path / "journal.part").exists(), "it was the spare one"
    journal.append([["next"]])
    assert journal.rotate() == 2 and (tmp_path / "journal-000002.jsonl").read_bytes() == b""
    journal.append([["last"]])
    shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name} killed now"))
    journal.close()
    for folder in (tmp_path, tmp_path.with_name(f"{tmp_path.name} killed now")):
        again = Journal(folder, {}, room=600)
        assert again.open()[1] == [*(["x" * 80, number] for number in range(10)), ["next"], ["last"]]
        again.append([["and on"]])
        again.close()
        lines = (folder / "journal-000002.jsonl").read_bytes()
        assert lines.endswith(b'["and on"]\n') and lines.count(b"\n") == 2 and b"\0" not in lines


def test_a_stream_whose_journal_is_full_begins_another(tmp_path):
    stream = opened(tmp_path, snapshot=10_000)
    for number in range(200):
        answer(stream, episode(number))
    assert waits(lambda: stream.counts["snapshots"] >= 1) and stream.journal.generation >= 1
    stream.close()


def test_results_stay_for_as_long_as_a_journal_names_them(tmp_path):
    def left() -> list[str]:
        return sorted(path.name for path in tmp_path.glob("version-*"))

    journal = Journal(tmp_path, {})
    journal.open()
    for number in range(4):
        journal.publish(journal.keep({"number": number}))
        if number == 1:
            journal.rotate()
    journal.keep({"number": "not yet"})
    assert len(left()) == 5
    journal.snapshot(1, {}, {})
    assert left() == ["version-000003", "version-000004", "version-000005"], "the last may be published yet"
    journal.close()
    journal = Journal(tmp_path, {})
    assert journal.open()[1] == [{"published": "version-000003"}, {"published": "version-000004"}]
    assert left() == ["version-000003", "version-000004"] and journal.result("version-000004") == {"number": 3}
    assert journal.keep({}) == "version-000005"
    (tmp_path / "version-000003" / "state.json").write_text("{")
    with pytest.raises(JournalError, match="version-000003 is damaged"):
        journal.result("version-000003")
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        journal.keep({})
