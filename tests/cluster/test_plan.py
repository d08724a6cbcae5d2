"""Who computes where, in which type and in how much memory, over machines and recipes."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from cluster.errors import RunError
from cluster.plan import machine as machine_module
from cluster.plan.decide import Plan, PlanError, changed, in_words, plan
from cluster.plan.machine import GIB, Card, Machine, Node, described, there
from cluster.plan.shape import ModelShape, shape_of_run
from cluster.recipe.config import RunConfig
from cluster.recipe.fields import dotted_fields
from cluster.recipe.reading import load_recipe

FOLDER = Path(__file__).parents[2] / "recipes"
QWEN = ModelShape(28, 2048, 6144, 16, 8, 128, 151_936, tied=True, query_norms=True)
LLAMA = ModelShape(32, 4096, 14_336, 32, 8, 128, 128_256)
TWO = "rollout.workers=2", "learner.ranks=2", "learner.zero=3"
LONG = "rollout.engine.max_context=8192", "learner.tokens_per_micro_batch=16384"
RECIPES_OF: dict[str, tuple[tuple[str, ...], ModelShape | None]] = {
    "demo": (("demo.yaml",), None),
    "tiny_lora": (("demo.yaml", "learner.lora.rank=8"), None),
    "debug": (("demo.yaml", "rollout.engine.kind=transformers"), None),
    "two_workers": (("demo.yaml", *TWO), None),
    "qwen3_full": (("demo.yaml", "gpu/1x80.yaml", *TWO, "learner.tokens_per_micro_batch=16384"), QWEN),
    "qwen3_lora": (("games/virtualhome.yaml", "gpu/1x80.yaml", "gpu/lora.yaml", *LONG), QWEN),
    "llama_lora": (("games/virtualhome.yaml", "gpu/1x80.yaml", "gpu/lora.yaml", *TWO), LLAMA),
}
EXPECTED = """
demo              cpu     0 0 shared_memory float32
demo              0x0     0 0 shared_memory float32
demo              1x16    0.5 0.5 ipc bfloat16
demo              1x24    0.5 0.5 ipc bfloat16
demo              1x80    0.5 0.5 ipc bfloat16
demo              2x24    1 1 nccl bfloat16
demo              2x80    1 1 nccl bfloat16
demo              4x24    1 1 nccl bfloat16
demo              4x80    1 1 nccl bfloat16
demo              8x141   1 1 nccl bfloat16
demo              2x1x24  1 1 nccl bfloat16
demo              2x8x80  1 1 nccl bfloat16
tiny_lora         cpu     0 0 adapter float32
tiny_lora         0x0     0 0 adapter float32
tiny_lora         1x16    0.5 0.5 adapter bfloat16
tiny_lora         1x24    0.5 0.5 adapter bfloat16
tiny_lora         1x80    0.5 0.5 adapter bfloat16
tiny_lora         2x24    1 1 adapter bfloat16
tiny_lora         2x80    1 1 adapter bfloat16
tiny_lora         4x24    1 1 adapter bfloat16
tiny_lora         4x80    1 1 adapter bfloat16
tiny_lora         8x141   1 1 adapter bfloat16
tiny_lora         2x1x24  1 1 adapter bfloat16
tiny_lora         2x8x80  1 1 adapter bfloat16
debug             cpu     0 0 shared_memory float32
debug             0x0     0 0 shared_memory float32
debug             1x16    0.5 0.5 shared_memory bfloat16
debug             1x24    0.5 0.5 shared_memory bfloat16
debug             1x80    0.5 0.5 shared_memory bfloat16
debug             2x24    1 1 shared_memory bfloat16
debug             2x80    1 1 shared_memory bfloat16
debug             4x24    1 1 shared_memory bfloat16
debug             4x80    1 1 shared_memory bfloat16
debug             8x141   1 1 shared_memory bfloat16
debug             2x1x24  1 1 object_store bfloat16
debug             2x8x80  1 1 object_store bfloat16
two_workers       cpu     0 0 shared_memory float32
two_workers       0x0     0 0 shared_memory float32
two_workers       1x16    no: learner.ranks=1 rollout.workers=1
two_workers       1x24    no: learner.ranks=1 rollout.workers=1
two_workers       1x80    no: learner.ranks=1 rollout.workers=1
two_workers       2x24    0.5 0.5 ipc bfloat16
two_workers       2x80    0.5 0.5 ipc bfloat16
two_workers       4x24    1 1 nccl bfloat16
two_workers       4x80    1 1 nccl bfloat16
two_workers       8x141   1 1 nccl bfloat16
two_workers       2x1x24  0.5 0.5 ipc bfloat16
two_workers       2x8x80  1 1 nccl bfloat16
qwen3_full        cpu     0 0 shared_memory float32
qwen3_full        0x0     no: rollout.engine.kind=transformers
qwen3_full        1x16    no: learner.ranks=1 rollout.workers=1 learner.offload_optimizer=true
qwen3_full        1x24    no: learner.ranks=1 rollout.workers=1 learner.offload_optimizer=true
qwen3_full        1x80    no: learner.ranks=1 rollout.workers=1
qwen3_full        2x24    no: learner.offload_optimizer=true
qwen3_full        2x80    0.5 0.5 ipc bfloat16
qwen3_full        4x24    1 1 nccl bfloat16
qwen3_full        4x80    1 1 nccl bfloat16
qwen3_full        8x141   1 1 nccl bfloat16
qwen3_full        2x1x24  no: learner.offload_optimizer=true
qwen3_full        2x8x80  1 1 nccl bfloat16
qwen3_lora        cpu     0 0 adapter float32
qwen3_lora        0x0     no: rollout.engine.kind=transformers
qwen3_lora        1x16    0.5 0.5 adapter bfloat16 sleeps
qwen3_lora        1x24    0.5 0.5 adapter bfloat16 sleeps
qwen3_lora        1x80    0.5 0.5 adapter bfloat16
qwen3_lora        2x24    1 1 adapter bfloat16
qwen3_lora        2x80    1 1 adapter bfloat16
qwen3_lora        4x24    1 1 adapter bfloat16
qwen3_lora        4x80    1 1 adapter bfloat16
qwen3_lora        8x141   1 1 adapter bfloat16
qwen3_lora        2x1x24  1 1 adapter bfloat16
qwen3_lora        2x8x80  1 1 adapter bfloat16
llama_lora        cpu     0 0 adapter float32
llama_lora        0x0     no: rollout.engine.kind=transformers
llama_lora        1x16    no: nothing helps
llama_lora        1x24    no: nothing helps
llama_lora        1x80    no: learner.ranks=1 rollout.workers=1
llama_lora        2x24    no: learner.ranks=1 rollout.workers=1
llama_lora        2x80    0.5 0.5 adapter bfloat16
llama_lora        4x24    1 1 adapter bfloat16
llama_lora        4x80    1 1 adapter bfloat16
llama_lora        8x141   1 1 adapter bfloat16
llama_lora        2x1x24  no: learner.ranks=1 rollout.workers=1
llama_lora        2x8x80  1 1 adapter bfloat16
"""


@cache
def recipe(name: str, *overrides: str) -> tuple[RunConfig, ModelShape]:
    (first, *layers), shape = RECIPES_OF[name]
    layers = [layer if "=" in layer else str(FOLDER / layer) for layer in layers]
    config = load_recipe(FOLDER / first, [*layers, *overrides])
    return config, shape or shape_of_run(config)


def planned(name: str, machine: str | Machine, *overrides: str) -> Plan:
    config, shape = recipe(name, *overrides)
    return plan(config, described(machine) if isinstance(machine, str) else machine, shape)


def outcome(name: str, machine: str) -> str:
    """GPUs of a rank and of a worker, transport, type; or what is to be changed."""
    try:
        found = planned(name, machine)
    except PlanError as no:
        return f"no: {in_words(no.change) or 'nothing helps'}"
    config = found.config
    sleeps = " sleeps" if config.rollout.engine.sleep else ""
    gpus = f"{config.learner.gpus_per_rank:g} {config.rollout.gpus_per_worker:g}"
    return f"{gpus} {found.transport} {found.dtype}{sleeps}"


def rows() -> list[tuple[str, str, str]]:
    return [tuple(line.split(maxsplit=2)) for line in EXPECTED.strip().splitlines()]


@pytest.mark.parametrize(("name", "machine", "expected"), rows(), ids=lambda text: text.replace(" ", "_"))
def test_what_runs_where(name, machine, expected):
    assert outcome(name, machine) == expected.strip()


def test_both_sides_agree_no_card_is_taken_twice_and_nothing_is_left_open():
    for name, machine, expected in rows():
        if expected.startswith("no:"):
            continue
        found, cards = planned(name, machine), {}
        learner, rollout = found.config.learner, found.config.rollout
        assert learner.dtype == rollout.engine.dtype == found.dtype
        open_still = {learner.dtype, learner.attention, learner.sync.transport, rollout.engine.dtype}
        assert "auto" not in open_still
        said = learner.gpus_per_rank, rollout.gpus_per_worker, rollout.share_cards, rollout.engine.sleep
        assert None not in (*said, rollout.engine.enforce_eager)
        for seat in found.seats:
            part = learner.gpus_per_rank if "rank" in seat.who else min(1.0, rollout.gpus_per_worker)
            for card in seat.cards:
                cards[seat.node, card] = cards.get((seat.node, card), 0.0) + part
        assert all(taken <= 1 for taken in cards.values())
        assert {len({seat.node}) for seat in found.seats} <= {1}
        if found.machine.cards:
            assert 0 < found.memory.peak <= found.memory.limit < found.machine.smallest_card * GIB


def test_every_refusal_names_settings_that_exist_and_help():
    known = {key for key, _, _ in dotted_fields()}
    tried = 0
    for name, machine, expected in rows():
        if not expected.startswith("no: "):
            continue
        config, shape = recipe(name)
        with pytest.raises(PlanError) as no:
            plan(config, described(machine), shape)
        line, change = str(no.value), no.value.change
        assert "\n" not in line and set(change) <= known
        if not change:
            assert "it takes a smaller model.path or larger cards" in line
            continue
        assert in_words(change) in line
        assert plan(changed(config, change), described(machine), shape).config is not None
        assert load_recipe(None, in_words(change).split()) is not None, "it can be given on the command line as it is"
        tried += 1
    assert tried > 10


@pytest.mark.parametrize("name", RECIPES_OF)
def test_more_memory_never_turns_a_yes_into_a_no(name):
    for cards in (1, 2, 4):
        found = [not outcome(name, f"{cards}x{gib}").startswith("no:") for gib in (8, 16, 24, 40, 48, 80, 96, 141)]
        assert all(before <= after for before, after in pairwise(found)), (cards, found)


def test_the_demo_needs_nothing_said_on_one_card():
    config = planned("demo", "1x16").config
    assert (config.learner.gpus_per_rank, config.rollout.gpus_per_worker, config.rollout.share_cards) == (
        0.5,
        0.5,
        True,
    )
    assert (config.learner.sync.transport, config.rollout.engine.enforce_eager) == ("ipc", False)
    assert config.rollout.engine.gpu_memory_share < 0.2 and config.rollout.engine.gpu_cache_gib > 0


@pytest.mark.parametrize(
    ("machine", "overrides", "line"),
    [
        ("cpu", ("learner.gpus_per_rank=1",), "learner.gpus_per_rank=1, but the CPU build is installed: "
         "learner.gpus_per_rank=null, or make setup DEVICE=gpu"),
        ("0x0", ("learner.gpus_per_rank=1", "rollout.engine.kind=transformers"), "learner.gpus_per_rank=1, but there "
         "is no card: learner.gpus_per_rank=null"),
        ("cpu", ("learner.sync.transport=nccl",), "learner.sync.transport=nccl, which goes from card to card, but not "
         "both sides are on GPUs: learner.sync.transport=auto"),
        ("1x24", ("rollout.gpus_per_worker=0", "rollout.engine.kind=vllm"), "rollout.gpus_per_worker=0, but the CUDA "
         "build is installed, whose vLLM cannot play on a CPU: rollout.gpus_per_worker=null"),
        ("1x24", ("learner.sync.transport=nccl",), "learner.sync.transport=nccl, but NCCL refuses two processes on one "
         "card, and here learners and engines share theirs: learner.sync.transport=auto"),
        ("2x24", ("learner.sync.transport=ipc",), "learner.sync.transport=ipc, which hands weights over inside a card, "
         "but not every worker shares one with a rank: learner.sync.transport=auto"),
        ("1x24", ("learner.gpus_per_rank=1", "rollout.gpus_per_worker=1"), "learner.ranks=1 and rollout.workers=1 need "
         "2 cards, but there is 1: learner.gpus_per_rank=null rollout.gpus_per_worker=null"),
        ("1x24", ("rollout.share_cards=false",), "learner.ranks=1 and rollout.workers=1 need 2 cards of their own, but "
         "there is 1: rollout.share_cards=null"),
        ("2x24", ("rollout.share_cards=true", "learner.gpus_per_rank=1"), "a rank and its worker share a card, but "
         "learner.gpus_per_rank=1 and rollout.gpus_per_worker=0 leave one of them none of it: "
         "learner.gpus_per_rank=null rollout.gpus_per_worker=null"),
        ("2x24", ("rollout.share_cards=false", "learner.gpus_per_rank=0.5"), "learner.gpus_per_rank=0.5 is a part of a "
         "card, which the other side shares only with rollout.share_cards=true: rollout.share_cards=true"),
        ("8x80", ("rollout.gpus_per_worker=2",), "rollout.gpus_per_worker=2, but an engine of "
         "rollout.engine.tensor_parallel=1 plays on 1: rollout.gpus_per_worker=null"),
        ("2x80", ("rollout.engine.tensor_parallel=2",), "learner.ranks=1 and rollout.workers=1 and "
         "rollout.engine.tensor_parallel=2 need 3 cards, but there are 2: rollout.engine.tensor_parallel=1"),
        ("4x1x80", ("rollout.engine.tensor_parallel=2",), "learner.ranks=1 and rollout.workers=1 and "
         "rollout.engine.tensor_parallel=2 need 3 cards, but there are 4: rollout.engine.tensor_parallel=1"),
        ("8x80", ("rollout.engine.tensor_parallel=3",), "rollout.engine.tensor_parallel=3 does not divide the model's "
         "4 heads and 4 key heads evenly: rollout.engine.tensor_parallel=2"),
        ("8x80", ("rollout.engine.tensor_parallel=8",), "learner.ranks=1 and rollout.workers=1 and "
         "rollout.engine.tensor_parallel=8 need 9 cards, but there are 8: rollout.engine.tensor_parallel=4"),
        ("2x80", ("rollout.engine.sleep=true",), "rollout.engine.sleep=true is for a vLLM engine that shares its card "
         "with a learner rank: rollout.engine.sleep=null"),
        ("2x1x80", ("learner.sync.transport=shared_memory",), "learner.sync.transport=shared_memory, which ends at the "
         "node, but there are several: learner.sync.transport=auto"),
        ("1x24", ("rollout.workers.most=3",), "learner ranks and 1 to 3 rollout workers would have to share cards, "
         "which takes a fixed number of workers: rollout.workers=1"),
        ("cpu", ("rollout.workers.most=3", "learner.sync.transport=shared_memory"), "learner.sync.transport="
         "shared_memory, which ends at the node, but rollout.workers may be on others: learner.sync.transport=auto"),
        ("1x16", ("rollout.engine.gpu_cache_gib=20",), "a learner rank and its engine need 23.2 GiB together, but 15.2 "
         "GiB can be had: it fits with rollout.engine.gpu_cache_gib=null"),
    ],
)  # fmt: skip
def test_what_is_set_is_obeyed_or_refused_in_one_line(machine, overrides, line):
    if machine == "4x1x80":
        machine = Machine("cuda", (Node((Card(80.0),)),) * 4)
    with pytest.raises(PlanError) as no:
        planned("demo", machine, *overrides)
    assert str(no.value) == line
    known = load_recipe(None, in_words(no.value.change).split())
    assert known is not None and planned("demo", machine, *overrides, *in_words(no.value.change).split())


def test_what_is_set_is_kept():
    dtypes = planned("demo", "1x24", "learner.dtype=float32").config
    assert dtypes.learner.dtype == dtypes.rollout.engine.dtype == "float32"
    halves = planned("demo", "8x80", "learner.gpus_per_rank=0.25").config
    assert (halves.rollout.share_cards, halves.rollout.gpus_per_worker, halves.learner.sync.transport) == (
        True,
        0.75,
        "ipc",
    )
    shared = planned("demo", "8x80", "rollout.share_cards=true").config
    assert (shared.learner.gpus_per_rank, shared.rollout.gpus_per_worker) == (0.5, 0.5)
    wide = planned("qwen3_full", "8x80", "rollout.engine.tensor_parallel=2")
    assert [seat.cards for seat in wide.seats] == [(0,), (1,), (4, 5), (6, 7)]
    assert wide.config.rollout.gpus_per_worker == 2 and wide.transport == "nccl"
    memory = planned("demo", "1x24", "learner.sync.transport=object_store").transport
    assert memory == "object_store"


def test_a_range_of_workers_is_planned_for_its_least_and_for_nodes_that_come():
    found = planned("demo", "4x80", "rollout.workers={least: 2, most: 9}")
    assert [seat.who for seat in found.seats] == ["learner rank 0", "rollout worker 0", "rollout worker 1"]
    assert found.transport == "nccl" and found.config.rollout.workers_in_words == "2 to 9 workers"
    assert planned("demo", "cpu", "rollout.workers.most=3").transport == "object_store"
    with pytest.raises(PlanError, match=r"rollout.workers.least=4 need 5 cards .*: rollout.workers.least=3$"):
        planned("demo", "4x80", "rollout.workers={least: 4, most: 8}", "rollout.share_cards=false")


def test_a_worker_without_a_rank_on_its_card_gets_weights_through_memory():
    assert (
        planned("two_workers", "2x80", "learner.ranks=1", "learner.zero=2", "rollout.workers=2").transport
        == "shared_memory"
    )
    assert planned("two_workers", "2x80", "rollout.workers=1").transport == "ipc"


def test_a_lone_side_has_the_cards_for_itself():
    config, shape = recipe("llama_lora")
    play, learn = (plan(config, described("2x80"), shape, side) for side in ("play", "learn"))
    assert (play.config.rollout.gpus_per_worker, play.config.learner.gpus_per_rank) == (1, 0)
    assert (learn.config.learner.gpus_per_rank, learn.config.rollout.gpus_per_worker) == (1, 0)
    assert play.transport == "adapter" and not play.config.rollout.share_cards
    assert (
        plan(changed(config, {"learner.lora.rank": 0}), described("2x80"), shape, "play").transport == "shared_memory"
    )
    wide = plan(
        changed(config, {"rollout.engine.tensor_parallel": 2, "rollout.workers": 1}), described("2x80"), shape, "play"
    )
    assert wide.config.rollout.gpus_per_worker == 2


def test_an_engine_sleeps_exactly_where_card_and_cache_would_be_too_small():
    awake, asleep = planned("qwen3_lora", "1x80"), planned("qwen3_lora", "1x24")
    assert not awake.config.rollout.engine.sleep and asleep.config.rollout.engine.sleep
    rank, engine = asleep.memory.learner, asleep.memory.engine
    assert rank.total + engine.total > asleep.memory.limit, "both at work at once would not fit"
    assert asleep.memory.peak == max(rank.total + engine.runtime, rank.at_rest + engine.total) <= asleep.memory.limit
    with pytest.raises(PlanError, match="need .* together, but .* it fits with rollout.engine.sleep=null"):
        planned("qwen3_lora", "1x14", "rollout.engine.sleep=false")


def test_frozen_players_are_a_part_of_the_plan():
    config, shape = recipe("qwen3_lora")
    with_one = changed(config, {"rollout.frozen": {"old": "there"}, "rollout.frozen_sequences": 4})
    alone, beside = (
        plan(config, described("2x80"), shape),
        plan(with_one, described("2x80"), shape, frozen={"old": shape}),
    )
    assert beside.memory.frozen > 2 * shape.parameters
    total = [found.config.rollout.engine.gpu_memory_share * 80 * GIB + found.memory.frozen for found in (alone, beside)]
    assert total[1] <= beside.memory.limit and total[0] < total[1]
    with pytest.raises(PlanError, match="rollout.frozen_sequences=1"):
        plan(changed(with_one, {"rollout.frozen_sequences": 80}), described("2x80"), shape, frozen={"old": shape})


def test_cpus_are_counted():
    few = Machine("cpu", (Node(cpus=2.0),))
    with pytest.raises(
        PlanError, match=r"needs 4 CPUs .* has 2: rollout.cpus_per_worker=0.5 learner.cpus_per_rank=0.5"
    ):
        planned("two_workers", few)
    with pytest.raises(PlanError, match="of memory, but a node has 8"):
        planned("qwen3_lora", Machine("cpu", (Node(gib=8.0),)))


def test_all_shortages_are_told_and_gpus_come_first(monkeypatch):
    config = load_recipe(FOLDER / "games/negotiation.yaml", [str(FOLDER / "gpu/8x80.yaml")])
    two_cpus = Node(cpus=2.0)
    with pytest.raises(PlanError) as none:
        plan(config, Machine("cpu", (two_cpus,)))
    assert str(none.value) == (
        "no GPU is used, for the CPU build is installed, and the run needs 8 CPUs (rollout.workers=4, learner.ranks=4) "
        "but this machine has 2: rollout.cpus_per_worker=0.2 learner.cpus_per_rank=0.2"
    )
    with pytest.raises(PlanError, match=r"need 4 cards, but there are 2, and the run needs 8 CPUs .* has 2: ") as few:
        plan(config, Machine("cuda", (Node((Card(80),) * 2, 2.0),)))
    plan(changed(config, few.value.change), Machine("cuda", (Node((Card(80),) * 2, 2.0),)))
    monkeypatch.setattr(machine_module, "HEALTH_SECONDS", 0.1)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(RunError, match="no plan for the cluster at RAY_ADDRESS=127.0.0.1:1: no answer within 0.1 s"):
        there()


@pytest.mark.parametrize(
    ("nodes", "cpus", "changes", "threads"),
    [
        (1, 2.0, ("max_staleness=0",), 2),  # play waits meanwhile
        (1, 2.0, (), 1),
        (1, 6.0, (), 5),
        (1, 6.0, ("rollout.workers=2", "learner.ranks=2"), 2),
        (1, 6.0, ("learner.ranks=2", "max_staleness=0"), 3),
        (1, 64.0, (), 8),
        (1, 64.0, ("learner.cpus_per_rank=16",), 16),
        (1, None, ("learner.threads=3",), 3),
        (2, 16.0, (), 1),  # nobody knows yet which node plays
    ],
)
def test_a_learner_on_cpus_takes_the_cores_that_are_left(nodes, cpus, changes, threads):
    assert planned("demo", Machine("cpu", (Node(cpus=cpus),) * nodes), *changes).config.learner.threads == threads


def test_cards_of_unknown_size_are_used_carefully():
    found = planned("qwen3_lora", Machine("cuda", (Node((Card(),)),)))
    assert found.config.rollout.engine.sleep and found.config.rollout.engine.gpu_memory_share == 0.4


@pytest.mark.parametrize("text", ["8", "x80", "8x", "0x8x80", "8x80GB", "gpu", ""])
def test_a_machine_that_cannot_be_read_is_refused(text):
    with pytest.raises(Exception, match="--machine .* is not cpu, CARDSxGIB"):
        described(text)
