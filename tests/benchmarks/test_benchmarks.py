"""What the benchmarks compare is the same work, and what they report follows from what they measured."""

from __future__ import annotations

import pytest
import torch

from benchmarks.games import Recorder, demo, new_play, play_out, tickets, tokens_made
from benchmarks.loops import BareLoop, packed, packs_of, padded
from benchmarks.rollout import RawVllm, bare_parameters, same_parameters
from benchmarks.rounds import Sample, cpu_ratio, ratio, spread, take_turns
from benchmarks.stages import stages_of
from envs.settings import GameSettings
from learners.batch.trajectories import collect
from learners.model import attention
from reward_service.settings import RewardSettings
from tests.support.engines import shared_engine


def test_a_spread_is_the_median_between_its_quartiles():
    found = spread([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (found.median, found.low, found.high, found.rounds) == (3.0, 2.0, 4.0, 5)
    assert spread([7.0]).low == spread([7.0]).high == 7.0
    with pytest.raises(ValueError, match="nothing was measured"):
        spread([])


def test_contestants_take_turns_in_reversed_order():
    order = []
    samples = take_turns({name: lambda name=name: order.append(name) or len(order) for name in "abc"}, rounds=3)
    assert "".join(order) == "abccbaabc"
    assert [sample.tokens for sample in samples["b"]] == [2, 5, 8]


def test_a_ratio_is_taken_round_by_round():
    ours = [Sample(100, 1.0, 0.5), Sample(100, 4.0, 2.0), Sample(100, 2.0, 1.0)]
    theirs = [Sample(100, 0.5, 0.5), Sample(100, 2.0, 1.0), Sample(100, 2.0, 4.0)]
    assert [ratio(ours, theirs).median, cpu_ratio(ours, theirs).median] == [0.5, 1.0]


@pytest.fixture(scope="module")
def recorded(tiny_model):
    config = demo("rollout.engine.max_context=256")
    engine = shared_engine("vllm", str(tiny_model))
    recorder = Recorder(engine)
    episodes = play_out(new_play(config, tiny_model, recorder), tickets(config, 12))
    return config, engine, episodes, recorder.chains()


def test_a_chain_is_what_one_seat_asked_in_one_episode(recorded):
    config, engine, episodes, chains = recorded
    assert sum(len(one.made) for chain in chains for one in chain) == tokens_made(episodes)
    for episode, chain in zip(episodes, chains, strict=True):
        said = [tuple(turn.tokens.utterance_ids.tolist()) for turn in episode.turns]
        assert [one.made for one in chain] == said
        for before, after in zip(chain, chain[1:], strict=False):
            grown = before.request.prompt_ids + before.made
            assert after.request.prompt_ids[: len(grown)] == grown


def test_raw_vllm_makes_the_very_tokens_that_play_got(recorded):
    config, engine, episodes, chains = recorded
    raw = RawVllm(engine.engine, chains, same_parameters)
    assert raw.run() == tokens_made(episodes)
    assert raw.same == sum(map(len, chains))


def test_bare_vllm_makes_as_many_tokens_but_its_own(recorded):
    config, engine, episodes, chains = recorded
    bare = RawVllm(engine.engine, chains, bare_parameters)
    assert bare.run() == tokens_made(episodes)
    assert bare.same < sum(map(len, chains))


def test_packed_and_padded_bare_loops_have_the_same_gradient(recorded, tiny_model):
    config, engine, episodes, chains = recorded
    settings = config.learner.model_copy(update={"tokens_per_micro_batch": 512})
    packs = packs_of(collect(episodes, RewardSettings().shaper.make(GameSettings()).shape(episodes)), settings)
    for number, pack in enumerate(packs):  # an untrained policy never wins, so its own advantages are zero
        pack.advantages = torch.randn(len(pack.targets), generator=torch.Generator().manual_seed(number)).numpy()
    assert len(packs) > 1 and len(packs[0].lengths) > 1
    norms = []
    for batches, kernel in ((packed(packs, 0.1), attention.NAME), (padded(packs, 0.1), "sdpa")):
        loop = BareLoop(tiny_model, settings, 0.8, batches, kernel)
        loop.accumulate()
        norms.append(torch.cat([weight.grad.reshape(-1) for weight in loop.model.parameters()]))
    assert norms[0].norm() > 0.1
    torch.testing.assert_close(norms[0], norms[1], rtol=1e-4, atol=1e-5)


def line(update: int, seconds: float, busy: float, **stages: float) -> dict[str, float]:
    return {
        "update": update,
        "seconds/update": seconds,
        **{f"seconds/{name}": spent for name, spent in stages.items()},
        "rollout/episodes": 128.0,
        "rollout/tokens": 1000.0,
        "fleet/generated_tokens": 2000.0 * busy,
        "fleet/tokens_per_busy_second": 2000.0,
        "fleet/prefix_cache_hit_rate": 0.5,
    }


def test_stages_are_shares_of_the_updates_that_count():
    measured = line(3, 2.0, busy=11.5, collect=0.5, shape=0.1, learn=1.0, sync=0.25)
    found = stages_of(
        [
            line(1, 90.0, busy=8.0, collect=90.0, shape=0.0, learn=0.0, sync=0.0),
            line(2, 50.0, busy=10.0, collect=50.0, shape=0.0, learn=0.0, sync=0.0),
            measured,
            line(4, 70.0, busy=90.0, collect=70.0, shape=0.0, learn=0.0, sync=0.0),
            line(5, 70.0, busy=90.0, collect=70.0, shape=0.0, learn=0.0, sync=0.0),
        ]
    )
    assert found["updates"] == 1
    assert found["seconds"] == pytest.approx(
        {
            "update": 2.0,
            "collect": 0.5,
            "shape": 0.1,
            "learn": 1.0,
            "sync": 0.25,
            "rest": 0.15,
            "engine": 1.5,
            "overlap": 0.75,
        }
    )
    assert found["share"]["learn"] == 0.5
    assert (found["episodes_per_second"], found["tokens_per_second"]) == (64.0, 500.0)
