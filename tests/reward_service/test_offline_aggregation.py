"""What turns are worth, from files to files: known values, every pooling against its definition, k."""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.episode import Episode, Ticket, Turn
from reward_service.intentions.gist import NOTHING, YES, Gist
from reward_service.intentions.pooling.pooling import POOLINGS
from reward_service.intentions.reading import Reading, read
from reward_service.intentions.refit import _counted
from reward_service.intentions.settings import AggregateSettings
from reward_service.intentions.trajectory import CodedGame
from reward_service.intentions.turns import Turns
from reward_service.offline.coding import Coding
from reward_service.offline.columns import Column, open_column
from reward_service.offline.turns import CodedTurns, figures, worth
from tests.support.offline_games import BARGAINING, KNOWN, QUESTIONS, lone, offline, one_hot, pair, rows, write
from tests.support.reward_streams import aria

EACH_ITS_OWN = ("reward.shaper.intentions.space.granularity=fixed", "reward.shaper.intentions.space.granularity.k=100")
AS_PUBLISHED = ("reward.shaper.intentions.aggregate.baseline=none",)


def test_the_known_values_come_out_of_the_files(tmp_path):
    file = write(tmp_path / "msgs.jsonl", [lone(*game) for game in KNOWN])
    assert offline(QUESTIONS, file, tmp_path / "work", *EACH_ITS_OWN, *AS_PUBLISHED) == 0
    worth_of = {(row["game"], row["turn"]): row["reward"] for row in rows(tmp_path / "work")}
    assert worth_of[1, 0] == worth_of[2, 0] == worth_of[3, 0] == pytest.approx(0.5866250, abs=1e-12)
    assert worth_of[1, 2] == worth_of[3, 2] == pytest.approx(0.975, abs=1e-12)
    assert worth_of[3, 3] == 1.0
    assert len(worth_of) == 3 + 2 + 4, "the first turn and the last are there, of every game"
    # question 2 after question 1 was answered yes, in all three games
    assert worth_of[1, 1] == worth_of[2, 1] == worth_of[3, 1] == pytest.approx(0.6175, abs=1e-12)
    labelled = [json.loads(line) for line in next((tmp_path / "work").glob("*/*selected*")).read_text().splitlines()]
    assert [game["observation_label"] for game in labelled] == [[-2, -3, -2], [-2, -2], [-2, -3, -2, -2]]
    assert [game["action_label"][0] for game in labelled] == [labelled[0]["action_label"][0]] * 3
    assert "action_embeddings" not in labelled[0] and labelled[0]["reward"] == 0.0


def test_a_final_one_sided_action_is_worth_the_outcome(tmp_path):
    """Alice's last word goes unanswered; Bob's histories begin with what Alice said."""
    embedded = {
        "alice_action_embeddings": np.eye(8)[[0, 1]].tolist(),
        "bob_actions_embeddings": np.eye(8)[[2]].tolist(),
    }
    games = [
        pair(["i offer you 40 %", "bye"], ["i reject"], 0.5, **embedded),
        pair(["i offer you 40 %"], ["i reject"], 0.0, alice_action_embeddings=[embedded["alice_action_embeddings"][0]],
             bob_actions_embeddings=embedded["bob_actions_embeddings"]),
    ]  # fmt: skip
    file = write(tmp_path / "msgs.jsonl", games)
    assert offline(BARGAINING, file, tmp_path / "work", *EACH_ITS_OWN, *AS_PUBLISHED) == 0
    found = {(row["game"], row["seat"], row["turn"]): row for row in rows(tmp_path / "work")}
    assert found[1, "alice", 1]["reward"] == 0.5
    assert found[1, "alice", 0]["reward"] == found[2, "alice", 0]["reward"] == pytest.approx((0.95 * 0.5 + 0.0) / 2)
    assert found[1, "bob", 0]["reward"] == found[2, "bob", 0]["reward"] == pytest.approx((0.5 + 1.0) / 2)
    assert found[1, "bob", 0]["observation"] == "You are Bob.\n\nAlice: i offer you 40 %"
    assert found[1, "alice", 1]["observation"] == "You are Alice.\n\nAlice: i offer you 40 %\nBob: i reject"


def test_a_seat_that_the_policy_does_not_have_is_no_part_of_it(tmp_path):
    embedded = {"alice_action_embeddings": [one_hot(0)], "bob_actions_embeddings": [one_hot(1)]}
    file = write(tmp_path / "msgs.jsonl", [pair(["i accept"], ["i reject"], 1.0, **embedded)] * 2)
    assert offline(BARGAINING, file, tmp_path / "work", "game.players.bob=scripted:random") == 0
    assert {row["seat"] for row in rows(tmp_path / "work")} == {"alice"}


