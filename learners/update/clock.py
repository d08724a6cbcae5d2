"""Seconds of work that a device does on its own time."""

from __future__ import annotations

import time

import torch


def device_time(device: torch.device) -> float:
    """Now, with all that was asked of the device done: a GPU takes orders faster than it carries
    them out, so without waiting a forward pass would seem to take no time, and the next part all of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.monotonic()
