"""Updates of several steps on real DeepSpeed: ranks and ZeRO stages agree, steps that must not be taken leave no trace.

Two processes host one learner after another, so that DeepSpeed starts only once.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from learners.settings import LearnerSettings
from tests.support.learner_batches import make_batch
from tests.support.learner_pair import distance

TOLERANCE = 2e-3  # of the way that the weights went: test_learner_zero says why it is not smaller
BATCHES = [make_batch(8, seed=seed) for seed in range(81, 86)]
PPO = {"loss": {"kind": "ppo", "clip_low": 0.1, "clip_high": 0.1, "dual_clip": 3.0}, "epochs": 2, "minibatches": 2}
PPO |= {"eps": 1e-4}  # large enough to tell


@pytest.fixture(scope="module")
def expected(tiny_model) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Five updates of four steps by the bare pieces: one process, no DeepSpeed. Weights before and after."""
    from learners.batch.crediting import assign_credit
    from learners.batch.minibatches import shares
    from learners.batch.packing import by_trajectory, pack_trajectories
    from learners.batch.trajectories import collect
    from learners.loss.clipping import ppo_loss
    from learners.model.load import load_model, pack_logprobs

    settings = LearnerSettings(**PPO)
    model = load_model(str(tiny_model), settings, 0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=settings.betas, eps=settings.eps, weight_decay=0.0)
    before = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    for update, batch in enumerate(BATCHES):
        trajectories = collect(*batch)
        advantages = by_trajectory(assign_credit(trajectories, settings.credit, {}).advantages, trajectories)

        def logprobs(share, trajectories=trajectories, advantages=advantages):
            pack = pack_trajectories([trajectories[i] for i in share], [advantages[i] for i in share], None)
            of_pack = (torch.from_numpy(each) for each in (pack.advantages, pack.sampler_logprobs))
            return pack_logprobs(model, pack, 1.0, torch.device("cpu")), *of_pack

        steps = shares(len(trajectories), settings, 0, update)
        with torch.no_grad():
            start = [logprobs(share)[0] for share in steps]
        for share, at_start in zip(steps, start, strict=True):
            now, paid, stored = logprobs(share)
            sampled = stored if update else at_start  # the first batch alone is of the weights that the learner holds
            ppo_loss(now, sampled, paid, torch.ones_like(paid), 1 / len(share), 0.1, 0.1, 3.0).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
            optimiser.step()
            optimiser.zero_grad()
    return before, {name: p.detach().numpy() for name, p in model.named_parameters()}


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_two_ranks_of_every_stage_take_the_steps_of_one_bare_process(learners, expected, zero):
    learners.become(zero=zero, **PPO)
    found = [learners.call("update", *batch) for batch in BATCHES]
    before, after = expected
    assert all(each["steps"] == 4 and each["applied"] == 1 and each["bad_steps"] == 0 for each in found)
    assert max(each["clipped_share"] for each in found) > 0.01, "clipping has to be in play"
    mine, other = learners.each("parameters")
    assert all(np.array_equal(mine[name], other[name]) for name in mine)
    assert distance(mine, after) < TOLERANCE * distance(before, after)


GUARD = 1e-4  # the first step of these batches goes ten times as far
GUARDED = {"credit": {"method": "poad"}, "epochs": 3}


