"""`parley timeline`: what is written is the Trace Event Format, and lies where it happened."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict

import pytest

from cluster.commands.cli import main
from tests.support.watched import learned, made_run

NEEDED = {  # by phase, as the format asks
    "X": {"pid", "tid", "name", "cat", "ts", "dur", "args"},
    "C": {"pid", "name", "ts", "args"},
    "M": {"pid", "name", "args"},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = made_run(tmp_path_factory.mktemp("runs"))
    for update in (1, 2, 3):
        spent = {"reward/prepare_seconds": 0.25 * update, "reward/shape_seconds": 0.5 * update}
        learned(folder, update, games=8, **spent, **{"learner/fetch_seconds": 0.5, "learner/step_seconds": 9.0})
    return folder


def written(run, *words) -> list[dict]:
    to = run / "timeline.json.gz"
    assert main(["timeline", str(run), "--to", str(to), *words]) == 0
    with gzip.open(to) as file:
        whole = json.load(file)
    assert whole["otherData"]["run"] == run.name and whole["displayTimeUnit"] == "ms"
    return whole["traceEvents"]


def test_it_is_the_format_and_slices_of_a_thread_nest(run):
    named, threads = set(), defaultdict(list)
    for event in written(run):
        assert NEEDED[event["ph"]] <= event.keys()
        if event["ph"] == "M":
            named.add((event["pid"], event.get("tid")))
            continue
        assert isinstance(event["ts"], int) and event["ts"] >= 0 and event.get("dur", 0) >= 0
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], -event["dur"]))
        else:
            assert all(isinstance(value, float) for value in event["args"].values())
    assert threads.keys() <= named, "a lane without a name"
    for slices in threads.values():
        around: list[int] = []  # ends of the slices that are open
        for start, minus in sorted(slices):
            while around and around[-1] <= start:
                around.pop()
            assert not around or start - minus <= around[-1], "it ends after the one that it began in"
            around.append(start - minus)


def test_stages_rewards_games_and_turns_lie_where_they_were(run):
    """An update of 4 s collects for 1 s, learns for 2 s. Its games end 1 s before it, and take 2 s."""
    events = [event for event in written(run, "--updates", "2") if event["ph"] == "X"]

    def spans(name: str, **told) -> list[tuple[float, float]]:
        found = [each for each in events if each["name"] == name and told.items() <= each["args"].items()]
        return [(each["ts"] / 1e6, (each["ts"] + each["dur"]) / 1e6) for each in found]

    assert spans("update 1") == [] and spans("update 2") == [(0, 4)] and spans("update 3") == [(4, 8)]
    assert spans("collect") == [(0, 1), (4, 5)] and spans("learn") == [(1, 3), (5, 7)]
    assert spans("fetch") == [(1, 1.5), (5, 5.5)] and spans("step") == [(1.5, 3), (5.5, 7)], "no longer than its stage"
    assert spans("prepare") == [(4.75, 5)] and spans("shape") == [(5, 5.5)]
    assert spans("game 17") == [(1, 3)] and ("game 8" not in {each["name"] for each in events})
    (game,) = (each for each in events if each["name"] == "game 17")
    assert game["args"]["use"] == "trained" and game["pid"] == 11
    together = {each["tid"] for each in events if each["name"].startswith("game ") and each["pid"] == 11}
    assert together == {0, 1, 2, 3}, "four at once, and the four after them in the same slots"
    turns = spans("guesser", said="is it a thing like 17?")
    assert turns == [(pytest.approx(1.1), pytest.approx(1.2))] * 3
    assert all(len(each["args"].get("said", "")) <= 300 for each in events)


def test_a_run_without_games_or_updates(tmp_path, capsys):
    run = made_run(tmp_path)
    assert main(["timeline", str(run)]) == 1
    assert "has no timeline yet" in capsys.readouterr().err
    row = {"update": 1, "time": 8.0, "seconds/update": 4.0, "seconds/learn": 2.0}
    (run / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert main(["timeline", str(run)]) == 0
    names = [event["name"] for event in json.loads((run / "timeline.json").read_text())["traceEvents"]]
    assert names[-2:] == ["update 1", "learn"]
    assert main(["timeline", str(run), "--to", str(tmp_path / "no" / "where.json")]) == 1
    assert "cannot write" in capsys.readouterr().err
