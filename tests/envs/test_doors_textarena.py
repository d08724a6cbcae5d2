"""Games of TextArena as games of Parley."""

from __future__ import annotations

import json
import sys

import pytest

from envs.doors.inward.textarena import REFUSED, TextArenaGame
from tests.support.imported_games import play

pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries, about themselves


def test_noughts_and_crosses_by_hand():
    game = TextArenaGame()
    assert game.seats == ("player_0", "player_1")
    game.reset(0)
    assert "You are Player 0" in game.observe() and "You are Player 1" not in game.observe()
    assert game.step("[4]").executable and game.seat == "player_1"
    assert "You are Player 1" in game.observe() and "[Player 0] [4]" in game.observe()
    refused = game.step("[4]")
    assert not refused.executable and not refused.terminated and "occupied" in refused.caption
    assert game.seat == "player_1" and "occupied" in game.observe()
    assert game.step("[0]").executable
    seen = game.observe()
    assert game.seat == "player_0" and "[Player 1] [0]" in seen
    assert "You are Player 0" not in seen and "[Player 0] [4]" not in seen, "rules once; nobody's own words again"
    for said in ("[2]", "[1]"):
        game.step(said)
    last = game.step("[6]")  # 2, 4, 6
    assert last.terminated and last.rewards == {"player_0": 1.0, "player_1": -1.0}
    assert game.outcome() == {"player_0": 1.0, "player_1": 0.0} and game.facts() == {"winner": "player_0"}
    assert "[Player 0] [6]" in game.closing()["player_1"]


def test_brackets_in_thoughts_are_no_move_and_the_rival_is_shown_none():
    game = TextArenaGame()
    game.reset(0)
    assert game.step("<think>[0] is a corner, [4] the centre.</think>\nI take the centre: [4]").executable
    assert "[Player 0] I take the centre: [4]" in game.observe() and "corner" not in game.observe()


def test_a_draw_is_half_and_two_refusals_lose():
    game = TextArenaGame()
    game.reset(0)
    for cell in (4, 0, 8, 2, 1, 7, 6, 5, 3):
        last = game.step(f"[{cell}]")
    assert last.terminated and game.outcome() == {"player_0": 0.5, "player_1": 0.5}
    game.reset(0)
    assert not game.step("hello").terminated
    assert game.step("hello").terminated and game.outcome() == {"player_0": 0.0, "player_1": 1.0}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("players", [1, 3])
def test_a_game_ends_when_all_players_are_eliminated(players):
    game = TextArenaGame(id="PublicGoodsGame-v0", players=players)
    game.reset(0)
    while game.seat is not None:
        eliminated = game.seats.index(game.seat) in game._environment.state.elimination_order
        last = game.step("[5]" if eliminated else "nothing that the game understands")
    assert last.terminated and not last.executable and game.facts() == {"winner": "nobody"}
    assert game.outcome() == dict.fromkeys(game.seats, 0.0 if players == 1 else 0.5)


def test_cards_are_seen_by_their_owner_only():
    game = TextArenaGame(id="KuhnPoker-v0")
    differing = 0
    for seed in range(6):
        game.reset(seed)
        hands, seats = {}, set()
        while game.seat is not None and len(seats) < 2:
            seats.add(game.seat)
            card = [line for line in game.observe().splitlines() if "Your card is" in line]
            assert len(card) == 1
            hands[game.seat] = card[0].partition("Your card is: ")[2]
            game.step("[check]")
        differing += len(set(hands.values())) == 2
    assert differing == 6, "two players never hold the same card"


@pytest.mark.parametrize(
    "id",
    [
        "TicTacToe-v0", "ConnectFour-v0", "KuhnPoker-v0", "IteratedRockPaperScissors-v0", "PigDice-v0",
        "IteratedPrisonersDilemma-v0", "Blackjack-v0", "GuessTheNumber-v0", "SimpleNegotiation-v0",
        "ThreePlayerTicTacToe-v0",
    ],
)  # fmt: skip
def test_games_are_played_to_their_end_by_random_players(id):
    game = TextArenaGame(id=id)
    executable = 0
    for seed in range(4):
        played = play(game, "random", seed)
        assert played[-1][-1].terminated and set(game.outcome()) == set(game.seats)
        executable += sum(step.executable for *_, step in played)
    assert executable


