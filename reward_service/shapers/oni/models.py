"""The distilled reward model: an MLP with one hidden layer that gives each caption's embedding a score.

    score(x) = w2 . relu(W1 x + b1) + b2
    helpfulness   loss  -y log s(score) - (1-y) log(1 - s(score)),   p(helpful) = s(score)
    comparison    the same with score(first) - score(second): Bradley-Terry, a tie is y = .5

where s is the logistic function. Training never changes a Scorer, it returns the next one, so that it
can go on in a thread while this one answers. Weights, Adam's moments and the number of steps are all
there is: minibatches are drawn from the seed and the step's number, so a restored Scorer learns on as
the saved one would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reward_service.shapers.oni.settings import DistilSettings

DECAY_1, DECAY_2, SMALLEST = 0.9, 0.999, 1e-8  # Adam's usual ones

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """Row numbers into `rows`, [answers, 1] or [answers, 2], and what was answered."""

    rows: np.ndarray  # float16 [captions, dimension]
    asked: np.ndarray  # int64 [answers, captions of a question]
    said: np.ndarray  # float32 [answers], in [0, 1]


@dataclass(frozen=True, slots=True)
class Scorer:
    weights: Arrays  # W1 [dimension, hidden], b1 [hidden], w2 [hidden], b2 [1]; float32
    means: Arrays  # Adam's, of the gradient
    squares: Arrays  # and of its square
    steps: int = 0

    @classmethod
    def fresh(cls, dimension: int, settings: DistilSettings) -> Scorer:
        rng = np.random.default_rng([settings.seed, dimension])
        shapes = (dimension, settings.hidden), (settings.hidden,), (settings.hidden,), (1,)
        scales = np.sqrt(2 / dimension), 0.0, np.sqrt(1 / settings.hidden), 0.0
        weights = tuple(
            (rng.standard_normal(shape) * scale).astype(np.float32) for shape, scale in zip(shapes, scales, strict=True)
        )
        zeros = tuple(np.zeros_like(weight) for weight in weights)
        return cls(weights, zeros, zeros)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """float32 [rows]."""
        return self._forward(rows.astype(np.float32))[1]

    def _forward(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w1, b1, w2, b2 = self.weights
        hidden = np.maximum(rows @ w1 + b1, 0)
        return hidden, hidden @ w2 + b2

    def loss_and_gradient(self, answers: Answers, chosen: np.ndarray) -> tuple[float, Arrays]:
        """Over the answers of these numbers."""
        asked, said = answers.asked[chosen], answers.said[chosen]
        rows = answers.rows[asked.T.ravel()].astype(np.float32)  # all first captions, then all second ones
        hidden, scores = self._forward(rows)
        signs = np.array([1, -1], np.float32)[: asked.shape[1], None]
        logits = (scores.reshape(asked.shape[1], -1) * signs).sum(0)
        loss = np.mean(np.logaddexp(0, logits) - said * logits)
        of_scores = (signs * ((logistic(logits) - said) / len(said))).ravel().astype(np.float32)
        of_hidden = np.outer(of_scores, self.weights[2]) * (hidden > 0)
        return float(loss), (rows.T @ of_hidden, of_hidden.sum(0), hidden.T @ of_scores, of_scores.sum(keepdims=True))

    def trained(self, answers: Answers, steps: int, settings: DistilSettings) -> tuple[Scorer, float]:
        """After so many steps, and the mean loss on the way."""
        scorer, losses = self, []
        for _ in range(steps):
            rng = np.random.default_rng([settings.seed, scorer.steps])
            count = len(answers.said)
            chosen = rng.choice(count, min(count, settings.minibatch), replace=False)
            loss, gradient = scorer.loss_and_gradient(answers, chosen)
            scorer = scorer._stepped(gradient, settings.learning_rate)
            losses.append(loss)
        return scorer, float(np.mean(losses)) if losses else 0.0

    def _stepped(self, gradient: Arrays, learning_rate: float) -> Scorer:
        step = self.steps + 1
        rate = learning_rate * np.sqrt(1 - DECAY_2**step) / (1 - DECAY_1**step)
        means = tuple(_decayed(m, g, DECAY_1) for m, g in zip(self.means, gradient, strict=True))
        squares = tuple(_decayed(v, g * g, DECAY_2) for v, g in zip(self.squares, gradient, strict=True))
        weights = tuple(
            (w - rate * m / (np.sqrt(v) + SMALLEST)).astype(np.float32)
            for w, m, v in zip(self.weights, means, squares, strict=True)
        )
        return Scorer(weights, means, squares, step)

    def state(self) -> dict[str, Any]:
        return {
            "weights": list(self.weights),
            "means": list(self.means),
            "squares": list(self.squares),
            "steps": self.steps,
        }

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Scorer:
        arrays = [tuple(np.asarray(each) for each in state[name]) for name in ("weights", "means", "squares")]
        return cls(*arrays, state["steps"])


def logistic(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(values, -60, 60)))


def _decayed(old: np.ndarray, new: np.ndarray, decay: float) -> np.ndarray:
    return (decay * old + (1 - decay) * new).astype(np.float32)


@dataclass(slots=True)
class Running:
    """Mean and variance of a stream (Chan's parallel form). What lies more than `remembered` values back
    fades, because scores of an older model are of another scale."""

    remembered: int
    count: float = 0.0
    mean: float = 0.0
    variance: float = 0.0

    def add(self, values: Sequence[float] | np.ndarray) -> None:
        new = np.asarray(values, np.float64)
        if not len(new):
            return
        before = min(self.count, max(0, self.remembered - len(new)))
        total = before + len(new)
        gap = float(new.mean()) - self.mean
        spread = self.variance * before + float(new.var()) * len(new) + gap * gap * before * len(new) / total
        self.mean += gap * len(new) / total
        self.count, self.variance = total, spread / total

    def normalised(self, values: np.ndarray) -> np.ndarray:
        """In deviations from the mean; 0 while all were equal."""
        deviation = float(np.sqrt(self.variance))
        return (np.asarray(values, np.float64) - self.mean) / deviation if deviation > 1e-6 else np.zeros(len(values))
