"""The soak: its schedule, its checks on made-up evidence, and three real runs that are hurt."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest

from benchmarks.chaos.__main__ import RECORDS
from benchmarks.chaos.evidence import Books, account, ending, faults, faults_of_end
from benchmarks.chaos.room import Room, wait_until
from benchmarks.chaos.schedule import (
    BATCH,
    CLUSTERS,
    IMPORT,
    LATER,
    MODES,
    MOMENTS,
    NODE,
    ROUND,
    UPDATES,
    Trial,
    digest,
    schedule,
    undisturbed,
)
from benchmarks.chaos.table import page, recorded, wrong
from benchmarks.chaos.trial import processor, run
from benchmarks.chaos.victims import empty, fill, found, is_a
from benchmarks.lab.store import Store
from benchmarks.lab.trial import Record

KILLED = Trial("exact", "worker", "kill", "play", 2, 0.01, 0.0, False, digest("exact"))


def test_the_schedule_is_the_seeds_alone():
    assert schedule(3, 40) == schedule(3, 40) != schedule(4, 40)
    assert schedule(3, 40)[:9] == schedule(3, 9), "more trials begin with the same ones"
    late = schedule(3, 400)[-1]
    assert schedule(3, 1, [late.name]) == [late], "of a later round"
    assert schedule(3, 5, ["raylet"]) == [each for each in schedule(3, 400) if each.process == "raylet"][:5]
    with pytest.raises(ValueError, match="no fault has any of asteroid"):
        schedule(3, 5, ["asteroid"])


def test_a_round_meets_every_process_in_every_way_and_the_commonest_first():
    trials = schedule(0, ROUND)
    cells = {(process, mode) for process, modes in [*MODES.items(), *LATER] for mode in modes}
    assert {(each.process, each.mode) for each in trials} == cells
    assert [each.mode for each in trials[:14]] == ["kill"] * 7 + ["stop"] * 7
    many = schedule(0, 20 * ROUND)
    assert {each.moment for each in many if each.process != "command"} == set(MOMENTS) and {
        each.keep_going for each in many
    } == {True, False}
    assert all(each.keep_going for each in many if (each.process, each.mode) == ("driver", "stop"))
    commands = [each for each in many if each.process == "command"]
    assert {each.moment for each in commands} == {IMPORT, *MOMENTS} and {each.mode for each in commands} == {
        "interrupt",
        "term",
    }
    assert all((each.pause > 0) == (each.mode == "pause" or each.process == NODE) for each in many)
    assert {each.setup for each in many if each.process == NODE} == set(CLUSTERS)


def state(**counts) -> dict:
    known = {"issued": 14, "consumed": 8, "reissued": 2, "redrawn": 0, "dropped": {"worker_died": 1}}
    return {"update": 2, "ledger": {"counts": {**known, **counts}, "open": [9, 10, 11]}}


TRAINED = [(1, number) for number in range(4)] + [(2, number) for number in (4, 5, 6, 8)]


def test_books_that_balance_and_books_that_do_not():
    assert account(state(), TRAINED, 9, 1) == Books(2, 14, 14, 1, 0, 0, 1)
    assert account(state(issued=15), TRAINED, 9, 1).explained == 14
    assert account(state(), [*TRAINED, (2, 3)], 9, 1).twice == 1
    assert account(state(), TRAINED[1:], 9, 1).lost == 1


FINE = {
    "processor": "one", "struck": True, "recovery": 12.0, "wrong": [], "orphans": 0, "leftovers": 0,
    **asdict(Books(UPDATES, 200, 200, 0, 0, 0, 77)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "word"),
    [
        ({}, None),
        ({"explained": 199}, "ledger"),
        ({"twice": 1}, "twice"),
        ({"lost": 1}, "lost"),
        ({"orphans": 1}, "orphans"),
        ({"leftovers": 2}, "leftovers"),
        ({"policy": 78}, "unequal"),
        ({"updates": UPDATES - 1}, "unfinished"),
        ({"recovery": 1000.0}, "slow"),
        ({"wrong": ["hang"]}, "hang"),
    ],
)
def test_each_check_sees_what_it_is_for(found, word):
    assert faults(KILLED, {**FINE, **found}, FINE, UPDATES, BATCH) == ([word] if word else [])


def test_a_command_that_is_told_to_stop_has_less_time():
    stopped = replace(KILLED, process="command", mode="interrupt")
    assert faults(stopped, {**FINE, "recovery": 19.0}, FINE, UPDATES, BATCH) == []
    assert faults(stopped, {**FINE, "recovery": 21.0}, FINE, UPDATES, BATCH) == ["slow"]


@pytest.mark.parametrize(
    ("code", "output", "hurt", "keep_going", "expected"),
    [
        (0, "", "gcs", False, []),
        (75, "parley: lost; after that is mended: parley resume /x", "raylet", False, []),
        (75, "parley: one\nparley: two", "raylet", False, ["several error lines"]),
        (1, "nothing of ours", "gcs", False, ["unnamed end"]),
        (3, "parley: no such code, parley resume /x", "gcs", False, ["exit code"]),
        (1, "Traceback (most recent call last):\nparley: broken, parley resume /x", "gcs", False, ["traceback"]),
        (75, "parley: lost, and that is all", "raylet", False, ["no way on"]),
        (-9, "parley: killed; go on with: parley resume /x", "driver", False, []),
        (-9, "", "driver", True, ["unnamed end"]),
        (-6, "", "gcs", False, ["unnamed end"]),
        (None, "", "gcs", True, ["hang"]),
        (130, "parley: stopped", "command", False, []),
        (0, "", "command", False, ["not stopped"]),
        (130, "", "command", True, ["unnamed end"]),
        (-2, "parley: stopped", "command", False, ["unnamed end"]),
        (75, "parley: lost; go on with: parley resume /runs/y", "node", False, ["ended"]),
    ],
)
def test_how_a_command_may_end(code, output, hurt, keep_going, expected):
    assert faults_of_end(ending(code, output), hurt, "kill", keep_going) == expected


def test_tries_of_keep_going_are_no_error_lines():
    told = ending(0, "parley: the run's process ended with signal 9; in 2 s it goes on: parley resume /x\n")
    assert (told.tries, told.said, told.goes_on_with) == (1, [], "")
    assert ending(75, "parley: lost; go on with: parley resume /runs/y").goes_on_with == "/runs/y"


def test_the_table_counts_and_names_what_is_wrong(tmp_path):
    store = Store(tmp_path / "chaos.jsonl")
    frozen = Trial("exact", "gcs", "stop", "play", 2, 0.01, 0.0, True, digest("exact"))
    apart = {"struck": False, "recovery": None}
    store.put(undisturbed("exact", "one"), Record({}, figures={**FINE, **apart}))
    store.put(undisturbed("exact", "other"), Record({}, figures={**FINE, **apart, "processor": "other", "policy": 78}))
    store.put(KILLED, Record({}, figures={**FINE, "policy": 78}))
    store.put(frozen, Record({}, figures={**FINE, "recovery": None, "wrong": ["hang"], "orphans": 3}))
    assert wrong(store, KILLED, store.get(KILLED).figures) == ["unequal"]
    elsewhere = {**FINE, "processor": "other", "policy": 78}
    assert wrong(store, KILLED, elsewhere) == [], "sums are rounded otherwise there"
    lines = page(store, [undisturbed("exact", "one"), KILLED, frozen]).splitlines()
    assert lines[2] == "| worker | kill | 1 | 0 | 0 | 0 | 1 | 0 | 0 | 12, at most 12 | 1 |"
    assert lines[3] == "| gcs | stop | 1 | 0 | 0 | 1 | 0 | 3 | 0 |  | 1 |"
    assert lines[-2:] == [f"- {KILLED.name}: unequal", f"- {frozen.name}: hang, orphans"]


def test_a_table_of_what_was_recorded_has_todays_settings_alone(tmp_path):
    store = Store(tmp_path / "chaos.jsonl")
    older = replace(KILLED, settings="of another day")
    calm = undisturbed("exact", "one")
    for trial in (older, KILLED, calm):
        store.put(trial, Record(asdict(trial), figures=FINE))
    assert recorded(store) == [KILLED, calm]
    assert recorded(store, ["worker kill", "node"]) == [KILLED]


def test_the_table_of_the_page_is_made_of_the_records():
    store = Store(RECORDS)
    assert page(store, recorded(store)) in (RECORDS.parents[2] / "docs" / "results" / "robustness.md").read_text()


def test_processes_are_known_by_their_command():
    assert is_a("worker", ["ray::RolloutWorker.finished"]) and not is_a("learner", ["ray::RolloutWorker"])
    assert is_a("learner", ["ray::parley-x-learner-1:RankActor.call"]) and is_a("rewards", ["ray::RewardActor"])
    assert is_a("learner", ["ray::learner.update"]) and is_a("rewards", ["ray::rewards.state"]), "what it is doing"
    assert is_a("engine", ["VLLM::Worker_TP1"]) and not is_a("worker", ["ray::IDLE"])
    assert is_a("gcs", ["/x/gcs_server", "--log_dir"]) and is_a("driver", ["python", "-m", "parley", "resume", "/x"])
    assert not is_a("driver", ["python", "-m", "parley", "games"]) and not is_a("raylet", [])


@pytest.fixture
def room(tmp_path):
    try:
        with Room(tmp_path, disk_mib=1) as room:
            yield room
    except RuntimeError as error:
        pytest.skip(str(error))


def test_a_room_sees_its_orphans_and_its_disk_and_ends_them(room, tmp_path):
    program = "import subprocess, time; subprocess.Popen(['sleep', '600']); open('/dev/shm/left', 'w')"
    room.start([sys.executable, "-c", program], tmp_path / "output")
    assert wait_until(lambda: room.look() is not None, 60) and room.ended == 0
    (orphan,) = room.processes()
    assert orphan.cmdline() == ["sleep", "600"] and found("driver", [orphan]) == []
    assert [each.name for each in room.path("/dev/shm").iterdir()] == ["left"]
    fill(room.path(tmp_path / "disk"))
    write = f"import pathlib; pathlib.Path('{tmp_path}/disk/more').write_text('more')"
    room.start([sys.executable, "-c", write], tmp_path / "output")
    assert wait_until(lambda: room.look() is not None, 60) and room.ended != 0
    assert "No space left" in (tmp_path / "output").read_text()
    empty(room.path(tmp_path / "disk"))
    room.start([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], tmp_path / "output")
    assert wait_until(lambda: room.look() is not None, 60) and room.ended == -9
    room.__exit__()
    assert not orphan.is_running()


def test_in_a_room_a_command_hears_ctrl_c_though_this_process_does_not(tmp_path):
    program = f"""
