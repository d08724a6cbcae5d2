"""Games of PettingZoo as games of Parley."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from pettingzoo import AECEnv

from envs.doors.inward.imported import WorldError
from envs.doors.inward.pettingzoo import WORDS, PettingZooGame
from tests.support.imported_games import mean_outcome, play

pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries, about themselves
HERE = __name__
SMALL = {"go_v5": {"board_size": 5}}


def test_noughts_and_crosses_by_hand():
    game = PettingZooGame()
    assert game.seats == ("player_1", "player_2")
    game.reset(0)
    assert game.observe().startswith("You are X.\n0 3 6\n1 4 7\n2 5 8\nYou can: cell 0; cell 1")
    assert game.step("Cell  4").executable and game.seat == "player_2"
    assert game.observe().startswith("player_1: cell 4\nYou are O.\n0 3 6\n1 X 7\n2 5 8")
    refused = game.step("cell 4")
    assert not refused.executable and not refused.terminated and game.seat == "player_2", "PettingZoo would end it"
    for said in ("<think>cell 5, or</think>\n**Action:** cell 0", "I need the row.\n\ncell 3", "cell 1"):
        step = game.step(said)
        assert step.executable and not step.terminated and "or" not in game.observe().partition("You are")[0]
    last = game.step("cell 5")
    assert last.terminated and last.rewards == {"player_1": 1.0, "player_2": -1.0}
    assert game.outcome() == {"player_1": 1.0, "player_2": 0.0}
    assert game.closing()["player_2"] == "player_1: cell 5\nYou are O.\nO X 6\nO X 7\n2 X 8"


def test_chess_is_written_as_chess_players_write_it():
    game = PettingZooGame(id="chess_v6")
    game.reset(0)
    assert game.observe().startswith("You are white, capital letters; white is below.\nr n b q k b n r")
    for said in ("f2f3", "e7e5", "g2g4"):
        assert said in game.actions() and game.step(said).executable
    assert game.observe().splitlines()[1].startswith("You are black")
    mate = game.step("d8h4")
    assert mate.terminated and game.outcome() == {"player_0": 0.0, "player_1": 1.0}


def test_points_of_a_go_board_are_named_as_on_a_board():
    game = PettingZooGame(id="go_v5", settings={"board_size": 5})
    game.reset(0)
    assert game.seats == ("black_0", "white_0") and "pass" in game.actions() and "f1" not in game.actions()
    game.step("b4")
    assert "white_0. Black is x" in game.observe()
    rows = game.observe().splitlines()
    assert rows[0] == "black_0: b4" and rows[3] == " 4 . x . . ." and rows[7] == "   a b c d e"
    game.step("c4")
    assert " 4 . x o . ." in game.observe() and "black_0. Black is x" in game.observe()
    assert game.step("pass").executable and game.step("pass").terminated


def test_cards_are_seen_by_their_owner_only():
    game, differing = PettingZooGame(id="texas_holdem_v4"), 0
    for seed in range(6):
        game.reset(seed)
        hands = {}
        while game.seat is not None and len(hands) < 2:
            hands[game.seat] = next(line for line in game.observe().splitlines() if line.startswith("You hold"))
            game.step("call" if "call" in game.actions() else "check")
        differing += len(set(hands.values())) == 2
    assert differing == 6


def test_what_both_choose_at_once_is_not_told_before():
    game = PettingZooGame(id="rps_v2", settings={"max_cycles": 2})
    game.reset(0)
    game.step("paper")
    assert game.seat == "player_1" and "paper" not in game.observe().partition("You can")[0]
    paid = game.step("rock").rewards
    assert paid == {"player_0": 1.0, "player_1": -1.0}
    assert game.observe().startswith("The other one showed rock.")
    game.step("paper")
    assert game.observe().startswith("The other one showed paper.")
    assert game.step("rock").truncated and game.outcome() == {"player_0": 1.0, "player_1": 0.0}


@pytest.mark.parametrize("name", sorted(WORDS))
def test_every_classic_game_is_played_and_told(name):
    (id,) = (each for each in classic_ids() if each.rpartition("_v")[0] == name)
    game = PettingZooGame(id=id, settings=SMALL.get(id), turns=60)
    for seed in range(2):
        played = play(game, "random", seed)
        assert all(step.executable for *_, step in played) and played[-1][-1].terminated != played[-1][-1].truncated
        assert not any("action 0" in listed for _, _, listed, _, _ in played), "every action has a name"
    assert all(0 <= won <= 1 for won in game.outcome().values()) and game.briefing(game.seats[0]).count(".") > 1


def classic_ids() -> list[str]:
    with pytest.raises(ValueError, match="no classic game") as refused:
        PettingZooGame(id="ludo_v1")
    return str(refused.value).rpartition("it has: ")[2].split(", ")


def test_there_are_words_for_every_classic_game():
    assert {each.rpartition("_v")[0] for each in classic_ids()} == set(WORDS)


def test_random_players_are_even():
    game = PettingZooGame(id="leduc_holdem_v4")
    assert 0.4 < mean_outcome(game, "random", 100) < 0.6


class Countdown(AECEnv):
    """A world of one's own: whoever says 0 is paid `paid`; `fault` is what it does instead of saying 1."""

    metadata = {"name": "countdown"}

    def __init__(self, paid=1.0, fault="", size=2):
        super().__init__()
        self.possible_agents = ["ann", "ben"]
        self.paid, self.fault = paid, fault
        self.observation_spaces = dict.fromkeys(self.possible_agents, Box(0, 9, (size,)))
        self.action_spaces = dict.fromkeys(self.possible_agents, Discrete(2))
        self.size = size

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def observe(self, agent):
        return np.full(self.size, self.turns, float)

    def reset(self, seed=None, options=None):
        self.agents, self.turns = self.possible_agents[:], 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "ann"

    def step(self, action):
        print("a world that talks")
        if action == 1 and self.fault == "exit":
            sys.exit(3)
        if action == 1 and self.fault:
            raise KeyError(self.fault)
        self.turns += 1
        self.rewards = {
            agent: self.paid if action == 0 and agent == self.agent_selection else 0.0 for agent in self.agents
        }
        self.terminations = dict.fromkeys(self.agents, action == 0)
        self.agent_selection = "ben" if self.agent_selection == "ann" else "ann"


