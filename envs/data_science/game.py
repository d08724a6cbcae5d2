"""Data science: write the code that trains a classifier, and be paid its ROC AUC.

One seat, the coder. It is told what a data set looks like and replies with Python that
defines `build_model(x_train, y_train)`, which returns a fitted scikit-learn classifier. An
attempt that fails costs 1. If it fails in its rehearsal, on made-up classes, the kind of error
is fed back; the first that does not is run on five random halves of the data (see `scoring`),
is paid by its mean ROC AUC and ends the game. Running out of attempts is how the game itself
ends, and known from the start: terminated with outcome 0.

A ROC AUC is worth 2 AUC - 1, so that a model which knows nothing is paid nothing, unless
`reward` asks for the published one.

The code is run by `sandbox`, and never without one. Few `deals` let attempts that were made
before be scored without running them again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Annotated, Any

from envs.data_science.answer import LONGEST, NoCode, code_of
from envs.data_science.players import PLAYERS, words_players_cause, words_players_say
from envs.data_science.sandbox.isolation import choose
from envs.data_science.sandbox.pool import Limits
from envs.data_science.scoring import SPLITS, Result, evaluate
from envs.data_science.tables import FILES, file_of, table_of
from envs.game import OVER, Game, Player, Step, Trial
from envs.options import one_of, words

SEAT = "coder"
FOLDER = "datasets"
REWARDS = {  # by name: what a ROC AUC is worth, and how the coder is told so
    "above_chance": (lambda auc: 2 * auc - 1, "twice that score less 1: 1 for a perfect model, 0 for a guess"),
    "auc": (lambda auc: auc, "that score"),
}


class DataScience(Game):
    name = "data_science"
    seats = (SEAT,)
    slow = True

    def __init__(
        self,
        dataset: Annotated[
            str,
            "breast_cancer, iris, wine or balance_scale; others are files that you get: see docs/games/data_science.md",
        ] = "breast_cancer",
        folder: Annotated[str, "where the files of other data sets are"] = FOLDER,
        attempts: Annotated[int, "1 to 100"] = 5,
        seconds: Annotated[
            int,
            "of a processor, for the five scored fits: the rehearsal of one may compute for a fifth of it. Whoever "
            "waits is ended by the clock, after as many seconds for each fit",
        ] = 30,
        megabytes: Annotated[int, "address space of a fit"] = 2048,
        isolation: Annotated[
            str, "auto; bubblewrap, namespaces or process: the game does not start without this one"
        ] = "auto",
        deals: Annotated[int, "sets of five splits; the seed of an episode picks one"] = 4,
        reward: Annotated[str, "above_chance: 2 AUC - 1; auc: the published one"] = "above_chance",
    ):
        for option, value, least, most in (
            ("attempts", attempts, 1, 100),
            ("seconds", seconds, 1, 3600),
            ("megabytes", megabytes, 1024, 2**20),
            ("deals", deals, 1, 10**6),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"game option {option}={value!r} must be a whole number from {least} to {most}")
        for option, value in (("dataset", dataset), ("folder", folder), ("isolation", isolation)):
            words(option, value)
        self.table = table_of(dataset, folder)
        self.limits = Limits(choose(isolation), seconds, megabytes)
        self.horizon, self.deals = attempts, deals
        self.worth, self._paid = REWARDS[one_of("reward", reward, tuple(REWARDS))]
        self._deal: int | None = None
        self._failed, self._seen = 0, ""
        self._auc: float | None = None

    def reset(self, seed: int) -> None:
        self._deal = random.Random(f"deal {seed}").randrange(self.deals)  # a string: -1 is not 1
        self._failed, self._auc = 0, None
        self._seen = self._opening()

    @property
    def seat(self) -> str | None:
        if self._deal is None or self._auc is not None or self._failed >= self.horizon:
            return None
        return SEAT

    def briefing(self, seat: str) -> str:
        return (
            "You write Python that trains a classifier with scikit-learn. Reply with code that defines "
            "build_model(x_train, y_train) at its top level and imports what it uses. x_train is a numpy array "
            "of numbers without gaps, a row for each case; y_train holds the class of each row as a whole number "
            "from 0. Return a fitted classifier that has predict_proba.\n\n"
            "Your code first runs in a rehearsal, on classes that are made up. If it fails there, that costs 1 point, "
            "and you are told the kind of error, the line, and nothing that the code says. Your first attempt that "
            f"does not fail there is run on {SPLITS} random halves of the data and scored by the mean ROC AUC on the "
            "other halves (for more than two classes, the mean over classes of one against the rest), which are given "
            f"to your classifier when build_model has ended. You are paid {self._paid}. Then the task is over, even if "
            f"that run fails, which costs 1 point. You have {self.horizon} attempts in all; each may take "
            f"{self.limits.seconds} seconds of one processor and {self.limits.megabytes} megabytes. The code can "
            "neither write files nor use a network, threads or other processes.\n\n"
            f"Reply with the code alone, plain or in one ```python block, and at most {LONGEST} characters. Example:\n"
            "def build_model(x_train, y_train):\n"
            "    from sklearn.tree import DecisionTreeClassifier\n"
            "    return DecisionTreeClassifier(max_depth=2).fit(x_train, y_train)"
        )

    def _opening(self) -> str:
        table = self.table
        counts = ", ".join(f"{name} {(table.y == number).sum()}" for number, name in enumerate(table.classes))
        return (
            f"data set {table.name}: {len(table.x)} rows, {len(table.columns)} columns, {len(table.classes)} classes. "
            f"rows of each class: {counts}. columns: {', '.join(table.columns)}. write build_model(x_train, y_train)"
        )

    def _failure(self, error: str, left: int) -> str:
        return f"the attempt failed. {error} attempts left: {left}"

    def observe(self) -> str:
        return self._seen

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError(OVER)
        try:
            result = evaluate(code_of(utterance), self.table, self._deal, self.limits)
        except NoCode as reason:
            result = Result(error=str(reason))
        self._auc = result.auc
        if result.auc is not None:
            self._seen = f"success. {result.auc:.2f}"
            caption = f"the coder's classifier for {self.table.name} has a ROC AUC of {result.auc:.4f}"
            return Step(rewards={SEAT: self.worth(result.auc)}, terminated=True, caption=caption)
        self._failed = self.horizon if result.last else self._failed + 1
        self._seen = self._failure(result.error, self.horizon - self._failed)
        caption = f"the coder's code for {self.table.name} fails: {result.error}"
        return Step(rewards={SEAT: -1.0}, executable=False, terminated=self.seat is None, caption=caption)

    def outcome(self) -> dict[str, float]:
        return {SEAT: max(0.0, self.worth(self._auc)) if self._deal is not None and self._auc is not None else 0.0}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._seen} if self._deal is not None and self.seat is None else {}

    def facts(self) -> dict[str, str]:
        if self._deal is None or self.seat is not None:
            return {}
        return {"result": "failure" if self._auc is None else f"success. {self._auc:.2f}"}

    def save(self) -> dict[str, Any]:
        return {"deal": self._deal, "failed": self._failed, "auc": self._auc, "seen": self._seen}

    def restore(self, saved: dict[str, Any]) -> None:
        self._deal, self._failed = saved["deal"], saved["failed"]
        self._auc, self._seen = saved["auc"], saved["seen"]

    def language(self) -> Iterable[str]:
        yield self._opening()
        yield from (self._failure(error, 0) for error in words_players_cause())
        yield from words_players_say()
        yield from (str(left) for left in range(self.horizon))
        yield from ("failure", "success.", *(f"{hundredths / 100:.2f}" for hundredths in range(101)))

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS

    @classmethod
    def trials(cls) -> list[Trial]:
        """The data sets that are here: they need no file, or their file is in the default folder."""
        here = ["breast_cancer", "balance_scale", *(name for name in FILES if file_of(name, FOLDER).is_file())]
        return [Trial(name, {"dataset": name}, episodes=50) for name in here]
