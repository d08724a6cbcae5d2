"""Learning from recorded games by their likelihood: no episodes, no log-probs of who played."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from learners.batch.trajectories import Trajectory, batch_of, recorded
from learners.loss.loss import Tokens
from learners.settings import LearnerSettings
from learners.update.learning import check_sampler
from tests.support.learner_batches import make_batch

LIKELIHOOD = {"kind": "likelihood"}


def as_recorded(episodes, rewards) -> list[Trajectory]:
    """The same games without what only their player knows."""
    tokens = [[(turn.tokens.observation_ids, turn.tokens.utterance_ids) for turn in each.turns] for each in episodes]
    return [recorded(each.number, turns, each.rewards) for turns, each in zip(tokens, rewards, strict=True)]


def test_the_likelihood_is_the_policy_gradient_of_a_game_just_played(learners):
    """Weights of 1 are no weights: bit for bit, over two ranks and in any order."""
    episodes, rewards = make_batch(9, seed=3)
    for each in rewards:
        each.kind = "advantage"
    shared = {"kl": 0.1, "entropy": 0.01}
    learners.become(loss=shared)
    played = learners.call("update", episodes, rewards)
    parameters = learners.call("parameters")
    trajectories = as_recorded(episodes, rewards)
    for order in (trajectories, trajectories[::-1]):
        learners.become(loss=LIKELIHOOD | shared)
        learned = learners.call("update_on", order)
        again = learners.call("parameters")
        assert all(np.array_equal(again[name], parameters[name]) for name in parameters)
    assert {name: learned[name] for name in ("loss", "grad_norm", "entropy", "reference_kl", "trained_tokens")} == {
        name: played[name] for name in ("loss", "grad_norm", "entropy", "reference_kl", "trained_tokens")
    }
    asks = {"logprob_gap_mean", "logprob_gap_max", "mismatch_kl", "stale_share", "importance_mean"}
    assert asks <= played.keys() and not asks & learned.keys(), "nothing is measured of a player who is not known"


def test_the_likelihood_s_gradient_is_the_advantage_however_far_the_policy_has_gone():
    logprobs = torch.tensor([-1.0, -200.0, -3.0], requires_grad=True)
    advantages, old = torch.tensor([2.0, -0.5, 0.0]), torch.tensor([-9.0, -1.0, -3.0])
    tokens = Tokens(advantages, None, None, torch.tensor([3]), old, None)
    found = LearnerSettings(loss=LIKELIHOOD).loss.of_pack(logprobs, None, tokens, 0.25)
    found.loss.backward()
    assert torch.equal(logprobs.grad, -0.25 * advantages) and found.loss.item() == -0.25 * (2.0 * -1.0 + 0.5 * 200.0)
    assert not found.clipped.any()


@pytest.mark.parametrize("kind", ["policy_gradient", "ppo", "decoupled"])
def test_a_loss_that_asks_who_played_refuses_what_does_not_tell(kind):
    trajectories = as_recorded(*make_batch(2, seed=1))
    with pytest.raises(ValueError, match=rf"recorded game 0 .* learner.loss.kind={kind} .* set it to likelihood"):
        check_sampler(trajectories, LearnerSettings(loss={"kind": kind}))
    check_sampler(trajectories, LearnerSettings(loss=LIKELIHOOD))


def test_recorded_games_are_laid_out_as_played_ones():
    episodes, rewards = make_batch(3, seed=2)
    for episode, given, reward in zip(episodes, as_recorded(episodes, rewards), rewards, strict=True):
        played = episode.sequence("guesser")
        for name in ("ids", "mask", "turn"):
            assert np.array_equal(getattr(given.sequence, name), getattr(played, name))
        assert given.turn_tokens.tolist() == [len(turn.tokens.utterance_ids) for turn in episode.turns]
        assert given.kind == "advantage" and given.rewards.tolist() == reward.rewards.tolist()


def test_what_cannot_be_learned_from_is_named():
    seen, said = np.array([1, 2]), np.array([3])
    with pytest.raises(ValueError, match="recorded game 7 starts with a sampled token"):
        recorded(7, [(seen[:0], said)], [1.0])
    with pytest.raises(ValueError, match="recorded game 7 has a reward that is not finite"):
        recorded(7, [(seen, said)], [float("nan")])
    with pytest.raises(ValueError, match="recorded game 7 has 1 turns but 2 rewards"):
        recorded(7, [(seen, said)], [1.0, 0.0])
    with pytest.raises(ValueError, match="a seat's game is in the batch twice"):
        batch_of([recorded(7, [(seen, said)], [1.0])] * 2)
    with pytest.raises(ValueError, match="holds no turn"):
        batch_of([])
