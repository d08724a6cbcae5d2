"""A turn in words: the game's account of it, or the utterance itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from envs.episode import Episode
from reward_service.intentions.gist import LONGEST, gist_of


def captions_of(episode: Episode, kind: str) -> list[str]:
    """One for each turn, of all seats; empty where there is nothing to say."""
    captions = []
    for turn in episode.turns:
        told = " ".join(turn.caption.split())[:LONGEST].rstrip() if kind == "game" else ""
        captions.append(told or gist_of(episode.ticket.game, turn.utterance).text)
    return captions


def repetitions(captions: Sequence[str]) -> list[int]:
    """For each turn: how often its caption has come up in the episode by now, this time included."""
    counts: Counter[str] = Counter()
    found = []
    for caption in captions:
        counts[caption] += 1
        found.append(counts[caption])
    return found
