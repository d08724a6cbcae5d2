"""Layers that take back what other layers say: a run names it, and nothing else."""

from __future__ import annotations

from pathlib import Path

from cluster.recipe.overruled import overruled

RECIPES = Path(__file__).parents[2] / "recipes"
PPO, POAD = (str(RECIPES / each) for each in ("losses/ppo.yaml", "credit/poad.yaml"))
ARIA_RM = str(RECIPES / "shapers" / "aria_rm.yaml")


def test_what_a_layer_takes_back_of_another_is_named():
    assert overruled([PPO, "rollout.workers=2", ARIA_RM]) == [
        f"learner.loss.kind is policy_gradient by {ARIA_RM}, not ppo as {PPO} says",
        f"learner.epochs is 1 by {ARIA_RM}, not 2 as {PPO} says",
        f"learner.minibatches is 1 by {ARIA_RM}, not 2 as {PPO} says",
    ]


def test_layers_that_agree_and_settings_of_the_command_line_are_not():
    assert (
        overruled([]) == overruled([PPO]) == overruled([POAD, PPO]) == overruled([PPO, "learner.loss.kind=ppo"]) == []
    )
    decided = ["learner.loss=policy_gradient", "learner.epochs=1", "learner.minibatches=1"]
    assert overruled([PPO, ARIA_RM, *decided]) == []
    assert len(overruled([PPO, ARIA_RM, *decided[:2]])) == 1


def test_a_layer_is_held_against_the_last_that_spoke(tmp_path):
    for name, text in {
        "a": "learner: {loss: ppo, epochs: 2}",
        "b": "learner: {epochs: 2}",
        "c": "learner: {epochs: 3}",
    }.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    a, b, c = (str(tmp_path / f"{name}.yaml") for name in "abc")
    assert overruled([a, b, c]) == [f"learner.epochs is 3 by {c}, not 2 as {b} says"]
    (tmp_path / "c.yaml").write_text("learner: {loss: {kind: policy_gradient}}")
    assert overruled([a, c]) == [f"learner.loss.kind is policy_gradient by {c}, not ppo as {a} says"]


def test_a_setting_before_a_layer_that_changes_it_is_named_too():
    taken_back = f"learner.epochs is 2 by {PPO}, not 4 as the command line says"
    assert overruled(["learner.epochs=4", PPO]) == [taken_back]
    assert overruled(["learner.epochs=4", PPO, "learner.epochs=4"]) == overruled([PPO, "learner.epochs=4"]) == []
    assert overruled(["learner.loss=policy_gradient", PPO]) == [
        f"learner.loss.kind is ppo by {PPO}, not policy_gradient as the command line says"
    ]
