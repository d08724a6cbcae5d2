"""Which engine plays where `rollout.engine.kind` is left open."""

from __future__ import annotations

import pytest

from cluster.plan.decide import PlanError, plan
from cluster.plan.machine import described
from cluster.plan.of_run import plan_run
from cluster.plan.shape import ModelShape
from cluster.recipe.reading import load_recipe
from cluster.run.policy import model_to_measure
from tests.cluster.test_plan import FOLDER, planned

BIG = ("model.embedded.hidden=768", "model.embedded.layers=11", "model.embedded.heads=24")


@pytest.mark.parametrize(
    ("name", "machine", "overrides", "kind"),
    [
        ("demo", "cpu", (), "transformers"),
        ("demo", "0x0", (), "transformers"),
        ("demo", "cpu", ("rollout.engine.kind=vllm",), "vllm"),
        ("demo", "cpu", ("rollout.engine.tensor_parallel=2",), "vllm"),
        ("demo", "cpu", BIG, "vllm"),
        ("demo", "cpu", ("rollout.engine.max_context=2049",), "vllm"),
        ("demo", "1x24", (), "vllm"),
        ("demo", "1x24", ("rollout.gpus_per_worker=0",), "transformers"),
        ("tiny_lora", "cpu", (), "transformers"),
        ("qwen3_lora", "1x80", (), "vllm"),
    ],
)
def test_the_engine_of_a_small_embedded_policy_on_a_cpu_is_the_plain_one(name, machine, overrides, kind):
    found = planned(name, machine, *overrides)
    assert found.config.rollout.engine.kind == kind


def test_what_a_run_with_the_embedded_policy_has_trained_is_played_as_it_was(tiny_model):
    config = load_recipe(FOLDER / "demo.yaml")
    folder = model_to_measure(config, str(tiny_model), None, None)
    assert folder == str(tiny_model)
    assert plan_run(config, described("cpu"), "play", folder).config.rollout.engine.kind == "transformers"


def test_a_hub_s_model_is_played_by_vllm_however_small():
    config = load_recipe(FOLDER / "demo.yaml", ["model.path=somebody/small"])
    for shape in (ModelShape(2, 64, 256, 4, 4, 32, 200), None):
        assert plan(config, described("cpu"), shape).config.rollout.engine.kind == "vllm"


def test_openings_are_shared_by_one_kernel_alone_and_the_plan_says_so():
    asked = "learner.share_openings=true"
    with pytest.raises(PlanError) as no:
        planned("demo", "cpu", asked, "learner.attention=eager")
    assert str(no.value) == f"{asked}: learner.attention=eager computes every game by itself: learner.attention=sdpa"
    with pytest.raises(PlanError, match="in bfloat16, not in float32: learner.share_openings=false$"):
        planned("demo", "1x24", asked, "learner.dtype=float32")
    for machine in ("cpu", "1x24"):
        assert planned("demo", machine, asked).config.learner.attention == "sdpa"
