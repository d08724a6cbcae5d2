"""Seconds of work on a GPU are counted when it is done, not when it was asked for."""

from __future__ import annotations

import time

import torch

from learners.update.clock import device_time


def test_a_gpu_is_waited_for_and_a_cpu_is_not(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    began = time.monotonic()
    assert began <= device_time(torch.device("cpu")) <= time.monotonic() and not waited
    assert began <= device_time(torch.device("cuda", 0)) <= time.monotonic()
    assert waited == [torch.device("cuda", 0)]
