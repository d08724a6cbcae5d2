"""ArCHer's critics alone: where they read, what they are told, what they remember, what they converge to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from envs.episode import Episode, Ticket, Turn, TurnTokens
from learners.batch.packing import pack_to_read
from learners.batch.trajectories import Trajectory, collect
from learners.credit.critics import UtteranceCriticSettings
from learners.credit.overlong import Overlong
from learners.critic.replay import Replay
from learners.critic.tokens import States, head_inputs
from learners.critic.transitions import Transitions, UtteranceBatch, features, utterance_batch
from learners.critic.turns import TurnCritics
from learners.model.load import load_model, pack_logprobs
from learners.settings import LearnerSettings
from reward_service.shaper import ShapedRewards
from tests.learners.test_twosome_training import batch as batch_of_choices
from tests.support.language_mdp import LanguageMDP, Policy, random_mdp, random_policy
from tests.support.learner_batches import VOCABULARY

CPU = torch.device("cpu")


def games(shapes: list[list[int]], ended: list[bool], rewards: list[list[float]]) -> list[Trajectory]:
    """A game for each shape: how many tokens the seat said in each turn."""
    rng = np.random.default_rng(3)
    episodes, paid = [], []
    for number, (shape, over, pay) in enumerate(zip(shapes, ended, rewards, strict=True)):
        turns = []
        for said in shape:
            ids = [rng.integers(0, VOCABULARY, n).astype(np.int32) for n in (rng.integers(1, 5), said)]
            tokens = TurnTokens(*ids, np.zeros(said, np.float32), np.zeros(said, np.int32))
            turns.append(Turn("me", "policy", "", "", tokens=tokens))
        closing = {} if over else {"me": rng.integers(0, VOCABULARY, 2).astype(np.int32)}
        ticket = Ticket("run", "game", number, number, (("me", "policy"),))
        episodes.append(Episode(ticket, turns, {"me": 1.0}, over, closing_ids=closing))
        paid.append(ShapedRewards(number, "me", np.array(pay, np.float32), 0))
    return collect(episodes, paid)


def read(model: torch.nn.Module, trajectories: list[Trajectory]) -> list[dict[str, np.ndarray]]:
    with torch.no_grad(), head_inputs(model) as caught:
        pack_logprobs(model, pack_to_read(trajectories, 256, said=True), 1.0, CPU)
    return features(States(caught[0][0], sum(int(t.turn_tokens.sum()) for t in trajectories)), trajectories)


# where they read


@pytest.mark.parametrize("choices", [0.0, 0.7])
def test_states_are_those_before_and_after_each_utterance(tiny_model, choices):
    """Also of an utterance that was chosen, of which only the first token is trained."""
    trajectories = batch_of_choices(6, seed=4, choices=choices)
    trajectories += games([[2, 0, 3], [0, 1], [0]], [False, True, False], [[0.0] * 3, [0.0] * 2, [0.0]])
    model = load_model(str(tiny_model), LearnerSettings(), 0).eval()
    plain = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32, attn_implementation="eager").eval()
    assert {t.terminated for t in trajectories} == {True, False}
    for trajectory, found in zip(trajectories, read(model, trajectories), strict=True):
        sequence = trajectory.sequence
        ids = np.concatenate([sequence.ids, trajectory.closing_ids]).astype(np.int64)
        with torch.no_grad():
            hidden = plain(input_ids=torch.from_numpy(ids)[None], output_hidden_states=True).hidden_states[-1][0]
        hidden = hidden.numpy()
        spoken = np.flatnonzero(trajectory.turn_tokens)
        assert len(found["observed"]) == len(found["said"]) == len(spoken)
        for row, turn in enumerate(spoken):
            first = np.flatnonzero(sequence.mask & (sequence.turn == turn))[0]
            last = np.flatnonzero(sequence.turn == turn)[-1]
            np.testing.assert_allclose(found["observed"][row], hidden[first - 1], atol=1e-5, rtol=1e-4)
            np.testing.assert_allclose(found["said"][row], hidden[last], atol=1e-5, rtol=1e-4)
        assert len(found["closing"]) == (not trajectory.terminated)
        if not trajectory.terminated:
            np.testing.assert_allclose(found["closing"][0], hidden[-1], atol=1e-5, rtol=1e-4)


# what they are told


def numbered(start: int, count: int) -> np.ndarray:
    return np.arange(start, start + count, dtype=np.float32)[:, None]


def test_transitions_of_games_that_end_and_of_games_that_are_cut_off():
    """By hand: four games, of which the second is cut off, the third said nothing in the end and the fourth nothing."""
    trajectories = games(
        [[2, 1], [1, 0, 3], [1, 0, 0], [0, 0]],
        [True, False, True, False],
        [[1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0], [9.0, 9.0]],
    )
    batch = utterance_batch(trajectories, numbered(10, 5), numbered(20, 5), numbered(30, 2), gamma=0.5)
    assert batch.turns.tolist() == [0, 1, 2, 4, 5]
    assert batch.final.tolist() == [False, True, False, True, True]
    steps = batch.transitions
    assert steps.said[:, 0].tolist() == [20, 21, 22, 23, 24]
    assert steps.after[:, 0].tolist() == [11, 0, 13, 30, 0]
    assert steps.rewards.tolist() == [1, 2, 3 + 0.5 * 4, 5, 6 + 0.5 * 7 + 0.25 * 8]
    assert steps.discounts.tolist() == [0.5, 0.5, 0.25, 0.5, 0.125]
    assert steps.ended.tolist() == [False, True, False, False, True]
    charge = Overlong(limit=3, buffer=1, weight=10.0)
    charged = utterance_batch(trajectories, numbered(10, 5), numbered(20, 5), numbered(30, 2), 0.5, charge)
    assert charged.transitions.rewards.tolist() == [1, 2, 3 + 0.5 * 4, 5 - 10, 6 + 0.5 * 7 + 0.25 * 8]
    assert batch.returns(np.full(5, 8.0)).tolist() == [1 + 0.5 * 2, 2, 5 + 0.25 * (5 + 0.5 * 8), 5 + 0.5 * 8, 11.5]


def test_targets_by_hand():
    """Each twin's of its own slow copy; a cut-off game is bootstrapped and an ended one is not."""
    critics = TurnCritics(UtteranceCriticSettings(), 1, CPU, seed=0)
    for name, slopes in (("v", (2.0, 3.0)), ("q", (-1.0, 10.0))):
        for place, slope in enumerate(slopes):
            net = torch.nn.Linear(1, 1)
            torch.nn.init.constant_(net.weight, slope)
            torch.nn.init.zeros_(net.bias)
            critics.slow[name].both[place] = net
    old = Transitions(
        said=numbered(0, 3),
        after=np.array([[4.0], [np.nan], [6.0]], np.float32),
        rewards=np.array([1.0, 2.0, 3.0]),
        discounts=np.array([0.5, 0.5, 0.25]),
        ended=np.array([False, True, False]),
    )
    of_actions, of_turns = critics.targets(old, numbered(7, 2))
    assert of_actions.tolist() == [[1 + 0.5 * 8, 2, 3 + 0.25 * 12], [1 + 0.5 * 12, 2, 3 + 0.25 * 18]]
    assert of_turns.tolist() == [[-7, -8], [70, 80]]


