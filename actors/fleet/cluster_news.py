"""What Ray knows of the nodes: which live, which are about to go, and where placement groups are.

    newest() --nothing under way, and the last answer is old--> a thread asks --answer--> newest() returns it, once

Nobody waits for an answer but `fresh`, and that so many seconds at most. A question that Ray leaves open stays the
only one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

log = logging.getLogger("parley.fleet")
ASK_SECONDS = 3.0  # from one answer to the next question


@dataclass(frozen=True, slots=True)
class News:
    alive: frozenset[str]  # nodes
    placed: dict[str, str] = field(default_factory=dict)  # placement group of one bundle -> its node
    draining: dict[str, float | None] = field(default_factory=dict)  # node -> when it goes, by time.monotonic, if known


def ask_ray() -> News:
    import ray
    from ray._private.state import state
    from ray.util import placement_group_table

    clock = time.monotonic() - time.time()
    groups = placement_group_table()
    return News(
        frozenset(node["NodeID"] for node in ray.nodes() if node["Alive"]),
        {
            group: next(iter(found["bundles_to_node_id"].values()))
            for group, found in groups.items()
            if found["state"] == "CREATED" and found["bundles_to_node_id"]
        },
        {node: clock + end / 1000 if end else None for node, end in state.get_draining_nodes().items()},
    )


class ClusterNews:
    def __init__(self, ask: Callable[[], News] = ask_ray, every_seconds: float = ASK_SECONDS):
        self.ask, self.every_seconds = ask, every_seconds
        self.answers: SimpleQueue[News | None] = SimpleQueue()
        self.thread: threading.Thread | None = None
        self.answered = -every_seconds  # when the last answer was taken
        self.failed = 0  # questions that ended with an error

    def newest(self) -> News | None:
        """An answer that nobody was given yet, if there is one."""
        news = self._take(0.0)
        if self.thread is None and time.monotonic() - self.answered >= self.every_seconds:
            self._begin()
        return news

    def fresh(self, seconds: float) -> News | None:
        """The answer to a question that is asked from now on; None if it does not come in time."""
        deadline = time.monotonic() + seconds
        self._take(seconds)  # of one that was asked before
        if self.thread is not None:
            return None
        self._begin()
        return self._take(max(0.0, deadline - time.monotonic()))

    def _begin(self) -> None:
        self.thread = threading.Thread(target=self._run, name="cluster-news", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.answers.put(self.ask())
        except Exception:
            log.exception("Ray did not say what it knows of the nodes; it is asked again")
            self.answers.put(None)

    def _take(self, seconds: float) -> News | None:
        if self.thread is None:
            return None
        try:
            news = self.answers.get(timeout=seconds) if seconds > 0 else self.answers.get_nowait()
        except Empty:
            return None
        self.thread, self.answered = None, time.monotonic()
        self.failed += news is None
        return news

    def close(self, seconds: float) -> None:
        """A question under way may use Ray for so long."""
        if self.thread is not None:
            self.thread.join(seconds)
