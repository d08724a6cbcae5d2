"""Digests of one weight update inside an engine: of each tensor as it arrived, and of what holds it.

A tensor arrives by its checkpoint's name. Where the engine keeps it, in another type, as a
part of a larger one, cut to a rank's share, is called its place. What a place should hold is
the arrived tensor in the place's own type; what it does hold is read back after loading.
"""

from __future__ import annotations

import torch

from actors.transport.digest import digest, numbers_of
from actors.transport.receipt import Fault


class Tally:
    """Of an engine process, for good; `begin` starts an update's."""

    def __init__(self) -> None:
        self.arrived: dict[str, torch.Tensor] = {}
        self.expected: dict[tuple[str, str], torch.Tensor] = {}  # (tensor, place)
        self.found: dict[tuple[str, str], torch.Tensor] = {}
        self.before: dict[tuple[str, str], int] = {}  # what the places held after the last update

    def begin(self) -> None:
        self.arrived, self.expected, self.found = {}, {}, {}

    def arrives(self, name: str, tensor: torch.Tensor) -> None:
        self.arrived[name] = digest(tensor)

    def expect(self, name: str, place: str, tensor: torch.Tensor, whole: torch.Tensor, dtype: torch.dtype) -> None:
        """`tensor`, the arrived `whole` or a part of it, goes to the place, which is of `dtype`."""
        same = tensor.dtype == dtype and tensor.data_ptr() == whole.data_ptr() and tensor.numel() == whole.numel()
        in_order = tensor.is_contiguous() and whole.is_contiguous()
        self.expected[name, place] = self.arrived[name] if same and in_order else digest(tensor.to(dtype))

    def find(self, name: str, place: str, held: torch.Tensor, like: str | None = None) -> None:
        """`like` names a place that should hold the same."""
        if like is not None:
            self.expected[name, place] = self.expected[name, like]
        self.found[name, place] = digest(held)

    def faults(self) -> list[Fault]:
        """Every place that does not hold what it should, and how it went wrong if that can be told."""
        expected = dict(zip(self.expected, numbers_of(self.expected.values()), strict=True))
        found = dict(zip(self.found, numbers_of(self.found.values()), strict=True))
        owner = {number: name for (name, _), number in expected.items()}
        faults = []
        for (name, place), number in expected.items():
            held = found.get((name, place))
            if held == number:
                continue
            if held is None:
                what = f"was not taken over by {place}"
            elif held == self.before.get((name, place)):
                what = f"is stale: {place} still holds the values of the update before"
            elif held in owner:
                what = f"is swapped: {place} holds the values of {owner[held]}"
            else:
                what = f"is not what arrived: {place} holds other values"
            faults.append(Fault(name, what))
        self.before = found
        return faults

    def arrived_numbers(self) -> dict[str, int]:
        return dict(zip(self.arrived, numbers_of(self.arrived.values()), strict=True))
