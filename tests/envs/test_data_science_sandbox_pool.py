"""The sandboxes of a worker: used again, replaced when killed, never too many, and gone with the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from envs.data_science import scoring
from envs.data_science.sandbox.pool import AT_ONCE, Limits, Pool, Prediction, Sandbox, SandboxFailed, pool
from tests.support.sandbox_payloads import GOOD, GOOD_BODY, TABLE, WALLS, WRITE_RESULTS, fit, gone, in_session
from tests.support.sandbox_payloads import closed_in_the_end as closed_in_the_end
from tests.support.sandbox_payloads import each_of_the_walls as each_of_the_walls
from tests.support.sandbox_payloads import nothing_remembered as nothing_remembered


def test_a_sandbox_is_used_again_until_it_had_to_be_killed():
    own = Pool()
    with own.sandbox(WALLS[0]) as first:
        for body in ("import os; os._exit(1)", "raise Exception", "import os; os.abort()"):
            first.run(fit(body), time.monotonic() + 20)
    with own.sandbox(WALLS[0]) as second:
        assert second is first
        with pytest.raises(OverflowError):
            second.run(fit(WRITE_RESULTS.format(text="b'x' * 10**8")), time.monotonic() + 20)
    assert own.idle == [] and gone(first.process.pid)
    with own.sandbox(WALLS[0]) as third:
        assert third is not first
        status, sent = third.run(fit(GOOD_BODY), time.monotonic() + 20)
        assert status == 0 and sent[:1] == b"M"
        asked = Prediction(sent[1:], TABLE.x, 3, 0, Limits(WALLS[0], 30, 2048))
        status, sent = third.run(asked, time.monotonic() + 20)
        assert status == 0 and len(sent) == 1 + 8 * 3 * 150
    own.close()
    assert gone(third.process.pid)


@pytest.mark.long
def test_a_keeper_killed_from_outside_costs_no_attempt():
    limits = Limits(WALLS[0], 30, 2048)
    scoring.evaluate(GOOD, TABLE, 1, limits)
    for warm in pool.idle:
        os.killpg(warm.process.pid, signal.SIGKILL)
    assert scoring.evaluate(GOOD, TABLE, 2, limits).auc > 0.9

    broken = Sandbox(WALLS[0])
    threading.Timer(0.3, lambda: os.killpg(broken.process.pid, signal.SIGKILL)).start()
    with pytest.raises(SandboxFailed, match="died"):
        broken.run(fit("while True: pass"), time.monotonic() + 20)


def test_a_sandbox_dies_with_its_worker(walls):
    script = f"""
import os, sys, threading, time
sys.path.insert(0, {os.getcwd()!r})
from envs.data_science.sandbox.pool import Fit, Limits, Sandbox
from envs.data_science.tables import table_of
t, box = table_of("iris", ""), Sandbox({walls!r})
spin = Fit("def build_model(x, y):\\n  while True: pass", t.x, t.y, 0, Limits({walls!r}, 60, 2048))
threading.Thread(target=box.run, args=(spin, time.monotonic() + 60), daemon=True).start()
time.sleep(0.5)
print(box.process.pid, flush=True)
time.sleep(60)
"""
    worker = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    session = int(worker.stdout.readline())
    assert len(in_session(session)) >= 2, "a keeper and a fit at work"
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert gone(session)


def test_no_more_sandboxes_at_work_than_there_are_processors():
    own, together = Pool(), threading.Barrier(AT_ONCE)
    at_work, most, lock = 0, 0, threading.Lock()

    def use():
        nonlocal at_work, most
        with own.sandbox(WALLS[0]):
            with lock:
                at_work += 1
                most = max(most, at_work)
            together.wait(60)
            time.sleep(0.01)
            with lock:
                at_work -= 1

    users = [threading.Thread(target=use) for _ in range(4 * AT_ONCE)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert most == AT_ONCE and len(own.idle) <= AT_ONCE
    own.close()
