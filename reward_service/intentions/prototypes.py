"""Many points reduced to few that stand for them: principal components, then seeded k-means.

Everything is weighted by counts and goes over the points in slices, so that memory beyond the
points themselves stays in the tens of megabytes and time is linear in their number.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

SLICE = 8192  # points at once
DOUBT = 1e-5  # more than 32-bit products of such lengths err by, of the squares of the lengths
GRID = 2.0**20  # steps to 1 of what is projected
SEEDINGS = 8  # batches in which the first centres are drawn


def slices(count: int) -> Iterator[slice]:
    for start in range(0, count, SLICE):
        yield slice(start, start + SLICE)


def principal_axes(points: np.ndarray, counts: np.ndarray, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean [d] and orthonormal axes [d, dimensions], most variance first."""
    share = counts / counts.sum()
    mean = np.zeros(points.shape[1])
    for part in slices(len(points)):
        mean += share[part] @ points[part]
    covariance = np.zeros((len(mean), len(mean)))
    for part in slices(len(points)):
        centred = (points[part] - mean) * np.sqrt(share[part])[:, None]
        covariance += centred.T @ centred
    _, axes = np.linalg.eigh(covariance)
    axes = axes[:, ::-1][:, :dimensions]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])  # a sign of its own
    return mean.astype(np.float32), axes.astype(np.float32)


def project(points: np.ndarray, mean: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """float32 [n, dimensions], of each point the same whatever others it comes with: products of whole numbers add
    up exactly, in whatever order, while rows are not longer than some thousands."""
    grid = np.rint(axes.astype(np.float64) * GRID)
    found = np.empty((len(points), axes.shape[1]), np.float32)
    for part in slices(len(points)):
        found[part] = np.rint(points[part].astype(np.float64) * GRID) @ grid / GRID**2
    return found - mean @ axes


def nearest(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index of the nearest centre, and the squared distance to it."""
    index, squared = np.empty(len(points), np.int64), np.empty(len(points), np.float32)
    length = np.einsum("ij,ij->i", centres, centres)
    for part in slices(len(points)):
        given = points[part]
        beyond = given @ (-2 * centres.T)
        beyond += length
        index[part] = beyond.argmin(axis=1)
        closest = np.take_along_axis(beyond, index[part, None], axis=1)[:, 0]
        squared[part] = closest + np.einsum("ij,ij->i", given, given)
    return index, np.maximum(squared, 0, out=squared)


def surely_nearest(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of each point, whatever other points it comes with: matrix products round differently
    with the number of rows, so what they leave in doubt is decided point by point. Of equally near
    centres the first."""
    index, squared = np.empty(len(points), np.int64), np.empty(len(points), np.float32)
    length = np.einsum("ij,ij->i", centres, centres)
    for part in slices(len(points)):
        given = points[part]
        beyond = given @ (-2 * centres.T)
        beyond += length
        found = beyond.argmin(axis=1)
        doubt = DOUBT * (length.max() + np.einsum("ij,ij->i", given, given))
        near = beyond <= (np.take_along_axis(beyond, found[:, None], axis=1)[:, 0] + doubt)[:, None]
        doubtful = np.flatnonzero(np.count_nonzero(near, axis=1) > 1)
        row, centre = np.nonzero(near[doubtful])
        exact = np.square(given[doubtful[row]].astype(np.float64) - centres[centre]).sum(axis=1)
        order = np.lexsort((centre, exact, row))
        first = order[np.searchsorted(row[order], np.arange(len(doubtful)))]
        found[doubtful] = centre[first]
        index[part] = found
        squared[part] = np.square(given - centres[found]).sum(axis=1)
    return index, squared


def centres_of(points: np.ndarray, counts: np.ndarray, wanted: int, rounds: int, seed: int) -> np.ndarray:
    """At most `wanted` centres, float32; fewer if there are no more distinct points."""
    centres = _seeds(points, counts, wanted, np.random.default_rng(seed))
    before = None
    for _ in range(rounds):
        index, _ = nearest(points, centres)
        if before is not None and np.array_equal(index, before):
            break
        centres = _means(points, counts, index)
        before = index
    return centres


def _seeds(points: np.ndarray, counts: np.ndarray, wanted: int, random: np.random.Generator) -> np.ndarray:
    """Drawn by count times squared distance to the nearest drawn so far, in batches: what is rare
    but far off gets a centre."""
    chosen = [random.choice(len(points), 1, p=counts / counts.sum())]
    _, squared = nearest(points, points[chosen[0]])
    while (missing := wanted - sum(map(len, chosen))) > 0:
        chance = counts * squared.astype(np.float64)
        chance[np.concatenate(chosen)] = 0
        able = int(np.count_nonzero(chance))
        if not able:
            break
        drawn = random.choice(
            len(points), min(missing, max(wanted // SEEDINGS, 1), able), replace=False, p=chance / chance.sum()
        )
        chosen.append(drawn)
        squared = np.minimum(squared, nearest(points, points[drawn])[1])
    return points[np.sort(np.concatenate(chosen))]


def _means(points: np.ndarray, counts: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Weighted mean of each index that occurs, in the order of the indices."""
    order = np.argsort(index, kind="stable")
    present, starts = np.unique(index[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    means = np.empty((len(present), points.shape[1]), np.float32)
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        members = order[start:end]
        weight = counts[members]
        means[row] = weight @ points[members] / weight.sum()
    return means
