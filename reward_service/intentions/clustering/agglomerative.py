"""Agglomerative clustering of weighted points, and the nested cuts of its tree.

A point of weight w stands for w equal points: the tree above it is the one that all of
them together would get. With weights of 1 this is ordinary average or Ward linkage.
Quadratic in time and memory; more than a few thousand points are for `prototypes` first.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from pydantic import Field
from scipy.spatial.distance import cdist

from reward_service.intentions.clustering.clustering import Points, SpaceSettings
from reward_service.intentions.granularity.granularity import GRANULARITIES, AnyGranularity, Played
from reward_service.intentions.space import IntentionSpace


class Tree(NamedTuple):
    """Row i merges nodes left[i] and right[i] into node p + i, at distance height[i]; nodes
    below p are points. Heights do not fall."""

    left: np.ndarray  # int64 [p - 1]
    right: np.ndarray
    height: np.ndarray  # float64 [p - 1]


class Hierarchy(SpaceSettings):
    """A linkage of your own derives from it. It has to be reducible: two clusters that are nearest to each other
    may merge before closer pairs elsewhere."""

    granularity: AnyGranularity = Field(
        default_factory=lambda: GRANULARITIES.make(GRANULARITIES.default), description="how k is chosen"
    )
    max_k: int = Field(100, ge=2, description="finest cut of the hierarchy")

    @abstractmethod
    def between(self, squared: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """float64 [p, p]: how far points lie apart, of their squared distances, which may be written over."""

    @abstractmethod
    def merged(self, x: np.ndarray, y: np.ndarray, gap: float, weight: np.ndarray, wx: float, wy: float) -> np.ndarray:
        """How far all others lie from two clusters in one; `x`, `y`: from each, `gap`: these from each other."""

    def heights(self, found: np.ndarray) -> np.ndarray:
        return found

    def link(self, points: np.ndarray, weights: np.ndarray) -> Tree:
        """Euclidean, by nearest-neighbour chains."""
        weight = np.array(weights, np.float64)
        distance = self.between(cdist(points.astype(np.float64), points.astype(np.float64), "sqeuclidean"), weight)
        np.fill_diagonal(distance, np.inf)
        merges, heights = _chain(distance, weight, self.merged)
        return _ordered(merges, self.heights(heights))

    def cuts(self, points: Points) -> np.ndarray:
        finest = min(self.max_k, len(points.prototypes))
        tree = self.link(points.prototypes, points.weights)
        return nested_cuts(tree, points.weights, finest)[min(2, finest) - 1 :]

    def level(self, space: IntentionSpace, played: Played) -> int | None:
        return self.granularity.level(space, played, self.seed)


def _chain(distance: np.ndarray, weight: np.ndarray, update) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Pairs of points whose clusters merge, in the order found. `distance` and `weight` are used up."""
    count = len(distance)
    merges, heights, chain, first = [], np.empty(max(count - 1, 0)), [], 0
    alive = np.ones(count, bool)
    while len(merges) < count - 1:
        if not chain:
            while not alive[first]:
                first += 1
            chain = [first]
        x = chain[-1]
        y = int(distance[x].argmin())
        if len(chain) == 1 or distance[x, y] < distance[x, chain[-2]]:  # on a tie, go back: no endless chain
            chain.append(y)
            continue
        y = chain[-2]
        del chain[-2:]
        between = distance[x, y]
        heights[len(merges)] = between
        merges.append((x, y))
        kept, gone = min(x, y), max(x, y)
        row = update(distance[x], distance[y], between, weight, weight[x], weight[y])
        row[kept] = row[gone] = np.inf
        distance[kept] = distance[:, kept] = row
        distance[gone] = distance[:, gone] = np.inf
        weight[kept] += weight[gone]
        alive[gone] = False
    return merges, heights


def _ordered(merges: list[tuple[int, int]], heights: np.ndarray) -> Tree:
    """Merges by height, and nodes in place of the points that stood for them."""
    count = len(merges) + 1
    node, above = list(range(count)), list(range(count))

    def root(point: int) -> int:
        while above[point] != point:
            above[point] = above[above[point]]
            point = above[point]
        return point

    order = np.argsort(heights, kind="stable")
    left, right = np.empty(count - 1, np.int64), np.empty(count - 1, np.int64)
    for row, merge in enumerate(order):
        x, y = (root(point) for point in merges[merge])
        left[row], right[row] = node[x], node[y]
        above[y] = x
        node[x] = count + row
    return Tree(left, right, heights[order])


def nested_cuts(tree: Tree, weights: np.ndarray, finest: int) -> np.ndarray:
    """int32 [finest, p]: row k - 1 numbers the points' clusters 0..k-1 at the cut into k.
    From one row to the next one cluster is split: its heavier half keeps the number, the
    lighter one gets the number k."""
    count = len(weights)
    cuts = np.zeros((finest, count), np.int32)
    for k in range(2, finest + 1):
        row = count - k  # the merge that is undone
        halves = [_points(tree, count, int(side[row])) for side in (tree.left, tree.right)]
        lighter = min(halves, key=lambda half: (weights[half].sum(), -half.min()))
        cuts[k - 1] = cuts[k - 2]
        cuts[k - 1, lighter] = k - 1
    return cuts


def _points(tree: Tree, count: int, node: int) -> np.ndarray:
    found, open_nodes = [], [node]
    while open_nodes:
        node = open_nodes.pop()
        if node < count:
            found.append(node)
        else:
            open_nodes += [int(tree.left[node - count]), int(tree.right[node - count])]
    return np.array(found)
