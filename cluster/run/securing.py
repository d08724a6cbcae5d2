"""Episodes that were lost with the node that made them, and a batch that no node can lose.

A large episode lies in the object store of its worker's node, and goes with it. Before a batch is used its episodes are
brought to the node of the run; those that are gone are played again. Where Ray says that a node is about to go, what
lies there is brought at once.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Protocol

import ray
from ray.exceptions import GetTimeoutError, ObjectLostError

from actors.fleet.fleet import Finished
from envs.episode import Episode, Ticket

FETCH_SECONDS = 120.0  # for all of a batch; the death of a node is known after some 15
BRING_SECONDS = 1.0  # for what is brought at a time; what is on its way then comes the next time
LOST = "episode_lost"


class Holder(Protocol):
    waiting: dict[int, Finished]  # not used yet, by the ticket's number

    def keep(self, ticket: Ticket, result: Finished) -> None:
        """The same result, at another place."""


def fetch(results: Sequence[Finished], seconds: float = FETCH_SECONDS) -> list[Episode | None]:
    """The episodes; None where one is gone."""
    try:
        return ray.get([result.ref for result in results], timeout=seconds)
    except ObjectLostError:
        return [_fetch(result.ref, seconds) for result in results]
    except GetTimeoutError:  # a node hangs: what has come by now counts
        return [_fetch(result.ref, BRING_SECONDS) for result in results]


def _fetch(ref: ray.ObjectRef, seconds: float) -> Episode | None:
    try:
        return ray.get(ref, timeout=seconds)
    except (ObjectLostError, GetTimeoutError):
        return None


def secure(results: Sequence[Finished]) -> tuple[list[Finished], list[Finished]]:
    """Those whose episode lies on this node now, and those whose episode is gone. With one node nothing moves."""
    if len(ray.nodes()) == 1:
        return list(results), []
    here = ray.get_runtime_context().get_node_id()
    found = ray.experimental.get_object_locations([result.ref for result in results])
    kept, lost = [], []
    for result, episode in zip(results, fetch(results), strict=True):
        if episode is None:
            lost.append(result)
        else:  # small ones are in the memory of this process, which no location tells of
            away = any(node != here for node in found[result.ref]["node_ids"])
            kept.append(replace(result, ref=ray.put(episode), node=None) if away else result)
    return kept, lost


def bring(holder: Holder, draining: Set[str]) -> None:
    """What lies on nodes that are about to go; what is gone is noticed when it is used."""
    there = {result.ref: result for result in holder.waiting.values() if result.node in draining}
    if there:
        ready, _ = ray.wait(list(there), num_returns=len(there), timeout=BRING_SECONDS)
        for results in secure([there[ref] for ref in ready]):
            for result in results:
                holder.keep(result.ticket, replace(result, node=None))
