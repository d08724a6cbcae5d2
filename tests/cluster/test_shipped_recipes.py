"""The recipes of the house: few, each folder with a subject of its own, and old names that say what to write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.errors import ConfigError
from cluster.recipe.packaged import recipe_file
from cluster.recipe.reading import load_recipe, read_recipe
from cluster.recipe.renamed import GONE, WHOLE_ONCE
from learners.credit.method import CREDIT
from tests.support.worlds import needs

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "recipes"
EVERY = sorted(FOLDER.rglob("*.yaml"))
GAMES = [FOLDER / "demo.yaml", *sorted((FOLDER / "games").glob("*.yaml"))]
MAY_SAY = {  # what the layers of a folder are about
    "losses": ("learner.",),
    "credit": ("learner.", "group_size", "max_staleness", "rollout.choose_listed", "rollout.choice_length"),
    "shapers": ("reward.", "learner.credit.", "learner.loss.", "learner.epochs", "learner.minibatches"),
    "gpu": ("updates", "batch_episodes", "model.path", "rollout.", "learner.", "evaluation.every"),
}
LAYERS = [path for path in EVERY if path.parent.name in MAY_SAY]
WORLDS = {path: pytest.param(path, marks=needs(path.stem)) for path in EVERY if path.parent.name == "worlds"}
LISTED = ("case_study", "overcooked", "virtualhome", "parrot")
RULED = ("demo", "overcooked", "twenty_questions_full", "virtualhome")


def said(tree: dict, prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from said(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def refused(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe(path, overrides)
    assert "\n" not in (line := str(caught.value))
    return line


def test_a_recipe_is_found_by_its_name_anywhere_after_the_files_that_are_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in EVERY:
        below = path.relative_to(FOLDER)
        for words in (path.stem, str(below.with_suffix("")), f"recipes/{below}"):
            assert recipe_file(words) == path, words
    assert load_recipe("demo", ["poad", "rollout.workers=2"]) == load_recipe(
        FOLDER / "demo.yaml", [str(FOLDER / "credit/poad.yaml"), "rollout.workers=2"]
    )
    assert refused("demoo").endswith("recipe 'demoo' does not exist; did you mean demo?")
    assert (
        refused("demo", "poat")
        == "command line: 'poat' is neither key=value (for example rollout.workers=2) nor a recipe"
    )
    Path("demo").write_text("updates: 7")
    assert load_recipe("demo").updates == 7


def test_there_are_few():
    assert 1 < len(EVERY) - len(WORLDS) <= 31


@pytest.mark.parametrize(
    "path", [WORLDS.get(path, path) for path in EVERY if path not in LAYERS], ids=lambda path: path.stem
)
def test_a_recipe_stands_alone_and_has_a_name_of_its_own(path):
    names = {"tiny_bargaining": "tiny-bargaining", "llama_8b": "llama-8b"}
    assert load_recipe(path).name == names.get(path.stem, path.stem)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda path: path.stem)
def test_a_layer_says_only_what_its_folder_is_about_and_lies_over_every_game(layer):
    keys = set(said(read_recipe(layer)))
    assert keys and all(key.startswith(MAY_SAY[layer.parent.name]) for key in keys)
    if layer.parent.name == "gpu":
        assert not any(key.startswith(("learner.credit", "learner.loss", "rollout.choose")) for key in keys)
    for game in GAMES:
        if layer.stem == "twosome" and game.stem not in LISTED:
            assert "lists no actions to choose from" in refused(game, str(layer))
        elif layer.stem == "oni" and game.stem not in RULED:
            assert "has no rule `helpful`" in refused(game, str(layer))
        else:
            assert load_recipe(game, [str(layer)]).game == load_recipe(game).game


@pytest.mark.parametrize("method", sorted((FOLDER / "credit").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_method_is_the_same_on_every_machine(method):
    game = FOLDER / "games" / "virtualhome.yaml"
    here = load_recipe(game, [str(method)])
    assert CREDIT.name_of(here.learner.credit) == method.stem
    for machine in (FOLDER / "gpu").glob("*.yaml"):
        there = load_recipe(game, [str(method), str(machine)])
        for part in ("credit", "loss", "epochs", "minibatches"):
            assert getattr(there.learner, part) == getattr(here.learner, part)
        assert (there.max_staleness, there.group_size) == (here.max_staleness, here.group_size)


def test_there_is_a_layer_for_every_method_that_takes_more_than_its_name():
    with_layer = {path.stem for path in (FOLDER / "credit").glob("*.yaml")}
    neighbours = {"hgpo", "g2po", "hcapo", "bipace"}
    assert with_layer == set(CREDIT.names) - {"reinforce", "rae", "ntpo"} - neighbours
    for neighbour in neighbours:
        load_recipe(FOLDER / "demo.yaml", [str(FOLDER / "credit" / "gigpo.yaml"), f"learner.credit.method={neighbour}"])
    ntpo = load_recipe(FOLDER / "demo.yaml", [str(FOLDER / "credit" / "poad.yaml"), "learner.credit.method=ntpo"])
    assert ntpo.learner.credit.critic.value_clip == 0.2, "what poad.yaml says of the critic stays"


def words(text: str) -> list[str]:
    return [word.replace("recipes/", f"{FOLDER}/") if "=" not in word else word for word in text.split()]


@pytest.mark.parametrize(("name", "instead"), GONE.items())
def test_a_recipe_of_before_is_told_what_to_write_and_that_can_be_read(name, instead):
    path = FOLDER / f"{name}.yaml"
    line = f"{path} is gone: write {instead}"
    assert refused(path) == refused(FOLDER / "demo.yaml", str(path)) == line
    first, *rest = words(instead)
    layers = words("recipes/credit/poad.yaml") if name == "credit/critic_1b" else []
    if first in map(str, EVERY) and Path(first) not in LAYERS:
        load_recipe(first, rest)
    else:
        load_recipe(FOLDER / "games" / "virtualhome.yaml", [*layers, first, *rest])


@pytest.mark.parametrize(("name", "instead"), WHOLE_ONCE.items())
def test_a_recipe_of_before_that_is_a_layer_now_asks_for_a_game(name, instead):
    path = FOLDER / f"{name}.yaml"
    assert refused(path) == f"{path} is a layer, which says nothing of a game: write {instead}"
    first, *rest = words(instead)
    load_recipe(first, rest)


def test_a_base_of_before_is_told_too(tmp_path):
    (tmp_path / "mine.yaml").write_text(f"base: {FOLDER}/credit/../tiny_lora.yaml\n")
    assert refused(tmp_path / "mine.yaml").endswith(f"is gone: write {GONE['tiny_lora']}")
