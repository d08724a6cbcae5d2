"""How much do intentions share beyond equal wording, in the games of the contest?

    python -m benchmarks.wordings

The warm start of a tuning seed plays some batches and learns nothing. Two spaces are made of what it says: of its
embeddings, and of points anywhere (`EqualTexts`, a control of the contest). Pairs are of turns that a space gives one
intention; of those, how many have the very same wording?
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.contest import GAMES, RATES, SIZES, TUNE
from benchmarks.contestants import CANDIDATES
from benchmarks.lab.controls import anywhere
from benchmarks.lab.pages import NONE, table
from benchmarks.lab.trial import TUNING, Game, trainee_of
from benchmarks.report import quiet
from cluster.commands.command import positive
from reward_service.shapers.aria import AriaShaper

OWN_HALF = CANDIDATES[0]


def row(game: Game, batches: int) -> list[object]:
    trial = TUNE.trial(game, OWN_HALF, RATES[4], TUNING[0])
    trainee, settings = trainee_of(trial), trial.config.reward.shaper.intentions
    shapers, first = (AriaShaper(settings), AriaShaper(settings, embed=anywhere)), None
    for number in range(batches):
        episodes = trainee.play(trainee.tickets(SIZES.batch, number * SIZES.batch))
        for shaper in shapers:
            shaper.shape(episodes)
        if first is None and shapers[0].space is not None:
            first = number + 1
    if first is None:
        return [game.name, *[NONE] * 5]
    said = len(shapers[0].corpus)
    return [game.name, first, said, *(cell for shaper in shapers for cell in (shaper.space.k, equal_wording(shaper)))]


def equal_wording(shaper: AriaShaper) -> str:
    """Of the pairs of turns with one intention, the share with one wording, in percent."""
    space, utterances = shaper.space, [each for _, each in shaper.corpus.since()]
    points = np.stack([np.asarray(each.embedding, np.float32) for each in utterances])
    labels = space.labels(space.features(points, [each.gist for each in utterances]))
    turns = np.array([each.count for each in utterances], np.float64)
    by_label = np.bincount(labels - labels.min(), turns)
    return f"{100 * (turns**2).sum() / (by_label**2).sum():.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wordings", description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=positive, default=12, help="of 16 games")
    asked = parser.parse_args()
    quiet()
    head = ["game", "first space after batch", "wordings", "intentions", "pairs of one wording"]
    rows = [row(game, asked.batches) for game in GAMES]
    print(table([*head, "by points anywhere", "pairs of one wording"], rows))


if __name__ == "__main__":
    main()
