"""How often an update goes through its games, and which log-probs it compares with."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.lab.trainee import Driver, alone
from learners.batch.minibatches import shares
from learners.batch.trajectories import collect
from learners.model.load import load_model
from learners.optimiser import make_optimiser
from learners.settings import LearnerSettings
from learners.update.learning import Learning, make_critic
from learners.update.reading import BatchReader
from tests.support.learner_batches import MADE_UP, make_batch

CPU, GAMES = torch.device("cpu"), 10
SHARES = {"epochs": 2, "minibatches": 2}
DECOUPLED = {"loss": {"kind": "decoupled"}}


class Counted(Driver):
    """Knows how many tokens went through its model with a gradient, and how many without."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.tokens = {True: 0, False: 0}

    def __call__(self, *arguments, **named):
        self.tokens[torch.is_grad_enabled()] += named["input_ids"].numel()
        return super().__call__(*arguments, **named)


class ReadsAll(BatchReader):
    """Reads all of the batch before the steps, which then find nothing by themselves."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.wants_old_logprobs, self.of_policy = True, ("logprobs",)


def learned(tiny_model, changes: dict) -> tuple[Learning, Counted, dict[str, float], list]:
    alone()
    settings = LearnerSettings(zero=0, **MADE_UP, **changes)
    model = load_model(str(tiny_model), settings, 0)
    optimiser = make_optimiser(list(model.parameters()), settings)
    driver = Counted(model, optimiser)
    critic = make_critic(settings, model.get_output_embeddings().in_features, CPU, 0)
    learning = Learning(driver, optimiser, settings, 1.0, CPU, seed=0, rank=0, critic=critic)
    trajectories = collect(*make_batch(GAMES, seed=11))
    return learning, driver, learning.update(trajectories, version=7), trajectories


def tokens_of(trajectories: list, places: list[int]) -> int:
    return sum(len(trajectories[place]) for place in places)


def test_the_start_is_read_only_of_games_that_the_first_step_does_not_train(tiny_model):
    learning, driver, _, trajectories = learned(tiny_model, SHARES | DECOUPLED)
    first, second, *_ = shares(GAMES, learning.settings, 0, 0)
    whole = tokens_of(trajectories, range(GAMES))
    assert driver.tokens == {True: 2 * whole, False: tokens_of(trajectories, second)}
    assert sorted(first + second) == list(range(GAMES))


@pytest.mark.parametrize(
    "changes, read",
    [
        ({"epochs": 2}, 0),
        (SHARES | {"credit": {"method": "gae"}}, 1),  # they come with the critic's states
    ],
)
def test_or_of_none_or_of_all(tiny_model, changes, read):
    _, driver, _, trajectories = learned(tiny_model, changes | DECOUPLED)
    assert driver.tokens[False] == read * tokens_of(trajectories, range(GAMES))


def test_what_is_measured_at_the_start_does_not_depend_on_who_reads_it(tiny_model, monkeypatch):
    """Each token counts once, and the steps are the same."""
    own, _, by_steps, _ = learned(tiny_model, SHARES | DECOUPLED)
    monkeypatch.setattr("learners.update.learning.BatchReader", ReadsAll)
    other, _, before, _ = learned(tiny_model, SHARES | DECOUPLED)
    for name in ("entropy", "stale_share", "importance_mean", "loss", "grad_norm", "update_kl"):
        assert by_steps[name] == pytest.approx(before[name], rel=1e-3, abs=1e-6), name
    pairs = zip(own.reader.engine.module.parameters(), other.reader.engine.module.parameters(), strict=True)
    assert np.mean([float((one - two).detach().abs().mean()) for one, two in pairs]) < 1e-6


def test_a_gap_is_told_only_where_tokens_of_the_same_weights_were_there_to_compare(tiny_model):
    learning, _, of_none, trajectories = learned(tiny_model, DECOUPLED)
    assert learning.update(trajectories, version=0)["logprob_gap_mean"] > 0
    assert of_none["stale_share"] == 1 and of_none["importance_mean"] > 0
    assert not {"logprob_gap_mean", "logprob_gap_max", "mismatch_kl", "logprob_gap_warned"} & of_none.keys()
