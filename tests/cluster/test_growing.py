"""A fleet on a cluster that grows and shrinks: workers join on a new node, and leave with one that is gone."""

from __future__ import annotations

import time

import pytest
import ray

from actors.fleet.fleet import Fleet
from actors.fleet.health import State
from actors.settings import RolloutSettings
from actors.worker_parts import WorkerSpec
from cluster.run.collecting import Collector
from cluster.run.ledger import Ledger
from cluster.run.playing import Playing
from envs.settings import GameSettings
from tests.support.engines import engine_settings
from tests.support.nodes import drain

SEATS = (("parrot0", "policy"),)
NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
QUICK = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
WAIT = 90.0


@pytest.fixture
def one_node():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "_system_config": QUICK})
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.long
def test_workers_join_on_a_new_node_and_leave_with_it(one_node, parrot_model):
    settings = RolloutSettings(
        workers={"least": 1, "most": 3},
        cpus_per_worker=1,
        max_utterance_tokens=8,
        max_worker_restarts=0,
        engine=engine_settings("transformers"),
    )
    spec = WorkerSpec("grows", str(parrot_model), {"parrot": GameSettings(name="parrot")}, settings, transport=None)
    fleet = Fleet(settings, spec)
    fleet.start()
    playing = Playing(fleet, settings)
    ledger = Ledger("grows", "parrot", SEATS, seed=3, batch=8, max_staleness=1, max_attempts=5)
    collector, played = Collector(playing, ledger, 10**6, lambda _: None), 0

    def play_until(live: int, left: int) -> None:
        """Whole batches, until so many workers play and so many have left."""
        nonlocal played
        deadline = time.monotonic() + WAIT
        while (len(fleet.health.in_state(State.LIVE)), fleet.health.left_count) != (live, left):
            assert time.monotonic() < deadline, fleet.health.members
            assert len(collector.batch()) == 8
            ledger.consume()
            played += 8
            ledger.check()
            time.sleep(0.05)

    play_until(1, 0)
    assert fleet.metrics()["fleet/pending"] == 2, "there is room for one"
    node = one_node.add_node(**NODE)
    play_until(2, 0)
    assert fleet.metrics()["fleet/workers"] == 2 and fleet.metrics()["fleet/pending"] == 1
    one_node.remove_node(node, allow_graceful=False)
    play_until(1, 1)
    assert fleet.metrics()["fleet/restarts"] == 0, "it is not held against the worker"
    node = one_node.add_node(**NODE)
    play_until(2, 1)
    failed = fleet.metrics()["fleet/failed"]
    drain(one_node.address, node)
    play_until(1, 2)
    assert fleet.metrics()["fleet/failed"] == failed, "it ended the episodes that it had begun"
    one_node.remove_node(node)
    one_node.add_node(**NODE)
    play_until(2, 2)
    assert ledger.counts.consumed == played and not ledger.counts.dropped
    fleet.close()
