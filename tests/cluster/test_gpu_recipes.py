"""Each layer of recipes/gpu fits the machine that its name says, in the way that its comment says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.plan.decide import Plan, PlanError, plan
from cluster.plan.machine import GIB, described
from cluster.plan.memory import cache_of
from cluster.plan.shape import ModelShape, shape_of
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe

FOLDER = Path(__file__).parents[2] / "recipes"
ADAPTER = "gpu/lora.yaml"
ON = {  # machine, and what is laid over the recipe of a game: the sizes as they are, and what their comments suggest
    ("1x24", "full"): ["gpu/1x24.yaml"],
    ("1x24", "lora"): ["gpu/1x24.yaml", ADAPTER, "model.path=Qwen/Qwen3-4B"],
    ("1x80", "full"): ["gpu/1x80.yaml"],
    ("1x80", "lora"): ["gpu/1x80.yaml", ADAPTER, "model.path=Qwen/Qwen3-8B"],
    ("4x80", "full"): ["gpu/1x80.yaml", "rollout.workers=2", "learner.ranks=2", "learner.zero=3"],
    ("8x80", "full"): ["gpu/8x80.yaml"],
    ("8x80", "lora"): ["gpu/8x80.yaml", ADAPTER, "rollout.workers=6", "learner.ranks=2"],
    ("2x8x80", "full"): ["gpu/2x8x80.yaml"],
    ("2x8x80", "lora"): ["gpu/2x8x80.yaml", ADAPTER, "rollout.workers=12", "learner.ranks=4"],
}
PUBLISHED = {  # of config.json: hidden, intermediate, layers, heads, tied
    "Qwen/Qwen3-1.7B": (2048, 6144, 28, 16, True),
    "Qwen/Qwen3-4B": (2560, 9728, 36, 32, True),
    "Qwen/Qwen3-8B": (4096, 12288, 36, 32, False),
}
NAMES = "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "tie_word_embeddings"


def shape(config: RunConfig) -> ModelShape:
    widths = dict(zip(NAMES, PUBLISHED[config.model.path], strict=True))
    return shape_of(widths | {"num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936})


def planned(machine: str, kind: str, *changes: str, game: str = "demo.yaml") -> Plan:
    over = [str(FOLDER / each) if "=" not in each else each for each in ON[machine, kind]]
    config = load_recipe(FOLDER / game, [*over, *changes])
    return plan(config, described(machine), shape(config))


def test_there_is_one_for_every_machine():
    named = {path.stem for path in (FOLDER / "gpu").glob("*x*.yaml")}
    assert named == {machine for machine, _ in ON} - {"4x80"} == {machine for machine, kind in ON if kind == "lora"}


@pytest.mark.parametrize("game", ["demo.yaml", "games/data_science.yaml", "games/virtualhome.yaml"])
@pytest.mark.parametrize(("machine", "kind"), ON, ids="_".join)
def test_it_fits_and_uses_every_card(machine, kind, game):
    found = planned(machine, kind, game=game)
    cards = {(seat.node, card) for seat in found.seats for card in seat.cards}
    assert len(cards) == len(described(machine).cards)
    assert bool(found.config.learner.lora.rank) == (kind == "lora")
    alone = len(cards) == 1
    assert found.transport == ("adapter" if kind == "lora" else "ipc" if alone else "nccl")
    assert found.config.rollout.share_cards == alone
    assert found.config.rollout.engine.sleep == ((machine, kind) == ("1x24", "lora"))
    # an eighth of the engine's sequences may be at full length at once
    engine = found.config.rollout.engine
    assert found.memory.engine.cache >= cache_of(found.config, shape(found.config), engine.max_sequences / 8)


def test_what_the_comments_say_of_memory():
    assert planned("1x24", "lora").memory.engine.weights / GIB == pytest.approx(7.5, abs=0.1)
    assert planned("1x80", "lora").memory.engine.weights / GIB == pytest.approx(15.3, abs=0.1)
    on_card = planned("1x80", "full").memory.learner
    assert on_card.optimiser / GIB == pytest.approx(19.2, abs=0.1)
    larger = "model.path=Qwen/Qwen3-4B"
    assert planned("1x80", "full", larger, "learner.offload_optimizer=true").memory.learner.optimiser == 0
    assert planned("1x80", "full", larger).memory.learner.optimiser / GIB == pytest.approx(45, abs=0.1)
    with pytest.raises(PlanError):
        planned("1x24", "full", "learner.offload_optimizer=false")
