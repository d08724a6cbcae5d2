"""A rank that dies or freezes costs time and nothing else: the bytes are those of a run that was never hurt."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace

import psutil
import pytest
from ray.exceptions import OutOfMemoryError

from cluster.errors import LostError
from cluster.run.lasting_learners import LastingLearners
from learners.group import LearnerError, LearnerGroup, LearnerLost
from learners.settings import LearnerSettings
from learners.transport.client import WorkerClient
from reward_service.remote import RewardService
from tests.support.runs import config_for, metrics_of, run

ENDED = {signal.SIGKILL, signal.SIGSTOP}


def lasting_config(model, output, **learner):
    return config_for(
        model,
        output,
        updates=4,
        max_staleness=0,
        rollout={"engine": {"kind": "transformers"}},
        learner={"ranks": 2, "cpus_per_rank": 0.25, "learning_rate": 3e-3, "silence_seconds": 4.0, **learner},
        checkpoint={"every": 2, "keep": 9},
    )


def result_of(folder) -> tuple[dict[str, bytes], list[dict]]:
    policy = folder.checkpoints / "update-000004" / "policy"
    kept = ("learner/loss", "learner/grad_norm", "rollout/outcome", "rollout/staleness")
    rows = [{name: row[name] for name in kept} for row in metrics_of(folder)]
    return {path.name: path.read_bytes() for path in policy.iterdir()}, rows


@pytest.fixture(scope="module")
def unhurt(ray_cluster, parrot_model, tmp_path_factory):
    _, folder = run(lasting_config(parrot_model, tmp_path_factory.mktemp("unhurt")))
    return result_of(folder)


@pytest.fixture
def hurting(monkeypatch) -> Iterator:
    """`hurting(method, call, number)`: before that call of a method the second rank is sent a signal."""
    victims: list[psutil.Process] = []
    places = set()

    def hurt(method: str, at: int, number: int) -> list[psutil.Process]:
        import ray

        plain, calls = getattr(LearnerGroup, method), [0]

        def hurting(group, *arguments, **named):
            calls[0] += 1
            places.add(group.placement.id)
            if calls[0] == at:
                victims.append(psutil.Process(ray.get(group.actors[1].process.remote())))
                os.kill(victims[0].pid, number)
            return plain(group, *arguments, **named)

        monkeypatch.setattr(LearnerGroup, method, hurting)
        return victims

    yield hurt
    assert len(places) == 1, "ranks that start anew keep their place"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("method", "at", "number"),
    [
        ("update", 3, signal.SIGKILL),  # an update after the checkpoint of 2
        pytest.param("update", 2, signal.SIGKILL, marks=pytest.mark.long),  # before any checkpoint
        pytest.param("update", 4, signal.SIGSTOP, marks=pytest.mark.long),  # with one batch since the checkpoint
        # of version 3: that batch was learned from and not sent
        pytest.param("send_weights", 4, signal.SIGKILL, marks=pytest.mark.long),
        pytest.param("save", 1, signal.SIGKILL, marks=pytest.mark.long),
        pytest.param("export", 2, signal.SIGSTOP, marks=pytest.mark.long),
    ],
)
def test_ranks_start_anew_to_the_same_bytes(unhurt, hurting, parrot_model, tmp_path, method, at, number):
    victims = hurting(method, at, number)
    summary, folder = run(lasting_config(parrot_model, tmp_path))
    assert len(victims) == 1 and metrics_of(folder)[-1]["learner/restarts"] == (method != "export")
    assert result_of(folder) == unhurt
    ledger = summary["ledger"]
    assert ledger["ledger/consumed"] == ledger["ledger/issued"] == 32, "the ledger knows nothing of it"
    assert not psutil.wait_procs(victims, timeout=30)[1], "the rank that was given up is still there"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_ranks_that_are_lost_again_and_again_end_the_run(ray_cluster, parrot_model, tmp_path, hurting):
    hurting("update", 1, signal.SIGKILL)
    with pytest.raises(LostError, match=r"rank 1 died.*learner.max_restarts=0 within an hour"):
        run(lasting_config(parrot_model, tmp_path, max_restarts=0))


class Fragile:
    """A learner group that is lost at chosen calls, and writes down what it was asked. What a real one does
    is above; here every order of losses is tried."""

    def __init__(self, losses: set[int]):
        self.losses, self.calls, self.state, self.disk = losses, 0, [], {}

    def _called(self) -> None:
        self.calls += 1
        if self.calls in self.losses:
            raise LearnerLost(f"call {self.calls}")

    def restart(self) -> None:
        self.state = []
        self._called()

    def update(self, episodes, rewards, meanwhile=None) -> dict[str, float]:
        self._called()
        self.state.append(episodes[0])
        return {"learned": episodes[0]}

    def send_weights(self, workers, version) -> dict[str, int]:
        self._called()
        self.state.append(f"v{version}")
        return {}

    def adopt(self, version) -> None:
        self._called()
        self.state.append(f"v{version}")

    def save(self, folder) -> None:
        self._called()
        self.disk[folder] = list(self.state)

    def load(self, folder) -> None:
        self._called()
        self.state = list(self.disk[folder])


def history(losses: set[int], max_restarts: int = 99) -> tuple[list, Fragile]:
    group = Fragile(losses)
    lasting = LastingLearners(group, max_restarts)
    for batch in range(6):
        assert lasting.update([batch], []) == {"learned": batch}
        lasting.send_weights([], batch + 1)
        if batch % 3 == 1:
            lasting.save(f"checkpoint {batch}")
            lasting.saved(f"checkpoint {batch}")
    return group.state, group


def test_every_batch_is_learned_from_once_whenever_ranks_are_lost():
    expected, group = history(set())
    assert expected == [word for batch in range(6) for word in (batch, f"v{batch + 1}")]
    for first in range(1, group.calls + 1):
        assert history({first})[0] == expected, first
        for second in range(first + 1, first + 12):
            assert history({first, second, second + 1})[0] == expected, (first, second)


def test_losses_count_within_an_hour(monkeypatch):
    with pytest.raises(LearnerLost, match=r"call 4; learner.max_restarts=1 within an hour"):
        history({2, 4}, max_restarts=1)
    monkeypatch.setattr("cluster.run.lasting_learners.WINDOW_SECONDS", 0.0)
    assert len(history({2, 4, 6, 8, 10}, max_restarts=99)[0]) == 12


def test_an_update_that_is_late_every_time_ends_the_run_however_long_that_takes(monkeypatch):
    """Never two losses within the hour, and no answer between them."""
    monkeypatch.setattr("cluster.run.lasting_learners.WINDOW_SECONDS", 0.0)
    group, tries = Fragile(set()), []

    def late(*_, **__):
        tries.append(1)
        raise LearnerLost("no rank answered within learner.update_seconds=1800")

    group.update = late
    with pytest.raises(LearnerLost, match="learner.max_restarts=3 without an answer between them"):
        LastingLearners(group, 3).update([1], [])
    assert len(tries) == 4


def test_an_error_of_the_learners_own_is_not_tried_again():
    group = Fragile(set())

    def wrong(*_, **__):
        raise LearnerError("learner update, rank 0: the loss is not finite")

    group.update, lasting = wrong, LastingLearners(group, 5)
    with pytest.raises(LearnerError, match="not finite"):
        lasting.update([1], [])
    assert not lasting.lost


def test_what_ray_ends_for_want_of_memory_is_replaced_as_what_dies(monkeypatch):
    """Calls of such an actor raise an error of their own."""
    killed = OutOfMemoryError("killed by the memory monitor")

    def get(call, timeout=None):
        raise killed

    monkeypatch.setattr("learners.group.ray", SimpleNamespace(get=get, wait=lambda calls, **_: (calls[:1], calls[1:])))
    group = object.__new__(LearnerGroup)
    group.settings, group.actors = LearnerSettings(), []
    with pytest.raises(LearnerLost, match=r"learner update: rank 0 died \(killed by the memory monitor"):
        group._gather("update", ["call"], 10.0)
    service = object.__new__(RewardService)
    service.actor = "first"
    monkeypatch.setattr(service, "_replace", lambda error: setattr(service, "actor", "second"))

    def ask(actor):
        if actor == "first":
            raise killed
        return actor

    assert service._surviving(ask, "its state") == "second"
    client, calls = object.__new__(WorkerClient), SimpleNamespace(pending={"call": 3})
    client.lost = {}
    monkeypatch.setattr("learners.transport.client.ray.get", get)
    client._take(calls, "call")
    assert client.lost == {3: "died"}