@pytest.mark.parametrize(
    ("zero", "dtype"), [(0, "float32"), (1, "float32"), (2, "float32"), (3, "float32"), (2, "bfloat16")]
)
def test_no_update_goes_further_than_the_kl_guard(learners, zero, dtype):
    """The step that would is shortened: what is left of it is a part of its way, the same on all ranks."""
    settings = {"zero": zero, "dtype": dtype} | GUARDED
    learners.become(**settings | {"epochs": 1})
    before = learners.call("parameters")
    whole = learners.call("update", *BATCHES[0])
    there = learners.call("parameters")
    learners.become(**settings, loss={"kl_guard": GUARD})
    found = learners.call("update", *BATCHES[0])
    mine, other = learners.each("parameters")
    assert (found["steps"], found["guarded_steps"], found["bad_steps"], found["applied"]) == (1, 2, 0, 1)
    assert found["kept_kl"] <= GUARD < found["update_kl"] and 0 < found["step_left"] < 1
    assert found["critic_loss_after"] == whole["critic_loss_after"] < found["critic_loss"], "the critic learns on"
    assert all(np.array_equal(mine[name], other[name]) for name in mine)
    wanted = {name: before[name] + found["step_left"] * (there[name] - before[name]) for name in before}
    if dtype == "float32":  # what is sent in half precision is rounded by more than the way
        assert distance(mine, wanted) < 1e-5 * distance(before, wanted)
    learners.become(**settings, loss={"kl_guard": 1e9})
    free = learners.call("update", *BATCHES[0])
    assert (free["steps"], free["guarded_steps"], free["step_left"], free["kept_kl"]) == (3, 0, 1, free["update_kl"])


def test_a_step_is_refused_also_where_every_token_is_clipped(learners):
    """Then no gradient of the loss reaches a weight, not even one that is no number. A game is a micro-batch."""
    upwards = {"baseline": "none"}  # all rewards are above 0
    learners.become(epochs=3, tokens_per_micro_batch=80, credit=upwards, loss={"kind": "gspo", "kl_guard": GUARD})
    found = learners.call("update", *BATCHES[0])
    assert found["guarded_steps"] >= 1 and found["kept_kl"] <= GUARD < found["update_kl"]


def test_the_first_step_is_as_long_in_every_stage_in_half_precision(learners):
    lengths = []
    for zero in (0, 2):
        learners.become(zero=zero, dtype="bfloat16", learning_rate=1e-2)
        before = learners.call("parameters")
        learners.call("update", *BATCHES[0])
        lengths.append(distance(before, learners.call("parameters")))
    assert lengths[0] == pytest.approx(lengths[1], rel=0.05)


def test_what_steps_of_other_minibatches_have_left_is_told(learners):
    """The third step is taken back; the first two have moved the policy on its share already."""
    learners.become(credit={"method": "poad"}, epochs=3, minibatches=4, loss={"kl_guard": 2.5e-3})
    found = learners.call("update", *make_batch(16, seed=2))
    assert (found["step_left"], found["steps"], found["guarded_steps"]) == (0, 2, 10)
    assert 1e-3 < found["kept_kl"] < found["update_kl"]


@pytest.mark.parametrize(
    ("zero", "more"), [(0, {}), (1, {}), (2, {}), (3, {}), (2, {"dtype": "bfloat16"}), (3, {"lora": {"rank": 4}})]
)
def test_a_step_that_cannot_be_short_enough_is_taken_back_bit_for_bit(learners, zero, more):
    """Of this step less than LEAST would be left."""
    learners.become(zero=zero, **GUARDED | more, loss={"kl_guard": 1e-9})
    before = learners.call("parameters")
    found = learners.call("update", *BATCHES[0])
    for after in learners.each("parameters"):
        assert all(np.array_equal(before[name], after[name]) for name in before)
    assert (found["step_left"], found["guarded_steps"]) == (0, 2) and found["update_kl"] > GUARD
    assert found["kept_kl"] == pytest.approx(0, abs=1e-4 if "dtype" in more else 1e-9)
    assert learners.call("update", *BATCHES[1])["update_kl"] > GUARD, "and the next one can step again"


def test_the_guard_holds_an_update_of_one_step(learners):
    learners.become(zero=2, loss={"kl_guard": GUARD})
    found = learners.call("update", *BATCHES[0])
    assert found["steps"] == 1 and found["guarded_steps"] == 0
    assert found["kept_kl"] <= GUARD < found["update_kl"] and 0 < found["step_left"] < 1


