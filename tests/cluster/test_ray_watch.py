"""When Ray is given up: the state machine, without Ray."""

from __future__ import annotations

import threading

import pytest

from cluster.run import ray_watch
from cluster.run.ray_watch import Patience, watch


def watched(answers: str, seconds: float, monkeypatch, apart: float = 1.0) -> str | None:
    """One letter a question: y here, n given up, - no answer. Then it is over."""
    monkeypatch.setattr(ray_watch, "ASK_SECONDS", 0.0)
    left, over, now = list(answers), threading.Event(), [0.0]

    def alive() -> bool:
        now[0] += apart
        answer = left.pop(0)
        if not left:
            over.set()
        if answer == "-":
            raise TimeoutError
        return answer == "y"

    return watch(alive, Patience(seconds, 0.0), over, lambda: now[0])


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ("yyyy", None),
        ("y--y--y--y", None),
        ("y---", "no sign of life for 3 s"),
        ("---", "no sign of life for 3 s"),
        ("yy-n", "given up this node"),
    ],
)
def test_ray_is_given_up_after_silence_on_end(answers, why, monkeypatch):
    found = watched(answers, 3.0, monkeypatch)
    assert (found is None) if why is None else (why in found)


def test_a_machine_that_slept_is_no_silence(monkeypatch):
    assert watched("y-y", 60.0, monkeypatch, apart=3600.0) is None
