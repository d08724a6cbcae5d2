"""Groups: several games of one task, from the ticket to the credit that compares them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.errors import ConfigError
from cluster.recipe.reading import load_recipe
from learners.batch.crediting import assign_credit
from learners.batch.trajectories import collect
from learners.credit.method import CREDIT
from tests.support.learner_batches import make_batch
from tests.support.runs import config_for, metrics_of, run

METHODS = ("rloo", "grpo", "gigpo")


@pytest.mark.parametrize("name", METHODS)
def test_groups_of_one_are_refused_before_anything_starts(name):
    with pytest.raises(ConfigError, match=f"learner.credit.method={name} needs group_size of at least 2"):
        load_recipe(None, [f"learner.credit.method={name}"])
    with pytest.raises(ConfigError, match="batch_episodes=128 is not a multiple of group_size=3"):
        load_recipe(None, [f"learner.credit.method={name}", "group_size=3"])
    assert load_recipe(None, [f"learner.credit.method={name}", "group_size=4"]).group_size == 4


def played(tasks: list[int], seed: int) -> tuple[list, list]:
    """A batch whose episode i plays task tasks[i]; two seats, so that each task is two groups."""
    episodes, rewards = make_batch(len(tasks), seed=seed, seats=("buyer", "seller"))
    for episode, task in zip(episodes, tasks, strict=True):
        episode.ticket = replace(episode.ticket, seed=task)
    return episodes, rewards


@pytest.mark.parametrize("name", METHODS)
@given(tasks=st.lists(st.integers(0, 3), min_size=1, max_size=8), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_each_seat_is_compared_with_the_same_seat_of_its_task(name, tasks, seed):
    """What other tasks and seats were paid changes nothing, and who is alone learns nothing."""
    trajectories = collect(*played(tasks, seed))
    method = CREDIT.make(name, step_weight=0.0) if name == "gigpo" else CREDIT.make(name)
    credit = assign_credit(trajectories, method, {})
    each = np.split(credit.advantages, np.cumsum([int(t.turn_tokens.sum()) for t in trajectories])[:-1])
    lonely = [tasks.count(trajectory.task) == 1 for trajectory in trajectories]
    assert credit.alone == sum(lonely)
    assert not any(found.any() for alone, found in zip(lonely, each, strict=True) if alone)
    for task, seat in {(trajectory.task, trajectory.seat) for trajectory in trajectories}:
        inside = [i for i, t in enumerate(trajectories) if (t.task, t.seat) == (task, seat)]
        again = assign_credit([trajectories[i] for i in inside], method, {})
        assert again.advantages == pytest.approx(np.concatenate([each[i] for i in inside]), abs=1e-6)
        mean = np.mean([each[i][0] for i in inside])
        assert mean == pytest.approx(0.0, abs=1e-6)


def group_run(model, output, method: str, reward: dict, **credit):
    config = config_for(
        model,
        output,
        updates=2,
        group_size=4,
        max_staleness=0,
        reward=reward,
        rollout={"engine": {"kind": "transformers"}},
        learner={"learning_rate": 1e-2, "credit": {"method": method, **credit}},
        evaluation={"episodes": 1},
    )
    _, folder = run(config)
    (policy,) = folder.checkpoints.glob("*2/policy/model.safetensors")
    return metrics_of(folder), policy.read_bytes()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_grpo_trains_on_whole_groups(ray_cluster, parrot_model, tmp_path):
    rows, _ = group_run(parrot_model, tmp_path, "grpo", {"shaper": "game"})
    for row in rows:
        assert row["learner/alone"] == 0 and row["learner/grad_norm"] > 0
        assert row["learner/advantage_std"] > 0.1


@pytest.mark.long
@pytest.mark.timeout(300)
def test_grpo_gives_the_same_bytes_twice(ray_cluster, parrot_model, tmp_path):
    one, other = (group_run(parrot_model, tmp_path / run, "grpo", {"shaper": "game"})[1] for run in ("one", "other"))
    assert one == other


@pytest.mark.long
@pytest.mark.timeout(300)
def test_gigpo_trains_on_turns_with_the_same_intentions_before_them(ray_cluster, parrot_model, tmp_path):
    """The reward service labels every turn, the learner compares those of a group with the same labels before."""
    reward = {"shaper": {"kind": "aria", "gives": "outcome", "intentions": {"first_fit": 8}}}
    rows, _ = group_run(parrot_model, tmp_path, "gigpo", reward, gamma=0.95, anchor="labels")
    assert all(row["learner/alone"] == 0 and row["learner/grad_norm"] > 0 for row in rows)
    assert rows[-1]["reward/intentions/version"] >= 1