def batch_of(rows: int, width: int = 4, seed: int = 0) -> UtteranceBatch:
    rng = np.random.default_rng(seed)
    said, after, observed = rng.normal(size=(3, rows, width)).astype(np.float32)
    steps = Transitions(said, after, rng.normal(size=rows), np.full(rows, 0.9), np.arange(rows) % 3 == 2)
    return UtteranceBatch(np.arange(rows), np.arange(rows) % 3 == 2, observed, steps)


def test_a_step_moves_the_slow_copies_by_tau_and_what_is_read_is_the_smaller_twin():
    batch = batch_of(60)
    critics = TurnCritics(UtteranceCriticSettings(tau=0.25, replay={"steps": 1}), 4, CPU, seed=1)
    first = critics.read(batch, 60)
    assert not first["turn_values"].any() and not first["action_values"].any(), "untaught critics say nothing"
    before = [slow.clone() for slow in critics.slow.parameters()]
    figures = critics.learn(batch)
    rng = np.random.default_rng((1, 0))
    rng.integers(60, size=256)  # the turns of V
    drawn = rng.integers(60, size=256)
    assert figures["critic_loss_q"] == pytest.approx(np.square(batch.transitions.rewards[drawn]).mean(), rel=1e-5)
    assert figures["critic_loss_v"] == figures["value_mean"] == 0 and figures["replay_turns"] == 60
    for slow, old, new in zip(critics.slow.parameters(), before, critics.nets.parameters(), strict=True):
        torch.testing.assert_close(slow, old + 0.25 * (new.detach() - old))
    critics.learn(batch)
    with torch.no_grad():
        pair = critics.nets["q"](torch.from_numpy(batch.transitions.said)).numpy()
    assert (pair[0] != pair[1]).any(), "twins start apart"
    assert critics.read(batch, 60)["action_values"] == pytest.approx(pair.min(0), abs=1e-7)
    spread = UtteranceBatch(np.arange(60) * 2, batch.final, batch.observed, batch.transitions)
    apart = critics.read(spread, 120)
    assert not apart["turn_values"][1::2].any(), "silent turns have no value"
    assert np.array_equal(apart["turn_values"][::2], critics.read(batch, 60)["turn_values"])


# what they remember


