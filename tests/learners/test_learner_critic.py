"""The critic in the learner: what it reads and where, what credit makes of it, and that ranks agree."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from learners.batch.packing import pack_to_read
from learners.batch.trajectories import collect
from learners.credit.critics import TokenCriticSettings
from learners.critic.tokens import Critic, States, explained, head_inputs
from learners.model.load import load_model, pack_logprobs
from learners.settings import LearnerSettings
from tests.support.learner_batches import VOCABULARY, make_batch
from tests.support.learner_pair import distance

POAD = {"method": "poad", "lambda_a": 1.0, "gamma": 1.0}


def cut_off(batch, every: int = 2):
    """The same batch, each `every`-th game of it cut off before something was shown."""
    episodes, rewards = batch
    rng = np.random.default_rng(5)
    for number, episode in enumerate(episodes):
        if number % every == 0:
            episode.terminated = False
            seat = episode.turns[0].seat
            episode.closing_ids = {seat: rng.integers(0, VOCABULARY, 1 + number % 3).astype(np.int32)}
    return episodes, rewards


def test_states_are_the_last_hidden_ones_before_each_token_and_after_what_would_have_been_shown(tiny_model):
    trajectories = collect(*cut_off(make_batch(5, seed=3)))
    model = load_model(str(tiny_model), LearnerSettings(), 0).eval()
    with torch.no_grad(), head_inputs(model) as caught:
        pack_logprobs(model, pack_to_read(trajectories, 256), 1.0, torch.device("cpu"))
    plain = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32, attn_implementation="eager").eval()
    found, place = caught[0][0], 0
    ends = sum(int(t.turn_tokens.sum()) for t in trajectories)
    for trajectory in trajectories:
        ids = torch.from_numpy(np.concatenate([trajectory.sequence.ids, trajectory.closing_ids]).astype(np.int64))
        with torch.no_grad():
            hidden = plain(input_ids=ids[None], output_hidden_states=True).hidden_states[-1][0]
        for position in np.flatnonzero(trajectory.sequence.mask):
            torch.testing.assert_close(found[place], hidden[position - 1], atol=1e-5, rtol=1e-4)
            place += 1
        if not trajectory.terminated:
            assert len(trajectory.closing_ids)
            torch.testing.assert_close(found[ends], hidden[-1], atol=1e-5, rtol=1e-4)
            ends += 1
    assert ends == len(found)


def test_an_untaught_critic_says_nothing_and_a_taught_one_explains(monkeypatch):
    monkeypatch.setattr("torch.distributed.all_reduce", lambda tensor: None)  # one rank, no process group
    critic = Critic(TokenCriticSettings(epochs=200, learning_rate=1e-2), 6, torch.device("cpu"), seed=0)
    hidden = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))
    states = States(hidden, tokens=38)
    assert (critic.read(states) == 0).all()
    target = hidden[:38, 0].numpy().astype(np.float32)
    used = np.arange(38) % 2 == 0
    learned = critic.learn([states], [np.where(used, target, 1e6).astype(np.float32)], [used])
    assert learned["critic_loss"] == pytest.approx(float(np.square(target[used]).mean()), rel=1e-5)
    assert learned["critic_loss_after"] < 0.05 * learned["critic_loss"], "tokens that are not used teach nothing"
    assert explained(critic.read(states)[:38][used], target[used]) > 0.9
    again = Critic(TokenCriticSettings(), 6, torch.device("cpu"), seed=9)
    again.restore(critic.state())
    assert np.array_equal(again.read(states), critic.read(states))


def test_with_an_untaught_critic_poad_is_reinforce(learners):
    """All values are 0, so with lambda 1 the advantage of every token is the return."""
    batch = make_batch(10, seed=31)
    learners.become(credit={"method": "reinforce", "baseline": "none"})
    before = learners.call("parameters")
    learners.call("update", *batch)
    plain = learners.call("parameters")
    learners.become(credit=POAD)
    first = learners.call("update", *batch)
    mine, other = learners.each("parameters")
    assert distance(mine, plain) < 1e-3 * distance(plain, before)
    assert all(np.array_equal(mine[name], other[name]) for name in mine)
    second = learners.call("update", *batch)
    assert first["value_mean"] == 0 and second["value_mean"] != 0
    assert first["critic_loss_after"] < first["critic_loss"] and second["value_explained"] > first["value_explained"]


@pytest.mark.parametrize("zero", [0, 3])
def test_ranks_read_the_whole_batch_and_hold_one_critic(learners, zero):
    batch = cut_off(make_batch(9, seed=41, most_turns=5))
    learners.become(zero=zero, credit=POAD | {"gamma": 0.9})
    for _ in range(2):
        learners.call("update", *batch)
    trajectories = collect(*batch)
    one, other = learners.readings(trajectories)
    assert one.keys() == other.keys() == {"values", "bootstrap"}
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert len(one["values"]) == sum(int(t.turn_tokens.sum()) for t in trajectories)
    assert [value == 0 for value in one["bootstrap"]] == [t.terminated for t in trajectories]


@pytest.mark.parametrize(("method", "name", "width"), [("hcapo", "hindsight", ()), ("bipace", "states", (64,))])
def test_ranks_read_what_credit_asks_of_the_policy(learners, method, name, width):
    """Where one rank has more to read than the other, under ZeRO-3 too."""
    trajectories = collect(*cut_off(make_batch(9, seed=41, most_turns=5)))
    learners.become(zero=3, credit={"method": method}, tokens_per_micro_batch=150)
    one, other = learners.readings(trajectories)
    assert one.keys() == other.keys() == {name} and np.array_equal(one[name], other[name])
    entries = sum(len(t.rewards) if width else int(t.turn_tokens.sum()) for t in trajectories)
    assert one[name].shape == (entries, *width) and np.isfinite(one[name]).all() and one[name].std() > 0


@pytest.mark.parametrize("method", ["gae", "ntpo", "vtrace"])
def test_every_method_with_a_critic_trains_and_goes_on_from_a_checkpoint(learners, tmp_path, method):
    batches = [cut_off(make_batch(8, seed=seed)) for seed in (51, 52, 53)]
    learners.become(credit={"method": method, "gamma": 0.95})
    for batch in batches[:2]:
        assert learners.call("update", *batch)["applied"] == 1
    learners.call("save", str(tmp_path))
    learners.call("update", *batches[2])
    whole = learners.call("parameters")
    learners.become(credit={"method": method, "gamma": 0.95})
    learners.call("load", str(tmp_path))
    learners.call("update", *batches[2])
    again = learners.call("parameters")
    assert all(np.array_equal(whole[name], again[name]) for name in whole)


@pytest.mark.parametrize("lora", [0, 4])
def test_the_critic_may_read_the_weights_that_the_run_started_from(learners, tiny_model, lora):
    trajectories = collect(*cut_off(make_batch(6, seed=71)))
    chosen = {"zero": 3 if lora else 2, "lora": {"rank": lora}, "learning_rate": 1e-2}
    learners.become(**chosen, credit=POAD | {"critic": {"states": "base"}})
    start = torch.cat(learners.hidden(trajectories))
    for seed in (72, 73):
        assert learners.call("update", *make_batch(8, seed=seed))["critic_loss"] > 0
    torch.testing.assert_close(torch.cat(learners.hidden(trajectories)), start, atol=1e-6, rtol=0)
    learners.become(**chosen, credit=POAD)
    torch.testing.assert_close(torch.cat(learners.hidden(trajectories)), start, atol=1e-6, rtol=0)
    learners.call("update", *make_batch(8, seed=72))
    assert (torch.cat(learners.hidden(trajectories)) - start).abs().max() > 1e-3, "by default they are the policy's"


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_while_the_critic_warms_up_the_policy_stays(learners, weight_decay):
    """Whatever else would move it: decay, the KL and the entropy of later steps."""
    batch = make_batch(8, seed=61)
    also = {"loss": {"entropy": 0.1}, "epochs": 2} if weight_decay else {}
    learners.become(credit=POAD | {"critic": {"warmup_updates": 1}}, weight_decay=weight_decay, **also)
    before = learners.call("parameters")
    warming = learners.call("update", *batch)
    assert warming["grad_norm"] == warming["learning_rate"] == 0.0, "moments stay as they were, too"
    after = learners.call("parameters")
    assert all(np.array_equal(before[name], after[name]) for name in before)
    learners.call("update", *batch)
    assert distance(learners.call("parameters"), before) > 0
