"""ONI: what the game pays, and beside it what an annotator finds helpful, asked for beside the traffic.

    episodes -> captions -> new ones -> queue -> annotator -> answers -> reward model v+1
                   |                                                        | publish
                   +------------------------- reward model v <-------------+
                                                   v
    reward of a turn = c_ext r_ext + c_int r_int(caption) / n^beta      n: its seat's n-th turn of that caption

(Online Intrinsic Rewards for Decision Making Agents from Large Language Model Feedback.) Learners never wait
for the annotator: rewards are made with the newest reward model that is published, none at first, and each
names its version. r_int, by `model`:

    retrieval        the answer itself, 0 where there is none
    classification   1 where p(helpful) > eta, else 0
    ranking          the score in deviations from its running mean, 0 where it is not above `threshold`

A refit is one round of annotation: it takes batch after batch from the queue, the newest questions first, and
trains the model after each. It ends when nothing is waiting, after `queue.batches` batches, or with a batch
of which nothing was answered - the server is away, the rest may wait for the next round. Nothing it does shows
before `publish`, so every answer of `shape` comes wholly from one version. What a round took stays pending
until it is published; a round that broke off or was overtaken leaves it so, and the next one fails it as
"lost", by the queue's rules.

The state is a function of the batches and the answers. Where batches wait for refits (`max_staleness` 0),
equal answers give equal rewards, and a restored shaper goes on as one that never stopped. Elsewhere what is
pending at a checkpoint is asked again by whoever restores it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from envs.episode import Episode
from envs.settings import GameSettings
from reward_service.frame import Frame, locked
from reward_service.intentions.corpus import Embed
from reward_service.intentions.reading import captions_of
from reward_service.shaper import ShapedRewards
from reward_service.shapers.game import GameReward
from reward_service.shapers.oni.annotator import Annotator, Failed, make_annotator
from reward_service.shapers.oni.features import Features
from reward_service.shapers.oni.labels import Comparisons, Helpfulness, KeptAnswers
from reward_service.shapers.oni.models import Answers, Running, Scorer, logistic
from reward_service.shapers.oni.queue import Question, Queue
from reward_service.shapers.oni.settings import OniSettings
from reward_service.shapers.outcome import Outcome

PARTS = ("queue", "asking", "labels", "features")  # with states of their own
PAID_BY = {"outcome": Outcome, "game": GameReward}


@dataclass(slots=True)
class Round:
    """What one round of annotation found."""

    number: int
    answers: list[tuple[Question, float]]
    failures: list[tuple[Question, Failed]]
    rows: dict[str, np.ndarray]  # of captions that were new to the model
    scorer: Scorer | None  # None: not trained
    loss: float
    updates: int  # policy updates whose gradient steps are in it


class Captioned(NamedTuple):
    """A turn of the policy. `times`: how often its seat's turns have had the caption by now."""

    place: int  # of the episode in its batch: other runs' and attempts' have the same ticket number
    seat: str
    caption: str
    times: int