def test_each_utterance_counts_once_and_offers_are_reduced_before_they_are_compared(tmp_path):
    """Alice's offers are one point, in whatever words; what Bob hears is no second utterance."""
    said = ["i offer you 40 %", "You get 40 %.", "i offer you 50 %"]
    games = [pair([each], ["i reject"], 0.5, **{"alice_action_embeddings": [one_hot(0)]}) for each in said]
    file = write(tmp_path / "msgs.jsonl", [game | {"bob_actions_embeddings": [one_hot(1)]} for game in games])
    assert offline(BARGAINING, file, tmp_path / "work") == 0
    lines = (tmp_path / "work" / "iteration-1" / "utterances.jsonl").read_text().splitlines()
    found = {entry["text"]: entry for entry in map(json.loads, lines)}
    assert found["reject"]["count"] == 3 and sum(entry["count"] for entry in found.values()) == 6
    assert found["offer you 40 %"]["amounts"] == {"share of you": pytest.approx(-0.2)}
    assert found["offer you 40 %"]["count"] == 2


def test_an_utterance_said_by_one_seat_and_heard_by_another_counts_once_online_and_offline(tmp_path):
    """A third seat speaks in between, so some of what is heard is several utterances in one, which counts too."""
    seats, said = ("ann", "ben", "cay"), ("a", "b", "a", "c", "b")
    ticket = Ticket("run", "parrot", 0, 0, tuple((seat, "policy") for seat in seats))
    turns = [Turn(seats[n % 3], "policy", "", text) for n, text in enumerate(said)]
    episode = Episode(ticket, turns, dict.fromkeys(seats, 1.0), True)
    shaper = aria(first_fit=99)
    shaper.shape([episode])
    online = {each.gist.text: each.count for each in shaper.corpus.utterances.values()}
    assert online == {"a": 2, "b": 2, "c": 1, "a / b": 1, "b / a": 1, "a / c": 1}
    snapshot = shaper.corpus.since(), [played.trajectories for played in shaper.window.episodes]
    _, fitted = _counted(*snapshot)
    assert dict(zip([gist.text for gist in fitted.gists], fitted.counts.tolist(), strict=True)) == online
    with Coding(tmp_path / "coded", seats) as coding:
        coding.add(0, read(episode, "text"))
    assert dict(zip([gist.text for gist in coding.codes], coding.counts, strict=True)) == online


# Groups on disk against their definition

labels = st.integers(0, 3)
seats_game = st.tuples(
    st.integers(0, 1), st.lists(st.tuples(labels, labels), min_size=1, max_size=5), st.sampled_from([0.0, 0.5, 1.0])
)


def coded(folder, games) -> CodedTurns:
    """Codes are labels. An answer 3 is `yes`, which is never clustered."""
    codes = [Gist(str(code)) for code in range(3)] + [Gist("3")]
    with Coding(folder / "coded", ("a", "b")) as coding:
        for gist in codes:
            coding._code(gist)
        for number, (seat, turns, outcome) in enumerate(games):
            heard = [YES if answer == 3 else codes[answer] for _, answer in turns]
            coding.add(number, [Reading(("g", "ab"[seat]), [codes[said] for said, _ in turns], heard, outcome)])
    return CodedTurns(folder / "coded", 0.9, [0, 1])


