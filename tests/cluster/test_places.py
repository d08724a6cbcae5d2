"""Which actor gets which card: on pretended cards of two nodes, by the placement of real runs.

Only the processes are light: they say where Ray put them, and load nothing.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress

import pytest

import actors.fleet.processes
import learners.group
from actors.fleet.fleet import Fleet
from actors.fleet.places import FleetError
from actors.settings import EngineSettings, RolloutSettings
from actors.worker import Report
from actors.worker_parts import WorkerSpec
from cluster.errors import RunError
from cluster.recipe.config import RunConfig
from cluster.run.placement import shared_cards
from cluster.run.session import start_fleet
from learners.group import LearnerError, LearnerGroup
from learners.settings import LearnerSettings

CARDS = 2  # of each of two nodes
WAIT = 60.0


@pytest.fixture(scope="module")
def ray_of_two_nodes():
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 16, "num_gpus": CARDS, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False)
    yield ray
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def light(ray_of_two_nodes, monkeypatch):
    """Processes that tell where they are, in place of those that load models."""
    ray = ray_of_two_nodes

    def here():
        cards = ray.get_runtime_context().get_accelerator_ids()["GPU"]
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ",".join(cards), "the process sees other cards than its own"
        return ray.get_runtime_context().get_node_id(), tuple(cards)

    @ray.remote(max_restarts=0)
    class Rank:
        def __init__(self, arguments):
            self.started = self.worker_was_there = False

        def meeting_point(self):
            return "localhost", 1

        def call(self, method, *arguments):
            if method == "start":
                self.started = True
                own = ray.get_runtime_context().get_actor_name()
                self.worker_was_there = own.replace("learner", "rollout") in ray.util.list_named_actors()
            return {"where": here, "worker was there": lambda: self.worker_was_there}.get(
                method, lambda: self.started
            )()

    class Worker:
        def __init__(self, spec, index):
            self.rank, self.learners_were_up = f"parley-{spec.run}-learner-{index}", False

        def ready(self):
            with suppress(ValueError):
                self.learners_were_up = ray.get(ray.get_actor(self.rank).call.remote("up"), timeout=WAIT)
            return os.getpid()

        def where(self):
            return here()

        def after_the_learners(self):
            return self.learners_were_up

        def close(self):
            pass

        def finished(self, wait_seconds):
            time.sleep(0.2)
            yield Report([], 0.0, 0)

    monkeypatch.setattr(learners.group, "RankActor", Rank)
    monkeypatch.setattr(actors.fleet.processes, "RolloutWorker", Worker)
    return ray


def config_of(ranks: int, workers: int, parts: tuple[float, float] = (0.5, 0.5), **learner) -> RunConfig:
    """As the plan gives it."""
    rollout = {"workers": workers, "gpus_per_worker": parts[1], "share_cards": True}
    learner = {"ranks": ranks, "gpus_per_rank": parts[0], **learner}
    return RunConfig(rollout=rollout, learner=learner)


def learners_of(config: RunConfig, run: str, places=None) -> LearnerGroup:
    return LearnerGroup(config.learner, "", 1.0, seed=0, name=run, transport="ipc", places=places)


def start(config: RunConfig, stack: ExitStack, run: str) -> tuple[LearnerGroup, Fleet]:
    """As a run does."""
    places = stack.enter_context(shared_cards(config))
    learners = learners_of(config, run, places)
    stack.callback(learners.close)
    return learners, start_fleet(config, "", "object_store", run, stack, {}, learners, places)


def where(ray, learners: LearnerGroup, fleet: Fleet) -> tuple[list, list]:
    ranks = [actor.call.remote("where") for actor in learners.actors]
    workers = [handle.where.remote() for handle in fleet.handles.values()]
    return ray.get(ranks, timeout=WAIT), ray.get(workers, timeout=WAIT)


def until_free(ray, cards: float) -> None:
    deadline = time.monotonic() + WAIT
    while ray.available_resources().get("GPU", 0.0) != cards:
        assert time.monotonic() < deadline, f"{ray.available_resources()} free: something was left behind"
        time.sleep(0.05)


def test_worker_i_has_the_card_of_rank_i(light):
    """On every card of both nodes."""
    with ExitStack() as stack:
        learners, fleet = start(config_of(4, 4), stack, "shared")
        ranks, workers = where(light, learners, fleet)
        assert ranks == workers
        assert len(set(ranks)) == 2 * CARDS and all(len(cards) == 1 for _, cards in ranks)
        assert all(light.get([handle.after_the_learners.remote() for handle in fleet.handles.values()], timeout=WAIT))
        there = [actor.call.remote("worker was there") for actor in learners.actors]
        assert all(light.get(there, timeout=WAIT)), "what an engine imports is imported meanwhile"
    until_free(light, 2 * CARDS)


def test_workers_without_engines_leave_nothing_behind_when_the_learners_fail(light):
    config = config_of(2, 2)
    with shared_cards(config) as places:
        fleet = Fleet(config.rollout, WorkerSpec("half", "", {}, config.rollout), places)
        fleet.prepare()
        began = time.monotonic()
        fleet.close()
        assert time.monotonic() - began < 5 and not fleet.handles
    until_free(light, 2 * CARDS)
    assert not light.util.list_named_actors()


def test_the_replacement_of_a_worker_gets_its_card(light):
    with ExitStack() as stack:
        learners, fleet = start(config_of(1, 2, parts=(0.3, 0.7)), stack, "replaced")
        before = where(light, learners, fleet)
        assert before[0] == before[1][:1] and before[1][0] != before[1][1]
        assert light.available_resources()["GPU"] == 2 * CARDS - 2, "a card in part is nobody else's"
        for worker in fleet.joining():
            fleet.joined(worker)
        os.kill(light.get(fleet.handles[1].ready.remote(), timeout=WAIT), signal.SIGKILL)
        deadline = time.monotonic() + WAIT
        while not fleet.joining():
            assert time.monotonic() < deadline and fleet.poll(0.5) == []
        assert fleet.health.restarts == 1
        assert where(light, learners, fleet) == before
    until_free(light, 2 * CARDS)


@pytest.mark.parametrize(("workers", "parallel"), [(1, 2), (2, 1)])
def test_whole_cards_are_nobody_elses(light, workers, parallel):
    """Two ranks with a card each and engines over two: all that there are. An engine's cards are on one
    node; so are the ranks, which send each other much more than they send the workers."""
    engine = EngineSettings(tensor_parallel=parallel)
    config = RunConfig(
        rollout=RolloutSettings(workers=workers, gpus_per_worker=parallel, engine=engine),
        learner=LearnerSettings(ranks=2, gpus_per_rank=1),
    )
    with ExitStack() as stack:
        learners, fleet = start(config, stack, f"whole-{parallel}")
        ranks, playing = where(light, learners, fleet)
        assert [len(cards) for _, cards in ranks + playing] == [1, 1] + [parallel] * workers
        assert len({(node, card) for node, cards in ranks + playing for card in cards}) == 2 * CARDS
        assert len({node for node, _ in ranks}) == 1
    until_free(light, 2 * CARDS)


def test_no_room_for_shared_cards_is_one_line_in_time_and_leaves_nothing(light):
    with shared_cards(config_of(3, 2)):
        started = time.monotonic()
        wanted = (
            r"^no room for learner.ranks=1 and rollout.workers=2 on shared cards within learner.start_seconds=0.5: "
            r"that is 2 GPUs, each with 2 CPUs on its node; free on all nodes together are 1 GPUs and "
        )
        with pytest.raises(RunError, match=wanted), shared_cards(config_of(1, 2, start_seconds=0.5)):
            pass
        assert time.monotonic() - started < 10
        with shared_cards(config_of(1, 1)) as places:
            assert len(places) == 1
    until_free(light, 2 * CARDS)


def test_more_whole_cards_than_there_are_is_one_line(light):
    settings = RolloutSettings(workers=5, gpus_per_worker=1)
    with pytest.raises(FleetError, match=r"rollout.workers=5 with .* 5 GPUs, but the Ray cluster has 4"):
        Fleet(settings, WorkerSpec("roomless", "", {}, settings)).launch()
    learners = learners_of(RunConfig(batch_episodes=8, learner={"ranks": 5, "gpus_per_rank": 1}), "roomless")
    with pytest.raises(LearnerError, match=r"learner.ranks=5 .* needs 5 GPUs, but the cluster has 4"):
        learners.start()
    until_free(light, 2 * CARDS)
