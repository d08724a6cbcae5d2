"""Players of OpenSpiel's games, measured by OpenSpiel itself."""

from __future__ import annotations

import pytest

from envs.registry import make_game, make_player
from envs.worlds.open_spiel import equilibrium
from envs.worlds.open_spiel.equilibrium import by_words, chances
from envs.worlds.open_spiel.spiel import Position, named, opened
from envs.worlds.open_spiel.words import shown
from tests.envs.test_open_spiel import histories
from tests.support.worlds import needs

pytestmark = [needs("open_spiel"), pytest.mark.usefixtures("worlds_cache")]
BOUND = {"kuhn_poker": 0.001, "leduc_poker": 0.02, "liars_dice(dice_sides=4)": 0.03}


def policy_of(title: str):
    """What the expert does, by the words it reads, as a policy of OpenSpiel's."""
    import pyspiel

    of, table = opened(title), {}
    for history in histories(of):
        position = Position.at(of, history)
        player, names = position.state.current_player(), named(position.state)
        row = by_words(of)[shown(position, player, "words")]
        table[position.state.information_state_string(player)] = [(names[name], chance) for name, chance in row.items()]
    return pyspiel.TabularPolicy(table)


def money(title: str, players: list[str], games: int) -> float:
    """The mean earnings of the first seat."""
    options = {"game": title}
    game, total = make_game("open_spiel", options), 0.0
    seated = {seat: make_player("open_spiel", who, options) for seat, who in zip(game.seats, players, strict=True)}
    for seed in range(games):
        game.reset(seed)
        for number, each in enumerate(seated.values()):
            each.reset(seed * 2 + number)
        while (seat := game.seat) is not None:
            assert game.step(seated[seat].reply(game.observe(), game.actions())).executable
        total += game.money("player_0")
    return total / games


@pytest.mark.parametrize("title", BOUND)
def test_nobody_gains_more_against_the_expert_than_is_said(title):
    import pyspiel

    found = pyspiel.exploitability(opened(title).game, policy_of(title))
    assert 0 <= found < BOUND[title]


@pytest.mark.long
def test_nobody_gains_more_at_liars_dice_with_six_sides():
    import pyspiel

    assert pyspiel.exploitability(opened("liars_dice").game, policy_of("liars_dice")) < 0.03


def test_the_first_player_of_kuhn_poker_loses_an_eighteenth_of_a_chip():
    """Kuhn 1950: the value of the game is -1/18."""
    policy, game = policy_of("kuhn_poker"), opened("kuhn_poker").game

    def value(state) -> float:
        if state.is_terminal():
            return state.returns()[0]
        rows = state.chance_outcomes() if state.is_chance_node() else policy.action_probabilities(state).items()
        return sum(chance * value(state.child(action)) for action, chance in rows)

    assert value(game.new_initial_state()) == pytest.approx(-1 / 18, abs=0.001)
    assert money("kuhn_poker", ["expert", "expert"], 3000) == pytest.approx(-1 / 18, abs=0.09)  # 4 standard errors


def test_the_expert_mixes_as_the_equilibrium_does():
    """Kuhn 1950: the last player has no choice; the first bets a king three times as often as a jack."""
    table, cards = by_words(opened("kuhn_poker")), ("jack", "queen", "king")
    last = [table[f"You are player_1. Your card is the {card}.\nplayer_0: Bet."]["Bet"] for card in cards]
    assert last == pytest.approx([0, 1 / 3, 1], abs=0.02)
    jack, queen, king = (table[f"You are player_0. Your card is the {card}."]["Bet"] for card in cards)
    assert king == pytest.approx(3 * jack, abs=0.03) and queen < 0.02


def test_the_equilibrium_is_computed_once(worlds_cache, monkeypatch):
    of = opened("kuhn_poker(players=2)")
    found = chances(of)
    assert len(found) == 12 and len(list((worlds_cache / "open_spiel").iterdir())) >= 1
    chances.cache_clear()
    monkeypatch.setattr(equilibrium, "solved", None)  # nothing is solved again
    assert chances(of) == found
    chances.cache_clear()


def test_the_expert_never_loses_noughts_and_crosses_and_mostly_wins_connect_four():
    assert money("tic_tac_toe", ["expert", "expert"], 60) == 0.0
    assert money("tic_tac_toe", ["random", "expert"], 100) < -0.6
    assert money("connect_four", ["expert", "random"], 6) == 1.0


def test_the_mediocre_are_in_between():
    for title, games in (("leduc_poker", 1500), ("tic_tac_toe", 150)):
        strong, middling, weak = (money(title, [who, "random"], games) for who in ("expert", "mediocre", "random"))
        assert strong > middling + 0.1 > weak + 0.2, title


def test_a_game_of_several_or_with_dice_has_an_expert_if_nothing_is_hidden():
    assert money("pig(winscore=10)", ["expert", "random"], 20) > 0.3


@pytest.mark.parametrize(
    ("title", "why"),
    [
        ("phantom_ttt", "its tree is too large for CFR"),
        ("kuhn_poker(players=3)", "CFR is for two players"),
        ("hanabi", "CFR is for two players"),
        ("negotiation", "CFR is for two players"),
    ],
)
def test_where_there_is_no_expert_it_says_so_and_the_mediocre_one_is_random(title, why):
    with pytest.raises(ValueError, match=f"has no expert: .*{why}") as caught:
        make_player("open_spiel", "expert", {"game": title})
    assert "\n" not in str(caught.value)
    make_player("open_spiel", "mediocre", {"game": title}).reset(0)


def test_the_expert_reads_words():
    with pytest.raises(ValueError, match="show='observation': the expert reads words only"):
        make_player("open_spiel", "expert", {"show": "observation"})
    with pytest.raises(ValueError, match="no such game"):
        make_player("open_spiel", "mediocre", {"game": "kuhn"})
