"""Checkpoints that are whole or not there: full disks, kills, damage and what is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from cluster.errors import CheckpointError
from cluster.record.checkpoints import CheckpointStore, all_checkpoints, best, damage_of, latest

ROOT = Path(__file__).parents[2]


def write(folder: Path, text: str = "weights") -> None:
    (folder / "learner" / "zero").mkdir(parents=True)
    (folder / "learner" / "zero" / "rank0.pt").write_text(text * 1000)
    (folder / "policy").mkdir()
    (folder / "policy" / "model.safetensors").write_text(text)
    (folder / "state.json").write_text(json.dumps({"text": text}))


@pytest.fixture
def store(tmp_path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints", keep=2)


def names(store: CheckpointStore) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir())


def test_a_checkpoint_holds_what_was_written_and_says_so(store):
    path = store.save(7, write, {"win_rate": 0.25})
    assert path == store.folder / "update-000007" == store.latest()
    assert CheckpointStore.update_of(path) == 7
    manifest = json.loads((path / "manifest.json").read_text())
    assert (manifest["update"], manifest["metrics"]) == (7, {"win_rate": 0.25})
    assert sorted(manifest["files"]) == ["learner/zero/rank0.pt", "policy/model.safetensors", "state.json"]
    assert manifest["files"]["policy/model.safetensors"]["bytes"] == len("weights")
    assert damage_of(path) is None


def test_the_newest_and_the_best_are_kept(store):
    for update, rate in ((1, 0.2), (2, 0.9), (3, 0.4), (4, None), (5, 0.5)):
        store.save(update, write, {} if rate is None else {"win_rate": rate})
    assert names(store) == ["update-000002", "update-000004", "update-000005"]
    assert best(store.folder) == store.folder / "update-000002"
    store.save(6, write, {"win_rate": 0.9})
    assert best(store.folder) == store.folder / "update-000006"
    assert names(store) == ["update-000005", "update-000006"]


def test_updates_are_ordered_as_numbers(store):
    for update in (999_998, 999_999, 1_000_000):
        store.save(update, write)
    assert CheckpointStore.update_of(store.latest()) == 1_000_000
    assert names(store) == ["update-1000000", "update-999999"]


def test_saving_an_update_again_replaces_it(store):
    store.save(3, write)
    store.save(3, lambda folder: write(folder, "other"))
    assert json.loads((store.latest() / "state.json").read_text()) == {"text": "other"}
    assert names(store) == ["update-000003"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: (path / "state.json").unlink(), "state.json is missing"),
        (lambda path: (path / "state.json").write_text('{"text": "weightx"}'), "state.json has other content"),
        (lambda path: (path / "policy/model.safetensors").write_text("w"), "has 1 bytes instead of 7"),
        (lambda path: (path / "manifest.json").write_text('{"files"'), "no readable manifest"),
        (lambda path: (path / "manifest.json").unlink(), "no readable manifest"),
        (lambda path: (path / "manifest.json").write_text('{"format": 99, "files": {}}'), "its format is 99"),
    ],
)
def test_a_damaged_checkpoint_is_skipped_with_the_reason(store, caplog, damage, reason):
    store.save(1, write)
    damage(store.save(2, write))
    caplog.clear()
    assert store.latest() == store.folder / "update-000001"
    assert reason in caplog.text and "update-000002" in caplog.text


def test_nothing_whole_is_none(store):
    assert store.latest() is None and best(store.folder) is None and latest(store.folder / "nowhere") is None
    (store.save(1, write) / "state.json").unlink()
    assert store.latest() is None


@pytest.mark.parametrize("file", ["manifest.json", "policy/model.safetensors"])
def test_a_damaged_checkpoint_takes_no_good_ones_place(store, file):
    store.save(1, write)
    (store.save(2, write, {"win_rate": 0.9}) / file).unlink()
    store.save(3, write)
    assert names(store) == ["update-000001", "update-000002", "update-000003"]


@pytest.mark.parametrize("keep", [1, 2])
def test_a_resumed_run_keeps_what_it_saves_before_it_comes_to_damaged_checkpoints_of_the_try_before(tmp_path, keep):
    before = CheckpointStore(tmp_path, 9)
    for update in (10, 50, 60)[: 1 + keep]:
        before.save(update, write)
    for damaged in all_checkpoints(tmp_path)[1:]:
        (damaged / "state.json").write_text("")
    again = CheckpointStore(tmp_path, keep)
    for update in (20, 30, 40):
        assert again.save(update, write) == latest(tmp_path)
    for update in (70, 80):
        again.save(update, write)
    assert len(names(again)) == keep, "those of the try before go once it is beyond them"


def fill(folder: Path) -> None:
    """A write that the kernel really refuses for want of room."""
    write(folder)
    with open("/dev/full", "w") as disk:
        disk.write("x")


def fill_and_wrap(folder: Path) -> None:
    """The same, as another process reports it: wrapped, the cause inside."""
    try:
        fill(folder)
    except OSError as error:
        raise RuntimeError("rank 1 failed") from error


@pytest.mark.parametrize("writer", [fill, fill_and_wrap])
def test_a_full_disk_is_one_line_and_costs_nothing(store, writer):
    store.save(1, write)
    with pytest.raises(CheckpointError) as caught:
        store.save(2, writer)
    assert str(caught.value) == (
        f"no room to save checkpoint update-000002 in {store.folder} (No space left on device); earlier checkpoints "
        "are intact: make room, then `parley resume`"
    )
    assert names(store) == ["update-000001"] and damage_of(store.latest()) is None
    store.save(2, write)
    assert store.latest().name == "update-000002"


def test_a_real_learners_file_that_does_not_fit_is_the_same_line(store):
    """torch.save tells of a full disk in words of its own; the limit on file size is the kernel's."""
    store.save(1, write)
    program = f"""
        import resource, torch
        from pathlib import Path
        from cluster.record.checkpoints import CheckpointStore
        from cluster.errors import CheckpointError
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        store = CheckpointStore(Path({str(store.folder)!r}), keep=2)
        try:
            store.save(2, lambda folder: torch.save(torch.zeros(100_000), folder / "big.pt"))
        except CheckpointError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.startswith("no room to save checkpoint update-000002"), done.stdout + done.stderr
    assert names(store) == ["update-000001"]


def test_another_failure_of_the_writer_is_passed_on_and_leaves_nothing(store):
    def broken(folder: Path) -> None:
        write(folder)
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        store.save(1, broken)
    assert names(store) == []


def test_a_killed_save_leaves_the_last_checkpoint_and_is_cleaned_up(store):
    store.save(1, write)
    program = f"""
        import time
        from pathlib import Path
        from cluster.record.checkpoints import CheckpointStore
        def writer(folder):
            (folder / "state.json").write_text("half")
            print("writing", flush=True)
            time.sleep(60)
        CheckpointStore(Path({str(store.folder)!r}), keep=2).save(2, writer)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=10)
    process.stdout.close()
    assert names(store) == [".saving-000002", "update-000001"]
    assert latest(store.folder).name == "update-000001"
    (store.folder / ".dropping-update-000000").mkdir()
    assert CheckpointStore(store.folder, keep=2).latest().name == "update-000001"
    assert names(store) == ["update-000001"]


def test_ctrl_c_in_a_save_leaves_nothing_half_written(store):
    def interrupted(folder: Path) -> None:
        write(folder)
        raise KeyboardInterrupt

    store.save(1, write)
    with pytest.raises(KeyboardInterrupt):
        store.save(2, interrupted)
    assert names(store) == ["update-000001"]


def test_what_learners_wrote_after_an_interrupt_is_removed_once_they_have_ended(store):
    """They are other processes: a Ctrl-C in the run's does not stop them at once."""
    removed = threading.Event()

    def goes_on(folder: Path) -> None:
        while folder.exists():
            time.sleep(0.01)
        (folder / "learner").mkdir(parents=True)
        (folder / "learner" / "weights").write_text("late")
        removed.set()

    def interrupted(folder: Path) -> None:
        threading.Thread(target=goes_on, args=[folder], daemon=True).start()
        raise KeyboardInterrupt

    store.save(1, write)
    with pytest.raises(KeyboardInterrupt):
        store.save(2, interrupted)
    assert removed.wait(10)
    assert names(store) == [".saving-000002", "update-000001"]
    store.tidy()
    assert names(store) == ["update-000001"]
