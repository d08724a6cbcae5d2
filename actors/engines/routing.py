"""Which experts made each token of the plain engine, for a trainer that replays them.

Every cache row has its record, place by place, beside the tokens. What a request finds in the prefix
cache was recorded when it was computed.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from actors.wire.routers import router_layers


class RoutingRecord:
    def __init__(self, model: torch.nn.Module, rows: int, positions: int):
        routers = router_layers(model)
        one = next(iter(routers))
        kind = np.uint8 if one.num_experts <= 256 else np.uint16
        layers = model.config.get_text_config().num_hidden_layers
        self.experts = np.zeros((rows, positions, layers, one.top_k), kind)
        self.layers = np.array(list(routers.values()))
        self.heard: dict[int, torch.Tensor] = {}  # by layer: what its router chose in the newest forward pass
        for router, layer in routers.items():
            router.register_forward_hook(partial(self._hear, layer))

    def _hear(self, layer: int, router: torch.nn.Module, _, output: tuple[torch.Tensor, ...]) -> None:
        self.heard[layer] = output[-1]

    def keep(self, rows: np.ndarray, places: np.ndarray, kept: np.ndarray) -> None:
        """Of the newest forward pass: `places` [rows, queries], and whether each is to be recorded."""
        chosen = torch.stack([self.heard[layer] for layer in self.layers], 1).cpu().numpy()
        line, query = np.nonzero(kept)
        at = rows[line, None], places[line, query][:, None], self.layers
        self.experts[at] = chosen[line * places.shape[1] + query]

    def of(self, row: int, start: int, end: int) -> np.ndarray:
        return self.experts[row, start:end].copy()
