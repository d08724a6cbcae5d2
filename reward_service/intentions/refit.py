"""The next version, fitted on the window as one snapshot shows it.

    snapshot -> utterances, counted -> space, with the ids of the one before, k -> version
                                       (fit: may go on in another process)

A snapshot holds what does not change any more, so all this goes on beside the traffic, which goes first (`threads`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from reward_service.intentions.clustering.clustering import SpaceSettings
from reward_service.intentions.corpus import Utterance, stacked
from reward_service.intentions.fit import Utterances, fit_space
from reward_service.intentions.granularity.granularity import Played
from reward_service.intentions.matching import UNCHANGED, Change, compare, keep_ids
from reward_service.intentions.settings import IntentionSettings
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.trajectory import CodedGame, codes_of
from reward_service.intentions.turns import Turns
from reward_service.intentions.version import Version
from reward_service.intentions.window import WindowEpisode, centre_of

EPISODES = 256  # entered at once


class Snapshot(NamedTuple):
    space: IntentionSpace | None  # in use
    utterances: list[tuple[int, Utterance]]  # by code
    episodes: list[WindowEpisode]
    first: int  # number of the oldest one


class Fitted(NamedTuple):
    space: IntentionSpace
    change: Change  # since the space before


Fit = Callable[[IntentionSpace | None, Utterances, Turns, SpaceSettings], Fitted]


def fit(old: IntentionSpace | None, utterances: Utterances, turns: Turns, settings: SpaceSettings) -> Fitted:
    """`turns`: those of the window, with places in `utterances` for codes."""
    new = fit_space(utterances, settings, version=old.version + 1 if old else 1)
    prototype, _ = new.nearest(new.features(utterances.embeddings, utterances.gists))
    if old is not None:
        before, _ = old.nearest(old.features(utterances.embeddings, utterances.gists))
        new = keep_ids(old, new, before, prototype, utterances.counts, settings.keep)
    new = settings.choose(new, Played(turns, new.levels, new.cuts[:, prototype]))
    if old is None:
        return Fitted(new, UNCHANGED)
    return Fitted(new, compare(old.names(old.k)[before], new.names(new.k)[prototype], utterances.counts))


def next_version(snapshot: Snapshot, settings: IntentionSettings, fit: Fit = fit) -> Version:
    trajectories = [trajectory for played in snapshot.episodes for trajectory in played.trajectories]
    codes, utterances = _counted(snapshot.utterances, [played.trajectories for played in snapshot.episodes])
    turns = Turns.of(_renumbered(trajectories, codes), settings.aggregate.gamma)
    space, change = fit(snapshot.space, utterances, turns, settings.space)
    centre = centre_of(trajectories, settings.aggregate.gamma) if settings.aggregate.pooling.by_evidence else None
    version = Version(settings.aggregate, space, snapshot.first, centre)
    version.change = change
    version.place(snapshot.utterances)
    for start in range(0, len(snapshot.episodes), EPISODES):
        version.window.add([played[:2] for played in snapshot.episodes[start : start + EPISODES]])
    return version


def _counted(
    found: Sequence[tuple[int, Utterance]], episodes: Sequence[Sequence[CodedGame]]
) -> tuple[list[int], Utterances]:
    """What was said in them, with codes, in an order that does not depend on who came first."""
    said = chain.from_iterable(map(codes_of, episodes))
    codes, counts = np.unique(np.fromiter(said, np.int64), return_counts=True)
    count = dict(zip(codes.tolist(), counts.tolist(), strict=True))
    chosen = sorted(((code, each) for code, each in found if code in count), key=lambda entry: tuple(entry[1].gist))
    return [code for code, _ in chosen], Utterances(
        gists=[each.gist for _, each in chosen],
        embeddings=stacked([each.embedding for _, each in chosen]).astype(np.float32),
        counts=np.array([count[code] for code, _ in chosen], np.int64),
    )


def _renumbered(trajectories: Sequence[CodedGame], codes: Sequence[int]) -> list[CodedGame]:
    """With places in `codes` instead of codes; fixed labels stay."""
    place = {code: number for number, code in enumerate(codes)}
    return [
        trajectory._replace(
            actions=tuple(place[code] for code in trajectory.actions),
            observations=tuple(place.get(code, code) for code in trajectory.observations),
        )
        for trajectory in trajectories
    ]
