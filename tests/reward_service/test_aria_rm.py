"""ARIA's reward model: it learns the aggregated rewards, and answers in ARIA's place once it has."""

from __future__ import annotations

import numpy as np
import pytest

from envs.episode import Episode
from reward_service.desk import RewardDesk
from reward_service.intentions.reading import EpisodeRefused
from reward_service.intentions.settings import AggregateSettings, IntentionSettings
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.trajectory import turn_returns
from reward_service.models.embedding import Embedding
from reward_service.models.examples import Examples, held_out_games, measures
from reward_service.models.model import RewardModel
from reward_service.models.training import TimeLimit, offset_of, train
from reward_service.service.storage import read_state, write_state
from reward_service.shapers.aria import AriaShaper
from reward_service.shapers.aria_rm import AriaRm, AriaRmShaper, weights_of
from tests.support.valued_games import WORTH, batch, counts_nowhere, embed, episode, plain, same, shaped_by, worth_of

ALL_TIME = {"reward_model/training_seconds"}


def intentions(**options) -> IntentionSettings:
    pooling = AggregateSettings(**({"window": 512} | options.pop("aggregate", {})))
    plainly = {"first_fit": 20, "refit": "inline", "observations": "none", "aggregate": pooling}
    return IntentionSettings(**(plainly | options), space={"granularity": {"kind": "fixed", "k": len(WORTH)}})


def shaper(space: dict | None = None, **options) -> AriaRmShaper:
    return AriaRmShaper(AriaRm(**({"first": 1, "every": 1} | options), intentions=intentions(**(space or {}))), embed)


def taught(count: int = 320, **options) -> AriaRmShaper:
    rm = shaper(**options)
    rm.shape(batch(0, count))
    rm.publish(rm.refit()())
    return rm


def flat(shaped) -> np.ndarray:
    return np.concatenate([each.rewards for each in shaped])


# --- what it learns -----------------------------------------------------------------------------------


def test_a_turn_weighs_what_its_aggregated_reward_tells():
    targets = np.array([-0.1, 0.0, 0.0099, 0.01, 0.3, 0.449, 0.451, 0.5, 0.549, 0.551, 0.8, 0.81, 1.0])
    assert weights_of(targets, AriaRm()).tolist() == [2, 2, 2, 1, 1, 1, 0.5, 0.5, 0.5, 1, 1, 2, 2]
    own = AriaRm(middle=0.2, middle_width=0.15, middle_weight=0.25, low=0.0, high=0.5, edge_weight=3.0)
    assert weights_of(np.array([-0.1, 0.0, 0.1, 0.4, 0.6]), own).tolist() == [3, 1, 0.25, 1, 3]


def test_its_targets_are_the_aggregated_rewards():
    rm = shaper()
    answers = rm.shape(batch(0, 100))
    texts = rm.estimator.memory.texts()
    assert rm.aria.version == 1
    assert rm._examples(texts).target.astype(np.float32).tolist() == flat(answers).tolist()
    assert [game.identity[1] for game in texts.games] == list(range(100))


def test_the_weighted_mean_is_where_a_network_begins():
    """By hand: weights times turns of each example."""
    turns = [np.array([0]), np.array([1, 2])]
    found = offset_of(Examples(turns, np.array([1.0, 3.0]), np.array([2.0, 1.0])))
    assert found == pytest.approx((2 * 1 * 1 + 1 * 2 * 3) / (2 * 1 + 1 * 4))


def test_the_error_is_weighted():
    """Two turns with the same features and different targets are worth their weighted mean."""

    class Same:
        """Every turn is worth the one weight there is."""

        def __init__(self):
            import torch

            self.worth = torch.nn.Parameter(torch.tensor(1.0))

        def shares(self, read, examples):
            yield slice(0, 2)
            yield slice(2, len(examples))

        def values(self, read, turns):
            return self.worth.expand(len(turns))

        def parameters(self):
            return [self.worth]

    examples = Examples(list(np.arange(4)[:, None]), np.array([0.0, 1.0, 1.0, 0.0]), np.array([1.0, 2.0, 0.5, 0.5]))
    network = Same()
    course = Embedding().model_copy(update={"learning_rate": 0.1, "weight_decay": 0.0, "steps": 100, "epochs": 100})
    offset = train(network, None, examples, course, 0, TimeLimit(60))
    assert offset == pytest.approx(2.5 / 4) and network.worth.item() + offset == pytest.approx(2.5 / 4, abs=0.01)


