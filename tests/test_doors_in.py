"""Games of Gymnasium, TextWorld and TextArena as games of this house."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import warnings
from itertools import islice

import gymnasium
import pytest

from envs.doors.gymnasium_in import GymnasiumGame
from envs.doors.imported import ImportedGame
from envs.doors.textarena import REFUSED, TextArenaGame
from envs.doors.textworld import UNKNOWN, TextWorldGame
from envs.doors.worlds import generated
from envs.game import Game
from tests.fuzz import utterances

pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries, about themselves


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Worlds are generated into an empty folder, so that what is tested is not what somebody else left."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARLEY_CACHE", str(folder))
        yield folder


MADE = {
    "frozen lake": lambda: GymnasiumGame(),
    "taxi with a mask": lambda: GymnasiumGame(id="Taxi-v3", returns=[-200, 15], turns=30),
    "lake as a picture": lambda: GymnasiumGame(settings={"is_slippery": False}, show="picture"),
    "coins": lambda: TextWorldGame(worlds=3, settings={"level": 4}),
    "noughts and crosses": lambda: TextArenaGame(),
    "kuhn poker": lambda: TextArenaGame(id="KuhnPoker-v0"),
    "three players": lambda: TextArenaGame(id="ThreePlayerTicTacToe-v0"),
}


@pytest.fixture(params=MADE)
def make(request):
    return MADE[request.param]


def cast(game: ImportedGame, player: str, seed: int) -> dict:
    players = {seat: game.players()[player](**game._options()) for seat in game.seats}
    for number, each in enumerate(players.values()):
        each.reset(seed * 10 + number)
    return players


def turns(game: Game, players: dict):
    while (seat := game.seat) is not None:
        seen, listed = game.observe(), game.actions()
        said = players[seat].reply(seen, listed)
        yield seat, seen, listed, said, game.step(said)


def play(game: ImportedGame, player: str, seed: int) -> list[tuple]:
    players = cast(game, player, seed)
    game.reset(seed)
    return list(turns(game, players))


def mean_outcome(game: ImportedGame, player: str, games: int) -> float:
    total = 0.0
    for seed in range(games):
        play(game, player, seed)
        total += game.outcome()[game.seats[0]]
    return total / games


def test_the_contract_is_held(make):
    game = make()
    assert isinstance(game, Game) and game.seat is None and set(game.outcome().values()) == {0.0}
    with pytest.raises(RuntimeError, match="over"):
        game.step("anything")
    for player in game.players():
        played = play(game, player, 3)
        last = played[-1][-1]
        assert 1 <= len(played) <= game.horizon and last.terminated != last.truncated
        assert not any(step.terminated or step.truncated for *_, step in played[:-1])
        assert all(seen.strip() and step.caption for _, seen, _, _, step in played)
        assert set(game.outcome()) == set(game.seats) and all(0 <= won <= 1 for won in game.outcome().values())
        assert all(game.briefing(seat).strip() for seat in game.seats) and set(game.closing()) <= set(game.seats)
        with pytest.raises(RuntimeError, match="over"):
            game.step("more")


def test_episodes_that_take_turns_are_as_reproducible_as_one_alone(make):
    """Other libraries draw from global generators, which others use meanwhile."""
    alone = [play(make(), "random", seed) for seed in (5, -5)]
    games = [make(), make()]
    for game, seed in zip(games, (5, -5), strict=True):
        game.reset(seed)
    steps = [turns(game, cast(game, "random", seed)) for game, seed in zip(games, (5, -5), strict=True)]
    together: list[list] = [[], []]
    while any(game.seat is not None for game in games):
        for place in (0, 1):
            random.random()
            together[place] += islice(steps[place], 1)
    assert together == alone
    assert alone[0] != alone[1]


def test_the_global_generators_are_left_as_they_were(make):
    random.seed(1)
    expected = random.random()
    random.seed(1)
    play(make(), "random", 2)
    assert random.random() == expected


def test_a_saved_episode_goes_on_as_if_nothing_had_happened(make):
    whole = play(make(), "mediocre", 1)
    for cut in {0, 1, len(whole) // 2, len(whole)}:
        game = make()
        game.reset(1)
        steps = turns(game, players := cast(game, "mediocre", 1))
        assert list(islice(steps, cut)) == whole[:cut]
        saved = json.dumps(game.save())
        assert len(saved) < 50_000
        other = make()
        other.reset(99)
        other.restore(json.loads(saved))
        assert json.dumps(other.save()) == saved and other.outcome() == game.outcome()
        assert list(turns(other, players)) == whole[cut:]


def test_an_episode_that_comes_out_differently_is_not_continued(make):
    game = make()
    game.reset(1)
    next(turns(game, cast(game, "random", 1)))
    saved = game.save()
    with pytest.raises(ValueError, match="went another way"):
        make().restore({**saved, "trace": saved["trace"] ^ 1})


def test_looking_twice_changes_nothing(make):
    game = make()
    players = cast(game, "mediocre", 4)
    game.reset(4)
    for _ in range(20):
        if game.seat is None:
            break
        before = game.observe(), game.actions(), game.save()
        assert (game.observe(), game.actions(), game.save()) == before
        next(turns(game, players))


def test_no_text_breaks_a_game(make):
    """Nonsense never raises, never wins, and never lengthens an episode."""
    game, texts, said = make(), utterances(3), 0
    for seed in range(200):
        game.reset(seed)
        victim, players = game.seats[seed % len(game.seats)], cast(game, "mediocre", seed)
        for _ in range(game.horizon):
            if game.seat is None:
                break
            text = next(texts) if game.seat == victim else players[game.seat].reply(game.observe(), game.actions())
            said += game.seat == victim
            game.step(text)
        assert game.seat is None
        if len(game.seats) == 1:
            assert game.outcome()[victim] < 1
        if said > 400:
            break


def test_a_small_policy_knows_the_words(make):
    """Cloning refuses words that the language does not hold. No capitals: they would be other words."""
    game = make()
    known = {word for text in game.language() for word in text.split()}
    assert known and all(word == word.lower() for word in known) and len(known) < 1500
    for seed in range(-9, 0):
        for _, seen, _, said, _ in play(game, "mediocre", seed):
            assert {word for word in f"{seen} {said}".lower().split()} <= known


@pytest.mark.parametrize("game", [GymnasiumGame, TextWorldGame, TextArenaGame])
def test_a_missing_package_is_named_with_the_way_to_get_it(game, monkeypatch):
    package = game.name
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"needs the package '{package}'.*pip install 'parley\[doors\]'"):
        game()


def test_importing_the_doors_imports_none_of_the_libraries():
    code = (
        "import sys, envs.doors.gymnasium_in, envs.doors.textworld, envs.doors.textarena, envs.doors.openenv\n"
        "print(sorted({'textworld', 'textarena', 'gymnasium', 'websockets', 'torch', 'ray'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"


# --- Gymnasium ------------------------------------------------------------------------------------


def test_a_frozen_lake_by_hand():
    """S F F F / F H F H / F F F H / H F F G: down, down, right, right, down, right is the way."""
    game = GymnasiumGame(settings={"is_slippery": False})
    game.reset(0)
    assert game.actions() == ("left", "down", "right", "up") and game.observe() == "state 0"
    seen = []
    for said in ("down", "DOWN ", "right", "swim", "right", "down", "right"):
        step = game.step(said)
        assert step.executable == (said != "swim")
        seen.append(game.observe())
    assert seen == ["state 4", "state 8", "state 9", "state 9", "state 10", "state 14", "state 15"]
    assert step.terminated and step.rewards == {"player": 1.0} and game.outcome() == {"player": 1.0}
    assert game.closing() == {"player": "state 15"}


def test_a_picture_shows_where_the_player_is():
    game = GymnasiumGame(settings={"is_slippery": False}, show="picture")
    game.reset(0)
    assert game.observe() == "<S>FFF\nFHFH\nFFFH\nHFFG"
    game.step("down")
    assert game.observe().endswith("SFFF\n<F>HFH\nFFFH\nHFFG")


def test_an_action_that_the_environment_masks_out_is_neither_listed_nor_taken():
    game = GymnasiumGame(id="Taxi-v3", returns=[-200, 15])
    game.reset(0)
    hidden = set(game.action_names) - set(game.actions())
    assert hidden
    before = game.observe()
    step = game.step(min(hidden))
    assert not step.executable and not step.rewards and game.observe() == before


def test_a_time_limit_is_a_cut():
    game = GymnasiumGame(turns=2)
    game.reset(0)
    assert not game.step("left").truncated
    last = game.step("left")
    assert last.truncated and not last.terminated and game.seat is None


def test_texts_in_and_out():
    class Echo(gymnasium.Env):
        observation_space = gymnasium.spaces.Text(40, min_length=0)
        action_space = gymnasium.spaces.Text(5, charset="abc")

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return "", {}

        def step(self, action):
            return action * 2, len(action) / 10, action == "abc", False, {}

    gymnasium.register("tests/Echo-v0", Echo)
    try:
        game = GymnasiumGame(id="tests/Echo-v0")
        game.reset(0)
        assert game.observe() == "nothing" and game.actions() == ()
        assert not game.step("hello").executable and game.observe() == "nothing"
        assert game.step("ab").rewards == {"player": 0.2} and game.observe() == "abab"
        assert game.step("abc").terminated and game.outcome() == {"player": pytest.approx(0.5)}
    finally:
        del gymnasium.registry["tests/Echo-v0"]


def test_players_of_the_frozen_lake_have_their_stated_strength():
    game = GymnasiumGame()
    assert 0.66 < mean_outcome(game, "practised", 600) < 0.82
    assert 0.13 < mean_outcome(game, "mediocre", 600) < 0.32
    assert mean_outcome(game, "random", 600) < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "Nope-v0"}, "id='Nope-v0' cannot be made"),
        ({"id": "Pendulum-v1"}, "neither Discrete nor Text"),
        ({"id": "Blackjack-v1", "show": "picture"}, "not as ansi"),
        ({"settings": {"colour": 1}}, "cannot be made"),
        ({"action_names": ["go"]}, "must be 4 different names"),
        ({"returns": [1, 1]}, "the worst and the best"),
        ({"show": "film"}, "show='film'"),
        ({"turns": 0}, "turns=0"),
    ],
)
def test_impossible_environments_of_gymnasium_are_refused(options, message):
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        warnings.simplefilter("ignore")
        GymnasiumGame(**options)


# --- TextWorld ------------------------------------------------------------------------------------


def test_an_adventure_is_won_by_the_commands_that_its_maker_knows():
    import textworld

    game = TextWorldGame(worlds=1, settings={"level": 4})
    path = generated("coin_collector", {"level": 4}, 0)
    commands = textworld.Game.load(str(path.with_suffix(".json"))).metadata["walkthrough"]
    assert len(commands) == 4 and commands[-1] == "take coin"
    game.reset(0)
    for number, command in enumerate(commands, 1):
        assert command in game.actions() and command in game.observe()
        step = game.step(command)
        assert step.executable and step.terminated == (number == 4) and not step.truncated
    assert step.rewards == {"adventurer": 1.0} and game.outcome() == {"adventurer": 1.0}


def test_the_score_is_paid_in_shares_and_the_interpreters_own_commands_are_out_of_reach():
    game = TextWorldGame(world="simple", worlds=1)
    played = play(game, "expert", 0)
    paid = sum(step.rewards.get("adventurer", 0) for *_, step in played)
    assert paid == pytest.approx(game.outcome()["adventurer"]) and paid > 0.8
    game.reset(0)
    here = game.actions()
    for command in ("undo", "restart", "quit", "restore", "save", "tw-print state", "look\nundo"):
        assert not game.step(command).executable
        assert game.observe().startswith(UNKNOWN) and game.actions() == here


def test_worlds_are_kept_and_differ(cache):
    game = TextWorldGame(worlds=3, settings={"level": 4})
    openings = set()
    for seed in range(12):
        game.reset(seed)
        openings.add(game.observe())
    assert len(openings) == 3
    files = sorted(path.name for path in (cache / "textworld").iterdir() if path.suffix == ".z8")
    assert len([name for name in files if name.startswith("coin_collector")]) >= 3
    assert not [path for path in (cache / "textworld").iterdir() if path.is_dir()], "nothing half made is left"
    before = sorted(path.stat().st_mtime_ns for path in (cache / "textworld").iterdir())
    TextWorldGame(worlds=3, settings={"level": 4}).reset(0)
    assert sorted(path.stat().st_mtime_ns for path in (cache / "textworld").iterdir()) == before
    held_out = TextWorldGame(worlds=1, first=50, settings={"level": 4})
    held_out.reset(0)
    assert held_out.observe() not in openings


def test_a_world_of_ones_own_is_a_file():
    path = generated("coin_collector", {"level": 4}, 0)
    own, made = TextWorldGame(world=str(path)), TextWorldGame(worlds=1, settings={"level": 4})
    for game in (own, made):
        game.reset(0)
    assert own.observe() == made.observe()


def test_the_same_world_is_generated_in_every_process(tmp_path):
    code = (
        "import sys, json, os; os.environ['PARLEY_CACHE'] = sys.argv[1]\n"
        "from envs.doors.worlds import generated\n"
        "print(generated('treasure_hunter', {'level': 3}, 7).with_suffix('.json').read_text())"
    )
    texts = []
    for salt in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / salt)],
            env={"PYTHONHASHSEED": salt, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert result.returncode == 0, result.stderr
        texts.append(result.stdout)
    assert texts[0] == texts[1]
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2"}, "nothing is left in the home folder"


def test_players_of_adventures_have_their_stated_strength():
    game = TextWorldGame(worlds=3)
    assert mean_outcome(game, "expert", 6) > 0.95
    assert 0.1 < mean_outcome(game, "mediocre", 60) < 0.65
    assert mean_outcome(game, "random", 30) < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"world": "zork"}, "neither a .z8 file nor one of: coin_collector, cooking"),
        ({"settings": {"colour": 1}}, "coin_collector has no 'colour'; it has: level"),
        ({"settings": [1]}, "settings=\\[1\\]"),
        ({"worlds": 0}, "worlds=0"),
        ({"first": -1}, "first=-1"),
        ({"show_commands": "yes"}, "show_commands='yes'"),
    ],
)
def test_impossible_adventures_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TextWorldGame(**options)


def test_settings_that_make_no_world_are_named():
    with pytest.raises(ValueError, match="coin_collector cannot be generated"):
        TextWorldGame(settings={"level": 0}).reset(0)


# --- TextArena ------------------------------------------------------------------------------------


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


def test_a_draw_is_half_and_two_refusals_lose():
    game = TextArenaGame()
    game.reset(0)
    for cell in (4, 0, 8, 2, 1, 7, 6, 5, 3):
        last = game.step(f"[{cell}]")
    assert last.terminated and game.outcome() == {"player_0": 0.5, "player_1": 0.5}
    game.reset(0)
    assert not game.step("hello").terminated
    assert game.step("hello").terminated and game.outcome() == {"player_0": 0.0, "player_1": 1.0}


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


def test_a_move_that_makes_a_game_raise_is_refused_and_undone(monkeypatch):
    game = TextArenaGame()
    plain = type(game._environment.unwrapped if hasattr(game._environment, "unwrapped") else game._environment.env).step

    def brittle(environment, action):
        if "boom" in action:
            environment.state.game_state["board"][0][0] = "?"
            raise IndexError("list index out of range")
        return plain(environment, action)

    monkeypatch.setattr(type(game._environment.env), "step", brittle)
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
    ],
)
def test_impossible_games_of_textarena_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TextArenaGame(**options)


WITHOUT = {  # families of games that cannot be made, and what the message says
    "OPENROUTER_API_KEY": ("Debate-v0", "GuessWho-v0", "ScenarioPlanning-v0", "TwentyQuestions-v0"),
    "python -m nltk.downloader words": (
        "Codenames-v0", "DontSayIt-v0", "Hangman-v0", "LetterAuction-v0", "SpellingBee-v0", "WordChains-v0",
        "WordLadder-v0", "Wordle-v0", "WordSearch-v0",
    ),
    "FileNotFoundError": ("ScorableGames-v0", "UsedCarNegotiation-v0"),
    "SyntaxError": (
        "Checkers-v0", "Chess-v0", "IteratedStagHunt-v0", "Klondike-v0", "ReverseTicTacToe-v0",
        "UltimateTexasHoldem-v0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("message", "id"), [(why, id) for why, ids in WITHOUT.items() for id in ids])
def test_a_game_that_cannot_be_made_says_why(message, id, monkeypatch):
    import nltk

    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(nltk, "download", lambda *_, **__: False)
    if message == "SyntaxError" and sys.version_info >= (3, 12):
        assert TextArenaGame(id=id).seats, "written for Python 3.12"
        return
    with pytest.raises(ValueError, match=f"id='{id}'.*{message}"):
        TextArenaGame(id=id)
