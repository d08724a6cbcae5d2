"""The intentions of a run as a map: one point for each distinct utterance of the policy.

    newest checkpoint -> space, utterances, window of games -> where each utterance lies,
    what it means, how often it was said, and what its turns were worth on average

What a turn is worth here is ARIA's aggregated reward: the mean return of all turns in the
window that mean the same in the same situation, without pooling or baseline. Neighbours on
the map are neighbours in meaning (t-SNE on embeddings and amounts); its axes have no unit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cluster.report.figures import short, shorts
from cluster.report.games import credits_of
from reward_service.intentions.corpus import Embed, gists_of
from reward_service.intentions.gist import Gist, gist_of
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.stored import unpacked
from reward_service.intentions.trajectory import CodedGame
from reward_service.intentions.turns import Turns

MOST_POINTS = 5_000  # on the maps of a page
EXEMPLARS = 4  # utterances shown of an intention
LONGEST = 240  # characters shown of an utterance
BINS = 40  # of the updates, for an intention's share of play
FULL_COLOUR = (0.01, 0.99)  # quantiles of the turns at the two ends of the colours
PERPLEXITY = 20  # neighbours that t-SNE looks at
SEED = 0


@dataclass(frozen=True, slots=True)
class Meanings:
    """The newest space, and what the window's games said in it."""

    space: IntentionSpace
    gists: list[Gist]
    features: np.ndarray  # float32 [gists, dimension]
    labels: np.ndarray  # int32 [gists]
    games: list[CodedGame]  # one for each seat of the policy
    episodes: int

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Meanings | None:
        """None while there is no space yet."""
        if not state["space"] or not state["gists"]:
            return None
        space = IntentionSpace.of_state(state["space"])
        gists = gists_of(state["gists"])
        features = space.features(unpacked(state["embeddings"]).astype(np.float32), gists)
        games = [CodedGame.of_plain(*each) for _, played in state["window"] for each in played]
        return cls(space, gists, features, space.labels(features), games, len(state["window"]))

    def of_samples(self, samples: Iterable[Mapping[str, Any]], embed: Embed) -> dict[Gist, int]:
        """The intention, in this space, of everything that the policy said in the samples. `embed`:
        texts to unit rows; it is asked only for what the window does not know."""
        known = dict(zip(self.gists, self.labels.tolist(), strict=True))
        said = dict.fromkeys(
            gist_of(each["game"], turn["said"]) for each in samples for turn in each["turns"] if "credit" in turn
        )
        new = [gist for gist in said if gist not in known]
        if new:
            rows = self.space.features(embed([gist.text for gist in new]), new)
            known |= zip(new, self.space.labels(rows).tolist(), strict=True)
        return known


