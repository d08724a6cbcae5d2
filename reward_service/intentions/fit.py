"""Distinct utterances and their counts in, a hierarchy of clusters out.

    few:   every distinct utterance is a point of the tree, with its count as its weight
    many:  principal components -> prototypes by k-means -> the tree of the weighted prototypes

Counts matter as repetition would: de-duplication saves work and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from reward_service.intentions.clustering.clustering import CLUSTERINGS, Points, SpaceSettings
from reward_service.intentions.gist import Gist
from reward_service.intentions.prototypes import centres_of, nearest, principal_axes, project, slices
from reward_service.intentions.space import IntentionSpace, features_of

RADIUS_QUANTILE = 0.95


@dataclass(frozen=True, slots=True)
class Utterances:
    """Distinct gists, unit embeddings, and how often each was said."""

    gists: Sequence[Gist]
    embeddings: np.ndarray  # float [n, dimension]
    counts: np.ndarray  # int64 [n]

    def __post_init__(self) -> None:
        if not len(self.gists):
            raise ValueError("no utterances to fit an intention space on")
        if not len(self.gists) == len(self.embeddings) == len(self.counts):
            raise ValueError(
                f"{len(self.gists)} gists, {len(self.embeddings)} embeddings and {len(self.counts)} counts differ"
            )
        if not np.isfinite(self.embeddings).all():
            row = int(np.argmin(np.isfinite(self.embeddings).all(axis=1)))
            raise ValueError(f"the embedding of {self.gists[row].text!r} is not finite")
        if (self.counts < 1).any():
            raise ValueError("a count is below 1")


def fit_space(utterances: Utterances, settings: SpaceSettings, version: int = 1) -> IntentionSpace:
    """A space with all its cuts, ids from 0 and the finest cut in use; `SpaceSettings.choose` chooses
    the cut and `matching` carries ids over from the version before."""
    gists, counts = utterances.gists, utterances.counts
    amounts = tuple(sorted({name for gist in gists for name, _ in gist.amounts})) if settings.amount_weight else ()
    points = features_of(utterances.embeddings, gists, amounts, settings.amount_weight)
    mean, axes = np.zeros(points.shape[1], np.float32), np.zeros((points.shape[1], 0), np.float32)
    reduced = len(points) > settings.prototypes
    if reduced:
        if settings.dimensions < points.shape[1]:
            mean, axes = principal_axes(points, counts, settings.dimensions)
            points = project(points, mean, axes)
        prototypes = centres_of(points, counts, settings.prototypes, settings.rounds, settings.seed)
    else:
        prototypes = points
    index, squared = nearest(points, prototypes)
    used, index = np.unique(index, return_inverse=True)
    prototypes = prototypes[used]
    weights = np.bincount(index, counts).astype(np.int64)
    cuts, method = settings.cuts(Points(points, index, prototypes, weights)), CLUSTERINGS.name_of(settings)
    levels = tuple((cuts.max(axis=1) + 1).tolist())
    return IntentionSpace(
        version=version,
        method=method,
        levels=levels,
        k=levels[-1],
        settled=False,
        cuts=cuts,
        ids=np.tile(np.arange(levels[-1], dtype=np.int32), (len(levels), 1)),
        fresh={0 if method == "hdbscan" else level: level for level in levels},
        mean=mean,
        axes=axes,
        prototypes=prototypes,
        weights=weights,
        radius=_radius(_to_others(points, counts, prototypes, index, weights) if reduced else _apart(prototypes)),
        fitted=len(gists),
        amounts=amounts,
        amount_weight=settings.amount_weight,
        examples=_examples(gists, index, squared),
    )


def _radius(distances: np.ndarray) -> float:
    """Within it lie 95 % of the distinct utterances, each measured as if it had not been fitted on: a new utterance
    will not find itself there either."""
    return float(np.quantile(distances, RADIUS_QUANTILE)) if np.isfinite(distances).all() else 0.0


def _apart(prototypes: np.ndarray) -> np.ndarray:
    """Of utterances that are their own prototypes, to the nearest other one."""
    between = cdist(prototypes, prototypes)
    np.fill_diagonal(between, np.inf)
    return between.min(axis=1)


def _to_others(
    points: np.ndarray, counts: np.ndarray, prototypes: np.ndarray, index: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """To the nearest prototype, its own taken as the mean of the other utterances there."""
    found, others = np.empty(len(points)), weights[index] - counts
    for part in slices(len(points)):
        to = cdist(points[part], prototypes)
        own = np.take_along_axis(to, index[part, None], axis=1)[:, 0]
        np.put_along_axis(to, index[part, None], np.inf, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            without = np.where(others[part] > 0, own * weights[index[part]] / others[part], np.inf)
        found[part] = np.minimum(without, to.min(axis=1))
    return found


def _examples(gists: Sequence[Gist], index: np.ndarray, squared: np.ndarray) -> tuple[str, ...]:
    order = np.lexsort((squared, index))
    _, first = np.unique(index[order], return_index=True)
    return tuple(gists[row].text for row in order[first])
