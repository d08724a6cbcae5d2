"""A transfer that fails: what is tried again, what ends the run, and whether another process may go on with it.

Fleet and learners are counted here, not run; tests/cluster/test_transfer_failures.py breaks real ones.
"""

from __future__ import annotations

import pytest

from cluster.errors import LostError, SyncError
from cluster.run.sync import TRIES, WeightSync
from learners.group import LearnerError, WorkersUnreached
from learners.settings import SyncSettings

SILENT = WorkersUnreached("weight sync: rollout worker 0 gave no sign of life")


class Fleet:
    def __init__(self):
        self.there, self.gone, self.paused = ["worker"], 0, False

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False

    def workers(self):
        return list(self.there)

    def joining(self):
        return []

    def receipts(self):
        return {}

    def replace_lost(self):
        return False


class Learners:
    def __init__(self, *failures):
        self.failures, self.sent = list(failures), 0

    def send_weights(self, workers, version):
        if self.failures:
            raise self.failures.pop(0)
        self.sent += 1
        return {"weight": version}


def publish(*failures, fleet=None) -> tuple[WeightSync, Learners]:
    learners = Learners(*failures)
    sync = WeightSync(fleet or Fleet(), learners, SyncSettings(probe=False), sequences=list, half=False)
    assert sync.publish(1).tensors == 1
    return sync, learners


def test_a_worker_that_answers_the_fleet_but_not_the_learners_is_sent_to_again():
    sync, learners = publish(*[SILENT] * (TRIES - 1))
    assert learners.sent == 1 and not sync.fleet.paused


def test_after_so_many_tries_another_process_may_go_on():
    with pytest.raises(LostError, match=f"version 1 failed: .* no sign of life, in {TRIES} tries"):
        publish(*[SILENT] * TRIES)


def test_tries_are_counted_anew_in_each_sync():
    sync, learners = publish(*[SILENT] * (TRIES - 1))
    learners.failures = [SILENT] * (TRIES - 1)
    assert sync.publish(2).version == 2


def test_an_error_of_the_transfer_itself_ends_the_run_at_once():
    for error in (LearnerError("out of memory"), ValueError("out of order")):
        with pytest.raises(SyncError, match="version 1 failed: out of") as ended:
            publish(SILENT, error, SILENT)
        assert not isinstance(ended.value, LostError)


def test_a_worker_that_is_gone_does_not_count_as_a_try():
    fleet = Fleet()
    fleet.replace_lost = lambda: setattr(fleet, "gone", fleet.gone + 1)
    publish(*[SILENT] * (TRIES + 2), fleet=fleet)