def test_the_replay_holds_every_transition_once_and_forgets_the_oldest():
    replay = Replay(10, 1)
    entered = 0
    for rows in (3, 4, 5, 0, 2, 25):
        new = numbered(entered, rows)
        entered += rows
        replay.add(Transitions(new, new + 0.5, new[:, 0] * 2.0, np.full(rows, 0.9), np.zeros(rows, bool)))
        held = replay.held
        assert held.said[:, 0].tolist() == list(range(max(0, entered - 10), entered))
        assert np.array_equal(held.after, held.said + 0.5) and np.array_equal(held.rewards, held.said[:, 0] * 2)
    drawn = replay.draw(4000, np.random.default_rng(0))
    counts = np.bincount(drawn.said[:, 0].astype(int) - (entered - 10))
    assert len(counts) == 10 and counts.min() > 300, "all of them are drawn alike"
    again = replay.draw(4000, np.random.default_rng(0))
    assert np.array_equal(drawn.rewards, again.rewards)


def test_restored_critics_go_on_as_if_they_had_never_stopped(tmp_path):
    settings = UtteranceCriticSettings(replay={"turns": 50, "steps": 3, "draws": 16})
    whole = TurnCritics(settings, 4, CPU, seed=2)
    for seed in (1, 2):
        whole.learn(batch_of(30, seed=seed))
    torch.save(whole.state(), tmp_path / "critic.pt")
    other = TurnCritics(settings, 4, CPU, seed=2)
    other.restore(torch.load(tmp_path / "critic.pt", weights_only=True))
    for seed in (3, 4):
        assert whole.learn(batch_of(30, seed=seed)) == other.learn(batch_of(30, seed=seed))
    assert all(map(torch.equal, whole.nets.parameters(), other.nets.parameters()))
    assert all(map(torch.equal, whole.slow.parameters(), other.slow.parameters()))
    assert np.array_equal(whole.replay.held.said, other.replay.held.said)


# what they converge to


def sampled(mdp: LanguageMDP, policy: Policy, turns: int) -> UtteranceBatch:
    """Turns in the proportions of their probabilities, each state equally often: no luck is involved.
    A move to a state is followed by it; a move to none is a true end."""
    states, actions = len(mdp.utterances), len(mdp.utterances[0])
    one_hot = np.eye(states + states * actions, dtype=np.float32)
    rows = []
    for state in range(states):
        for action in range(actions):
            ahead = np.append(mdp.moves[state][action], 1 - mdp.moves[state][action].sum())
            for to, chance in enumerate(policy[state][action] * ahead):
                rows += [(state, states + state * actions + action, to, mdp.rewards[state][action])] * round(
                    turns * chance
                )
    observed, said, to, paid = (np.array(column) for column in zip(*rows, strict=True))
    ended = to == states
    after = np.where(ended[:, None], 0, one_hot[np.where(ended, 0, to)]).astype(np.float32)
    steps = Transitions(one_hot[said], after, paid.astype(np.float64), np.full(len(rows), mdp.gamma), ended)
    return UtteranceBatch(np.arange(len(rows)), np.ones(len(rows), bool), one_hot[observed], steps)


def test_old_turns_teach_the_values_of_the_present_policy(monkeypatch):
    """The replay is full of another policy's turns; V learns on the present one's alone. Both converge to
    the values of the present policy at the level of whole utterances, within 0.05."""
    monkeypatch.setattr("learners.critic.tokens.LAYERS", (64, 32))  # enough for a table, and quick
    mdp = random_mdp(3)
    order = [np.argsort(np.argsort(q)) for q in mdp.action_values(mdp.evaluated(random_policy(mdp, 1)))]
    present = [np.array([0.1, 0.1, 0.8])[rank] for rank in order]
    old = [np.array([0.6, 0.3, 0.1])[rank] for rank in order]
    values, of_old = mdp.evaluated(present), mdp.evaluated(old)
    assert np.abs(values - of_old).min() > 0.9, "the two policies are far apart"
    past, batch = sampled(mdp, old, 3000), sampled(mdp, present, 500)
    settings = UtteranceCriticSettings(replay={"turns": 8000, "steps": 40, "draws": 256})
    critics = TurnCritics(settings, batch.observed.shape[1], CPU, seed=0)
    critics.replay.add(past.transitions)
    entered = len(past)
    for number in range(30):
        critics.replay.held = critics.replay.held[:entered]  # what the present policy did is not replayed
        critics.learn(batch, 1e-3 * (1 - number / 30))
    count = len(values)
    one_hot = np.eye(batch.observed.shape[1], dtype=np.float32)
    for twin in range(2):
        with torch.no_grad():
            v = critics.nets["v"].both[twin](torch.from_numpy(one_hot[:count]))[:, 0].numpy()
            q = critics.nets["q"].both[twin](torch.from_numpy(one_hot[count:]))[:, 0].numpy()
        assert v == pytest.approx(values, abs=0.05)
        assert q == pytest.approx(np.concatenate(mdp.action_values(values)), abs=0.05)
