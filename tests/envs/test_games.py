"""What every game has to hold, whoever wrote it: the contract of envs/game.py as tests."""

from __future__ import annotations

import json
import os
import random
import tracemalloc

import pytest

from envs.game import Game, Step, hook, money_of
from envs.registry import GAMES, WORLDS, game_class, make_game, make_player, trials_of
from tests.support.fuzz import utterances
from tests.support.worlds import JAVA, NEED_OPTIONS, needs

FUZZED = int(os.environ.get("PARLEY_FUZZ", "10000"))
EPISODE_BYTES = 50_000
NAMES = [*sorted(GAMES), *(pytest.param(world, marks=needs(world)) for world in sorted(set(WORLDS) - NEED_OPTIONS))]


def cast(name: str, player: str, seed: int) -> dict:
    players = {seat: make_player(name, player) for seat in make_game(name).seats}
    for number, seated in enumerate(players.values()):
        seated.reset(seed * 10 + number)
    return players


def turn(game: Game, players: dict) -> tuple:
    """Play one turn; everything that anybody could see of it."""
    seat, seen, listed = game.seat, game.observe(), tuple(game.actions())
    said = players[seat].reply(seen, listed)
    return seat, seen, listed, said, game.step(said)


def play(name: str, player: str, seed: int) -> tuple[Game, list[tuple]]:
    game, players = make_game(name), cast(name, player, seed)
    game.reset(seed)
    turns = []
    while game.seat is not None:
        turns.append(turn(game, players))
    return game, turns


def ending(game: Game) -> tuple:
    return game.seat, game.outcome(), game.closing(), game.facts()


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


def test_a_game_that_was_never_reset_is_worth_nothing_and_can_be_saved(name):
    game = make_game(name)
    if not game_class(name).__module__.startswith("envs."):
        pytest.skip("the contract does not ask it of the games of others")
    assert game.outcome() == dict.fromkeys(game.seats, 0.0) and game.closing() == game.facts() == {}
    saved, other = json.loads(json.dumps(game.save())), make_game(name)
    other.reset(0)
    other.restore(saved)
    assert other.seat is None and other.save() == saved


def test_a_game_says_what_it_is(name):
    game, players = make_game(name), game_class(name).players()
    assert isinstance(make_game(name, blocking=False), Game) and game.name == name and game.seat is None
    assert game.seats and len(set(game.seats)) == len(game.seats) and game.horizon >= 1
    assert {"mediocre", "random"} <= set(players) and len(players) >= 3
    assert all(player.__doc__ for player in players.values()), "every player states its strength"
    game.reset(0)
    assert all(game.briefing(seat).strip() for seat in game.seats)
    for trial in trials_of(name):
        made = make_game(name, trial.options)
        assert set(trial.players) < set(made.seats) and trial.episodes >= 1, trial
        for player in trial.players.values():
            kind, _, who = player.partition(":")
            assert kind == "scripted" and who in players


def test_an_option_that_does_not_exist_is_named(name):
    with pytest.raises(ValueError, match="no option 'colour'"):
        make_game(name, {"colour": "red"})


def test_every_player_ends_a_game_in_every_seat(name):
    for player in game_class(name).players():
        for seed in (0, 1, -7, 10**12):
            game, turns = play(name, player, seed)
            assert 1 <= len(turns) <= game.horizon
            last: Step = turns[-1][-1]
            assert last.terminated != last.truncated, "the last step says how the game ended, and only it does"
            assert not any(step.terminated or step.truncated for *_, step in turns[:-1])
            assert all(step.caption for *_, step in turns)
            assert set(game.outcome()) == set(game.seats) and all(0 <= won <= 1 for won in game.outcome().values())
            assert set(game.closing()) <= set(game.seats)
            assert all(isinstance(fact, str) for fact in game.facts().values())
            for seat in game.seats:
                assert hook(game, "money")(seat) == money_of(game).get(seat)
            with pytest.raises(RuntimeError, match="over"):
                game.step("more")


