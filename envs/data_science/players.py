"""Scripted coders of stated strength.

    expert     one good model for each data set, at the first attempt
    mediocre   mostly makes one of six mistakes: the one the embedded policy is cloned from
    random     puts a program together from pieces without knowing which go together

Their programs are one line of words between single spaces, so that a policy of words can say
them. Every mistake is one that Python or scikit-learn names in words known beforehand: see
`words_players_cause`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from envs.data_science.claims import NO_MODEL

HEAD = "def build_model(x_train, y_train):"
FIT, LOST, UNFITTED = "return model.fit(x_train, y_train)", "model.fit(x_train, y_train)", "return model"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A classifier, where it is found, and arguments that it takes."""

    name: str
    module: str
    arguments: tuple[str, ...]


RECIPES = (
    Recipe("DecisionTreeClassifier", "tree", ("max_depth=1", "max_depth=4")),
    Recipe("DummyClassifier", "dummy", ("",)),
    Recipe("GaussianNB", "naive_bayes", ("",)),
    Recipe("KNeighborsClassifier", "neighbors", ("n_neighbors=1", "n_neighbors=15")),
    Recipe("LinearDiscriminantAnalysis", "discriminant_analysis", ("",)),
    Recipe("LogisticRegression", "linear_model", ("C=0.01", "C=1.0")),
    Recipe("RandomForestClassifier", "ensemble", ("n_estimators=10", "max_depth=4")),
)
MODULES = tuple(recipe.module for recipe in RECIPES)
ARGUMENTS = tuple(sorted({argument for recipe in RECIPES for argument in recipe.arguments}))
UNKNOWN_ARGUMENT = "depth=3"  # no classifier takes it

BOOSTED = (
    f"{HEAD} from sklearn.ensemble import HistGradientBoostingClassifier ; "
    "model = HistGradientBoostingClassifier( learning_rate=0.05 ) ; return model.fit(x_train, y_train)"
)
SCALED = (
    f"{HEAD} from sklearn.pipeline import make_pipeline ; from sklearn.preprocessing import StandardScaler ; "
    "from sklearn.linear_model import LogisticRegression ; "
    "model = make_pipeline( StandardScaler(), LogisticRegression( C=0.3 ) ) ; return model.fit(x_train, y_train)"
)
NETWORK = (
    f"{HEAD} from sklearn.neural_network import MLPClassifier ; "
    "model = MLPClassifier( solver='lbfgs', max_iter=2000 ) ; return model.fit(x_train, y_train)"
)
BEST = {
    "balance_scale": NETWORK,
    "breast_cancer": SCALED,
    "breast_w": SCALED,
    "iris": f"{HEAD} from sklearn.discriminant_analysis import LinearDiscriminantAnalysis ; "
    "model = LinearDiscriminantAnalysis( ) ; return model.fit(x_train, y_train)",
    "wine": SCALED,
}  # every other data set: BOOSTED


def program(module: str, name: str, argument: str, ending: str = FIT) -> str:
    text = f"{HEAD} from sklearn.{module} import {name} ; model = {name}( {argument} ) ; {ending}"
    return " ".join(text.split())


def unimported(name: str, argument: str) -> str:
    return " ".join(f"{HEAD} model = {name}( {argument} ) ; {FIT}".split())


def unclosed(module: str, name: str) -> str:
    return f"{HEAD} from sklearn.{module} import {name} ; model = {name}("


def words_players_say() -> Iterator[str]:
    yield from (BOOSTED, *BEST.values())
    for recipe in RECIPES:
        for argument in (*ARGUMENTS, UNKNOWN_ARGUMENT):
            for ending in (FIT, LOST, UNFITTED):
                yield program(recipe.module, recipe.name, argument, ending)


def words_players_cause() -> Iterator[str]:
    """The error texts of their mistakes, as they are fed back."""
    yield "SyntaxError: '(' was never closed (line 1)"
    yield NO_MODEL
    yield "NotFittedError"
    yield from (f"{error} (line 1)" for error in ("ImportError", "NameError", "TypeError"))


class Coder:
    """Sees the observations only; the game's options change nothing for it."""

    def __init__(self, **options):
        pass

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"coder {seed}")
        self.data_set = ""

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        if observation.startswith("data set "):
            self.data_set = observation.split()[2].rstrip(":")
        return self.write()

    def write(self) -> str:
        raise NotImplementedError


class Expert(Coder):
    """Near-optimal: mean outcome 0.988 on breast_cancer and 0.931 on balance_scale, in one attempt each."""

    def write(self) -> str:
        return BEST.get(self.data_set, BOOSTED)


class Mediocre(Coder):
    """Knows what a program looks like, and gets one in twelve right, with any model: about a third
    of its episodes end with a score. Mean outcome 0.28 on breast_cancer, 0.18 on balance_scale."""

    habits: ClassVar[dict[str, int]] = {
        "right": 8, "module": 22, "argument": 20, "unimported": 15, "unfitted": 15, "lost": 10, "unclosed": 10
    }  # fmt: skip

    def write(self) -> str:
        recipe = self.random.choice(RECIPES)
        argument = self.random.choice(recipe.arguments)
        match self.random.choices(list(self.habits), list(self.habits.values()))[0]:
            case "module":
                other = MODULES[(MODULES.index(recipe.module) + 1) % len(MODULES)]
                return program(other, recipe.name, argument)
            case "argument":
                return program(recipe.module, recipe.name, UNKNOWN_ARGUMENT)
            case "unimported":
                return unimported(recipe.name, argument)
            case "unfitted":
                return program(recipe.module, recipe.name, argument, UNFITTED)
            case "lost":
                return program(recipe.module, recipe.name, argument, LOST)
            case "unclosed":
                return unclosed(recipe.module, recipe.name)
        return program(recipe.module, recipe.name, argument)


class Random(Coder):
    """One episode in twenty ends with a score. Mean outcome 0.05 on breast_cancer, 0.03 on balance_scale."""

    def write(self) -> str:
        pick = self.random.choice
        ending = pick((FIT, LOST, UNFITTED))
        return program(pick(MODULES), pick(RECIPES).name, pick((*ARGUMENTS, UNKNOWN_ARGUMENT)), ending)


PLAYERS: dict[str, type[Coder]] = {"expert": Expert, "mediocre": Mediocre, "random": Random}
