"""Each recipe of recipes/gpu fits the machine that its name says, in the way that its comment says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.plan.decide import Plan, PlanError, plan
from cluster.plan.machine import GIB, described
from cluster.plan.memory import cache_of
from cluster.plan.shape import ModelShape, shape_of
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe

FOLDER = Path(__file__).parents[2] / "recipes" / "gpu"
RECIPES = sorted(path.stem for path in FOLDER.glob("*x*_*.yaml"))
PUBLISHED = {  # of config.json: hidden, intermediate, layers, heads, tied
    "Qwen/Qwen3-1.7B": (2048, 6144, 28, 16, True),
    "Qwen/Qwen3-4B": (2560, 9728, 36, 32, True),
    "Qwen/Qwen3-8B": (4096, 12288, 36, 32, False),
}
NAMES = "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "tie_word_embeddings"


def shape(config: RunConfig) -> ModelShape:
    widths = dict(zip(NAMES, PUBLISHED[config.model.path], strict=True))
    return shape_of(widths | {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936})


def planned(recipe: str, machine: str, *changes: str) -> Plan:
    config = load_recipe(FOLDER / f"{recipe}.yaml", list(changes))
    return plan(config, described(machine), shape(config))


def test_there_is_one_for_every_machine():
    machines = ("1x24", "1x80", "2x8x80", "8x80")
    assert sorted([f"{machine}_{kind}" for machine in machines for kind in ("full", "lora")] + ["4x80_full"]) == RECIPES


@pytest.mark.parametrize("recipe", RECIPES)
def test_it_fits_and_uses_every_card(recipe):
    machine, kind = recipe.rsplit("_", 1)
    found = planned(recipe, machine)
    cards = {(seat.node, card) for seat in found.seats for card in seat.cards}
    assert len(cards) == len(described(machine).cards)
    assert bool(found.config.learner.lora.rank) == (kind == "lora")
    alone = len(cards) == 1
    assert found.transport == ("adapter" if kind == "lora" else "ipc" if alone else "nccl")
    assert found.config.rollout.share_cards == alone
    assert found.config.rollout.engine.sleep == (recipe == "1x24_lora")
    # an eighth of the engine's sequences may be at full length at once
    engine = found.config.rollout.engine
    assert found.memory.engine.cache >= cache_of(found.config, shape(found.config), engine.max_sequences / 8)


def test_what_the_comments_say_of_memory():
    assert planned("1x24_lora", "1x24").memory.engine.weights / GIB == pytest.approx(7.5, abs=0.1)
    assert planned("1x80_lora", "1x80").memory.engine.weights / GIB == pytest.approx(15.3, abs=0.1)
    on_card = planned("1x80_full", "1x80").memory.learner
    assert on_card.optimiser / GIB == pytest.approx(19.2, abs=0.1)
    larger = "model.path=Qwen/Qwen3-4B"
    assert planned("1x80_full", "1x80", larger, "learner.offload_optimizer=true").memory.learner.optimiser == 0
    assert planned("1x80_full", "1x80", larger).memory.learner.optimiser / GIB == pytest.approx(45, abs=0.1)
    with pytest.raises(PlanError):
        planned("1x24_full", "1x24", "learner.offload_optimizer=false")
