"""`import parley`: train, resume, evaluate and load_run are what the commands do, and return rows for tables."""

from __future__ import annotations

import re
from pathlib import Path

import pandas
import pytest

import parley
from cluster.api import words_of
from cluster.commands.cli import main
from cluster.episodes.reader import Episodes
from cluster.recipe.fields import dotted_fields, dotted_keys
from cluster.recipe.reading import load_recipe, to_yaml
from cluster.recipe.resumable import RESUMABLE
from tests.support.runs import ROOT, config_for

LIMIT = re.compile(r"((?:model|rollout|learner|reward)\.[a-z_.]+(?:seconds|restarts|bad_updates|stop|tolerance))=")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, parrot_model) -> Path:
    folder = tmp_path_factory.mktemp("api")
    path = folder / "recipe.yaml"
    config = config_for(parrot_model, folder / "runs", updates=1)
    config.rollout.engine.kind = "transformers"
    path.write_text(to_yaml(config))
    return path


@pytest.mark.timeout(400)
def test_a_run_is_trained_resumed_read_and_evaluated(ray_cluster, recipe, tmp_path):
    layer = tmp_path / "layer.yaml"
    layer.write_text("samples: {episodes: 4}")
    run = parley.train([recipe, layer], evaluation={"episodes": 6}, **{"learner.learning_rate": 1e-5})
    assert run.config["evaluation"]["episodes"] == 6 and run.config["learner"]["learning_rate"] == 1e-5
    assert run.config["batch_episodes"] == 8, "the recipe's own settings stay"
    assert run.score == run.summary["outcome_after"] and (run.policy / "config.json").is_file()

    table = pandas.DataFrame(run.metrics)
    assert table["update"].max() == 1 and table["learner/loss"].notna().any()
    games = pandas.DataFrame(run.samples)
    assert len(games) == 4 and {"game", "seed", "outcome", "turns"} <= set(games.columns)
    assert len(run.episodes("not held_out")) == 8 and len(run.episodes("held_out and newest == 1")) == 6
    assert run.episodes().table().to_pandas()["seconds"].min() > 0
    (most,) = run.episodes().first(1, by="-credit")
    assert most["credit"] > 0 and any(any(turn["credit"]) for turn in most["dialogue"])
    times = [turn[name] for turn in most["dialogue"] for name in ("asked", "answered", "played")]
    assert times[0] >= 0 and times == sorted(times) and times[-1] <= most["seconds"] + 1e-3

    longer = parley.resume(run.folder, updates=2)
    assert longer.folder == run.folder and longer.summary["updates"] == 2
    assert pandas.DataFrame(parley.load_run(run.folder).metrics)["update"].max() == 2

    measured = parley.evaluate(run.folder, checkpoint=1, evaluation={"episodes": 5})
    assert measured.summary["episodes"] == 5 and measured.score == measured.summary["outcome"]
    assert measured.summary["model"] == str(run.folder / "checkpoints" / "update-000001" / "policy")
    assert measured.folder.parent == run.folder.parent and (measured.metrics, measured.samples) == ([], [])
    assert len(measured.episodes("held_out and failure is None")) == 5 == len(measured.episodes())
    assert measured.policy is None


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_command_finds_the_same_and_trials_are_played(ray_cluster, recipe):
    run = parley.train(recipe)
    measured = parley.evaluate(run.folder, checkpoint=1, evaluation={"episodes": 5})
    before = set(run.folder.parent.glob("*-evaluation-*"))
    assert main(["evaluate", str(run.folder), "--checkpoint", "1", "evaluation.episodes=5"]) == 0
    (again,) = set(run.folder.parent.glob("*-evaluation-*")) - before
    assert parley.load_run(again).summary == measured.summary, "the command finds the same"

    tried = parley.evaluate(run.folder, trials="alone", episodes=3)
    assert tried.score is None and tried.summary["trials"]["alone"]["episodes"] == 3 == len(tried.samples)