def by_definition(games, asked: AggregateSettings, levels: dict[int, np.ndarray], k: int):
    """Turn by turn, with plain keys: what each is worth, and its return."""
    pooling, kind = asked.pooling, POOLINGS.name_of(asked.pooling)
    turns = [
        (seat, number, said, answer, game, 0.9 ** (len(spoken) - number - 1) * outcome)
        for game, (seat, spoken, outcome) in enumerate(games)
        for number, (said, answer) in enumerate(spoken)
    ]

    def history(turn, length, names):
        seat, number, _, _, game, _ = turn
        spoken = games[game][1]
        steps = [
            (None if n == 0 else names[spoken[n - 1][0]], "yes" if spoken[n][1] == 3 else names[spoken[n][1]])
            for n in range(number + 1)
        ]
        return seat, tuple(steps if length is None else steps[max(number + 1 - length, 0) :])

    def table(level, length):
        names, sums = levels[level], (defaultdict(list), defaultdict(list))
        keys = [(history(t, length, names), (*history(t, length, names), int(names[t[2]]))) for t in turns]
        for (h, a), t in zip(keys, turns, strict=True):
            sums[0][h].append(t[5])
            sums[1][a].append(t[5])
        return [(sums[0][h], sums[1][a]) for h, a in keys]

    lengths = sorted(set(getattr(pooling, "histories", ())), reverse=True)
    wanted = [(k, None)] + [(k, n) for n in lengths]
    if kind == "shrinkage":
        wanted += [
            (level, min(lengths)) for level in sorted(pooling.coarser, reverse=True) if level in levels and level < k
        ]
    tables = [table(*each) for each in wanted]
    at_turn = defaultdict(list)
    for t in turns:
        at_turn[t[0], t[1]].append(t[5])
    found, expected = [], []
    for place, t in enumerate(turns):
        groups = [each[place] for each in tables]
        if kind == "shrinkage":
            both = []
            for side in (1, 0):
                mean = np.mean(at_turn[t[0], t[1]])
                for group in reversed(groups):
                    mean = (sum(group[side]) + pooling.strength * mean) / (len(group[side]) + pooling.strength)
                both.append(mean)
        else:
            group = groups[0]
            if kind == "backoff":
                group = next((each for each in groups if len(each[1]) >= pooling.smallest), groups[-1])
            both = [np.mean(group[1]), np.mean(group[0])]
        found.append(asked.own * t[5] + (1 - asked.own) * both[0])
        expected.append({"none": 0.0, "turn": np.mean(at_turn[t[0], t[1]]), "history": both[1]}[asked.baseline])
    return np.array(found) - np.array(expected), [t[5] for t in turns]


@settings(max_examples=40, deadline=None)
@given(
    games=st.lists(seats_game, min_size=1, max_size=12),
    pooling=st.sampled_from(["exact", "backoff", "shrinkage"]),
    baseline=st.sampled_from(["none", "turn", "history"]),
    smallest=st.integers(1, 4),
    own=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_worth_is_what_its_definition_says(tmp_path_factory, games, pooling, baseline, smallest, own):
    turns = coded(tmp_path_factory.mktemp("coded"), games)
    levels = {2: np.array([0, 1, 0, 1]), 4: np.arange(4)}
    of_kind = {"exact": {}, "backoff": {"smallest": smallest}, "shrinkage": {"coarser": (2,)}}[pooling]
    of_kind |= {} if pooling == "exact" else {"histories": (2, 1, 0)}
    asked = AggregateSettings(pooling={"kind": pooling} | of_kind, baseline=baseline, own=own, gamma=0.9)
    expected, returns = by_definition(games, asked, levels, 4)
    found = worth(turns, levels, 4, asked)
    np.testing.assert_allclose(turns.values, returns, atol=1e-12)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    if (pooling, baseline) == ("exact", "none"):
        told = figures(turns, found)
        assert told["variance_after"] <= told["variance_before"] + 1e-12, "law of total variance"
        assert told["turns"] == len(expected)


@settings(max_examples=20, deadline=None)
@given(games=st.lists(seats_game, min_size=1, max_size=12))
def test_group_means_are_those_of_the_space_that_is_fitted_beside_the_traffic(tmp_path_factory, games):
    """So SplitScore chooses the same k there and here."""
    turns = coded(tmp_path_factory.mktemp("coded"), games)
    trajectories = [
        CodedGame(
            ("g", "ab"[seat]),
            tuple(said for said, _ in spoken),
            tuple(YES if answer == 3 else answer for _, answer in spoken),
            outcome,
        )
        for seat, spoken, outcome in games
    ]
    for names in (np.arange(4), np.array([0, 0, 1, 1])):
        beside = Turns.of(trajectories, 0.9).group_means(names)
        np.testing.assert_allclose(np.sort(turns.group_means(names)), np.sort(beside), atol=1e-12)


# Columns


def test_a_column_is_an_ordinary_npy_file_and_an_unfinished_one_is_none(tmp_path):
    with Column(tmp_path / "whole.npy", "<f4", 3) as column:
        for start in range(0, 300_000, 1000):
            column.add(np.arange(3 * start, 3 * (start + 1000)).reshape(-1, 3))
    rows_ = np.load(tmp_path / "whole.npy")
    assert rows_.shape == (300_000, 3) and (rows_.ravel() == np.arange(900_000)).all()
    assert (open_column(tmp_path / "whole.npy") == rows_).all()
    with pytest.raises(RuntimeError), Column(tmp_path / "cut.npy", "<i4") as column:
        column.add(np.zeros(100_000))
        raise RuntimeError("killed")
    with pytest.raises(ValueError, match="cut.npy is no whole column"):
        open_column(tmp_path / "cut.npy")
    with Column(tmp_path / "empty.npy", "<i4"):
        pass
    assert len(open_column(tmp_path / "empty.npy")) == 0
    assert NOTHING < 0
