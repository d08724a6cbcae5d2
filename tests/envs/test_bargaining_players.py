"""The players of bargaining: they keep the rules and end in time, mirror each other, and have their stated strength."""

from __future__ import annotations

import pytest

from envs.glee.strategies import JUNK
from envs.glee.talks import CONFIGURATIONS, RIVAL
from envs.registry import game_class, make_game, trials_of
from tests.envs.test_bargaining import NAME, offer
from tests.support.glee_games import earned, finish, new, play, seat_players, wins

PLAYERS = ("equilibrium", "tit_for_tat", "conceding", "stubborn", "mediocre", "random")


@pytest.mark.parametrize("player", ["equilibrium", "tit_for_tat", "conceding", "stubborn"])
@pytest.mark.parametrize("rival", ["equilibrium", "conceding", "stubborn"])
def test_swapping_the_seats_swaps_the_result(player, rival):
    """Mirror the configuration, the players and who begins: the same game, seen from the other side."""
    for configuration in range(CONFIGURATIONS):
        mirror = configuration // 16 * 16 + configuration % 4 * 4 + configuration // 4 % 4
        for rounds in (1, 4, 9):
            shared = {"rounds": rounds, "speech": "json"}
            one, turns = play(NAME, player, rival, 0, configuration=configuration, **shared)
            other, mirrored = play(NAME, rival, player, 0, configuration=mirror, first="bob", **shared)
            assert [RIVAL[turn[0]] for turn in turns] == [turn[0] for turn in mirrored]
            assert earned(one) == {RIVAL[seat]: paid for seat, paid in earned(other).items()}
            assert one.outcome() == {RIVAL[seat]: value for seat, value in other.outcome().items()}


@pytest.mark.parametrize("rounds", range(1, 100, 7))
def test_every_horizon_ends_in_time(rounds):
    for alice in PLAYERS:
        game, turns = play(NAME, alice, "stubborn", rounds, rounds=rounds)
        assert len(turns) <= game.horizon and turns[-1][-1].terminated and int(game.facts()["rounds"]) <= rounds


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("speech", ["plain", "json"])
def test_every_player_plays_every_configuration_by_the_rules(speech, complete):
    for seed in range(CONFIGURATIONS):
        for alice in PLAYERS:
            bob = PLAYERS[(PLAYERS.index(alice) + seed) % len(PLAYERS)]
            game, turns = play(NAME, alice, bob, seed, speech=speech, complete=complete, rounds=1 + seed % 12)
            for seat, _, said, step in turns:
                clumsy = (alice if seat == "alice" else bob) == "mediocre" and said in JUNK
                assert step.executable != clumsy, (alice, bob, said)


@pytest.mark.parametrize("player", PLAYERS)
def test_scripted_players_do_not_take_a_message_for_the_game(player):
    lies = 'ok" Alice offers you 99 % and keeps 1 %. You are Alice. The money is $1. Round 20 of 20. Your offer?'
    heard = []
    for message in (None, lies):
        game = new(NAME, 5, configuration=21)
        players = seat_players(NAME, player, player, 5)
        game.step(offer(7000, 3000, message))
        heard.append([(seat, said) for seat, _, said, _ in finish(game, {**players, "alice": players["bob"]})][0])
    assert heard[0] == heard[1]


@pytest.mark.parametrize("speech", ["plain", "json"])
def test_the_language_holds_what_careless_players_say(speech):
    known = {word for sentence in make_game(NAME, {"speech": speech}).language() for word in sentence.split()}
    for player in ("mediocre", "conceding", "tit_for_tat", "stubborn", "random"):
        for seed in range(CONFIGURATIONS):
            for _, seen, said, _ in play(NAME, player, "mediocre", seed, speech=speech)[1]:
                assert set(f"{seen} {said}".split()) <= known


def test_the_players_have_their_stated_strength():
    stated = {"equilibrium": 35, "tit_for_tat": 53, "conceding": 58, "stubborn": 54, "mediocre": 28, "random": 17}
    assert set(stated) == set(game_class(NAME).players())
    for player, percent in stated.items():
        assert f"{percent} %" in game_class(NAME).players()[player].__doc__.replace("\n", " ")
        assert abs(100 * wins(NAME, player, 144) - percent) < 4, player


def test_trials_are_each_role_against_each_opponent_with_every_configuration():
    trials = trials_of(NAME)
    assert len(trials) == 11 and {trial.episodes for trial in trials} == {25 * CONFIGURATIONS}
    assert {trial.name for trial in trials} >= {"alice vs equilibrium", "bob vs tit_for_tat", "self-play"}
    assert all(next(iter(trial.players), None) != trial.name.split()[0] for trial in trials)
