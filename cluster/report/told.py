"""What is told of one run, in a report and live: its figures, what it meant, and how its games went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cluster.errors import RunFolderError
from cluster.report.figures import curves, headline, pooling, settings
from cluster.report.intentions import Meanings, intention_map, share_of_play
from cluster.report.reading import Run
from reward_service.intentions.gist import Gist

MANY = 1_000  # utterances take a while

Labels = Mapping[Gist, int] | None


def figures(run: Run) -> dict[str, Any]:
    """All that its metrics and settings say."""
    return {
        "name": run.name,
        "game": run.config.game.name,
        "settings": settings(run),
        "headline": headline(run),
        "curves": curves(run),
        "pooling": pooling(run),
    }


def meaning(run: Run, room: int, say: Callable[[str], None]) -> tuple[dict[str, Any], Labels]:
    """The map of its intentions, with `room` for so many points, and how play moved; and the intention of everything
    that the policy said in its sampled games."""

    def embed(texts: Sequence[str]) -> np.ndarray:
        from reward_service.shapers.aria import AriaShaper

        say(f"{run.name}: embedding {len(texts)} utterances that are not in its newest checkpoint")
        try:
            return AriaShaper(run.config.reward.shaper.intentions).embedder.embed(texts)
        except (ValueError, RuntimeError, OSError) as error:
            raise RunFolderError(f"{run.name}: {error}") from error

    meanings = Meanings.of_state(run.intentions) if run.intentions else None
    if meanings is None:
        return {"map": None, "play": None, "missing": _missing(run)}, None
    if len(meanings.gists) > MANY:
        say(f"{run.name}: placing {len(meanings.gists):,} utterances on the map")
    labels = meanings.of_samples(run.samples, embed)
    mapped = intention_map(meanings, run.config.reward.shaper.intentions.aggregate.gamma, room)
    play = share_of_play(run.samples, labels, run.config.learner.credit.gamma)
    return {"map": mapped, "play": play, "missing": None}, labels


def _missing(run: Run) -> str:
    """What would add the intentions that are not there."""
    if hasattr(run.config.reward.shaper, "intentions"):
        first = run.config.reward.shaper.intentions.first_fit
        return (
            "No space of intentions in the newest checkpoint yet: it is made after "
            f"reward.shaper.intentions.first_fit={first} utterances."
        )
    return "A run with reward.shaper=aria adds a map of what its utterances meant and were worth."
