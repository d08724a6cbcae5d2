"""Choices in the learner: one forward pass gives what scoring every listed action alone would, gradients too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from envs.episode import Choice, Episode, Ticket, Turn, TurnTokens
from learners.batch.choices import Listed
from learners.batch.crediting import assign_credit
from learners.batch.decisions import decided
from learners.batch.packing import pack_to_read, pack_trajectories, plan
from learners.batch.trajectories import collect
from learners.credit.method import CREDIT
from learners.model.load import load_model, pack_logprobs, pack_logprobs_and_best, pack_logprobs_and_entropies
from learners.rank import add_in_one_order
from learners.settings import LearnerSettings
from reward_service.shaper import ShapedRewards
from tests.support.engines import model_of
from tests.support.learner_batches import VOCABULARY
from tests.support.listed_actions import chosen_logprobs, gradient_weights, listed_logprobs

CPU = torch.device("cpu")


def turn(rng: np.random.Generator, chosen: bool) -> Turn:
    """One with a choice or one that was sampled token by token."""
    ids = [rng.integers(0, VOCABULARY, n).astype(np.int32) for n in rng.integers(1, 6, rng.integers(1, 6))]
    pick = int(rng.integers(len(ids)))
    said, made = ids[pick], None
    if chosen:
        tokens = np.array([len(each) for each in ids], np.int32)
        made = Choice(np.concatenate(ids), tokens, rng.integers(1, 4, len(ids)) * 0.7, pick)
    seen = rng.integers(0, VOCABULARY, rng.integers(1, 8)).astype(np.int32)
    logprobs = np.append(np.float32(-1.0), np.zeros(len(said) - 1, np.float32))
    return Turn(
        "me", "policy", "", "", tokens=TurnTokens(seen, said, logprobs, np.zeros(len(said), np.int32), choice=made)
    )


def batch(count: int, seed: int, choices: float = 0.7, most_turns: int = 4):
    rng = np.random.default_rng(seed)
    episodes, rewards = [], []
    for number in range(count):
        turns = [turn(rng, rng.random() < choices) for _ in range(rng.integers(1, 1 + most_turns))]
        ended = bool(rng.integers(2))
        closing = {} if ended else {"me": rng.integers(0, VOCABULARY, 3).astype(np.int32)}
        ticket = Ticket("run", "game", number, number, (("me", "policy"),))
        episodes.append(Episode(ticket, turns, {"me": 1.0}, ended, closing_ids=closing))
        rewards.append(ShapedRewards(number, "me", rng.random(len(turns)).astype(np.float32), 0))
    return collect(episodes, rewards)


def one_by_one(model, trajectories, temperature: float) -> tuple[torch.Tensor, ...]:
    """Log-prob, entropy and largest log-prob of each decision, every sequence in a forward pass of its own."""

    def logits(ids: np.ndarray) -> torch.Tensor:
        return model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0]

    logprobs, entropies, highest = [], [], []
    for trajectory in trajectories:
        ids, whole = trajectory.sequence.ids, logits(trajectory.sequence.ids)
        for place in np.flatnonzero(trajectory.sequence.mask):
            choice = trajectory.sequence.choices.get(int(place))
            if choice is None:
                logp = (whole[place - 1] / temperature).log_softmax(-1)
                logprobs.append(logp[int(ids[place])])
            else:
                scores = []
                for said, divisor in zip(
                    np.split(choice.ids, np.cumsum(choice.tokens)[:-1]), choice.divisors, strict=True
                ):
                    alone = logits(np.concatenate([ids[:place], said]))[place - 1 : -1].log_softmax(-1)
                    scores.append(alone.gather(1, torch.from_numpy(said.astype(np.int64))[:, None]).sum() / divisor)
                logp = torch.stack(scores).log_softmax(-1)
                logprobs.append(logp[choice.chosen])
            entropies.append(-(logp.exp() * logp).sum())
            highest.append(logp.max())
    return torch.stack(logprobs), torch.stack(entropies), torch.stack(highest)


@pytest.mark.parametrize("seed", [1, 2])
def test_one_pass_is_every_listed_action_alone(tiny_model, seed):
    trajectories = batch(6, seed)
    assert sum(len(t.sequence.choices) for t in trajectories) > 5
    each = [np.ones(int(t.turn_tokens.sum()), np.float32) for t in trajectories]
    pack = pack_trajectories(trajectories, each, version=0)
    assert len(pack.ids) == sum(len(t) for t in trajectories)
    packed, plain = load_model(str(tiny_model), LearnerSettings(), seed=0), model_of(str(tiny_model))
    logprobs, entropy = pack_logprobs_and_entropies(packed, pack, 0.7, CPU)
    expected, spread, highest = one_by_one(plain, trajectories, 0.7)
    assert torch.allclose(logprobs, expected, atol=1e-5) and torch.allclose(entropy, spread, atol=1e-5)
    weight = torch.randn(len(expected), generator=torch.Generator().manual_seed(seed))
    (logprobs * weight).sum().backward()
    (expected * weight).sum().backward()
    for (name, ours), theirs in zip(packed.named_parameters(), plain.parameters(), strict=True):
        assert torch.allclose(ours.grad, theirs.grad, atol=2e-5), name
    with torch.no_grad():
        read, best = pack_logprobs_and_best(packed, pack_to_read(trajectories, 256), 0.7, CPU)
    assert torch.allclose(read[: len(expected)], expected, atol=1e-5)
    assert torch.allclose(best[: len(expected)], highest, atol=1e-5)


def test_values_are_read_where_the_game_stood(tiny_model):
    """What is fed behind a sequence moves no place that a value is read at."""
    trajectories = batch(5, seed=4)
    with_choices = pack_to_read(trajectories, 256)
    for trajectory in trajectories:
        trajectory.sequence.choices = {}
    without = pack_to_read(trajectories, 256)
    spots = []
    for pack in (with_choices, without):
        start = np.repeat(np.cumsum(pack.lengths) - pack.lengths, pack.lengths)
        owner = np.repeat(np.arange(len(pack.lengths)), pack.lengths)
        spots.append([(owner[k], k - start[k], pack.ids[k]) for k in pack.keep])
    assert spots[0] == spots[1]


def test_a_game_whose_lists_go_beyond_the_budget_has_a_pass_of_its_own():
    trajectories = batch(8, seed=6, choices=1.0)
    budget = max(len(trajectory.sequence.ids) for trajectory in trajectories)
    made = plan(trajectories, 2, budget)
    assert sorted(index for rank in made for pack in rank for index in pack) == list(range(8))
    sizes = [[len(trajectories[index]) for index in pack] for rank in made for pack in rank if pack]
    assert all(sum(size) <= budget or len(size) == 1 for size in sizes) and max(map(sum, sizes)) > budget


def test_the_gradient_of_a_decision_is_the_one_that_twosome_derives():
    rng = np.random.default_rng(3)
    tokens, listed = np.array([2, 1, 3, 2, 2]), np.array([3, 2])
    words, chosen = np.array([2.0, 1.0, 2.0, 1.0, 3.0]), np.array([2, 0])
    logprobs = torch.tensor(rng.normal(-2, 1, tokens.sum()), requires_grad=True)
    none = np.empty(0, np.int64)
    made = Listed(
        none, none, none, none, np.repeat(np.arange(5), tokens), words, np.repeat([0, 1], listed),
        np.cumsum(listed) - listed + chosen, np.array([1, 3]),
    )  # fmt: skip
    found, _ = decided(torch.zeros(5, dtype=torch.float64), logprobs, made)
    every = listed_logprobs(logprobs.detach().numpy(), tokens, words, listed)
    assert found.detach().numpy() == pytest.approx(
        np.insert([0.0, 0.0, 0.0], [1, 2], chosen_logprobs(every, listed, chosen))
    )
    found.sum().backward()
    assert logprobs.grad.numpy() == pytest.approx(gradient_weights(every, tokens, words, listed, chosen))


def test_a_choice_is_one_decision_with_the_credit_of_its_turn():
    trajectories = batch(6, seed=5, choices=1.0)
    count = sum(len(t.rewards) for t in trajectories)
    assert all((t.turn_tokens == 1).all() for t in trajectories)
    readings = {"values": np.linspace(0, 1, count), "bootstrap": np.ones(len(trajectories))}
    found = assign_credit(trajectories, CREDIT.make("twosome", gamma=0.9), {}, **readings)
    assert len(found.advantages) == count and found.valued.all()
    token_level = assign_credit(trajectories, CREDIT.make("poad", gamma=0.9), {}, **readings)
    assert found.advantages == pytest.approx(token_level.advantages, abs=1e-6)


def test_threads_add_to_one_place_in_one_order(tiny_model):
    """All that is listed later in a game is asked of its first tokens, whose gradients are sums over it."""
    threads, model = torch.get_num_threads(), load_model(str(tiny_model), LearnerSettings(), 0)
    trajectories = batch(3, seed=9, choices=1.0, most_turns=80)
    advantages = [np.ones(int(each.turn_tokens.sum()), np.float32) for each in trajectories]
    pack, found = pack_trajectories(trajectories, advantages, version=0), []
    torch.set_num_threads(2)
    add_in_one_order()
    try:
        for _ in range(6):
            model.zero_grad()
            pack_logprobs(model, pack, 1.0, CPU).sum().backward()
            found.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = True
    assert all(torch.equal(found[0], again) for again in found[1:])