def test_measures_by_hand():
    found = measures(np.array([0.0, 0.5, 1.0, 0.55]), np.array([0.0, 0.6, 0.5, 0.5]))
    assert found["mse"] == pytest.approx((0.1**2 + 0.5**2 + 0.05**2) / 4)
    assert (found["mae"], found["within_tenth"]) == (pytest.approx(0.65 / 4), 0.75)
    assert found["correlation"] == pytest.approx(np.corrcoef([0.0, 0.5, 1.0, 0.55], [0.0, 0.6, 0.5, 0.5])[0, 1])
    assert found["explained"] == pytest.approx(1 - found["mse"] / np.var([0.0, 0.6, 0.5, 0.5]))
    constant = measures(np.ones(3), np.array([1.0, 1.0, 1.0]))
    assert (constant["correlation"], constant["explained"], constant["mse"]) == (0, 0, 0)


def test_held_out_are_whole_episodes_the_same_ones_as_long_as_they_are_remembered():
    rm = shaper()
    rm.shape(batch(0, 100))
    before = rm.estimator.memory.texts()
    rm.shape(batch(100, 100))
    after = rm.estimator.memory.texts()
    chosen = held_out_games(before, 0.2, 0)
    assert chosen.sum() == 20 and held_out_games(after, 0.2, 0).sum() == 40
    later = {game.identity for game, out in zip(after.games, held_out_games(after, 0.2, 0), strict=True) if out}
    earlier = {game.identity for game, out in zip(before.games, chosen, strict=True) if out}
    assert len(earlier & later) > 10, "by chance it were 4"
    assert held_out_games(before, 0.2, 1).tolist() != chosen.tolist()
    assert 0 < held_out_games(before, 1e-9, 0).sum() < held_out_games(before, 1 - 1e-9, 0).sum() < 100


# --- what it answers ----------------------------------------------------------------------------------


def test_before_the_first_model_it_answers_as_aria_does():
    rm, aria = shaper(first=100), AriaShaper(intentions(), embed)
    for first in (0, 60):
        mine, its = rm.shape(batch(first, 60)), aria.shape(batch(first, 60))
        assert [each.rewards.tobytes() for each in mine] == [each.rewards.tobytes() for each in its]
        assert {(each.version, each.kind) for each in mine} == {(0, "advantage")}
    assert aria.version == rm.aria.version >= 1, "the version is the model's: there is none"
    assert rm.aria.state() == aria.state()


def expected_return(played: Episode) -> np.ndarray:
    """Of each turn, given it and those before: the mean over the lengths, 2 to 5, that the game may still have."""
    so_far, ahead = np.cumsum(worth_of(played)), np.mean(list(WORTH.values()))
    return np.array(
        [
            np.mean([0.95**more * (worth + more * ahead) for more in range(max(1 - turn, 0), 5 - turn)])
            for turn, worth in enumerate(so_far)
        ]
    )


def test_then_it_values_fresh_utterances_and_each_answer_names_the_model():
    """In words that were not there to learn from, closer to what a turn can expect to earn than what it earned."""
    rm = taught(512)
    fresh = batch(1000, 100, ways=("softly", "loudly"))
    answers = rm.shape(fresh)
    assert {(each.version, each.kind) for each in answers} == {(1, "advantage")}
    assert [each.number for each in answers] == list(range(1000, 1100))
    expected = np.concatenate([expected_return(each) for each in fresh])
    earned = np.concatenate([turn_returns(each.outcome["seat"], len(each.turns), 0.95) for each in fresh])
    told, by_chance = (np.corrcoef(each, expected)[0, 1] for each in (flat(answers), earned))
    assert told > 0.8 and told > by_chance + 0.05
    found = rm.metrics()
    assert (found["reward_model/version"], found["reward_model/age"]) == (1, 1)
    assert found["reward_model/held_out_correlation"] > 0.8 and found["reward_model/held_out_explained"] > 0.6
    rm.shape(batch(3000, 4))
    assert rm.metrics()["reward_model/age"] == 2


def test_it_waits_for_intentions():
    rm = shaper(space={"first_fit": 10**6})
    rm.shape(batch(0, 100))
    assert rm.refit() is None and rm.aria.space is None


