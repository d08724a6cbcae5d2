"""The memory of nodes, where processes run on CPUs or cards have given something up."""

from __future__ import annotations

import pytest

from cluster.plan import memory
from cluster.plan.decide import PlanError, changed, plan
from cluster.plan.machine import Card, Machine, Node
from cluster.recipe.reading import load_recipe
from cluster.recipe.resumable import RESUMABLE
from tests.cluster.test_plan import recipe


def test_a_process_is_on_one_node():
    """Many small nodes are not one large one."""
    shape = recipe("qwen3_lora")[1]
    config = load_recipe(None, ["model.path=x", "rollout.engine.kind=transformers"])
    with pytest.raises(PlanError, match="of memory, but a node has 16"):
        plan(config, Machine("cpu", (Node(cpus=16.0, gib=16.0),) * 8), shape)


@pytest.mark.parametrize("cpus", [0.0, 8.0])
def test_a_head_that_takes_no_work_does_not_count(cpus):
    """It has no CPUs to give, or no card, where all that needs memory is on cards."""
    config, shape = recipe("qwen3_lora")
    whole = changed(config, {"learner.lora.rank": 0, "learner.offload_optimizer": True, "learner.zero": 2})
    worker = Node((Card(80.0),), 16.0, 256.0)
    alone = plan(whole, Machine("cuda", (worker,)), shape).config
    assert plan(whole, Machine("cuda", (Node(cpus=cpus, gib=16.0), worker)), shape).config == alone


def test_a_run_that_goes_on_is_proposed_what_it_may_change():
    config = load_recipe(None, ["rollout.workers=2", "learner.ranks=2"])
    with pytest.raises(PlanError, match=r"2: rollout.cpus_per_worker=0.5 learner.cpus_per_rank=0.5$"):
        plan(config, Machine("cpu", (Node(cpus=2.0),)), may_change=set(RESUMABLE))
    with pytest.raises(PlanError, match="has 2; nothing that may change helps") as refused:
        plan(config, Machine("cpu", (Node(cpus=2.0),)), may_change=set())
    assert refused.value.change == {}
    config, shape = recipe("qwen3_full")
    for may_change, change in ((None, {"learner.ranks": 1, "rollout.workers": 1}), (set(RESUMABLE), {})):
        with pytest.raises(PlanError) as refused:
            plan(config, Machine("cuda", (Node((Card(80.0),), 16.0, 256.0),)), shape, may_change=may_change)
        assert change.items() <= refused.value.change.items() and bool(refused.value.change) is bool(change)


def test_an_engine_that_sleeps_lies_in_the_memory_of_its_node():
    config, shape = recipe("qwen3_lora")
    small = Machine("cuda", (Node((Card(24.0),), 16.0, 3.0),))
    awake = changed(config, {"rollout.engine.sleep": False})
    with pytest.raises(PlanError, match=r"rollout.workers=1 need 4\.3 GiB of memory, but a node has 3"):
        plan(changed(config, {"rollout.engine.sleep": True}), small, shape)
    assert plan(awake, Machine("cuda", (Node((Card(80.0),), 16.0, 3.0),)), shape)


def test_what_cards_give_up_has_to_fit_into_the_memory_of_the_node():
    config, shape = recipe("qwen3_lora")
    whole = changed(config, {"learner.lora.rank": 0, "learner.offload_optimizer": True, "learner.zero": 2})
    large, small = (Machine("cuda", (Node((Card(80.0),), 16.0, gib),)) for gib in (256.0, 8.0))
    weights, largest = shape.parameters, 2 * shape.largest_tensor
    locked = {4 * weights: 2.0**33, 2 * weights: 2.0**32, largest: 2.0**30}  # the next powers of two
    assert all(power / 2 < size <= power for size, power in locked.items())
    expected = 8 * weights + 2 * 2.0**33 + 2.0**32 + 2.0**30
    assert memory.offloaded(plan(whole, large, shape).config, shape) == expected
    shards = changed(whole, {"learner.zero": 3})
    assert memory.offloaded(plan(shards, large, shape).config, shape) == 20 * weights
    with pytest.raises(PlanError, match="learner.ranks=1.* GiB of memory, but a node has 8") as refused:
        plan(whole, small, shape)
    assert "offload_optimizer=true" not in str(refused.value)


def test_ranks_are_packed_so_their_node_holds_them_all():
    """Two nodes, each large enough for one rank's optimiser and not for both: both ranks are on the first."""
    config, shape = recipe("qwen3_lora")
    asked = {"learner.offload_optimizer": True, "learner.zero": 2, "learner.ranks": 2, "rollout.workers": 2}
    whole = changed(config, {"learner.lora.rank": 0} | asked)

    def nodes(gib: float) -> Machine:
        return Machine("cuda", (Node((Card(80.0),) * 2, 16.0, gib),) * 2)

    found = plan(whole, nodes(512.0), shape)
    assert [seat.node for seat in found.seats if seat.who.startswith("learner")] == [0, 0]
    one = memory.offloaded(found.config, shape) / 2**30
    with pytest.raises(PlanError, match=f"learner.ranks=2 need {2 * one:.1f} GiB of memory, but a node has"):
        plan(whole, nodes(1.5 * one), shape)


def test_ranks_on_cpus_are_packed_as_far_as_the_cpus_of_a_node_go():
    shape = recipe("qwen3_lora")[1]
    asked = ["model.path=x", "rollout.engine.kind=transformers", "learner.ranks=4", "learner.cpus_per_rank=4"]
    config = load_recipe(None, asked)
    rank = plan(config, Machine("cpu", (Node(cpus=17.0, gib=4096.0),)), shape).memory.learner.total / 2**30
    for cpus, packed in ((17.0, 4), (9.0, 2)):
        with pytest.raises(PlanError, match=f"need {packed * rank:.1f} GiB of memory"):
            plan(config, Machine("cpu", (Node(cpus=cpus, gib=(packed - 0.5) * rank),) * 4), shape)