import signal, sys, time
from pathlib import Path
from benchmarks.chaos.room import Room, wait_until
signal.signal(signal.SIGINT, signal.SIG_IGN)
with Room(Path({str(tmp_path)!r})) as room:
    room.start(["/bin/sleep", "600"], Path({str(tmp_path / "output")!r}))
    wait_until(lambda: room.processes(), 20)
    room.processes()[0].send_signal(signal.SIGINT)
    wait_until(lambda: room.look() is not None, 20)
    print(room.ended)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    if not told.stdout:
        pytest.skip(told.stderr.splitlines()[-1])
    assert told.stdout == "-2\n"


def test_a_room_ends_with_whoever_made_it(tmp_path):
    program = f"""
import os, time
from pathlib import Path
from benchmarks.chaos.room import Room
with Room(Path({str(tmp_path)!r})) as room:
    room.start(["/bin/sleep", "600"], Path({str(tmp_path / "output")!r}))
    while not room.processes():
        time.sleep(0.05)
    print(room.processes()[0].pid, flush=True)
    os.kill(os.getpid(), 9)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    if not told.stdout:
        pytest.skip(told.stderr.splitlines()[-1])
    deadline = time.monotonic() + 20
    while is_there(int(told.stdout)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_there(int(told.stdout))


def is_there(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("process", "mode", "moment", "keep_going"),
    [("worker", "kill", "play", False), ("driver", "kill", "learn", True), ("raylet", "kill", "sync", False)],
)
def test_real_runs_lose_nothing(tmp_path, process, mode, moment, keep_going):
    trial = Trial("exact", process, mode, moment, 2, 0.0, 0.0, keep_going, digest("exact"))
    store = Store(tmp_path / "chaos.jsonl")
    record = run(trial)
    assert record.figures["struck"] and wrong(store, trial, record.figures) == [], record.figures


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_run_outlives_the_node_of_its_workers_and_a_cut_network():
    """A cluster of real raylets that ask for a token: power fails on the node with all workers, another joins after
    20 s, and when the run has gone on there its network is cut for 20 s."""
    trial = Trial("node", NODE, "both", "play", 2, 0.0, 20.0, False, digest("node"))
    try:
        record = run(trial)
    except RuntimeError as error:
        pytest.skip(str(error))
    figures = record.figures
    assert figures["struck"] and figures["code"] == 0 and figures["recovery"] > 20.0
    assert faults(trial, figures, run(undisturbed("node", processor())).figures, UPDATES, BATCH) == [], figures
