"""Games that are broken, registered with OpenSpiel as its own Python games are: each fails its own episode alone."""

from __future__ import annotations

import math

import pytest

from actors.play.live import Failure
from actors.play.play import Play
from actors.play.players import Cast
from actors.settings import RolloutSettings
from envs.doors.inward.imported import WorldError
from envs.episode import Episode, Ticket
from envs.registry import make_game, make_player
from envs.worlds.open_spiel.game import OpenSpielGame
from tests.support.worlds import needs

pytestmark = needs("open_spiel")
CONTROL, NUL = "\x1b[0m", "\0"


@pytest.fixture(scope="module")
def broken() -> str:
    """A game of two turns each; what is wrong with it from the second turn on is its parameter `fault`."""
    import pyspiel

    kinds = pyspiel.GameType
    kind = kinds(
        short_name="python_parley_broken",
        long_name="Broken",
        dynamics=kinds.Dynamics.SEQUENTIAL,
        chance_mode=kinds.ChanceMode.DETERMINISTIC,
        information=kinds.Information.IMPERFECT_INFORMATION,
        utility=kinds.Utility.GENERAL_SUM,
        reward_model=kinds.RewardModel.TERMINAL,
        max_num_players=2,
        min_num_players=2,
        provides_information_state_string=True,
        provides_information_state_tensor=False,
        provides_observation_string=False,
        provides_observation_tensor=False,
        parameter_specification={"fault": "none"},
    )
    bounds = {"min_utility": -1.0, "max_utility": 1.0, "max_game_length": 4}
    size = pyspiel.GameInfo(num_distinct_actions=3, max_chance_outcomes=0, num_players=2, **bounds)

    class Broken(pyspiel.Game):
        def __init__(self, parameters=None):
            super().__init__(kind, size, parameters or {})
            self.fault = (parameters or {}).get("fault", "none")

        def new_initial_state(self):
            return BrokenState(self)

    class BrokenState(pyspiel.State):
        def __init__(self, game):
            super().__init__(game)
            self.fault, self.turn = game.fault, 0

        def wrong(self, fault):
            return self.fault == fault and self.turn >= 1

        def current_player(self):
            return pyspiel.PlayerId.TERMINAL if self.turn == 4 else self.turn % 2

        def _legal_actions(self, player):
            return [] if self.wrong("none listed") else [0, 1, 2]

        def _apply_action(self, action):
            self.turn += 1
            if self.wrong("crash"):
                raise ZeroDivisionError("broken")
            if self.wrong("prints"):
                print("noise")

        def _action_to_string(self, player, action):
            if self.wrong("alike"):
                return ("Go", " go. ", "")[action]
            return f"act {CONTROL if self.wrong('control') else ''}{action}"

        def is_terminal(self):
            return self.turn == 4

        def returns(self):
            return [math.nan, 0.0] if self.wrong("nan") else [0.5 * (self.turn == 4), 0.0]

        def information_state_string(self, player=None):
            if self.wrong("bytes"):
                return b"\xff\xfe"
            return "" if self.wrong("nothing") else f"turn {self.turn}{NUL if self.wrong('control') else ''}"

        def __str__(self):
            return str(self.turn)

    pyspiel.register_game(kind, Broken)
    return "python_parley_broken(fault={})"


def play_out(title: str, episodes: int = 3) -> dict[int, Episode | Failure]:
    """Broken episodes and whole ones of Kuhn poker at once, by scripted players; results by number."""
    made = {"broken": {"game": title, "turns": 20}, "whole": {"game": "kuhn_poker"}}
    players = tuple((seat, "scripted:random") for seat in ("player_0", "player_1"))
    play = Play(
        Cast({}, {}, lambda game, player: make_player("open_spiel", player, made[game])),
        RolloutSettings(),
        lambda game: make_game("open_spiel", made[game]),
    )
    names = ["broken", "whole"] * episodes
    play.admit([Ticket("run", name, number, number, players) for number, name in enumerate(names)])
    found = {}
    while play.busy():
        found |= {ticket.number: result for ticket, result, _ in play.step()}
    play.close()
    return found


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("nan", "ValueError: a world paid nan, which is no finite number"),
        ("bytes", "TypeError: a world answered with bytes, not with text"),
        ("crash", "ZeroDivisionError: broken"),
        ("none listed", "RuntimeError: it lists no action for player_1"),
    ],
)
def test_a_broken_game_fails_its_own_episodes_by_a_counted_reason(broken, fault, line):
    found = play_out(broken.format(fault))
    assert {found[number].reason for number in (0, 2, 4)} == {"game_error:WorldError"}
    assert all(found[number].terminated and sum(found[number].money.values()) == 0 for number in (1, 3, 5))
    game = OpenSpielGame(broken.format(fault))
    game.reset(0)
    with pytest.raises(WorldError, match=rf"^python_parley_broken\(fault={fault}\) failed: {line}") as caught:
        game.step("act 0")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fault", ["none", "prints", "control", "alike", "nothing"])
def test_what_is_only_odd_can_be_played(broken, fault, capfd):
    found = play_out(broken.format(fault))
    assert all(isinstance(result, Episode) and result.terminated for result in found.values())
    assert found[0].outcome == {"player_0": 0.75, "player_1": 0.5} and len(found[0].turns) == 4


def test_names_are_one_line_and_no_two_are_alike(broken):
    game = OpenSpielGame(broken.format("alike"))
    game.reset(0)
    game.step("act 1")
    assert game.actions() == ("Go #0", "go. #1", "#2")
    assert game.step("GO. #1").executable
    game = OpenSpielGame(broken.format("control"))
    game.reset(0)
    game.step("act 0")
    assert game.actions()[0] == "act \ufffd[0m0" and game.observe().startswith("turn 1\ufffd\nYou can: ")
    assert game.step("act \ufffd[0m0").executable


def test_a_world_that_raised_can_begin_again(broken):
    game = OpenSpielGame(broken.format("crash"))
    game.reset(0)
    with pytest.raises(WorldError):
        game.step("act 0")
    game.reset(1)
    assert game.seat == "player_0" and game.observe().startswith("turn 0")