def test_a_world_of_ones_own_has_numbers_for_words():
    game = PettingZooGame(id=f"{HERE}:Countdown", returns=[0, 1])
    game.reset(0)
    assert game.seats == ("ann", "ben") and game.observe() == "0 0\nYou can: action 0; action 1"
    game.step("action 1")
    assert game.observe() == "1 1\nYou can: action 0; action 1", "nobody knows whether others may see what was done"
    assert game.step("action 0").terminated and game.outcome() == {"ann": 0.0, "ben": 1.0}
    saved = json.dumps(game.save())
    other = PettingZooGame(id=f"{HERE}:Countdown", returns=[0, 1])
    other.restore(json.loads(saved))
    assert other.outcome() == game.outcome()


@pytest.mark.parametrize(
    ("settings", "said", "message"),
    [
        ({"paid": float("nan")}, "action 0", "Countdown paid nan, and a reward has to be a finite number"),
        ({"paid": "much"}, "action 0", "paid 'much', and a reward"),
        ({"fault": "x"}, "action 1", "Countdown: step failed: KeyError: 'x'"),
        ({"fault": "exit"}, "action 1", "Countdown: step failed: SystemExit: 3"),
    ],
)
def test_a_world_that_fails_is_named_in_one_line_and_others_play_on(settings, said, message):
    bad = PettingZooGame(id=f"{HERE}:Countdown", settings=settings)
    good = PettingZooGame(id=f"{HERE}:Countdown")
    for game in (bad, good):
        game.reset(0)
    with pytest.raises(WorldError, match=message) as failed:
        bad.step(said)
    assert "\n" not in str(failed.value)
    assert good.step("action 0").terminated and good.outcome()["ann"] == 1.0


def test_a_world_in_the_current_folder_is_found_by_its_module(tmp_path, monkeypatch):
    for name in ("world_of_mine", "chess_views"):
        (tmp_path / f"{name}.py").write_text(f"from {HERE} import Countdown as world\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    assert PettingZooGame(id="world_of_mine:world", slow=True).seats == ("ann", "ben")
    game = PettingZooGame(id="chess_views:world")  # no chess
    game.reset(0)
    assert game.observe().startswith("0 0\n") and "a game of chess_views:world" in game.briefing("ann")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "tictactoe_v1"}, "no classic game of PettingZoo; it has: chess_v6, connect_four_v3"),
        ({"id": "no_such_module:world"}, "cannot be imported: No module named 'no_such_module'"),
        ({"id": f"{HERE}:Nothing"}, "cannot be imported"),
        ({"settings": {"colour": 1}}, "cannot be made: TypeError"),
        ({"id": "rps_v2", "settings": {"max_cycles": None}}, "settings.max_cycles=None must be a whole number"),
        ({"id": f"{HERE}:Countdown", "settings": {"size": 99}}, "has 99 numbers, and a text tells at most 64; wrap it"),
        ({"returns": [1, 1]}, "the worst and the best"),
        ({"turns": 0}, "turns=0"),
    ],
)
def test_impossible_games_of_pettingzoo_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PettingZooGame(**options)
