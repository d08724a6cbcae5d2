"""Parts of a run that come in several kinds: what can be written, how layers lie, kinds of the user's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from cluster.commands import cli
from cluster.errors import ConfigError
from cluster.recipe.fields import recipe_schema
from cluster.recipe.plain_yaml import read_yaml
from cluster.recipe.reading import load_recipe, to_yaml
from cluster.record.run_folder import read_config
from learners.credit.method import CREDIT
from learners.loss.loss import LOSS
from reward_service.intentions.clustering.clustering import CLUSTERINGS
from reward_service.intentions.granularity.granularity import GRANULARITIES
from reward_service.intentions.pooling.pooling import POOLINGS
from reward_service.shaper import SHAPERS

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"
EXAMPLE = ROOT / "docs" / "examples" / "methods"
UNFINISHED = """


class Unfinished(CreditMethod):
    pass
"""
SETTINGS = (
    "learner.credit={method: 'my_methods:Same', times: 2}",
    "learner.loss=my_methods:Plain",
    "reward.shaper={kind: 'my_methods:Brief', price: 0.5}",
)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A user's folder, with the example of docs/how-to/new_method.md in it, and a kind that is not finished."""
    (tmp_path / "my_methods.py").write_text((EXAMPLE / "my_methods.py").read_text() + UNFINISHED)
    for file in ("methods/recipe.yaml", "hot_cold/hot_cold.py"):
        shutil.copy(EXAMPLE.parent / file, tmp_path)
    (tmp_path / "broken.py").write_text("def mine(:\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for module in ("my_methods", "hot_cold"):
        sys.modules.pop(module, None)


def test_a_kind_of_the_user_s_own_is_one_line_of_a_recipe(project):
    config = load_recipe(None, [*SETTINGS])
    parts = config.learner.credit, config.learner.loss, config.reward.shaper
    shown = load_recipe(project / "recipe.yaml")
    assert parts == (shown.learner.credit, shown.learner.loss, shown.reward.shaper)
    assert (config.learner.credit.times, config.reward.shaper.price) == (2.0, 0.5)
    assert type(config.learner.loss).__name__ == "Plain"
    (project / "config.yaml").write_text(to_yaml(config))
    assert load_recipe(project / "config.yaml") == config, "a run's folder keeps it"
    plain = load_recipe(None, ["learner.credit=my_methods:Same"])
    assert plain.learner.credit.times == 1.0 and CREDIT.name_of(plain.learner.credit) == "my_methods:Same"


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        (
            "learner.credit=my_methods:Sane",
            "learner.credit.method: 'my_methods:Sane' cannot be imported: AttributeErr",
        ),
        (
            "learner.credit=own_part:Same",
            "'own_part:Same' cannot be imported: ModuleNotFoundError: No mod",
        ),
        (
            "learner.credit=my_methods:Plain",
            "'my_methods:Plain' is no credit method: it has to derive from CreditMethod",
        ),
        ("learner.credit=my_methods:Unfinished", "is no credit method yet: it has to define credit"),
        ("learner.credit={method: 'my_methods:Same', time: 2}", "learner.credit.time: unknown key; did you mean learn"),
        ("learner.credit={method: 'my_methods:Same', times: much}", "learner.credit.times: should be a number, not"),
        (
            "reward.shaper=brief",
            "reward.shaper.kind: 'brief' is not one of 'aria', 'aria_rm', 'game', 'igpo', 'oni'",
        ),
        (
            "reward.shaper=3",
            "reward.shaper: should be the name of a reward shaper or a mapping of keys to values, not 3",
        ),
        ("game.name=hot_cold:Warm", "game.name: 'hot_cold:Warm' cannot be imported: AttributeError: module 'hot_co"),
        ("learner.credit.method=3", "learner.credit.method: should be the name of a credit method, not 3"),
        ("learner.credit.method=null", "learner.credit.method: should be the name of a credit method, not None"),
        ("reward.shaper=broken:Mine", "reward.shaper.kind: 'broken:Mine' cannot be imported: SyntaxError: "),
        ("game.name=hot_cold:re", "game.name: 'hot_cold:re' is no class"),
        ("learner.loss.kind=[ppo]", "learner.loss.kind: should be the name of a loss, not ['ppo']"),
    ],
)
def test_what_cannot_be_a_kind_is_one_line(project, setting, line):
    with pytest.raises(ConfigError) as refused:
        load_recipe(None, [setting])
    assert line in str(refused.value) and "\n" not in str(refused.value)


