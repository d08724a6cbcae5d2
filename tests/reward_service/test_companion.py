"""Work in a companion process: what it finds and raises comes back, and no way to lose it goes unnoticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from reward_service.intentions.companion import NICENESS, Companion, WorkLost, in_companion
from reward_service.shapers.aria import AriaShaper
from tests.reward_service.test_aria import batch, embed, plain, settings

SECONDS = 30.0


@pytest.fixture(scope="module")
def companion():
    made = Companion()
    yield made
    made.close()


def test_arrays_go_there_and_back(companion):
    rows = np.arange(12.0).reshape(3, 4)
    empty, total = companion.compute(np.split, rows, [0])
    assert empty.shape == (0, 4)
    assert (total == rows).all()
    total += 1  # what comes back may be written to
    assert companion.compute(np.transpose, rows).tolist() == rows.T.tolist()


def test_what_is_raised_there_is_raised_here(companion):
    process = companion.compute(os.getpid)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        companion.compute(np.linalg.inv, np.zeros((2, 2)))
    assert companion.compute(os.getpid) == process != os.getpid()


def test_everything_else_goes_first(companion):
    assert companion.compute(os.getpriority, os.PRIO_PROCESS, 0) == NICENESS


def test_a_process_that_dies_is_told_and_replaced(companion):
    process = companion.compute(os.getpid)
    timer = threading.Timer(0.5, os.kill, (process, signal.SIGKILL))
    timer.start()
    with pytest.raises(WorkLost, match="sleep ended with -9"):
        companion.compute(time.sleep, SECONDS)
    assert companion.compute(os.getpid) != process


def test_one_that_died_between_two_works_is_not_noticed(companion):
    os.kill(process := companion.compute(os.getpid), signal.SIGKILL)
    companion.process.wait(SECONDS)
    assert companion.compute(os.getpid) != process


def test_work_that_takes_too_long_is_given_up(companion):
    process = companion.compute(os.getpid)
    with pytest.raises(WorkLost, match="sleep took more than 0.3 s"):
        companion.compute(time.sleep, SECONDS, seconds=0.3)
    assert companion.compute(os.getpid) != process
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_work_from_two_threads_is_answered_to_each(companion):
    found = {}
    threads = [
        threading.Thread(target=lambda n=n: found.__setitem__(n, companion.compute(np.sum, np.arange(n))))
        for n in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert found == {n: n * (n - 1) // 2 for n in range(1, 9)}


def test_it_ends_with_a_parent_that_is_killed():
    asking = (
        "import os, time; from reward_service.intentions.companion import in_companion; "
        "print(in_companion(os.getpid), flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", asking], stdout=subprocess.PIPE, text=True)
    process = int(parent.stdout.readline())
    parent.kill()
    parent.wait(SECONDS)
    parent.stdout.close()
    deadline = time.monotonic() + SECONDS
    while os.path.exists(f"/proc/{process}/exe"):
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.05)


def test_a_space_that_is_fitted_apart_is_the_one_that_is_fitted_here(monkeypatch):
    sent = []
    monkeypatch.setattr(
        "reward_service.shapers.aria.in_companion", lambda *given: sent.append(given) or in_companion(*given)
    )

    def rounded(texts):
        """So that the same words in another order are the same point, however many threads multiply."""
        return np.round(embed(texts), 4)

    def played(refit: str) -> tuple[int, list]:
        shaper = AriaShaper(settings(refit=refit, growth=0.7, drift=1.0), rounded)
        for number in range(3):
            shaper.shape(batch(16 * number))
            if work := shaper.refit():
                shaper.publish(work())
        shaped = shaper.shape(batch(48, 4))
        return shaper.version, plain(shaped), [each.anchors.tolist() for each in shaped]

    here = played("inline")
    assert here[0] > 0
    assert not sent
    assert played("beside") == here
    assert len(sent) == here[0]