class OniShaper(Frame):
    """`annotator` and `embed` are for whoever brings their own; by default they are made as the settings say."""

    name = "oni"

    def __init__(
        self, settings: OniSettings, game: GameSettings, annotator: Annotator | None = None, embed: Embed | None = None
    ):
        super().__init__()
        self.settings, self.game = settings, game
        self._annotator, self._embed = annotator, embed or self._model
        self.paid = PAID_BY[settings.extrinsic]().make(game)
        self.queue = Queue(settings.queue.backlog, settings.queue.attempts, settings.queue.rest)
        self.asking = (
            Comparisons(settings.comparisons, settings.newest) if settings.model == "ranking" else Helpfulness()
        )
        self.labels = KeptAnswers(settings.distil.kept)
        self.features = Features(self._embed)
        self.scorer: Scorer | None = None  # none: all captions are worth nothing
        self.running = Running(settings.remembered)
        self.version = 0
        self.updates = 0  # policy updates since the last that the model has made gradient steps for
        self.loss = 0.0
        self.paid_by_annotator = 0.0  # mean r_int of the last batch, before weights
        self.round = 0

    def _model(self, texts: Sequence[str]) -> np.ndarray:
        from envs.text.embedding import embed

        return embed(texts, self.settings.distil.embedding)

    @property
    def annotator(self) -> Annotator:
        """Made when it is first needed: what is wrong with it is then an error of the batch, and said."""
        if self._annotator is None:
            self._annotator = make_annotator(self.settings, self.game)
        return self._annotator

    @property
    def distils(self) -> bool:
        return self.settings.model != "retrieval"

    # Episodes in, rewards out

    def prepare(self, episode: Episode) -> None:
        """Embeds what the policy's seats did, for the embedder to remember."""
        if self.distils:
            for caption in dict.fromkeys(turn.caption for turn in self._captioned(0, episode) if turn.caption):
                self._embed([caption])

    @locked
    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]:
        self.annotator  # noqa: B018  (whatever is wrong with it is said before anything changes)
        paid = [self.paid.shape([episode]) for episode in episodes]
        turns = [turn for place, episode in enumerate(episodes) for turn in self._captioned(place, episode)]
        worth = self._worth(turns)
        self._see(turns)
        self.queue.tick()
        self.updates += 1
        for place, seats in enumerate(paid):
            for shaped in seats:
                extra = self.settings.intrinsic_weight * np.array(worth[place, shaped.seat], np.float64)
                shaped.rewards = (self.settings.extrinsic_weight * shaped.rewards + extra).astype(np.float32)
                shaped.version = self.version
        return [shaped for seats in paid for shaped in seats]

    def _captioned(self, place: int, episode: Episode) -> list[Captioned]:
        times: Counter[tuple[str, str]] = Counter()  # of each seat
        seats, found = episode.policy_seats(), []
        for turn, caption in zip(episode.turns, captions_of(episode, self.settings.caption), strict=True):
            times[turn.seat, caption] += 1
            if turn.seat in seats:
                found.append(Captioned(place, turn.seat, caption, times[turn.seat, caption]))
        return found

    def _worth(self, turns: Sequence[Captioned]) -> dict[tuple[int, str], list[float]]:
        """r_int / n^beta of each turn, by (place, policy seat)."""
        helpful = self._helpful([turn.caption for turn in turns])
        worth: dict[tuple[int, str], list[float]] = {}
        for turn, value in zip(turns, helpful, strict=True):
            worth.setdefault((turn.place, turn.seat), []).append(value / turn.times**self.settings.beta)
        self.paid_by_annotator = float(np.mean(helpful)) if helpful else 0.0
        return worth

    def _helpful(self, captions: list[str]) -> list[float]:
        """r_int of each. The running mean and deviation are those with these captions in."""
        if not self.distils:
            return [self.labels.of(caption) for caption in captions]
        scored = [caption for caption in captions if caption]
        if self.scorer is None or not scored:
            return [0.0] * len(captions)
        distinct = list(dict.fromkeys(scored))
        scores = dict(zip(distinct, self.scorer.scores(self.features.of(distinct)), strict=True))
        found = np.array([scores[caption] for caption in scored], np.float64)
        if self.settings.model == "ranking":
            self.running.add(found)
            normal = self.running.normalised(found)
            values = np.where(normal > self.settings.threshold, normal, 0.0)
        else:
            values = (logistic(found) > self.settings.eta).astype(np.float64)
        worth = iter(values.tolist())
        return [next(worth) if caption else 0.0 for caption in captions]

    def _see(self, turns: Sequence[Captioned]) -> None:
        for turn in turns:
            for question in self.asking.questions(turn.caption) if turn.caption else ():
                if question not in self.labels:
                    self.queue.see(question)

    # Rounds of annotation

    @locked
    def refit(self) -> Callable[[], Round] | None:
        self.queue.lost()
        if not self.queue.queued and not self._steps(self.queue.counts["labelled"], self.updates):
            return None
        self.round += 1
        return partial(self._annotated, self.round, list(self.labels.answers.items()), self.scorer, self.updates)

    def _steps(self, labelled: int, updates: int) -> int:
        """Gradient steps due for policy updates."""
        due = self.distils and labelled and labelled >= self.settings.distil.until
        return updates * self.settings.distil.steps_per_update if due else 0

    def _annotated(
        self, number: int, known: list[tuple[Question, float]], scorer: Scorer | None, updates: int
    ) -> Round:
        settings, answers, failures, rows, losses, before = self.settings, [], [], {}, [], scorer
        labelled = self.queue.counts["labelled"]

        def train(steps: int) -> None:
            nonlocal scorer
            taught = self._answers(known, rows)
            scorer = scorer or Scorer.fresh(taught.rows.shape[1], settings.distil)
            scorer, loss = scorer.trained(taught, steps, settings.distil)
            losses.append(loss)

        for _ in range(settings.queue.batches):
            questions = self._take(number)
            if not questions:
                break
            answered = []
            for question, verdict in zip(questions, self.annotator.annotate(questions), strict=True):
                (failures if isinstance(verdict, Failed) else answered).append((question, verdict))
            if not answered:
                break
            early = labelled < settings.distil.until
            labelled += len(answered)
            answers += answered
            known += answered
            if self.distils and early:
                train(settings.distil.steps_per_batch)
        if steps := self._steps(labelled, updates):
            train(steps)
        if self.distils and answers:
            self._answers(known, rows)  # rows of what no step was made with: they are kept, too
        trained = scorer if scorer is not before else None
        return Round(number, answers, failures, rows, trained, losses[-1] if losses else self.loss, updates)

    @locked
    def _take(self, number: int) -> list[Question]:
        """Nothing for a round that was given up for lost."""
        return self.queue.take(self.settings.queue.batch) if number == self.round else []

    def _answers(self, known: list[tuple[Question, float]], rows: dict[str, np.ndarray]) -> Answers:
        """The answers there are, each question's last; rows that had to be made are put into `rows`."""
        latest = dict(known[-self.settings.distil.kept :])
        places = {caption: place for place, caption in enumerate(dict.fromkeys(c for each in latest for c in each))}
        for caption in places:
            if caption not in self.features.rows and caption not in rows:
                rows[caption] = self.features.row(caption)
        table = np.stack([rows[caption] if caption in rows else self.features.rows[caption] for caption in places])
        asked = np.array([[places[caption] for caption in question] for question in latest], np.int64)
        return Answers(table, asked, np.array(list(latest.values()), np.float32))

    @locked
    def publish(self, result: Round) -> None:
        if result.number != self.round:
            raise ValueError(f"annotation round {result.number} was overtaken by round {self.round}")
        for question, _ in result.answers:
            self.queue.answered(question)
        for question, failed in result.failures:
            self.queue.failed(question, failed.reason)
        self.labels.add(result.answers)
        if result.answers or result.scorer:
            self.version += 1
        self.scorer, self.loss = result.scorer or self.scorer, result.loss
        self.features.keep(result.rows, self.labels.captions() if self.distils else ())
        self.updates -= result.updates

    def saved(self, result: Round) -> dict[str, Any]:
        return {
            "answers": [[list(question), verdict] for question, verdict in result.answers],
            "failed": [[list(question), failed.reason] for question, failed in result.failures],
            "captions": list(result.rows),
            "rows": np.stack(list(result.rows.values())) if result.rows else None,
            "scorer": result.scorer.state() if result.scorer else None,
            "loss": result.loss,
            "updates": result.updates,
        }

    @locked
    def result_of(self, saved: dict[str, Any]) -> Round:
        """Its questions are pending again, as they were when it was published."""
        answers = [(tuple(question), answer) for question, answer in saved["answers"]]
        failures = [(tuple(question), Failed(reason)) for question, reason in saved["failed"]]
        rows = dict(zip(saved["captions"], np.asarray(saved["rows"]), strict=True)) if saved["captions"] else {}
        scorer = Scorer.of_state(saved["scorer"]) if saved["scorer"] else None
        self.queue.claim([question for question, _ in (*answers, *failures)])
        return Round(self.round, answers, failures, rows, scorer, saved["loss"], saved["updates"])

    # What is logged and saved

    def measured(self) -> dict[str, float]:
        found = self.queue.metrics() | {
            "version": float(self.version),
            "answers": float(len(self.labels)),
            "helpful": self.paid_by_annotator,
        }
        if self.distils:
            found |= {"loss": self.loss, "gradient_steps": float(self.scorer.steps if self.scorer else 0)}
        if self.settings.model == "ranking":
            found |= {"score_mean": self.running.mean, "score_deviation": float(np.sqrt(self.running.variance))}
        return found if self._annotator is None else found | self._annotator.metrics()

    @locked
    def frozen(self) -> Callable[[], dict[str, Any]]:
        parts = {name: _copied(getattr(self, name)) for name in PARTS}
        scorer = self.scorer
        plain = {
            "model": self.settings.model,
            "version": self.version,
            "updates": self.updates,
            "loss": self.loss,
            "helpful": self.paid_by_annotator,
            "running": [self.running.count, self.running.mean, self.running.variance],
        }

        def made() -> dict[str, Any]:
            large = {name: part.state() for name, part in parts.items()}
            return plain | large | {"scorer": scorer.state() if scorer else None}

        return made

    @locked
    def restore(self, state: dict[str, Any]) -> None:
        if state["model"] != self.settings.model:
            raise ValueError(f"the state is of reward.shaper.model={state['model']}, not of {self.settings.model}")
        self.round += 1  # whatever is under way is of another state
        self.version, self.updates, self.loss = state["version"], state["updates"], state["loss"]
        self.paid_by_annotator = state["helpful"]
        for name in PARTS:
            getattr(self, name).restore(state[name])
        self.scorer = Scorer.of_state(state["scorer"]) if state["scorer"] else None
        self.running = Running(self.settings.remembered, *state["running"])


def _copied(part: Any) -> Any:
    """With dictionaries of its own; what they hold is never changed in place."""
    other = copy(part)
    vars(other).update({name: value.copy() for name, value in vars(part).items() if isinstance(value, dict)})
    return other