def worth_of_turns(games: Sequence[CodedGame], labels: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """Of each turn: the code of its utterance, and its aggregated reward."""
    turns = Turns.of(games, gamma)
    return turns.said, turns.group_means(labels)


def intention_map(meanings: Meanings, gamma: float, room: int = MOST_POINTS) -> dict[str, Any]:
    """`room`: for so many points; the utterances said most have it."""
    said, worth = worth_of_turns(meanings.games, meanings.labels, gamma)
    players = sorted({game.player for game in meanings.games})
    by = np.zeros((len(players), len(meanings.gists)), bool)
    for game in meanings.games:
        by[players.index(game.player), list(game.actions)] = True
    size = len(meanings.gists)
    count = np.bincount(said, minlength=size)
    each = np.bincount(said, worth, minlength=size) / np.maximum(count, 1)  # utterance's, on average
    low, high = np.quantile(each[said], FULL_COLOUR)
    spoken = np.flatnonzero(count)
    shown = spoken[np.argsort(-count[spoken], kind="stable")][:room]
    places = layout(meanings.features[shown], count[shown])
    return {
        "version": meanings.space.version,
        "k": meanings.space.k,
        "games": meanings.episodes,
        "turns": int(count.sum()),
        "distinct": len(spoken),
        "mean": short(float(worth.mean())),
        "low": short(float(low)),
        "high": short(float(high)),
        "players": [f"{game}: {seat}" for game, seat in players],
        "points": {
            "x": shorts(places[:, 0].tolist()),
            "y": shorts(places[:, 1].tolist()),
            "text": [meanings.gists[code].text[:LONGEST] for code in shown],
            "count": count[shown].tolist(),
            "worth": shorts(each[shown].tolist()),
            "intention": meanings.labels[shown].tolist(),
            "players": [np.flatnonzero(by[:, code]).tolist() for code in shown],
        },
        "intentions": _ranked(meanings, count, each),
    }


def _ranked(meanings: Meanings, count: np.ndarray, worth: np.ndarray) -> list[dict[str, Any]]:
    """Best first."""
    found = []
    for intention in np.unique(meanings.labels[count > 0]):
        members = np.flatnonzero((meanings.labels == intention) & (count > 0))
        members = members[np.argsort(-count[members], kind="stable")]
        turns = int(count[members].sum())
        found.append(
            {
                "id": int(intention),
                "turns": turns,
                "share": short(turns / int(count.sum())),
                "distinct": len(members),
                "worth": short(float(np.average(worth[members], weights=count[members]))),
                "exemplars": [
                    {"text": meanings.gists[code].text[:LONGEST], "count": int(count[code])}
                    for code in members[:EXEMPLARS]
                ],
            }
        )
    return sorted(found, key=lambda each: -each["worth"])


def layout(features: np.ndarray, count: np.ndarray) -> np.ndarray:
    """float [n, 2] within [0, 1]; the same for the same input."""
    middle = np.average(features, axis=0, weights=count)
    _, _, axes = np.linalg.svd((features - middle) * np.sqrt(count)[:, None], full_matrices=False)
    reduced = (features - middle) @ axes[:50].T
    flat = np.zeros((len(features), 2))
    flat[:, : reduced.shape[1]] = reduced[:, :2]
    if len(features) > 10:
        from sklearn.manifold import TSNE

        perplexity = min(PERPLEXITY, (len(features) - 1) / 3)
        start = flat / max(flat[:, 0].std(), 1e-9) * 1e-4
        flat = TSNE(perplexity=perplexity, init=start, random_state=SEED).fit_transform(reduced)
    low, high = flat.min(axis=0), flat.max(axis=0)
    return (flat - low) / np.where(high > low, high - low, 1.0)


def share_of_play(
    samples: Sequence[Mapping[str, Any]], labels: Mapping[Gist, int], gamma: float
) -> dict[str, Any] | None:
    """Of the policy's sampled turns, the share of each intention and its mean credit, in bins of updates."""
    if not samples:
        return None
    updates = sorted({each["update"] for each in samples})
    bins = np.array_split(np.array(updates), min(BINS, len(updates)))
    where = {int(update): number for number, part in enumerate(bins) for update in part}
    turns: list[Counter[int]] = [Counter() for _ in bins]
    credit: dict[int, list[float]] = defaultdict(lambda: [0.0] * len(bins))
    for each, credits in zip(samples, credits_of(samples, gamma), strict=True):
        for turn, value in zip(each["turns"], credits, strict=True):
            if value is not None:
                intention = labels[gist_of(each["game"], turn["said"])]
                turns[where[each["update"]]][intention] += 1
                credit[intention][where[each["update"]]] += value
    return {
        "updates": [float(part.mean()) for part in bins],
        "turns": [found.total() for found in turns],
        "shares": {
            str(intention): shorts([found[intention] / max(1, found.total()) for found in turns])
            for intention in sorted(credit)
        },
        "credit": {
            str(intention): shorts(
                [
                    total / found[intention] if found[intention] else None
                    for total, found in zip(credit[intention], turns, strict=True)
                ]
            )
            for intention in sorted(credit)
        },
    }