def test_games_that_all_went_alike_move_nothing(learners):
    """Neither weights nor moments: the update after them is that of a learner that never saw them."""
    episodes, rewards = make_batch(8, seed=93)
    for each in rewards:
        each.rewards[:] = 0.0
        each.rewards[-1] = 1.0
    after = []
    for batches in (BATCHES[:2], [BATCHES[0], (episodes, rewards), BATCHES[1]]):
        learners.become(zero=2, credit={"method": "gae"}, epochs=2, minibatches=2, loss={"kind": "ppo"})
        found = [learners.call("update", *batch) for batch in batches]
        after.append(learners.call("parameters"))
    assert [each["nothing_to_learn"] for each in found] == [0, 1, 0]
    assert found[1]["steps"] == 0 and found[1]["applied"] == 1 and found[1]["learning_rate"] == 0
    assert found[1]["critic_loss_after"] < found[1]["critic_loss"], "the critic learns how good that was"
    assert np.isfinite(list(found[1].values())).all()
    assert found[2]["steps"] == 4 and distance(*after) > 0, "advantages are of another critic by then"


def test_without_a_critic_games_that_went_alike_leave_no_trace(learners):
    episodes, rewards = make_batch(8, seed=93)
    for each in rewards:
        each.rewards[:] = 0.5 / len(each.rewards)
    after = []
    for batches in (BATCHES[:2], [BATCHES[0], (episodes, rewards), BATCHES[1]]):
        learners.become(zero=2)
        found = [learners.call("update", *batch) for batch in batches]
        after.append(learners.call("parameters"))
    assert [each["nothing_to_learn"] for each in found] == [0, 1, 0]
    assert all(np.array_equal(after[0][name], after[1][name]) for name in after[0])


def test_games_that_were_cut_off_are_masked_out_of_the_policy_s_loss_alone(learners):
    """The others are learned from as if there were no more; what they are compared with has them all."""
    masked = {"mask_cut_off": True, "epochs": 2, "minibatches": 1}

    def after(batch, **settings) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        learners.become(zero=2, **settings)
        found = learners.call("update", *batch)
        return learners.call("parameters"), found

    episodes, rewards = make_batch(8, seed=81)
    kept = episodes[2:], [each for each in rewards if each.number >= episodes[2].ticket.number]
    for episode in episodes[:2]:
        episode.terminated = False
    alone, independent = {"credit": {"method": "reinforce", "baseline": "none"}}, {"credit": {"method": "reinforce"}}
    whole, _ = after((episodes, rewards), **alone, epochs=2)
    wanted, _ = after(kept, **alone, epochs=2)
    found, figures = after((episodes, rewards), **alone, **masked)
    assert figures["cut_off_masked"] == 2 / 8 and figures["trajectories"] == 8
    assert distance(found, wanted) < TOLERANCE * distance(whole, wanted)
    compared, _ = after((episodes, rewards), **independent, **masked)
    without, _ = after(kept, **independent, **masked)
    assert distance(compared, without) > TOLERANCE * distance(whole, wanted), "the baseline is the mean of all eight"
    for episode in episodes:
        episode.terminated = False
    learners.become(zero=2, **masked)
    before, figures = learners.call("parameters"), learners.call("update", episodes, rewards)
    assert figures["cut_off_masked"] == figures["nothing_to_learn"] == 1 and np.isfinite(list(figures.values())).all()
    assert all(np.array_equal(before[name], each) for name, each in learners.call("parameters").items())


def test_a_broken_step_is_skipped_and_the_others_are_taken(learners):
    episodes, rewards = make_batch(8, seed=91)
    for turn in episodes[3].turns:
        turn.tokens.versions[:] = -7
        turn.tokens.logprobs[:] = np.nan
    for loss in ({}, {"kind": "decoupled"}, {"token_mask": [0.5, 2.0]}):
        learners.become(zero=2, epochs=2, minibatches=2, loss=loss)
        before = learners.call("parameters")
        found = learners.each("update", episodes, rewards)
        assert [(each["steps"], each["bad_steps"], each["bad_updates"]) for each in found] == [(2, 2, 1)] * 2
        assert np.isfinite([found[0]["loss"], found[0]["grad_norm"]]).all()
        after = learners.call("parameters")
        assert all(np.isfinite(each).all() for each in after.values()) and distance(before, after) > 0
        assert learners.call("update", *BATCHES[0])["bad_steps"] == 0


