"""What a run says it is doing."""

from __future__ import annotations

import json
import os
import socket
import time

import pytest

from cluster.errors import RunFolderError
from cluster.record.now import Now


def test_the_innermost_stage_is_told_and_the_last_one_stays_where_it_breaks(tmp_path):
    path = tmp_path / "now.json"
    times = iter(range(100, 200))
    now = Now(path, clock=lambda: next(times))

    def told():
        return json.loads(path.read_text())

    own = {"process": os.getpid(), "host": socket.gethostname()}
    now.starting(2)
    assert told() == {"update": 2, "stage": "start", "since": 100, **own}
    with now.stage("learn", 2):
        assert told() == {"update": 2, "stage": "learn", "since": 101, **own}
        with now.stage("sync", 3):
            assert (told()["stage"], told()["update"]) == ("sync", 3)
        assert (told()["stage"], told()["since"]) == ("learn", 103)
    assert told()["stage"] is None
    with pytest.raises(ValueError), now.stage("shape", 3):
        raise ValueError
    assert told()["stage"] == "shape" and [each.name for each in tmp_path.iterdir()] == ["now.json"]
    now.ended()
    now.ended()
    assert not path.exists()


def test_a_stage_that_takes_long_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr("cluster.record.now.TOUCH_SECONDS", 0.02)
    path, deadline = tmp_path / "now.json", time.monotonic() + 20
    with pytest.raises(ValueError), Now(path).alive():
        assert "update" not in json.loads(path.read_text())
        os.utime(path, (0, 0))
        while path.stat().st_mtime == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        raise ValueError
    assert path.exists()
    with Now(path).alive():
        pass
    assert not path.exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(RunFolderError, match="cannot write"), Now(tmp_path / "gone" / "now.json").stage("learn", 1):
        pass
