"""What router replay does not go with is refused in one line."""

from __future__ import annotations

import pytest
from transformers import GraniteMoeConfig, Qwen3Config

from cluster.commands.offline import checked
from cluster.errors import ConfigError
from cluster.recipe.reading import load_recipe
from cluster.run.policy import check_model
from learners.batch.trajectories import collect
from learners.model.router_replay import check_recorded
from tests.learners.test_router_replay import record
from tests.support.learner_batches import make_batch

MODEL = "model.path=some/folder"


def test_games_without_a_record_are_refused():
    episodes, rewards = make_batch(2, seed=1)
    record(episodes[:1], 0)
    with pytest.raises(
        ValueError, match=r"episode 1: seat 'guesser' has no record .* learner.router_replay=true .* fals"
    ):
        check_recorded(collect(episodes, rewards))
    record(episodes, 0)
    check_recorded(collect(episodes, rewards))
    episodes[0].experts["guesser"] = episodes[0].experts["guesser"][1:]
    with pytest.raises(ValueError, match=r"episode 0: seat 'guesser' has \d+ tokens, but experts of \d+"):
        collect(episodes, rewards)


@pytest.mark.parametrize(
    ("recipe", "changes", "reason"),
    [
        ("demo", [], "model.path=embedded has no experts to choose: set it to false"),
        ("games/virtualhome", [MODEL, "rollout.choose_listed=true"], "set one of them to false"),
        ("demo", [MODEL, "rollout.engine.prefix_caching=false"], "needs rollout.engine.prefix_caching=true"),
    ],
)
def test_settings_that_do_not_go_with_it_are_refused(recipe, changes, reason):
    with pytest.raises(ConfigError, match=f"learner.router_replay=true.*{reason}") as refused:
        load_recipe(f"recipes/{recipe}.yaml", ["learner.router_replay=true", *changes])
    assert "\n" not in str(refused.value)
    load_recipe(f"recipes/{recipe}.yaml", changes)


def test_recorded_games_have_nothing_to_replay():
    config = load_recipe("recipes/demo.yaml", [MODEL, "reward.shaper=aria", "learner.loss.kind=likelihood"])
    checked(config)
    config.learner.router_replay = True
    with pytest.raises(ConfigError, match="learner.router_replay=true .* recorded games have none: set it to false"):
        checked(config)


def test_models_and_engines_that_cannot_are_refused(folder_of, tmp_path):
    GraniteMoeConfig().save_pretrained(tmp_path / "granite")
    Qwen3Config().save_pretrained(tmp_path / "dense")
    experts = folder_of("mixtral", False)
    for folder, engine, reason in (
        (tmp_path / "dense", "transformers", "Qwen3ForCausalLM has no experts to choose: set it to false"),
        (tmp_path / "granite", "transformers", r"cannot replay a GraniteMoeTopKRouter, .* set it to false"),
        (experts, "vllm", "on a GPU alone; set rollout.engine.kind=transformers, or learner.router_replay=false"),
    ):
        config = load_recipe("recipes/demo.yaml", [f"model.path={folder}", f"rollout.engine.kind={engine}"])
        config.learner.router_replay = True
        with pytest.raises(ConfigError, match=f"learner.router_replay=true.*{reason}") as refused:
            check_model(folder, config, trained=True)
        assert "\n" not in str(refused.value)
    config.rollout.engine.kind = "transformers"
    check_model(experts, config, trained=True)
    config.rollout.engine.kind, config.rollout.gpus_per_worker = "vllm", 1
    check_model(experts, config, trained=True)