@pytest.mark.parametrize("id", ["Checkers-v0", "Chess-v0", "IteratedStagHunt-v0", "ReverseTicTacToe-v0"])
def test_games_that_are_written_for_a_newer_python_are_played_with_this_one(id):
    game = TextArenaGame(id=id)
    assert play(game, "random", 1) and set(game.outcome()) == set(game.seats)


def test_chess_by_hand():
    game = TextArenaGame(id="Chess-v0")
    game.reset(0)
    assert "Valid moves: " in game.observe() and "[f2f3]" in game.observe()
    for said in ("[f2f3]", "[e7e5]", "[g2g4]"):
        assert game.step(said).executable
    assert game.step("[d8h4]").terminated and game.outcome() == {"player_0": 0.0, "player_1": 1.0}


def test_a_move_that_makes_a_game_raise_is_refused_and_undone(monkeypatch):
    game = TextArenaGame()
    plain = type(game._pristine.env).step

    def brittle(environment, action):
        if "boom" in action:
            environment.state.game_state["board"][0][0] = "?"
            raise IndexError("list index out of range")
        return plain(environment, action)

    monkeypatch.setattr(type(game._pristine.env), "step", brittle)
    game.reset(0)
    game.step("[4]")
    for _ in range(3):
        step = game.step("boom")
        assert not step.executable and not step.terminated
        assert game.seat == "player_1" and game.observe() == REFUSED
    saved = json.loads(json.dumps(game.save()))
    other = TextArenaGame()
    other.restore(saved)
    for each in (game, other):
        assert each.step("[0]").executable, "the cell that was broken is free again"
        assert each.seat == "player_0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "Nope-v0"}, "none of TextArena's 2"),
        ({"players": 5}, "players=5: TicTacToe-v0 is not for so many"),
        ({"players": 0}, "players=0"),
        ({"settings": {"colour": 1}}, "cannot be made"),
        ({"turns": True}, "turns=True"),
        (
            {"id": "Nim-v0", "settings": {"piles": "x"}},
            "id='Nim-v0' takes no number of players .*: AttributeError: 'str'",
        ),
        ({"id": "QuantumTicTacToe-v0", "players": 3}, "players=3: QuantumTicTacToe-v0 is not for so many"),
    ],
)
def test_impossible_games_of_textarena_are_refused(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        TextArenaGame(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("id", ["Surround-v0", "QuantumTicTacToe-v0"])
def test_the_least_number_of_players_is_found_where_a_game_does_not_assert_it(id):
    assert TextArenaGame(id=id).seats == ("player_0", "player_1")


WITHOUT = {  # families of games that cannot be made, and what the message says
    "OPENROUTER_API_KEY": ("Debate-v0", "GuessWho-v0", "ScenarioPlanning-v0", "TwentyQuestions-v0"),
    "python -m nltk.downloader words": (
        "Codenames-v0", "DontSayIt-v0", "Hangman-v0", "LetterAuction-v0", "SpellingBee-v0", "WordChains-v0",
        "WordLadder-v0", "Wordle-v0", "WordSearch-v0",
    ),
    "FileNotFoundError": ("ScorableGames-v0", "UsedCarNegotiation-v0"),
    "needs Python 3.12 or newer; this is 3.11.*PYTHON=python3.12": ("Klondike-v0", "UltimateTexasHoldem-v0"),
}  # fmt: skip


@pytest.mark.parametrize(("message", "id"), [(why, id) for why, ids in WITHOUT.items() for id in ids])
def test_a_game_that_cannot_be_made_says_why(message, id, monkeypatch):
    import nltk

    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(nltk, "download", lambda *_, **__: False)
    if "Python 3.12" in message and sys.version_info >= (3, 12):
        assert TextArenaGame(id=id).seats, "written for Python 3.12"
        return
    with pytest.raises(ValueError, match=f"id='{id}'.*{message}"):
        TextArenaGame(id=id)