def test_a_seed_fixes_everything(name):
    for seed in (3, -3):
        (one, first), (other, second) = play(name, "random", seed), play(name, "random", seed)
        assert first == second and ending(one) == ending(other)
    openings = {str(play(name, "random", seed)[1]) for seed in range(8)}
    assert len(openings) > 1, "games differ from seed to seed"


def test_looking_twice_changes_nothing(name):
    game, players = make_game(name), cast(name, "mediocre", 5)
    game.reset(5)
    while game.seat is not None:
        before = game.observe(), tuple(game.actions()), game.save()
        assert (game.observe(), tuple(game.actions()), game.save()) == before
        saved = json.dumps(before[2])
        turn(game, players)
        assert json.dumps(before[2]) == saved, "what was saved is not the game's own"


def test_a_saved_episode_goes_on_as_if_nothing_had_happened(name):
    for seed in range(3):
        _, whole = play(name, "mediocre", seed)
        for cut in {0, 1, len(whole) // 2, len(whole) - 1, len(whole)}:
            game, players = make_game(name), cast(name, "mediocre", seed)
            game.reset(seed)
            for _ in range(cut):
                turn(game, players)
            saved = json.dumps(game.save())
            assert len(saved) < EPISODE_BYTES
            other = make_game(name)
            other.reset(seed + 99)  # whatever it was doing is forgotten
            other.restore(json.loads(saved))
            assert json.dumps(other.save()) == saved
            turns = []
            while other.seat is not None:
                turns.append(turn(other, players))
            assert turns == whole[cut:]
            if cut == len(whole):
                assert ending(game) == ending(other)


def test_the_language_holds_every_word_that_is_said(name):
    """Cloning makes the embedded policy's tokenizer of it, and refuses words it does not know."""
    known = {word for sentence in make_game(name).language() for word in sentence.split()}
    if not any(word != word.lower() for word in known):
        known = {word.lower() for word in known}
    for seed in range(-12, 0):
        game, turns = play(name, "mediocre", seed)
        for _, seen, _, said, _ in turns:
            for word in (said if hook(game, "open_vocabulary") else f"{seen} {said}").split():
                assert word in known or word.lower() in known, (word, seen, said)
        assert game.seat is None
    assert len(known) <= 4000, "a vocabulary that a tiny policy can learn"


def test_fuzzed_utterances_raise_nothing_and_win_nothing(name):
    """One seat talks nonsense, the others are mediocre."""
    heard, rng, texts = 0, random.Random(f"seats {name}"), utterances(1)
    game = make_game(name)
    seed = 0
    while heard < (FUZZED // 30 if name in JAVA else FUZZED):  # each of its turns goes through two processes
        seed += 1
        victim, players = rng.choice(game.seats), cast(name, "mediocre", seed)
        game.reset(seed)
        while game.seat is not None:
            seat = game.seat
            seen = game.observe()
            if seat != victim:
                game.step(players[seat].reply(seen, tuple(game.actions())))
                continue
            said = next(texts)
            step = game.step(said)
            heard += 1
            assert isinstance(step, Step) and not step.executable, said[:200]
            assert step.rewards.get(seat, 0.0) <= 0.0, said[:200]
        assert game.outcome()[victim] < 1.0
        json.dumps(game.save())


def test_a_live_episode_is_small(name):
    game = make_game(name)  # what all games share is loaded now
    game.reset(0)
    players = cast(name, "mediocre", 0)
    while game.seat is not None:
        turn(game, players)
    count = 4 if hook(game, "at_once") else 20
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        live = []
        for seed in range(count):
            game = make_game(name)
            game.reset(seed)
            game.step(players[game.seat].reply(game.observe(), tuple(game.actions())))
            live.append(game)
        assert (tracemalloc.get_traced_memory()[0] - before) / count < EPISODE_BYTES
    finally:
        tracemalloc.stop()
