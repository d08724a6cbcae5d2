"""Episodes in, rewards out, each batch once: the desk, and the actor it sits in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from envs.episode import Episode, Ticket, Turn
from envs.settings import GameSettings
from reward_service import remote
from reward_service.desk import DeskError, RewardDesk, name_of
from reward_service.service.storage import read_state, write_state
from reward_service.settings import RewardSettings
from reward_service.shaper import ShapedRewards, ShaperSettings


def episode(number: int, outcome: float = 0.5) -> Episode:
    ticket = Ticket("run", "parrot", number, number, (("parrot0", "policy"),))
    return Episode(ticket, [Turn("parrot0", "policy", "say apple", "apple")] * 2, {"parrot0": outcome}, False)


def batch(number: int, size: int = 3) -> list[Episode]:
    return [episode(number * size + place, outcome=1 / (1 + number * size + place)) for place in range(size)]


def names(number: int) -> list[tuple[int, int]]:
    return [name_of(each) for each in batch(number)]


def shape(desk: RewardDesk, number: int) -> list[ShapedRewards]:
    for each in reversed(batch(number)):
        desk.receive(each)
    return desk.shape(number, names(number))


class Counting:
    """Pays each episode the number of episodes before it; a refit adds a thousand."""

    def __init__(self):
        self.seen, self.version, self.prepared = 0, 0, []
        self.may_finish = threading.Event()
        self.may_finish.set()
        self.breaks = False

    def prepare(self, episode: Episode) -> None:
        if episode.ticket.number == 13:
            raise ValueError("unlucky")
        self.prepared.append(episode.ticket.number)

    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]:
        found = []
        for each in episodes:
            paid = np.array([self.seen + 1000 * self.version], np.float32)
            found.append(ShapedRewards(each.ticket.number, "parrot0", paid, self.version))
            self.seen += 1
        return found

    def refit(self) -> Callable[[], int] | None:
        wanted, breaks = self.version + 1, self.breaks

        def work() -> int:
            assert self.may_finish.wait(30)
            if breaks:
                raise ArithmeticError("no fit")
            return wanted

        return work

    def publish(self, result: int) -> None:
        self.version = result

    def metrics(self) -> dict[str, float]:
        return {"seen": float(self.seen)}

    def state(self) -> dict:
        return {"seen": self.seen, "version": self.version}

    def restore(self, state: dict) -> None:
        self.seen, self.version = state["seen"], state["version"]


def paid(rewards: list[ShapedRewards]) -> list[float]:
    return [float(each.rewards[0]) for each in rewards]


def test_a_batch_counts_once_however_often_it_is_asked_for():
    desk = RewardDesk(Counting(), steady=True)
    first = shape(desk, 0)
    assert paid(first) == [0, 1, 2] and shape(desk, 0) is first
    assert paid(shape(desk, 1)) == [1003, 1004, 1005]
    for wrong in (0, 3, 7):
        with pytest.raises(DeskError, match=f"batch {wrong} cannot be shaped: batch 2 is due"):
            shape(desk, wrong)
    assert desk.metrics()["reward/seen"] == 6 and desk.metrics()["reward/asked_again"] == 1


def test_play_never_waits_for_a_refit_unless_it_has_to_be_steady():
    shaper = Counting()
    shaper.may_finish.clear()
    desk = RewardDesk(shaper)
    assert paid(shape(desk, 0)) == [0, 1, 2]
    assert paid(shape(desk, 1)) == [3, 4, 5], "the refit is still at it"
    assert desk.metrics()["reward/refitting"] == 1
    shaper.may_finish.set()
    desk.job.result(30)
    assert paid(shape(desk, 2)) == [1006, 1007, 1008]
    steady = Counting()
    steady.may_finish.clear()
    desk = RewardDesk(steady, steady=True)
    shape(desk, 0)
    threading.Timer(0.2, steady.may_finish.set).start()
    assert paid(shape(desk, 1)) == [1003, 1004, 1005], "it waited"


def test_a_refit_that_fails_is_counted_and_play_goes_on():
    shaper = Counting()
    shaper.breaks = True
    desk = RewardDesk(shaper, steady=True)
    shape(desk, 0)
    assert paid(shape(desk, 1)) == [3, 4, 5]
    shaper.breaks = False
    assert paid(shape(desk, 2)) == [6, 7, 8], "its successor was begun before it was mended"
    assert desk.metrics()["reward/failed_refits"] == 2


def test_a_head_start_that_fails_is_counted_and_harms_nobody():
    desk = RewardDesk(Counting())
    for number in (12, 13, 14):
        desk.receive(episode(number))
    assert desk.shaper.prepared == [12, 14]
    assert (desk.metrics()["reward/received"], desk.metrics()["reward/failed_prepares"]) == (2, 1)


def test_episodes_are_waited_for_and_those_played_in_vain_go():
    desk = RewardDesk(Counting())
    assert desk.missing(names(0), 0.0) == [0, 1, 2]
    with pytest.raises(DeskError, match="3 episodes of the batch are not here, e.g. 0"):
        desk.shape(0, names(0))
    again = Ticket("run", "parrot", 1, 1, (("parrot0", "policy"),), attempt=1)
    desk.receive(Episode(again, [], {"parrot0": 1.0}, False))
    first, second, third = batch(0)
    desk.receive(first)
    desk.receive(third)
    assert desk.missing(names(0), 0.01) == [1], "another attempt at the same ticket is another episode"
    threading.Timer(0.1, desk.receive, [second]).start()
    assert desk.missing(names(0), 30) == []
    desk.receive(batch(1)[0])
    desk.shape(0, names(0))
    assert set(desk.here) == {(3, 0)}


def test_a_restored_desk_goes_on_as_if_nothing_had_happened():
    one = RewardDesk(Counting(), steady=True)
    for number in range(3):
        shape(one, number)
    other = RewardDesk(Counting(), steady=True)
    other.restore(one.state())
    assert paid(shape(other, 3)) == paid(shape(one, 3))
    with pytest.raises(DeskError, match="batch 4 is due"):
        shape(other, 2)
    other.restore(one.state())
    with pytest.raises(DeskError, match="batch 3 cannot be shaped: batch 4 is due"):
        shape(other, 3)  # it is counted, but the answer was not kept


def test_a_state_is_kept_without_pickling(tmp_path):
    state = {
        "version": 3,
        "space": {"vectors": np.eye(3, dtype=np.float32), "ids": [1, 2]},
        "none": None,
        "text": "\u00e9",
    }
    write_state(tmp_path / "one", state)
    again = read_state(tmp_path / "one")
    assert again["space"]["vectors"].dtype == np.float32 and np.array_equal(again["space"]["vectors"], np.eye(3))
    assert {key: again[key] for key in ("version", "none", "text")} == {"version": 3, "none": None, "text": "\u00e9"}
    write_state(tmp_path / "other", again)
    for name in ("state.json", "arrays.npz"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    with pytest.raises(TypeError, match="without pickling"):
        write_state(tmp_path / "bad", {"x": np.array([object()])})


def kill(ray, actor) -> None:
    """Returns once it is dead: until then it may still answer."""
    ray.kill(actor)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            ray.get(actor.call.remote("metrics"), timeout=5)
        except ray.exceptions.RayActorError:
            return
    raise TimeoutError("the actor does not die")


def test_a_killed_service_comes_back_with_every_batch_counted_once(ray_cluster):
    from reward_service.remote import RewardError, RewardService

    settings = RewardSettings(max_restarts=2)
    service = RewardService(settings, GameSettings(name="parrot"), "test-rewards", steady=True)
    batches = [[ray_cluster.put(each) for each in batch(number)] for number in range(6)]
    try:
        answers = [service.shape(number, names(number), batches[number]) for number in range(2)]
        assert [each.rewards.tolist() for each in answers[0]] == [[0, 1], [0, 0.5], [0, pytest.approx(1 / 3)]]
        assert service.state()["next_batch"] == 2 and service.since == []
        service.shape(2, names(2), batches[2])
        kill(ray_cluster, service.actor)
        service.receive(batches[3][:1])  # nobody hears it, nobody minds
        assert len(service.shape(3, names(3), batches[3])) == 3
        assert service.metrics()["reward/restarts"] == 1 and service.state()["next_batch"] == 4
        assert [each.number for each in service.shape(3, names(3), batches[3])] == [9, 10, 11], (
            "asked again after a lost answer"
        )
        with pytest.raises(RewardError, match="failed at batch 9: batch 9 cannot be shaped: batch 4 is due"):
            service.shape(9, names(4), batches[4])
        for _ in range(2):
            kill(ray_cluster, service.actor)
            if service.restarts == 2:
                with pytest.raises(RewardError, match="reward.max_restarts=2"):
                    service.shape(4, names(4), batches[4])
            else:
                service.shape(4, names(4), batches[4])
    finally:
        service.close()


class SlowlyRefitted(Counting):
    def refit(self) -> Callable[[], int]:
        def work() -> int:
            time.sleep(5.0)
            return self.version + 1

        return work


class Slowly(ShaperSettings):
    def make(self, game: GameSettings) -> SlowlyRefitted:
        return SlowlyRefitted()


def test_who_waits_for_a_refit_waits_as_long_as_it_may_take(ray_cluster, monkeypatch):
    monkeypatch.setattr(remote, "CALL_SECONDS", 2.0)
    settings = RewardSettings(shaper=Slowly(), batch_seconds=2.0, refit_seconds=30.0)
    service = remote.RewardService(settings, GameSettings(name="parrot"), "test-slow-refit", steady=True)
    try:
        ray_cluster.get(service.actor.alive.remote(), timeout=60)
        for number in range(2):
            (first, *_) = service.shape(number, names(number), [ray_cluster.put(each) for each in batch(number)])
        assert first.version == 1
        assert service.state()["shaper"]["version"] == 2
    finally:
        service.close()
