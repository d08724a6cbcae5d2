"""A checkpoint's tensors into a transformers model, which may hold several as one (all experts of
a layer) or under another name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import torch
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from actors.transport.bucket import BadBucket
from actors.transport.receipt import Fault
from actors.transport.tally import Tally


class CheckpointWeights:
    """`parts`, by a checkpoint's name: the weight that holds it, and the places of its values
    there, counted through; only of what is not held under the same name. The places are what
    comes of sending their numbers the way that transformers sends values when it saves them.
    Whoever is never sent a weight has none: they take more room than what they are of."""

    def __init__(self, model: PreTrainedModel, tally: Tally):
        self.tally = tally
        self.parameters = [name for name, _ in model.named_parameters()]  # each that is shared once
        self.model = model

    @cached_property
    def parts(self) -> dict[str, tuple[str, torch.Tensor]]:
        found = {}
        for name, weight in self.model.named_parameters():
            empty = {name: torch.empty(weight.shape, device="meta")}
            if revert_weight_conversion(self.model, empty).keys() != empty.keys():
                numbers = torch.arange(weight.numel()).view(weight.shape)
                parts = revert_weight_conversion(self.model, {name: numbers})
                found |= {part: (name, places.to(weight.device)) for part, places in parts.items()}
        return found

    def load(self, named: Iterable[tuple[str, torch.Tensor]]) -> None:
        own = self.model.state_dict()  # each time anew: after a sleep it is other memory
        for name, tensor in named:
            holder, places = self.parts.get(name, (name, None))
            if holder not in own:
                raise BadBucket(f"the model has no weight named {name!r}")
            held = own[holder]
            shape = held.shape if places is None else places.shape
            if shape != tensor.shape:
                raise BadBucket(f"weight {name}: {list(tensor.shape)} arrived, the model has {list(shape)}")
            self.tally.arrives(name, tensor)
            self.tally.expect(name, holder, tensor, tensor, held.dtype)
            if places is None:
                held.copy_(tensor)
            else:
                held.view(-1)[places] = tensor.to(held)

    def faults(self) -> list[Fault]:
        """What the model's weights are now, against what arrived."""
        own = self.model.state_dict()
        for name, holder in self.tally.expected:
            _, places = self.parts.get(name, (name, None))
            held = own[holder]
            self.tally.find(name, holder, held if places is None else held.view(-1)[places])
        shared = {holder for holder, _ in self.parts.values()}
        wanted = [name for name in self.parameters if name not in shared] + list(self.parts)
        left = [name for name in wanted if name not in self.tally.arrived]
        return self.tally.faults() + [Fault(name, "was left out: it keeps its old values") for name in left]
