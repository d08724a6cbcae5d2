"""Workers on nodes that come and go: what is started, ended and asked for at Ray's news. No process starts."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

import actors.fleet.places
import actors.fleet.processes
from actors.fleet.cluster_news import News
from actors.fleet.health import State
from actors.fleet.places import Place
from actors.fleet.processes import WorkerProcesses
from actors.settings import RolloutSettings
from actors.worker_parts import WorkerSpec


class Group:
    """A placement group that only has a name."""

    made: list[Group] = []

    def __init__(self):
        name = f"group {len(Group.made)}"
        self.id = SimpleNamespace(hex=lambda: name)
        Group.made.append(self)

    def wait(self, _) -> bool:
        return True


class World:
    """Processes without processes: `tell` is what Ray says next."""

    def __init__(self, least: int, most: int):
        settings = RolloutSettings(workers={"least": least, "most": most})
        self.ended, self.works, self.said, self.hurried = [], set(), [], []
        ended = lambda index, reason: self.ended.append((index, reason))  # noqa: E731
        self.processes = WorkerProcesses(settings, WorkerSpec("run", "", {}, settings), None, ended)
        self.processes.places._group = lambda: Place(Group())
        self.processes.news = SimpleNamespace(
            newest=lambda: self.said.pop() if self.said else None, fresh=lambda _: self.last, close=lambda _: None
        )
        self.started = []
        self.processes._create = lambda index, incarnation: self.create(index, incarnation)
        self.processes.launch()
        for index in range(least):
            self.up(index)

    def create(self, index: int, incarnation: int):
        self.started.append((index, incarnation))
        ready, hurry = (lambda: "call"), (lambda: self.hurried.append(index))
        return SimpleNamespace(ready=SimpleNamespace(remote=ready), hurry=SimpleNamespace(remote=hurry))

    def up(self, index: int) -> None:
        self.processes.started(index)
        self.processes.health.joined(index)

    def tell(self, *alive: str, placed: dict[int, str], draining: dict[str, float | None] | None = None) -> None:
        """`placed`: by number of the group."""
        self.last = News(frozenset(alive), {f"group {n}": node for n, node in placed.items()}, draining or {})
        self.said.append(self.last)
        self.look()

    def look(self) -> None:
        self.processes.look_after(self.works.__contains__)

    def states(self) -> list[State]:
        return [member.state for member in self.processes.health.members]


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    Group.made = []
    monkeypatch.setattr(actors.fleet.processes.ray, "kill", lambda _: None)
    monkeypatch.setattr(actors.fleet.places, "remove_placement_group", lambda _: None)
    monkeypatch.setattr(actors.fleet.places.ray, "cluster_resources", lambda: {"CPU": 99.0})


def test_a_place_is_asked_for_once_and_its_worker_starts_when_it_is_there():
    world = World(1, 3)
    for _ in range(5):
        world.look()
    assert len(Group.made) == 3 and world.started == [(0, 0)]
    world.tell("a", placed={0: "a"})
    assert world.started == [(0, 0)]
    world.tell("a", "b", placed={0: "a", 2: "b"})
    assert world.started == [(0, 0), (2, 0)] and world.states() == [State.LIVE, State.PENDING, State.STARTING]
    world.tell("a", "b", placed={0: "a", 2: "b"})
    assert len(world.started) == 2 and len(Group.made) == 3


def test_a_place_whose_node_is_dead_by_now_starts_nobody():
    world = World(1, 2)
    world.look()
    world.tell("a", placed={0: "a", 1: "b"})
    assert world.started == [(0, 0)] and world.states()[1] is State.PENDING
    assert len(Group.made) == 3 and world.processes.health.left_count == 0, "nobody was there to leave"
    world.tell("a", "c", placed={0: "a", 2: "c"})
    assert world.started == [(0, 0), (1, 0)]


def test_a_node_that_is_gone_takes_its_workers_with_it_and_they_come_back_elsewhere():
    world = World(2, 2)
    world.tell("a", "b", placed={0: "a", 1: "b"})
    world.tell("a", placed={0: "a"})
    assert world.ended == [(1, "node_gone")] and world.states() == [State.LIVE, State.PENDING]
    world.tell("a", "c", placed={0: "a", 2: "c"})
    assert world.started == [(0, 0), (1, 0), (1, 1)] and world.processes.health.restarts == 0


def test_a_lost_worker_whose_node_is_gone_waits_for_another():
    world = World(2, 2)
    world.tell("a", "b", placed={0: "a", 1: "b"})
    world.last = News(frozenset({"a"}))
    world.processes.lose(1, "worker_died")
    assert world.ended == [(1, "node_gone")] and world.states()[1] is State.PENDING
    world.processes.lose(0, "worker_died")
    assert world.ended[1] == (0, "worker_died") and world.started[-1] == (0, 1)


def test_a_node_that_is_drained_ends_what_it_plays_while_its_next_place_is_sought():
    world = World(2, 2)
    world.works = {0, 1}
    world.tell("a", "b", placed={0: "a", 1: "b"})
    world.tell("a", "b", placed={0: "a", 1: "b"}, draining={"b": None})
    assert world.states() == [State.LIVE, State.LEAVING] and world.ended == [] and len(Group.made) == 3
    world.tell("a", "b", "c", placed={0: "a", 1: "b", 2: "c"}, draining={"b": None})
    assert world.ended == [] and len(Group.made) == 3, "it still plays"
    assert world.hurried == [1], "it was told once, and the other one was not"
    world.works = {0}
    world.look()
    assert world.ended == [(1, "node_drained")] and world.states()[1] is State.PENDING
    world.tell("a", "c", placed={0: "a", 2: "c"})
    assert world.started[-1] == (1, 1) and len(Group.made) == 3, "the place that was asked for before is used"


def test_a_node_that_is_about_to_go_is_left_in_time():
    world = World(1, 1)
    world.works = {0}
    world.tell("a", placed={0: "a"}, draining={"a": time.monotonic() + 11.0})
    assert world.states() == [State.LEAVING]
    world.tell("a", placed={0: "a"}, draining={"a": time.monotonic() + 9.0})
    assert world.ended == [], "it is asked how its episodes stand"
    world.processes.health.asked(0, time.monotonic())
    world.look()
    assert world.ended == []
    world.processes.health.answered(0)
    world.look()
    assert world.ended == [(0, "node_drained")]


def test_a_node_that_is_nearly_gone_is_not_waited_for():
    world = World(1, 1)
    world.works = {0}
    world.tell("a", placed={0: "a"}, draining={"a": time.monotonic() + 4.0})
    assert world.ended == [(0, "node_drained")]


def test_one_that_dies_while_it_leaves_is_not_replaced_at_once():
    world = World(2, 2)
    world.works = {1}
    world.tell("a", "b", placed={0: "a", 1: "b"}, draining={"b": None})
    world.processes.lose(1, "worker_died")
    assert world.ended == [(1, "node_drained")] and world.states()[1] is State.PENDING
    assert world.processes.health.restarts == 0


def test_one_that_is_still_starting_leaves_a_node_that_is_drained_at_once():
    world = World(1, 2)
    world.look()
    world.tell("a", "b", placed={0: "a", 1: "b"})
    assert world.states()[1] is State.STARTING
    world.tell("a", "b", placed={0: "a", 1: "b"}, draining={"b": None})
    assert world.ended == [(1, "node_drained")] and not world.processes.starting.get(1)


def test_starts_are_put_off_until_the_outer_end():
    world = World(1, 1)
    with world.processes.no_starts():
        with world.processes.no_starts():
            world.processes.lose(0, "worker_died")
        assert world.started == [(0, 0)]
    assert world.started == [(0, 0), (0, 1)] and world.processes.put_off is None


def test_a_start_that_is_put_off_is_not_late(monkeypatch):
    world = World(1, 1)
    monkeypatch.setattr(world.processes.health, "start_seconds", -1.0)
    with world.processes.no_starts():
        world.processes.lose(0, "worker_died")
        world.look()
        assert world.started == [(0, 0)] and world.ended == [(0, "worker_died")]
        world.processes.health.members[0].since = -1e9
    assert world.started == [(0, 0), (0, 1)] and world.processes.health.members[0].since > 0
    world.look()
    assert world.ended[1:] == [(0, "worker_start_timeout")]
