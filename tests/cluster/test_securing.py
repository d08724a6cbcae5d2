"""Episodes that lie on a node that dies: they are played again, and a batch that is in use cannot be lost."""

from __future__ import annotations

import time

import numpy as np
import pytest
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.fleet.fleet import Fleet
from actors.settings import RolloutSettings
from actors.worker_parts import WorkerSpec
from cluster.run.collecting import Collector
from cluster.run.ledger import Ledger
from cluster.run.playing import Playing
from cluster.run.securing import fetch
from envs.episode import Ticket
from envs.settings import GameSettings
from tests.support.engines import engine_settings
from tests.support.nodes import drain

SEATS = (("parrot0", "policy"),)
NODE = {"num_cpus": 2, "object_store_memory": 100 * 2**20}
QUICK = {  # every episode counts as a large one, and a dead node is noticed at once
    "max_direct_call_object_size": 100,
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 2,
}


@pytest.fixture
def two_nodes():
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "_system_config": QUICK})
    other = cluster.add_node(**NODE)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster, other
    ray.shutdown()
    cluster.shutdown()


def drop_copies_here(refs: list[ray.ObjectRef], here: str) -> None:
    """By filling the object store: a node forgets what another one has, too."""
    lying = {ref: each["node_ids"] for ref, each in ray.experimental.get_object_locations(refs).items()}
    away = [ref for ref, nodes in lying.items() if any(node != here for node in nodes)]
    assert away and len(away) < len(refs), "workers of both nodes have played"
    filling, deadline = [], time.monotonic() + 20
    while any(here in each["node_ids"] for each in ray.experimental.get_object_locations(away).values()):
        assert time.monotonic() < deadline
        filling.append(ray.put(np.zeros(5 * 2**20, np.uint8)))


def test_episodes_of_a_dead_node_are_played_again_and_a_batch_in_use_is_safe(two_nodes, parrot_model):
    cluster, other = two_nodes
    here = ray.get_runtime_context().get_node_id()
    (away,) = (node["NodeID"] for node in ray.nodes() if node["NodeID"] != here)
    settings = RolloutSettings(
        workers=2, cpus_per_worker=0.5, max_utterance_tokens=8, engine=engine_settings("transformers")
    )
    spec = WorkerSpec("nodes", str(parrot_model), {"parrot": GameSettings(name="parrot")}, settings, transport=None)
    fleet = Fleet(settings, spec, [NodeAffinitySchedulingStrategy(node, soft=True) for node in (here, away)])
    fleet.start()
    playing = Playing(fleet, settings)
    ledger = Ledger("nodes", "parrot", SEATS, seed=3, batch=8, max_staleness=1, max_attempts=3)
    collector = Collector(playing, ledger, 2, lambda _: None)
    first = collector.batch()
    games = playing.begin([Ticket("nodes", "parrot", 1000 + n, 7 + n, SEATS) for n in range(6)])
    playing.wait("all", lambda: playing.progress(None, len(ledger.waiting) + len(games.waiting), 22))
    drop_copies_here([result.ref for result in (*ledger.waiting.values(), *games.waiting.values())], here)

    cluster.remove_node(other, allow_graceful=False)

    assert all(fetch(first)), "what was given out is here"
    ledger.consume()
    second = collector.batch()
    assert [result.ticket.number for result in second] == list(range(8, 16)) and all(fetch(second))
    again = [result.ticket for result in second if result.ticket.attempt]
    assert again and len(again) == playing.failures["episode_lost"] <= ledger.counts.reissued
    assert {ticket.seed for ticket in again} <= {result.ticket.seed for result in second}
    assert [episode.ticket.seed for episode in playing.end(games)] == [7 + n for n in range(6)]
    assert playing.failures["episode_lost"] > len(again), "held-out games, too"
    ledger.check()
    playing.tokens.train_on(first)
    playing.tokens.check(ledger.waiting.values())
    fleet.close()


@pytest.mark.long
def test_what_lies_on_a_node_that_is_drained_is_brought_here_before_it_goes(two_nodes, parrot_model):
    cluster, other = two_nodes
    settings = RolloutSettings(
        workers=2, cpus_per_worker=2, max_utterance_tokens=8, engine=engine_settings("transformers")
    )
    spec = WorkerSpec("drained", str(parrot_model), {"parrot": GameSettings(name="parrot")}, settings, transport=None)
    fleet = Fleet(settings, spec)
    fleet.start()
    playing = Playing(fleet, settings)
    ledger = Ledger("drained", "parrot", SEATS, seed=3, batch=8, max_staleness=1, max_attempts=1)
    collector = Collector(playing, ledger, 2, lambda _: None)
    while not all(fleet.processes.places.node(worker) for worker in (0, 1)):
        playing.listen(0.2)
    first = collector.batch()
    games = playing.begin([Ticket("drained", "parrot", 1000 + n, 7 + n, SEATS) for n in range(8)])
    playing.wait("all", lambda: playing.progress(None, len(ledger.waiting) + len(games.waiting), 24))

    def away() -> list[int]:
        return [result.ticket.number for each in (ledger, games) for result in each.waiting.values()
                if result.node == other.node_id]  # fmt: skip

    assert {number >= 1000 for number in away()} == {True, False}, "of the run, and of the held-out games"
    drain(cluster.address, other)
    deadline = time.monotonic() + 30
    while away():
        assert time.monotonic() < deadline
        playing.listen(0.2)
    refs = [result.ref for each in (ledger, games) for result in each.waiting.values()]
    lying = ray.experimental.get_object_locations(refs).values()
    assert {node for each in lying for node in each["node_ids"]} == {ray.get_runtime_context().get_node_id()}
    cluster.remove_node(other, allow_graceful=False)
    ledger.consume()
    assert all(fetch(first)) and all(fetch(collector.batch())) and len(playing.end(games)) == 8
    assert not playing.failures and ledger.counts.reissued == 0, "none was played again"
    assert playing.holders == [ledger]
    fleet.close()
