"""TextWorldExpress beside its own package, and what holds of every world that shares Java machines."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from dataclasses import replace

import pytest

from envs.coroutines import finish
from envs.doors.inward.imported import WorldError
from envs.game import Game
from envs.processes.failures import WorldCrashed, WorldRaised, WorldRefused
from envs.processes.family import family
from envs.registry import make_game, make_player
from envs.worlds.java import shared
from envs.worlds.java.following import opening, plain
from envs.worlds.java.shared import aside, enter
from envs.worlds.textworld_express.game import TextWorldExpressGame
from envs.worlds.textworld_express.settings import GAMES, KIND, PER_PROCESS, SPLITS
from tests.support.worlds import needs

pytestmark = needs("textworld_express")


def made(**options) -> Game:
    return make_game("textworld_express", options)


def played(game: Game, seed: int, until: int | None = None) -> list[tuple]:
    """Random commands, some of which mean nothing."""
    dice, turns = random.Random(f"{seed}"), []
    game.reset(seed)
    while game.seat is not None and len(turns) != until:
        said = "sing a song" if dice.random() < 0.1 else dice.choice(game.actions())
        turns.append((game.observe(), game.actions(), said, game.step(said)))
    return turns


def process_of(game: Game) -> shared.SharedProcess:
    return game.game._place._process


@pytest.fixture(scope="module")
def bare():
    from textworld_express import TextWorldExpressEnv

    world = TextWorldExpressEnv()
    yield world
    world.close()


@pytest.mark.parametrize("kind", ["cookingworld", "twc", "sorting"])
def test_an_episode_is_that_of_the_bare_package(kind, bare):
    game = made(game=kind, split="dev", turns=40, show_commands=False)
    for seed in (5, 1005):  # the same world, for a split has a thousand
        turns = played(game, seed)
        _, told = bare.reset(seed=SPLITS["dev"] + 5, gameFold="dev", gameName=kind, gameParams="")
        assert turns[0][0] == opening({"task": told["taskDescription"], "text": told["observation"]})
        score = 0.0
        for (_, listed, said, step), then in zip(turns, [*(turn[0] for turn in turns[1:]), None], strict=True):
            assert listed == tuple(sorted(told["validActions"]))
            assert step.executable == (said != "sing a song")
            if not step.executable:
                assert then is None or then == "That is not something you can do here."
                continue
            text, _, over, told = bare.step(said)
            score += sum(step.rewards.values())
            assert score == pytest.approx(told["score"]) and step.terminated == over
            assert then is None or then == plain(text)
        assert game.outcome() == {"adventurer": pytest.approx(max(0.0, score))}


def test_the_settings_are_those_that_the_package_takes():
    async def taken(place: shared.Place) -> list[tuple[str, str, bool, bool]]:
        return [
            (game, name, await takes(place, game, {name: most}), await takes(place, game, {name: most + 1}))
            for game, settings in GAMES.items()
            for name, (_, most) in settings.items()
            if most not in (1, 30, 1000)  # of these the package takes more, and means nothing by it or fails later
        ]

    async def takes(place: shared.Place, game: str, settings: dict[str, int]) -> bool:
        try:
            await place.call("begin", {"game": game, "settings": settings, "split": "train", "seed": 3})
        except WorldRaised:
            return False
        return True

    found = aside(KIND, PER_PROCESS, taken)
    assert len(found) == 10 and all(each[2:] == (True, False) for each in found), found


@pytest.mark.parametrize("game", sorted(GAMES))
def test_the_package_s_own_way_wins_worlds_that_training_does_not_see(game):
    options = {"game": game, "split": "test"}
    world, player = made(**options), make_player("textworld_express", "gold", options)
    for seed in range(3):
        world.reset(seed), player.reset(0)
        while world.seat is not None:
            world.step(player.reply(world.observe(), world.actions()))
        assert world.outcome() == {"adventurer": 1.0}
        assert world.facts() == {"world": f"{game}, {20_000 + seed} of test"}


def test_what_is_in_sight_and_carried_can_be_told_each_turn():
    game = made(game="cookingworld", show_scene=True, show_commands=False)
    game.reset(3)
    game.step("take banana")
    lines = game.observe().split("\n")
    assert lines[0] == "You take the banana." and lines[1].startswith("You are in the kitchen.")
    assert lines[-1] == "a banana" and "You can:" not in game.observe()
    game.step("nonsense")
    assert game.observe().split("\n")[1:] == lines[1:]


@pytest.mark.parametrize(
    "options, line",
    [
        ({"game": "zork"}, "game='zork' must be one of: coin, cookingworld, twc"),
        ({"split": "all"}, "split='all' must be one of: train, dev, test"),
        ({"settings": {"numRooms": 3}}, "settings: coin has no 'numRooms'; it has: numLocations, num"),
        ({"game": "sorting", "settings": {"size": 3}}, "settings: sorting has no 'size'; it has: none"),
        ({"settings": {"numLocations": 12}}, "settings: numLocations=12 must be a whole number from 1 to 11"),
        ({"settings": {"includeDoors": True}}, "settings: includeDoors=True must be a whole number from 0 to 1"),
        ({"processes": 0}, "processes=0 must be a whole number from 1 to 1000"),
        ({"show_commands": 1}, "show_commands=1 must be true or false"),
    ],
)
def test_a_bad_option_is_one_line(options, line):
    with pytest.raises(ValueError) as found:
        made(**options)
    assert str(found.value).startswith(f"game option {line}")


def test_without_java_there_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ValueError, match=r"^Java is not installed \(there is no bin/java in JAVA_HOME=.*\): apt-get"):
        made()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"^Java is not installed \(there is no java on the PATH\): apt-get install"):
        made()


def test_a_java_that_does_not_start_is_one_line(monkeypatch, tmp_path):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho no room for a heap >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(TextWorldExpressGame, "kind", replace(KIND, name="broken"))
    with pytest.raises(
        WorldRefused, match=r"^broken cannot be made: MissingPackage: .*/java does not start \(code 3: no room"
    ):
        made().reset(0)


# processes that are shared


@pytest.mark.parametrize("what", ["process", "Java machine"])
def test_a_crash_ends_one_episode_and_the_others_in_its_process_go_on(what):
    games, whole = [made(game="twc", turns=30) for _ in range(3)], played(made(game="twc", turns=30), 7)
    assert all(played(game, 7, 10) == whole[:10] for game in games)
    assert len({id(process_of(game)) for game in games}) == 1
    world, *others = family(process_of(games[0]).lease.result()._process.pid)
    java, said = (world, "SIGKILL") if what == "process" else (others[0], "its Java machine has ended with code -9")
    os.kill(java, signal.SIGKILL)
    with pytest.raises(WorldCrashed, match=said):
        games[0].step("look around")
    for game in games[1:]:
        for seen, listed, said, step in whole[10:]:
            assert (game.observe(), game.actions()) == (seen, listed)
            assert game.step(said) == step
        assert game.seat is None
    assert played(games[0], 7) == whole


def test_an_episode_whose_process_is_ended_again_and_again_fails_by_name(monkeypatch):
    async def gone(kind, per_process):
        raise shared.Gone

    game = made()
    game.reset(0)
    process_of(game).ended = True
    monkeypatch.setattr("envs.worlds.java.adventure.enter", gone)
    with pytest.raises(WorldError, match="textworld_express: its process was ended 3 times by other episodes"):
        game.step("look around")


def test_who_finds_no_place_waits_and_an_empty_process_goes_back(monkeypatch):
    kind = replace(KIND, name="one at a time", processes=1)

    async def three() -> list[str]:
        order, first = [], await enter(kind, 1)

        async def later() -> None:
            place = await enter(kind, 1)
            order.append("entered")
            await place.call("begin", {"game": "coin", "settings": {}, "split": "train", "seed": 1})
            place.leave()

        waiting = asyncio.ensure_future(later())
        await first.call("begin", {"game": "coin", "settings": {}, "split": "train", "seed": 2})
        order.append("left")
        first.leave()
        await waiting
        monkeypatch.setattr(shared, "WAIT_SECONDS", 0.1)
        place = await enter(kind, 1)
        with pytest.raises(shared.NoProcessFree, match="all 1 places were taken for 0.1 s: raise the game option proc"):
            await enter(kind, 1)
        place.leave()
        return order

    assert finish(three()) == ["left", "entered"]
