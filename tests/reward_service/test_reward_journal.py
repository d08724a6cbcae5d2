"""What a reward stream writes down, and what the next process makes of it after any kind of end."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.registry import GAMES
from envs.settings import GameSettings
from reward_service.intentions.reading import EpisodeRefused
from reward_service.service import journal as journals
from reward_service.service.http.dialogue import REGISTERED, register
from reward_service.service.http.shard import owner_of
from reward_service.service.journal import Journal, JournalError
from reward_service.service.requests import Stopped
from reward_service.service.stream import RewardStream
from reward_service.settings import RewardSettings
from reward_service.shapers.aria import AriaShaper
from reward_service.shapers.outcome import Outcome
from tests.support.reward_streams import ROOM, SECONDS, aggregates, answer, aria, episode, opened, plain, waits

ROOT = Path(__file__).parents[2]


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=25),
    kills=st.sets(st.integers(0, 24)),
    snapshot=st.sampled_from([7, 1000]),
)
def test_killed_anywhere_it_goes_on_as_if_never_stopped(sizes, kills, snapshot):
    whole, numbers = RewardStream(aria()), iter(range(1000))
    with tempfile.TemporaryDirectory() as folder:
        stream, answered = opened(Path(folder), snapshot=snapshot), []
        for place, size in enumerate(sizes):
            few = [episode(next(numbers)) for _ in range(size)]
            values = plain(answer(stream, *few, request=f"request {place}"))
            assert values == plain(answer(whole, *few))
            answered.append((few, values))
            if place in kills:
                stream.close()
                stream = opened(Path(folder), snapshot=snapshot)
        for place, (few, values) in enumerate(answered):
            assert plain(answer(stream, *few, request=f"request {place}")) == values, "each is still known by its id"
        assert aggregates(stream.shaper) == aggregates(whole.shaper)
        with pytest.raises(EpisodeRefused, match="sent before"):
            stream.submit([episode(0)])
        stream.close()
    whole.close()


def test_a_game_that_the_settings_no_longer_name_is_still_read(tmp_path, monkeypatch):
    monkeypatch.setitem(GAMES, "capitals", REGISTERED)
    stream, asked = opened(tmp_path), {"request": "one"}
    values = plain(answer(stream, episode(0, game="capitals"), **asked))
    stream.close()
    monkeypatch.delitem(GAMES, "capitals")
    with pytest.raises(JournalError, match="entry 1 of the journal cannot be shaped again"):
        opened(tmp_path)
    stream = opened(tmp_path, register=register)
    assert plain(answer(stream, episode(0, game="capitals"), **asked)) == values
    stream.close()


def test_what_is_answered_is_forced_to_the_disk(tmp_path, monkeypatch):
    stream, forced, fdatasync = opened(tmp_path), [], os.fdatasync
    (path,) = tmp_path.glob("journal-*.jsonl")
    monkeypatch.setattr(os, "fdatasync", lambda file: (fdatasync(file), forced.append(path.read_bytes())))
    for number in range(3):
        answer(stream, episode(number))
        assert len(forced) == number + 1 and forced[-1].count(b"\n") == number + 1
    assert forced[-1] == path.read_bytes() and len(forced[-1]) == ROOM, "there was room before"
    stream.close()
    assert path.read_bytes() == forced[-1].rstrip(b"\0"), "and at rest there are lines alone"


def test_a_published_version_is_on_the_disk_before_it_answers(tmp_path):
    stream = opened(tmp_path, refit="beside", snapshot=1000)
    for number in range(40):
        answer(stream, episode(number))
    assert waits(lambda: stream.published == 1)
    assert [path.name for path in tmp_path.glob("version-*")] == ["version-000001"]
    assert '{"published": "version-000001"}' in (tmp_path / "journal-000000.jsonl").read_text()
    last = answer(stream, episode(100), request="last")
    assert last[0].version == 1
    stream.close()
    again = opened(tmp_path, refit="beside", snapshot=1000)
    assert plain(answer(again, episode(100), request="last")) == plain(last)
    assert aggregates(again.shaper) == aggregates(stream.shaper)
    again.close()


def test_what_waits_while_a_version_is_published_is_not_taken_for_counted(tmp_path):
    stream = opened(tmp_path / "one", refit="beside", first_fit=9)
    may_finish, gate = threading.Event(), threading.Semaphore(3)
    fitted, shape = stream.shaper.fit_again, stream.shaper.shape
    stream.shaper.fit_again = lambda: (may_finish.wait(SECONDS), fitted())[1]
    stream.shaper.shape = lambda episodes: (gate.acquire(timeout=SECONDS), shape(episodes))[1]
    for number in range(3):
        answer(stream, episode(number))
    first = stream.submit([episode(3)])
    assert waits(lambda: not stream.queue)
    second = stream.submit([episode(4)])
    may_finish.set()
    assert waits(stream.job.done)
    gate.release()
    assert waits(lambda: stream.published == 1) and first.result(SECONDS)
    shutil.copytree(tmp_path / "one", tmp_path / "killed now")
    again = opened(tmp_path / "killed now", refit="beside")
    with pytest.raises(EpisodeRefused, match="sent before"):
        again.submit([episode(3)])
    values = answer(again, episode(4))
    gate.release()
    assert plain(values) == plain(second.result(SECONDS)) and values[0].version == 1
    again.close()
    stream.close()


def test_half_a_last_line_is_dropped_and_other_damage_is_an_error(tmp_path, caplog):
    stream = opened(tmp_path)
    for number in range(5):
        answer(stream, episode(number))
    before = aggregates(stream.shaper)
    answer(stream, episode(5))
    stream.close()
    (path,) = tmp_path.glob("journal-*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with caplog.at_level(logging.WARNING, "parley.rewards"):
        again = opened(tmp_path)
    assert "dropped line 6, the last one" in caplog.text and aggregates(again.shaper) == before
    answer(again, episode(5))
    after = aggregates(again.shaper)
    again.close()
    assert path.read_bytes() == whole and aggregates(opened_and_closed(tmp_path)) == after
    path.write_bytes(whole.replace(b'"apple"', b'"ample"', 1))
    with pytest.raises(JournalError, match="damaged at line 1: its checksum is another"):
        opened(tmp_path)


def opened_and_closed(folder: Path) -> AriaShaper:
    stream = opened(folder)
    stream.close()
    return stream.shaper


def test_a_snapshot_that_was_not_finished_is_as_if_never_begun(tmp_path):
    stream = opened(tmp_path, snapshot=4)
    for number in range(10):
        answer(stream, episode(number))
        assert waits(lambda: stream.writing is None or stream.writing.done())
    stream.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["journal-000002.jsonl", "lock", "service.json", "snapshot-000002"]
    part = tmp_path / "snapshot-000003.part"
    part.mkdir()
    (part / "state.json").write_text('{"shaper')
    assert aggregates(opened_and_closed(tmp_path)) == aggregates(stream.shaper)
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    (tmp_path / "snapshot-000002" / "state.json").write_text("{")
    with pytest.raises(JournalError, match="snapshot-000002 is damaged"):
        opened(tmp_path)


def test_a_folder_has_one_owner(tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "LOCK_SECONDS", 0.2)
    stream = opened(tmp_path)
    with pytest.raises(JournalError, match="is in use by another process"):
        opened(tmp_path)
    stream.close()
    with pytest.raises(JournalError, match="a service with shaper=aria, not outcome"):
        RewardStream(Outcome().make(GameSettings()), journal=Journal(tmp_path, {"shaper": "outcome"}))
    opened_and_closed(tmp_path)


def test_a_folder_is_of_one_shapers_settings(tmp_path):
    def started(**intentions) -> None:
        settings = RewardSettings(shaper={"kind": "aria", "intentions": intentions})
        journal = Journal(tmp_path, owner_of(settings, number=0))
        try:
            journal.open()
        finally:
            journal.close()

    started(first_fit=60, space={"method": "hdbscan", "density_seconds": 100})
    started(first_fit=60, space={"method": "hdbscan", "density_seconds": 200})
    said = r"with reward\.shaper\.intentions\.first_fit=60, not 61: give that, or another folder as reward\.http\.state"
    with pytest.raises(JournalError, match=said):
        started(first_fit=61, space={"method": "hdbscan"})
    earlier = json.loads((tmp_path / "service.json").read_text())
    earlier = {key: value for key, value in earlier.items() if "." not in key}
    (tmp_path / "service.json").write_text(json.dumps(earlier))
    started(first_fit=61)


def test_what_cannot_be_written_down_is_not_answered(tmp_path):
    stream = opened(tmp_path)
    answer(stream, episode(0), request="zero")
    stream.journal.file.close()
    stream.journal.file = open("/dev/full", "ab", buffering=0)
    with pytest.raises(Stopped, match="the reward stream stopped: OSError: .*No space left"):
        answer(stream, episode(1), request="one")
    with pytest.raises(Stopped, match="No space left"):
        stream.submit([episode(2)])
    assert stream.metrics()["stream/ready"] == 0 and stream.metrics()["stream/waiting"] == 0
    stream.close()
    again, whole = opened(tmp_path), RewardStream(aria())
    for number, name in enumerate(("zero", "one")):
        answer(again, episode(number), request=name)
        answer(whole, episode(number))
    assert aggregates(again.shaper) == aggregates(whole.shaper)
    again.close()
    whole.close()


CALLER = """
import sys
from pathlib import Path
from tests.support.reward_streams import answer, episode, opened
stream = opened(Path(sys.argv[1]), snapshot=30)
for number in range(200):
    answer(stream, episode(number), request=f"request {number}")
    print(number, flush=True)
"""


def test_kill_9_in_the_middle_of_the_traffic_loses_nothing_and_counts_nothing_twice(tmp_path):
    for deaths in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", CALLER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        answered = -1
        for line in process.stdout:
            answered = int(line)
            if answered >= 70 * (deaths + 1):
                os.kill(process.pid, signal.SIGKILL)
                break
        process.wait(SECONDS)
        assert process.returncode == -signal.SIGKILL and answered >= 70
    stream, whole = opened(tmp_path), RewardStream(aria())
    for number in range(200):
        kept = answer(stream, episode(number), request=f"request {number}")
        assert plain(kept) == plain(answer(whole, episode(number)))
    assert aggregates(stream.shaper) == aggregates(whole.shaper)
    stream.close()
    whole.close()