def test_a_rank_without_work_breaks_no_step(learners):
    """Each step is of one game, which the idle rank runs too, for the lockstep: not a broken one of another step."""
    episodes, rewards = make_batch(3, seed=92)
    for turn in episodes[0].turns:
        turn.tokens.versions[:] = -7
        turn.tokens.logprobs[:] = np.nan
    learners.become(zero=2, minibatches=3)
    found = learners.call("update", episodes, rewards)
    assert (found["steps"], found["bad_steps"]) == (2, 1)


def test_steps_go_on_from_a_checkpoint(learners, tmp_path):
    ends = {"schedule": "cosine", "schedule_updates": 4, "loss": {"kind": "decoupled", "kl": 0.1}}
    learners.become(zero=3, **PPO | ends)
    rates = [learners.call("update", *batch)["learning_rate"] for batch in BATCHES[:2]]
    learners.call("save", str(tmp_path))
    rates.append(learners.call("update", *BATCHES[2])["learning_rate"])
    whole = learners.call("parameters")
    learners.become(zero=3, **PPO | ends)
    learners.call("load", str(tmp_path))
    assert learners.call("update", *BATCHES[2])["learning_rate"] == rates[2] < rates[1] < rates[0] == 1e-3
    again = learners.call("parameters")
    assert all(np.array_equal(whole[name], again[name]) for name in whole)


@pytest.mark.parametrize(("zero", "lora"), [(0, 4), (3, 4), (2, 0), (3, 0)])
def test_the_reference_stays_what_the_run_started_from(learners, zero, lora):
    from learners.batch.trajectories import collect

    trajectories = collect(*BATCHES[0])
    chosen = {"zero": zero, "lora": {"rank": lora}, "learning_rate": 1e-2 if lora else 1e-3}
    learners.become(**chosen, credit={"kl_penalty": 0.01}, loss={"kl": 0.01, "kl_estimator": "k2"})
    at_start = learners.readings(trajectories)
    distances = [learners.call("update", *batch)["reference_kl"] for batch in BATCHES[:3]]
    later = learners.readings(trajectories)
    assert distances[0] < 1e-12 and distances[2] > 1e-5
    for each in (*at_start, *later):
        assert np.allclose(each["reference"], at_start[0]["logprobs"], atol=1e-5, rtol=0)
    assert np.abs(later[0]["logprobs"] - later[0]["reference"]).max() > 1e-2
    assert all(".lora_" in name for name in learners.call("parameters")) == bool(lora), "the adapter is trained again"


def test_the_kl_loss_leads_back_to_the_reference(learners):
    learners.become(zero=2, loss={"kl": 1.0, "kl_estimator": "k2"})
    for batch in BATCHES[:3]:
        learners.call("update", *batch)
    episodes, rewards = make_batch(8, seed=95)
    for each in rewards:
        each.rewards[:] = 0.0
    found = [learners.call("update", episodes, rewards)["reference_kl"] for _ in range(6)]
    assert found[-1] < 0.7 * found[0]


@pytest.mark.parametrize("minibatches", [1, 2])
def test_log_probs_that_are_not_the_engines_stop_the_run_before_they_move_it(learners, minibatches):
    learners.become(zero=2, minibatches=minibatches)
    assert learners.call("update", *BATCHES[0])["logprob_gap_warned"] == 1
    learners.become(zero=2, minibatches=minibatches, logprob_gap_stop=None)
    before = learners.call("parameters")
    with pytest.raises(Exception, match=r"LogprobGapError.*learner\.logprob_gap_stop=0\.1\): look at sync/parity_gap"):
        learners.call("update", *BATCHES[0])
    after = learners.call("parameters")
    assert all(np.array_equal(before[name], after[name]) for name in before)
    learners.become(zero=2, minibatches=minibatches, logprob_gap_stop=None)
    old = learners.call("update", *make_batch(8, seed=96, version=-3))
    assert "logprob_gap_warned" not in old and old["applied"] == 1, "tokens of older weights have no gap"
