"""A key-value cache with one fixed row per sequence, for any Hugging Face causal LM.

Each row holds the keys and values of one sequence from position 0 on. A forward pass
serves any subset of the rows: `aim` says which rows, at which positions the new keys go,
and how many positions the queries may look back on. Row `rows` (one past the last) is
where the keys of padding go; nothing ever reads it. A head's positions lie side by side, as attention reads them.
"""

from __future__ import annotations

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class Aim:
    """Where the coming forward pass writes and reads; shared by all layers."""

    places: torch.Tensor  # int64 [batch * queries]: row * positions + position
    served: slice | torch.Tensor  # the rows, in batch order
    length: int = 0  # positions visible to the queries

    def at(self, places: torch.Tensor, served: slice | torch.Tensor, length: int) -> None:
        self.places, self.served, self.length = places, served, length
        self.spots: dict[int, torch.Tensor] = {}

    def spots_of(self, heads: int, positions: int) -> torch.Tensor:
        """int64 [batch * queries * heads]: the places in the memory of a layer with so many heads."""
        if heads not in self.spots:
            row, position = self.places[:, None] // positions, self.places[:, None] % positions
            head = torch.arange(heads, device=self.places.device)
            self.spots[heads] = ((row * heads + head) * positions + position).reshape(-1)
        return self.spots[heads]


class SlotLayer(CacheLayerMixin):
    is_sliding = False

    def __init__(self, aim: Aim, rows: int, positions: int):
        super().__init__()
        self.aim, self.rows, self.positions = aim, rows, positions

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        _, heads, _, width = key_states.shape
        self.keys = key_states.new_zeros(self.rows + 1, heads, self.positions, width)
        self.values = value_states.new_zeros(self.rows + 1, heads, self.positions, value_states.shape[-1])
        self.is_initialized = True

    def free(self) -> None:
        """Give the memory back; the next forward pass takes it again, empty."""
        self.keys = self.values = None
        self.is_initialized = False

    def update(self, key_states, value_states, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        return self._put(self.keys, key_states), self._put(self.values, value_states)

    def _put(self, store: torch.Tensor, fresh: torch.Tensor) -> torch.Tensor:
        _, heads, positions, width = store.shape
        spots = self.aim.spots_of(heads, positions)
        store.view(-1, width).index_copy_(0, spots, fresh.transpose(1, 2).reshape(-1, width))
        return store[self.aim.served, :, : self.aim.length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.aim.length, 0

    def get_seq_length(self) -> int:
        return self.aim.length

    def get_max_length(self) -> int:
        return self.positions


class SlotCache(Cache):
    def __init__(self, layers: int, rows: int, positions: int):
        self.aim = Aim()
        self.rows, self.positions = rows, positions
        super().__init__(layers=[SlotLayer(self.aim, rows, positions) for _ in range(layers)])

    def free(self) -> None:
        for layer in self.layers:
            layer.free()
