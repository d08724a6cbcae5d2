"""Weights by broadcast: this process's part in the sender's circle.

Every bucket is announced over the control plane, then its bytes come over NCCL or gloo. A
sender that gives up or dies ends the wait: the update breaks off with an error, and the next
sync makes a new circle, for which the old one is left.
"""

from __future__ import annotations

from typing import Any

import torch

from actors.wire.circle import Circle, CircleBroken, Sender, visit_store

BROADCASTS = ("nccl", "gloo")  # the transports that this is


class BroadcastReceiver:
    def __init__(self) -> None:
        self.circle: Circle | None = None

    def meet(self, info: dict[str, Any], process: int = 0) -> None:
        """`rank_offset` is the place of an engine's first process."""
        self.leave()
        store = visit_store(info["address"], info["port"], info["seconds"])
        place = info["rank_offset"] + process
        sender = Sender(store, info["silence"])
        self.circle = Circle(info["library"], store.clone(), place, info["size"], info["seconds"], sender.look)

    def read(self, info: dict[str, Any]) -> torch.Tensor:
        """The bucket's bytes, in this process's own memory on the circle's device."""
        if self.circle is None:
            raise CircleBroken("no sender has met this process")
        run = torch.empty(info["nbytes"], dtype=torch.uint8, device=self.circle.device)
        self.circle.broadcast(run)
        return run

    def finish(self) -> None:
        """An update is through; the circle stays for the next one."""

    def leave(self) -> None:
        if self.circle is not None:
            self.circle.leave()
            self.circle = None
