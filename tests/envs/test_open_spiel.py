"""Games of OpenSpiel: what a seat sees, what it may say, chance, pay, and games that are broken."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict

import pytest

from envs.registry import make_game, make_player
from envs.worlds.open_spiel.game import REFUSED, OpenSpielGame
from envs.worlds.open_spiel.spiel import Position, opened
from envs.worlds.open_spiel.words import shown
from tests.support.worlds import needs

pytestmark = needs("open_spiel")
WORDED = ("kuhn_poker", "leduc_poker", "liars_dice", "tic_tac_toe", "connect_four")
SMALL = (
    *("kuhn_poker", "kuhn_poker(players=3)", "leduc_poker", "leduc_poker(suit_isomorphism=True)"),
    *("liars_dice(dice_sides=3)", "liars_dice(dice_sides=2,numdice=2)"),
    "goofspiel(num_cards=3,points_order=descending)",
)
OTHERS = ("matrix_rps", "goofspiel(num_cards=4)", "pig", "hanabi", "battleship", "chess", "negotiation", "catch")


def histories(of) -> list[list[int]]:
    """Of every state in which a player acts."""
    found, waiting = [], [of.game.new_initial_state()]
    while waiting:
        state = waiting.pop()
        if state.is_terminal():
            continue
        if not state.is_chance_node():
            found.append(list(state.history()))
        waiting += [state.child(action) for action in state.legal_actions()]
    return found


def played(game: OpenSpielGame, seed: int, player: str = "random") -> list[tuple]:
    seated = make_player("open_spiel", player, {"game": game.of.title})
    seated.reset(seed)
    game.reset(seed)
    return list(turns(game, seated))


def turns(game: OpenSpielGame, seated):
    while (seat := game.seat) is not None:
        seen, listed = game.observe(), game.actions()
        said = seated.reply(seen, listed)
        yield seat, seen, listed, said, game.step(said)


# --- what a seat sees --------------------------------------------------------------------------------


@pytest.mark.parametrize("title", SMALL)
def test_what_is_shown_is_the_own_information_state_and_nothing_else(title):
    """In every state of the game: two that a player cannot tell apart show the same words, so the words hold nothing of
    what others hold; and two that it can tell apart do not, but for the suits of Leduc poker."""
    of, words, known = opened(title), defaultdict(set), defaultdict(set)
    for history in histories(of):
        position = Position.at(of, history)
        player = position.state.current_player()
        text, state = shown(position, player, "words"), position.state.information_state_string(player)
        words[player, state].add(text)
        known[player, text].add(state)
    assert len(words) > 8 and all(len(texts) == 1 for texts in words.values())
    told_apart = {len(states) for states in known.values()}
    assert told_apart == ({2, 4} if title == "leduc_poker" else {1})


def test_a_hand_of_leduc_poker_in_words():
    game = OpenSpielGame("leduc_poker")
    seed = next(seed for seed in range(1000) if hand(game, seed) == ["jack", "king", "queen"])
    game.reset(seed)
    assert game.observe() == "You are player_0. Your card is the jack.\nThe pot holds 2 chips.\nYou can: Call; Raise."
    game.step("Raise")
    assert game.observe().splitlines()[:2] == ["You are player_1. Your card is the king.", "player_0: Raise."]
    game.step("call")
    assert game.seat == "player_0" and game.observe().splitlines()[:3] == [
        "You are player_0. Your card is the jack.",
        "player_0: Raise, player_1: Call.",
        "On the table is the queen.",
    ]
    game.step(" RAISE. ")
    assert game.observe().splitlines()[3:5] == ["player_0: Raise.", "The pot holds 10 chips."]
    step = game.step("Call")
    assert step.terminated and step.rewards == {"player_0": -7 / 13, "player_1": 7 / 13}
    assert [game.money(seat) for seat in game.seats] == [-7.0, 7.0]
    assert game.outcome() == {"player_0": 6 / 26, "player_1": 20 / 26}
    assert game.closing() == {
        "player_0": "The game is over: you earn -7.",
        "player_1": "The game is over: you earn 7.",
    }
    assert "player_0: Raise, player_1: Call, chance: " in game.facts()["played"]


def hand(game: OpenSpielGame, seed: int) -> list[str]:
    """The cards that fall if all call."""
    game.reset(seed)
    cards = []
    for _ in range(3):
        cards += re.findall(r"(?:card is|table is) the (\w+)", game.observe())
        game.step("Call")
    return [cards[0], cards[1], cards[-1]]


def test_a_board_is_drawn_and_moves_are_told_once():
    game = OpenSpielGame("tic_tac_toe")
    game.reset(0)
    game.step("x(1,1)")
    game.step("o(0,2)")
    text, _, menu = game.observe().rpartition("\n")
    assert text == "player_1: o(0,2)\nYou play x.\n. . o\n. x .\n. . ."
    assert menu.startswith("You can: x(0,0); x(0,1); x(1,0);")
    plain = OpenSpielGame("tic_tac_toe", menu=False, show="observation")
    plain.reset(0)
    plain.step("x(1,1)")
    assert plain.observe() == "...\n.x.\n..."


@pytest.mark.parametrize("title", ["matrix_rps", "goofspiel(num_cards=4)", "matching_pennies_3p"])
def test_moves_that_are_made_at_once_are_not_seen_by_the_others(title):
    shows = defaultdict(set)
    game = OpenSpielGame(title)
    game.reset(1)
    for first in game.actions():
        game.reset(1)
        game.step(first)
        shows[game.seat].add(game.observe())
    assert {seat: len(texts) for seat, texts in shows.items()} == {"player_1": 1}


# --- what a seat may say -----------------------------------------------------------------------------


def test_what_is_no_legal_action_costs_the_turn_and_the_third_in_a_row_the_game():
    game = OpenSpielGame("kuhn_poker")
    game.reset(2)
    first = game.observe()
    for said in ("Fold", "", "Bet Bet", "Bet;", "0", "Pass; Bet"):
        game.reset(2)
        step = game.step(said)
        assert not step.executable and not step.terminated and step.rewards == {} and game.seat == "player_0"
        assert game.observe() == f"{REFUSED}\n{first}"
    game.step("nothing")
    assert game.step("Thought: I have the king, or pass?\nAction: bet").executable and game.seat == "player_1"
    for said in ("a", "b"):
        assert not game.step(said).terminated
    step = game.step("c")
    assert step.terminated and step.rewards == {"player_0": 1.0, "player_1": -1.0} and "loses the game" in step.caption
    assert game.outcome() == {"player_0": 1.0, "player_1": 0.0} and game.money("player_1") == -2.0


def test_whoever_loses_by_nonsense_gives_nobody_more_than_the_sum_of_the_game():
    three = OpenSpielGame("kuhn_poker(players=3)", tries=1)
    three.reset(0)
    three.step("nonsense")
    assert [three.money(seat) for seat in three.seats] == [-2.0, 1.0, 1.0]
    alone = OpenSpielGame("first_sealed_auction", tries=1)  # no fixed sum: the other keeps what it has
    alone.reset(0)
    alone.step("nonsense")
    assert [alone.money(seat) for seat in alone.seats] == [0.0, 0.0]


def test_a_game_that_is_too_long_is_cut_off():
    game = OpenSpielGame("connect_four", turns=3)
    steps = [step for *_, step in played(game, 0)]
    assert [step.truncated for step in steps] == [False, False, True] and not steps[-1].terminated
    assert game.outcome() == {"player_0": 0.5, "player_1": 0.5} and game.seat is None


# --- chance and pay ----------------------------------------------------------------------------------


def test_the_cards_fall_by_the_seed_whatever_is_said_and_evenly():
    game, deals = OpenSpielGame("kuhn_poker"), Counter()
    for seed in range(1200):
        game.reset(seed)
        own = game.observe().split()[7]
        game.step("Pass")
        other = game.observe().split()[7]
        game.reset(seed)
        assert game.observe().split()[7] == own
        game.step("Bet")
        assert game.observe().split()[7] == other
        deals[own, other] += 1
    assert len(deals) == 6 and all(140 < count < 260 for count in deals.values()), deals


@pytest.mark.parametrize("title", ["negotiation", "tarok"])
def test_a_game_with_dice_of_its_own_is_given_a_seed_for_them(title):
    openings = []
    for seed in (1, 2, 3, 1, 2, 3):
        game = OpenSpielGame(title)
        game.reset(seed)
        openings.append(game.observe())
    assert openings[:3] == openings[3:] and len(set(openings)) == 3


@pytest.mark.parametrize("title", [*WORDED, *SMALL, *OTHERS])
def test_rewards_and_outcomes_are_the_returns_on_another_scale(title):
    game = OpenSpielGame(title, turns=2000)
    for seed in (1, -1):
        paid = Counter()
        for *_, step in played(game, seed):
            paid.update(step.rewards)
            assert all(math.isfinite(reward) and -1 <= reward <= 1 for reward in step.rewards.values())
        found = dict(zip(game.seats, game._position.state.returns(), strict=True))
        assert {seat: game.money(seat) for seat in game.seats} == found
        worst, best = game.of.worst, game.of.best
        for seat, earned in found.items():
            assert paid[seat] == pytest.approx(earned / max(abs(worst), abs(best)))
            assert game.outcome()[seat] == pytest.approx((earned - worst) / (best - worst))


@pytest.mark.parametrize("title", [*WORDED, *OTHERS])
def test_an_episode_is_its_seed_and_what_was_said(title):
    game = OpenSpielGame(title, turns=30)
    whole = played(game, 5)
    assert played(game, 5) == whole and 1 <= len(whole) <= 30
    cut = len(whole) // 2
    seated = make_player("open_spiel", "random", {"game": title})
    seated.reset(5)
    game.reset(5)
    steps = turns(game, seated)
    assert [next(steps) for _ in range(cut)] == whole[:cut]
    game.step("nonsense")
    saved = json.dumps(game.save())
    other = OpenSpielGame(title, turns=30)
    other.reset(77)
    other.restore(json.loads(saved))
    assert json.dumps(other.save()) == saved
    assert (other.seat, other.observe(), other.actions()) == (game.seat, game.observe(), game.actions())
    assert other.observe().startswith(REFUSED) or other.seat is None


def test_the_words_are_known_beforehand():
    """Of the games that have words of their own."""
    for title in (*WORDED, "kuhn_poker(players=3)", "liars_dice(dice_sides=4)"):
        game = make_game("open_spiel", {"game": title})
        known = {word for text in game.language() for word in text.split()}
        assert len(known) < 1000
        for seed in range(40):
            for _, seen, listed, *_ in played(game, seed):
                assert {word for text in (seen, *listed) for word in text.split()} <= known, title


# --- what cannot be played ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"game": "kuhn_pokr"}, r"game='kuhn_pokr': OpenSpiel has no such game; did you mean kuhn_poker\?"),
        ({"game": "zzz"}, r"OpenSpiel has no such game; it has \d+, such as"),
        ({"game": 3}, "game=3 must be text"),
        ({"game": "kuhn_poker(players=99)"}, r"OpenSpiel refuses it: .*num_players"),
        ({"game": "kuhn_poker(colour=1)"}, "OpenSpiel refuses it: Unknown parameter 'colour'"),
        ({"game": "kuhn_poker("}, "OpenSpiel refuses it: Missing closing bracket"),
        ({"game": "efg_game"}, "OpenSpiel refuses it"),
        ({"game": "mfg_garnet"}, "mean-field"),
        ({"game": "crossword"}, "it cannot be played"),
        ({"returns": [1, 1]}, r"returns=\[1, 1\] must be two numbers"),
        ({"returns": [0, float("nan")]}, "must be two numbers"),
        ({"returns": "ab"}, "must be two numbers"),
        ({"turns": 0}, "turns=0"),
        ({"tries": True}, "tries=True"),
        ({"show": "all"}, "show='all' must be one of: words, observation"),
        ({"game": "liars_dice", "show": "observation"}, "liars_dice has no observation as text"),
        ({"menu": 1}, "menu=1"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(options, line):
    with pytest.raises(ValueError, match=line) as caught:
        OpenSpielGame(**options)
    assert "\n" not in str(caught.value)


def test_returns_may_be_given():
    game = OpenSpielGame("kuhn_poker", returns=[-4, 4])
    game.reset(0)
    for said in ("Bet", "Pass"):
        step = game.step(said)
    assert step.rewards == {"player_0": 0.25, "player_1": -0.25} and game.outcome()["player_0"] == 5 / 8
