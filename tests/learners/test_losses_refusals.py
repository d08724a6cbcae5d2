"""Settings of the update that clash are one line that names both, before anything starts."""

from __future__ import annotations

import pytest

from cluster.errors import ConfigError
from cluster.recipe.reading import load_recipe, to_yaml
from learners.model.load import load_model
from learners.settings import LearnerSettings


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (
            ["learner.tokens_per_micro_batch=512"],
            "tokens_per_micro_batch=512 is less than rollout.engine.max_context=1024",
        ),
        (
            ["learner.minibatches=65", "learner.ranks=2"],
            "minibatches=65 of batch_episodes=128 are too small for learner.r",
        ),
        (["learner.credit.critic.value_clip=0.2"], "learner.credit.critic: unknown key: method=reinforce has no such"),
        (["learner.critic.value_clip=0.2"], "learner.critic: is called learner.credit.critic now"),
        (["learner.importance_cap=3"], "learner.importance_cap: is called learner.loss.importance_cap now"),
        (
            ["learner.loss.kind=ppo", "learner.loss.importance_cap=3"],
            "loss.importance_cap: unknown key: kind=ppo has no such setting; decoupled, policy_gradient have it",
        ),
        (["learner.loss.clip_low=0.1"], "kind=policy_gradient has no such setting; decoupled, gspo, ppo have it"),
        (
            ["learner.loss=ppoo"],
            "learner.loss.kind: 'ppoo' is not one of 'decoupled', 'gspo', 'likelihood', 'mirror_descent', 'policy",
        ),
        (
            ["learner.loss={kind: likelihood, token_mask: [0.5, 2]}"],
            "kind=likelihood has no such setting; decoupled, gspo, policy_gradient, ppo have it",
        ),
        (
            ["learner.loss={kind: likelihood, correct_on_policy: true}"],
            "loss.correct_on_policy: unknown key: kind=likelihood",
        ),
        (["learner.loss.correct_fresh=true"], "is called learner.loss.correct_on_policy now"),
        (["learner.loss.kl_estimator=k2"], "kl=0 does not read kl_estimator=k2"),
        (["learner.loss.token_mask=[1.5,2]"], "token_mask=[1.5, 2.0] has to lie around 1"),
        (
            ["learner.logprob_gap_warn=1", "learner.logprob_gap_stop=.5"],
            "logprob_gap_warn=1.0 is above logprob_gap_stop",
        ),
        (["learner.schedule_updates=60"], "schedule=constant does not read schedule_updates=60"),
        (["learner.schedule=linear", "learner.schedule_updates=20"], "schedule_updates=20 is less than updates=60"),
        (
            ["learner.schedule=linear", "learner.warmup_updates=60"],
            "updates=60 leaves nothing after warmup_updates=60 for schedule=linear",
        ),
        (["reward.shaper=aria", "learner.credit.kl_penalty=0.1"], "reward.shaper=aria gives advantages"),
        (
            ["learner.credit.method=archer", "learner.credit.critic.states=policy"],
            "learner.credit.critic.states: 'policy' is not one of 'base'",
        ),
        (["learner.credit={method: archer, critic: {epochs: 8}}"], "learner.credit.critic.epochs: unknown key"),
        (["learner.credit={method: archer, critic: {value_clip: .2}}"], "learner.credit.critic.value_clip: unknown"),
        (["learner.credit={method: gae, critic: {replay: {turns: 5}}}"], "learner.credit.critic.replay: unknown key"),
        (["learner.credit=poad", "learner.credit.tau=0.5"], "is called learner.credit.critic.tau now"),
        (["learner.credit=poad", "learner.credit.step_weight=2"], "bipace, g2po, gigpo, hcapo have it"),
    ],
)
def test_what_clashes_is_one_line(overrides, names):
    with pytest.raises(ConfigError) as caught:
        load_recipe(None, overrides)
    assert names in str(caught.value) and "\n" not in str(caught.value)


def test_what_fits_is_taken_and_read_back_the_same(tmp_path):
    config = load_recipe(
        None,
        [
            "learner.loss={kind: decoupled, token_mask: [0.5, 2], kl: 0.01, entropy: 0.01, kl_guard: 0.02}",
            "learner.credit={method: poad, kl_penalty: 0.01}",
            "learner.credit.critic={states: base, value_clip: 0.2, schedule: linear}",
            "learner.epochs=2",
            "learner.minibatches=4",
            "learner.schedule=cosine",
        ],
    )
    assert config.learner.steps == 8
    assert (
        config.learner.end(config.learner) == config.learner.end(config.learner.credit.critic) == config.updates == 60
    )
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert load_recipe(tmp_path / "config.yaml") == config
    longer = load_recipe(tmp_path / "config.yaml", ["updates=90"])
    assert longer.learner.end(longer.learner) == 90, "a longer run has a longer schedule"


def test_layers_that_cannot_have_an_adapter_are_named_with_those_that_can(tiny_model):
    for target in ("q_porj", "self_attn"):
        with pytest.raises(ValueError, match=rf"no layer named {target}; .*: .*gate_proj.*k_proj.*v_proj"):
            load_model(str(tiny_model), LearnerSettings(lora={"rank": 4, "targets": ["v_proj", target]}), 0)