def test_overrides_are_what_the_command_line_takes():
    overrides = {
        "rollout.workers": 2,
        "learner": {"learning_rate": 1e-7, "betas": (0.9, 0.95)},
        "name": "3",
        "game": {"name": "parrot", "options": {}},
        "output": Path("somewhere/else"),
    }
    config = load_recipe(None, words_of(overrides))
    assert config.rollout.workers == 2 and config.name == "3" and config.output == "somewhere/else"
    assert config.learner.learning_rate == 1e-7 and list(config.learner.betas) == [0.9, 0.95]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda folder: parley.train(folder / "no.yaml"), "no.yaml' does not exist"),
        (lambda folder: parley.train("recipes/demo.yaml", rollout={"wrkers": 2}), r"^rollout\.wrkers: unknown key"),
        (lambda folder: parley.train("recipes/demo.yaml", updates="many"), "^updates: should be a whole number, not"),
        (lambda folder: parley.train("recipes/demo.yaml", seed={1: {2}, (1, 2): 3}), "an override is no plain value"),
        (lambda folder: parley.train([]), r"^the recipe has to be a YAML file, or a list .*, not \[\]"),
        (lambda folder: parley.train(None), "^the recipe has to be a YAML file, .*, not None"),
        (lambda folder: parley.train([None]), "^the recipe has to be a YAML file"),
        (lambda folder: Episodes(folder).first(-2), r"first\(-2\): how many games has to be 0 or more"),
        (lambda folder: parley.load_run(folder / "none"), "no run folder at"),
        (lambda folder: parley.resume(folder / "none", updates=3), "no run folder at"),
        (
            lambda folder: parley.resume(folder, learner={"learning_rate": 1}),
            "resume cannot change 'learner.learning_rate'",
        ),
        (lambda folder: parley.evaluate("embedded", checkpoint="best"), "is no run folder"),
        (lambda folder: parley.evaluate("embedded", episodes=3), "--episodes is for --trials"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_before_anything_starts(tmp_path, call, said):
    with pytest.raises(parley.ParleyError, match=said):
        call(tmp_path)


def test_a_folder_that_is_damaged_or_still_written_to(tmp_path):
    (tmp_path / "config.yaml").write_text("name: x\nold_key: 3\n")
    run = parley.load_run(tmp_path)
    assert run.config == {"name": "x", "old_key": 3}, "a run of an older version is readable"
    assert (run.metrics, run.samples, run.summary, run.policy, run.score) == ([], [], {}, None, None)
    with pytest.raises(parley.ParleyError, match=r"keeps no games: its record\.episodes is none, or it was made by"):
        run.episodes()
    (tmp_path / "metrics.jsonl").write_text('{"update": 1, "evaluation/outcome": 0.25}\n{"update": 2')
    assert parley.load_run(tmp_path).metrics == [{"update": 1, "evaluation/outcome": 0.25}]
    assert parley.load_run(tmp_path).score == 0.25
    (tmp_path / "metrics.jsonl").write_text("nonsense\n")
    with pytest.raises(parley.ParleyError, match=r"metrics\.jsonl is damaged: line 1"):
        _ = parley.load_run(tmp_path).metrics


def test_the_face_names_what_it_has():
    assert set(parley.__all__) <= set(dir(parley))
    with pytest.raises(AttributeError, match="no attribute 'trian'; it has: Credit, CreditMethod, Episode, Episodes"):
        _ = parley.trian


def test_every_limit_that_ends_a_run_can_be_raised_when_it_is_resumed():
    """Those that an error names with their values, and all time limits of what works in a run."""
    sources = [
        path for part in ("cluster", "actors", "learners", "reward_service") for path in (ROOT / part).rglob("*.py")
    ]
    named = {key for path in sources for key in LIMIT.findall(path.read_text())}
    assert {"rollout.batch_seconds", "learner.sync.tolerance", "reward.max_restarts"} <= named <= set(dotted_keys())
    timed = {
        key
        for key, *_ in dotted_fields()
        if re.fullmatch(r"(model|rollout|learner)\..*_seconds|reward\.[a-z]+_seconds", key)
    }
    unlimited = {"rollout.snapshot_seconds"}  # how often, not how long
    assert (named | timed) - unlimited <= set(RESUMABLE) <= set(dotted_keys()) | {"rollout.workers", "loggers.*"}