def test_spaces_and_models_that_are_both_due_take_turns():
    rm = shaper(space={"refit": "beside", "growth": 1e-9})
    kinds = []
    for number in range(6):
        rm.shape(batch(30 * number, 30))
        result = rm.refit()()
        rm.publish(result)
        kinds.append(type(result))
    assert kinds == [IntentionSpace, RewardModel] * 3
    assert (rm.version, rm.aria.version) == (3, 3)


# --- determinism, restarts, failures ------------------------------------------------------------------


def test_the_order_of_a_batch_changes_nothing():
    one, two = shaper(), shaper()
    for each, order in ((one, 1), (two, -1)):
        each.shape(batch(0, 64)[::order])
        each.publish(each.refit()())
    assert same(one.state()["estimator"]["model"], two.state()["estimator"]["model"])
    assert plain(one.shape(batch(64, 30))) == plain(two.shape(batch(64, 30)[::-1]))[::-1]


def test_saved_and_restored_is_as_never_stopped(tmp_path):
    def desk() -> RewardDesk:
        space = {"refit": "beside", "growth": 0.2, "aggregate": {"window": 40}}
        made = shaper(space=space, every=2, model={"steps": 20})
        return RewardDesk(made, steady=True, refit_seconds=60)

    straight, stopped = desk(), desk()
    for number in range(8):
        games = batch(16 * number, 16)
        assert plain(shaped_by(straight, number, games)) == plain(shaped_by(stopped, number, games))
        write_state(tmp_path, stopped.state())
        assert same(stopped.state(), straight.state())
        stopped = desk()
        stopped.restore(read_state(tmp_path))
        assert same(stopped.state(), straight.state())
        found, expected = stopped.shaper.metrics(), straight.shaper.metrics()
        assert {k: expected[k] for k in found.keys() - ALL_TIME} == {k: found[k] for k in found.keys() - ALL_TIME}
    assert straight.shaper.version >= 2 and straight.shaper.aria.version >= 2


def test_a_state_of_an_earlier_version_is_restored():
    rm, again = shaper(), shaper()
    rm.shape(batch(0, 20))
    state = rm.state()
    state["estimator"]["memory"] |= {"known": state["aria"]["known"], "refused": {"no_turns": 2}}
    again.restore(state)
    assert again.metrics() == rm.metrics() | {"reward_model/refused/no_turns": 2.0}
    assert plain(again.shape(batch(20, 5))) == plain(rm.shape(batch(20, 5)))


def test_a_training_that_fails_is_counted_and_changes_nothing(caplog):
    broken = RewardDesk(shaper(model={"seconds": 1e-9}), steady=True)
    never = RewardDesk(shaper(first=100), steady=True)
    for number in range(3):
        games = batch(30 * number, 30)
        assert plain(shaped_by(broken, number, games)) == plain(shaped_by(never, number, games))
    assert same(broken.state(), never.state())
    assert (broken.counts["failed_refits"], broken.counts["refits"]) == (3, 0)
    assert "when its 1e-09 s were over: see the setting `seconds`" in caplog.text


def test_a_batch_whose_values_cannot_be_told_counts_nowhere(monkeypatch):
    rm, untouched = taught(64), shaper()
    untouched.restore(rm.state())
    counts_nowhere(rm, untouched, batch(100, 5), monkeypatch)


def test_a_bad_episode_is_refused_and_counted_and_nothing_else_changes():
    rm, untouched = shaper(), shaper()
    for each in (rm, untouched):
        each.shape(batch(0, 20))
    for change in (lambda one: one.outcome.update(seat=float("inf")), lambda one: one.turns.clear()):
        one = episode(30)
        change(one)
        with pytest.raises(EpisodeRefused, match="of run 'run' refused:"):
            rm.shape([episode(29), one])
    with pytest.raises(EpisodeRefused, match="it was sent before"):
        rm.shape([episode(31), episode(31)])
    counts = {f"reward_model/refused/{reason}": 1.0 for reason in ("bad_outcome", "no_turns", "sent_twice")}
    assert rm.metrics() == untouched.metrics() | counts
    assert plain(rm.shape(batch(29, 3))) == plain(untouched.shape(batch(29, 3)))
    assert rm.shape([]) == []