def test_a_run_trains_in_a_game_with_a_credit_method_a_loss_and_a_shaper_from_the_user_s_folder(project):
    words = [sys.executable, "-m", "cluster", "train", "recipe.yaml", "updates=2"]
    words += ["batch_episodes=8", "evaluation.episodes=8", "game.name=hot_cold:HotCold", "model.embedded.steps=0"]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, timeout=400, env={**os.environ})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (metrics,) = project.glob("runs/*/metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    returns = [row["learner/return_mean"] for row in rows if "learner/return_mean" in row]
    assert len(returns) == 2 and max(returns) < 0, "what was said has been charged for"


# layers


def test_settings_stay_where_another_kind_has_them_too(tmp_path):
    def credit(*overrides: str):
        return load_recipe(RECIPES / "games" / "bargaining.yaml", ["group_size=8", *overrides]).learner.credit

    layer = tmp_path / "gigpo.yaml"
    layer.write_text("learner: {credit: {method: gigpo, step_weight: 0.5, gamma: 0.9}}\n")
    assert credit(str(layer), "learner.credit.whiten=true") == CREDIT.make(
        "gigpo", step_weight=0.5, gamma=0.9, whiten=True
    )
    for poad in ("learner.credit.method=poad", "learner.credit=poad", "learner.credit={method: poad}"):
        assert credit(str(layer), poad) == CREDIT.make("poad", gamma=0.9), "and nothing of gigpo's alone"
    assert credit("learner.credit=poad", "learner.credit.lambda_w=0.5", "learner.credit=poad").lambda_w == 0.5
    assert credit("learner.credit.baseline=none", "learner.credit.method=reinforce").baseline == "none"
    with pytest.raises(ConfigError, match="learner.credit.step_weight: unknown key: method=poad has no such setting"):
        credit("learner.credit=poad", "learner.credit.step_weight=0.5")


@pytest.mark.parametrize(
    "kinds", [CREDIT, LOSS, SHAPERS, CLUSTERINGS, GRANULARITIES, POOLINGS], ids=lambda kinds: kinds.part
)
def test_every_kind_is_read_back_as_it_was_written(kinds):
    for name in kinds.names:
        made = kinds.make(name)
        assert kinds.name_of(made) == name and kinds.read({kinds.tag: name}) == made == kinds.read(name)


# the schema


def test_every_recipe_fits_the_schema_and_wrong_ones_do_not():
    schema = jsonschema.Draft202012Validator(recipe_schema())
    for path in sorted(RECIPES.rglob("*.yaml")):
        tree = read_yaml(path.read_text())
        assert not (faults := [fault.message for fault in schema.iter_errors(tree)]), f"{path}: {faults[0][:300]}"
    for wrong in (
        {"learner": {"credit": {"method": "poad", "step_weight": 1.0}}},
        {"learner": {"credit": "poa"}},
        {"learner": {"credit": {"method": "gae", "critic": {"tau": 0.1}}}},
        {"learner": {"loss": {"kind": "policy_gradient", "clip_low": 0.1}}},
        {"reward": {"shaper": {"kind": "spa", "intentions": {}}}},
        {"reward": {"shaper": {"kind": "aria", "intentions": {"space": {"k": 16}}}}},
        {"reward": {"shaper": {"kind": "aria", "intentions": {"space": {"method": "hdbscan", "max_k": 16}}}}},
        {"rollout": {"workrs": 2}},
    ):
        assert list(schema.iter_errors(wrong)), wrong
    schema.validate({"base": "demo.yaml", "learner": {"credit": "my_module:MyCredit"}, "reward": {"shaper": "aria"}})


def test_config_shows_the_kinds_and_the_settings_of_one(capsys):
    def told(*words: str) -> str:
        cli.main(["config", *words])
        done = capsys.readouterr()
        return done.out + done.err

    shown = told("learner.credit")
    assert "learner.credit.method = reinforce" in shown and "archer, bipace, g2po, gae, gigpo" in shown
    of_poad = told("learner.credit", "poad")
    assert "learner.credit.lambda_w = 1.0" in of_poad and "learner.credit.critic.epochs = 4" in of_poad
    assert "baseline" not in of_poad
    assert "learner.credit: 'poa' is not one of" in told("learner.credit", "poa")
    assert "reward.shaper.intentions.space.method = ward" in told("reward.shaper.intentions"), "not the default kind's"
    assert told("learner.credit.critic").count("learner.credit.critic.learning_rate = ") == 1, "though six have it"
    assert "no setting 'learner.credit.critik'" in told("learner.credit.critik")
    assert "reward.shaper.model.tokens_at_once = 8192" in told("reward.shaper.model", "transformer")
    assert "learner.sync does not come in several kinds; these do: learner.loss, learner.credit, reward.shaper" in told(
        "learner.sync", "poad"
    )
    choices = told("reward.shaper.intentions.space.granularity")
    assert "space.granularity.kind = held_out" in choices and "fixed, held_out, silhouette, split" in choices
    assert "space.granularity.k = 20" in told("reward.shaper.intentions.space.granularity", "fixed")
    assert json.loads(told("--schema"))["title"] == "recipe"


# one discount


def test_a_run_has_one_discount_which_its_parts_inherit_unless_they_say_otherwise(tmp_path):
    def discounts(*overrides: str) -> tuple[float, float]:
        config = load_recipe(None, list(overrides))
        shaper = config.reward.shaper
        return config.learner.credit.gamma, getattr(shaper, "gamma", None) or shaper.intentions.aggregate.gamma

    assert discounts("reward.shaper=aria") == (1.0, 0.95), "each method's own"
    assert discounts("reward.shaper=aria", "gamma=0.9") == (0.9, 0.9)
    assert discounts("reward.shaper=regressed", "gamma=0.9", "learner.credit.gamma=0.8") == (0.8, 0.9)
    assert discounts("gamma=0.9", "reward.shaper={kind: aria_rm, intentions: {aggregate: {gamma: 0.7}}}") == (0.9, 0.7)
    config = load_recipe(RECIPES / "games" / "overcooked.yaml", ["learner.credit=gigpo", "group_size=8"])
    assert config.learner.credit.gamma == 0.99, "another method has the game's discount too"
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert load_recipe(tmp_path / "config.yaml") == config


# runs of earlier versions


@pytest.mark.parametrize(
    ("data", "recipe", "layers"),
    [
        ("archer", "games/bargaining.yaml", ["recipes/credit/archer.yaml", "learner.credit.critic.replay.steps=20"]),
        ("aria_rm", "demo.yaml", ["recipes/shapers/aria_rm.yaml", "updates=100"]),
    ],  # with the defaults of that time
)
def test_the_config_of_an_earlier_version_s_run_is_the_same_run_s(tmp_path, data, recipe, layers):
    shutil.copy(ROOT / "tests" / "data" / f"run_0.1_{data}.yaml", tmp_path / "config.yaml")
    expected = load_recipe(
        RECIPES / recipe,
        ["rollout.max_worker_restarts=10", "rollout.engine.kind=vllm"]
        + [str(ROOT / layer) if layer.endswith("yaml") else layer for layer in layers],
    )
    expected.name = read_config(tmp_path).name
    assert read_config(tmp_path).model_dump() == expected.model_dump()
    with pytest.raises(ConfigError, match="is called .* now"):
        load_recipe(tmp_path / "config.yaml")
    (tmp_path / "config.yaml").write_text(to_yaml(expected))
    assert read_config(tmp_path) == load_recipe(tmp_path / "config.yaml") == expected, "today's are as they are"


def test_what_the_intentions_of_an_earlier_run_read_of_its_flat_settings_is_kept(tmp_path):
    tree = read_yaml((ROOT / "tests" / "data" / "run_0.1_aria_rm.yaml").read_text())
    intentions = tree["reward"]["intentions"]
    intentions["space"] |= {"method": "average", "granularity": "fixed", "k": 7, "epsilon": 0.5, "max_k": 30}
    intentions["aggregate"] |= {"pooling": "backoff", "histories": [2, 0], "smallest": 3, "strength": 9.0, "own": 0.5}
    for shape in ("before the kinds", "with kinds of shapers"):
        (tmp_path / "config.yaml").write_text(json.dumps(tree))
        found = read_config(tmp_path).reward.shaper.intentions
        assert found.space == CLUSTERINGS.make("average", granularity={"kind": "fixed", "k": 7}, max_k=30), shape
        assert found.aggregate.pooling == POOLINGS.make("backoff", histories=(2, 0), smallest=3), shape
        assert found.aggregate.own == 0.5
        tree["reward"]["shaper"] = {"kind": "aria", "intentions": {**intentions}}
        tree["reward"]["shaper"]["intentions"].pop("gives")
        tree["reward"] = {key: tree["reward"][key] for key in ("shaper", "http", "batch_seconds")}
    intentions["space"] |= {"method": "hdbscan", "min_cluster": 4}
    (tmp_path / "config.yaml").write_text(json.dumps(tree))
    assert read_config(tmp_path).reward.shaper.intentions.space == CLUSTERINGS.make("hdbscan", min_cluster=4)


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("space.k=16", "space.k: is called reward.shaper.intentions.space.granularity.k now"),
        ("space={granularity: fixed, k: 16}", "space.k: is called reward.shaper.intentions.space.granularity.k now"),
        (
            "aggregate.strength=2",
            "aggregate.strength: is called reward.shaper.intentions.aggregate.pooling.strength now",
        ),
        ("space.min_cluster=5", "space.min_cluster: unknown key: method=ward has no such setting; hdbscan have it"),
        ("space.granularity.k=5", "granularity.k: unknown key: kind=held_out has no such setting; fixed have it"),
        ("space={method: hdbscan, max_k: 5}", "max_k: unknown key: method=hdbscan has no such setting; average, ward"),
        ("aggregate.pooling.histories=[1]", "unknown key: kind=exact has no such setting; backoff, evidence"),
        ("aggregate.pooling=mean", "pooling.kind: 'mean' is not one of 'backoff', 'evidence', 'exact', 'shrinkage'"),
    ],
)
def test_what_another_kind_of_intentions_reads_is_one_line(setting, line):
    with pytest.raises(ConfigError) as refused:
        load_recipe(None, ["reward.shaper=aria", f"reward.shaper.intentions.{setting}"])
    assert line in str(refused.value) and "\n" not in str(refused.value)


def test_null_stays_where_a_setting_takes_it(tmp_path):
    config = tmp_path / "config.yaml"
    earlier = (ROOT / "tests" / "data" / "run_0.1_aria_rm.yaml").read_text()
    config.write_text(earlier.replace("        steps: 400", "        steps: null"))
    assert "steps: 400" in earlier and read_config(tmp_path).reward.shaper.model.steps is None
