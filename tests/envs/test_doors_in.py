"""What holds of every game that comes in, whatever library it is of."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from itertools import islice

import pytest

from envs.doors.inward.gymnasium import GymnasiumGame
from envs.doors.inward.pettingzoo import PettingZooGame
from envs.doors.inward.textarena import TextArenaGame
from envs.doors.inward.textworld import TextWorldGame
from envs.game import Game
from tests.support.fuzz import utterances
from tests.support.imported_games import cast, play, turns

pytestmark = [
    pytest.mark.usefixtures("worlds_cache"),
    pytest.mark.filterwarnings("ignore"),  # of the other libraries, about themselves
]

MADE = {
    "frozen lake": lambda: GymnasiumGame(),
    "taxi with a mask": lambda: GymnasiumGame(id="Taxi-v3", returns=[-200, 15], turns=30),
    "lake as a picture": lambda: GymnasiumGame(settings={"is_slippery": False}, show="picture"),
    "key and door": lambda: GymnasiumGame(id="MiniGrid-DoorKey-5x5-v0", turns=25),
    "crosses and noughts": lambda: PettingZooGame(),
    "leduc": lambda: PettingZooGame(id="leduc_holdem_v4"),
    "coins": lambda: TextWorldGame(worlds=3, settings={"level": 4}),
    "noughts and crosses": lambda: TextArenaGame(),
    "kuhn poker": lambda: TextArenaGame(id="KuhnPoker-v0"),
    "three players": lambda: TextArenaGame(id="ThreePlayerTicTacToe-v0"),
}


@pytest.fixture(params=MADE)
def make(request):
    return MADE[request.param]


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


@pytest.mark.parametrize("game", [GymnasiumGame, PettingZooGame, TextWorldGame, TextArenaGame])
def test_a_missing_package_is_named_with_the_way_to_get_it(game, monkeypatch):
    package = game.name
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"needs the package '{package}'.*pip install -e '\.\[doors\]' in"):
        game()


def test_importing_the_doors_imports_none_of_the_libraries():
    code = (
        "import sys, envs.doors.inward.gymnasium, envs.doors.inward.textworld\n"
        "import envs.doors.inward.textarena, envs.doors.inward.openenv, envs.doors.inward.pettingzoo\n"
        "theirs = {'textworld', 'textarena', 'pettingzoo', 'minigrid', 'gymnasium', 'websockets', 'torch', 'ray'}\n"
        "print(sorted(theirs & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"
