"""Worlds in processes of their own: what one does wrong ends one episode, by a name of its own, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from actors.play.live import Failure
from actors.play.play import Play
from actors.play.players import Cast
from actors.settings import RolloutSettings
from envs.coroutines import Blocking, finish
from envs.episode import Ticket
from envs.game import Step
from envs.processes.failures import (
    WorldCrashed,
    WorldHung,
    WorldRaised,
    WorldRefused,
    WorldSpokeNoJSON,
    WorldTooLarge,
)
from envs.processes.pool import lease, started
from envs.processes.process import Kind
from envs.worlds.hosted import HostedGame
from tests.support.ended import gone

KIND = Kind("crooked", "tests.support.crooked_world:Crooked", processes=2, seconds=30.0)


class CrookedGame(HostedGame):
    """Whoever acts says a method of the world."""

    kind = Kind("crooked", "tests.support.crooked_world:Crooked", seconds=3.0)
    seats = ("player",)

    def __init__(self, processes: int = 2):
        super().__init__(turns=5, processes=processes)

    async def _begin(self, seed: int) -> None:
        await self.call("forget")
        self._shown = f"seed {seed}"

    def _acting(self) -> str | None:
        return "player"

    def observe(self) -> str:
        return self._shown

    async def _say(self, utterance: str) -> Step:
        said, *arguments = utterance.split()
        self._shown = str(await self.call(said, *arguments))
        return Step()

    def outcome(self) -> dict[str, float]:
        return {"player": 1.0}


def ask(world, *call):
    return finish(world.call(*call), seconds=60)


@pytest.fixture
def kind(request) -> Kind:
    """Processes of one test only."""
    return replace(KIND, name=request.node.name)


def test_one_process_serves_many_episodes_and_prints_nothing_of_ours(kind, capfd):
    seen = set()
    for number in range(5):
        world = finish(lease(kind))
        assert ask(world, "say", f"\u00e9 {number} " * 50_000) and ask(world, "print", 3000) == 3000
        seen.add(ask(world, "whoami"))
        world.release()
    assert len(seen) == 1 == started(kind) and os.getpid() not in seen
    with pytest.raises(WorldCrashed, match="given back"):
        ask(world, "whoami")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("ending", ["crash", "leave", "fall"])  # the last one is ended by us
def test_what_a_world_leaves_in_the_folder_for_temporary_files_is_removed(kind, ending):
    world = finish(lease(kind))
    process, left = ask(world, "whoami"), [Path(each) for each in ask(world, "write")]
    assert all(each.is_dir() for each in left) and left[0].parent == left[1].parent != Path(tempfile.gettempdir())
    with pytest.raises((WorldCrashed, WorldRaised)):
        ask(world, ending)
    assert gone(process)
    deadline = time.monotonic() + 20
    while left[0].parent.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left[0].parent.exists()


FAULTS = [
    ("crash", WorldCrashed, "its process ended by SIGSEGV during crash"),
    ("leave", WorldCrashed, "its process ended with code 3 during leave; its last words: out of luck"),
    ("fall", WorldRaised, "fall raised RuntimeError: broken in two"),
    ("no_such", WorldRaised, "no_such raised AttributeError"),
    ("nan", WorldSpokeNoJSON, "nan answered with what is no JSON: ValueError: Out of range"),
    ("bytes", WorldSpokeNoJSON, "bytes answered with what is no JSON: TypeError: Object of type bytes"),
    ("huge", WorldSpokeNoJSON, "an answer of 3355"),
]


def test_a_fault_is_named_and_touches_nobody_else(kind):
    other = finish(lease(kind))
    for count, (method, failure, line) in enumerate(FAULTS):
        world = finish(lease(kind))
        pid = ask(world, "whoami")
        with pytest.raises(failure, match=line) as error:
            ask(world, method)
        assert len(str(error.value)) < 300 and str(error.value).startswith(kind.name) and gone(pid, 10)
        with pytest.raises(WorldCrashed, match="ended already"):
            ask(world, "whoami")
        world.release()
        assert len(ask(other, "say", "b")) == count + 1


def test_a_world_that_ends_between_two_calls_is_named_as_well(kind):
    world = finish(lease(kind))
    os.kill(ask(world, "whoami"), signal.SIGKILL)
    while not world._process.closed:
        time.sleep(0.01)
    with pytest.raises(WorldCrashed, match="its process ended by SIGKILL during say"):
        ask(world, "say", "a")


def test_a_world_that_hangs_is_ended_with_all_that_it_started(kind):
    world = finish(lease(replace(kind, seconds=1.0)))
    pids = [ask(world, "whoami"), ask(world, "start_another")]
    begun = time.monotonic()
    with pytest.raises(WorldHung, match="hang_in_c did not end within 1 s"):
        ask(world, "hang_in_c")
    assert time.monotonic() - begun < 20 and all(gone(pid, 10) for pid in pids)


def test_memory_is_bounded_within_an_episode_and_between_two(kind):
    small = replace(kind, megabytes=100)
    world = finish(lease(small))
    with pytest.raises(WorldTooLarge, match="it took more than 200 MB during hold_and_wait"):
        ask(world, "hold_and_wait", 250)
    world = finish(lease(small))
    first = ask(world, "whoami")
    ask(world, "start_another", 120)  # what it has started counts
    assert ask(world, "say", "goes on")
    world.release()
    world = finish(lease(small))
    assert ask(world, "whoami") != first and gone(first, 10) and started(small) == 3


def test_whoever_finds_all_processes_taken_waits(kind):
    async def several():
        at_once = most = 0

        async def episode(number):
            nonlocal at_once, most
            world = await lease(kind, refuse="")
            at_once += 1
            most = max(most, at_once)
            await world.call("say", str(number))
            await asyncio.sleep(0.2)
            at_once -= 1
            world.release()

        await asyncio.gather(*map(episode, range(10)))
        return most

    assert finish(several()) == 2 == started(kind)
    world = finish(lease(kind))  # with other options: an idle process makes room
    assert started(kind) == 3
    del world  # forgotten
    gc.collect()
    one, two = finish(lease(kind)), finish(lease(kind))
    assert {ask(one, "whoami"), ask(two, "whoami")} and started(kind) == 4


def test_a_world_that_cannot_be_made_and_a_call_that_nobody_waits_for(kind):
    for _ in range(3):
        with pytest.raises(WorldRefused, match="cannot be made: ValueError: no such level"):
            finish(lease(kind, refuse="no such level"))
    with pytest.raises(WorldRefused, match="ModuleNotFoundError"):
        finish(lease(replace(kind, of="no_such_module:World")))

    async def impatient(world):
        await asyncio.wait_for(world.call("hold_and_wait", 1), 0.2)

    world = finish(lease(kind))
    pid = ask(world, "whoami")
    with pytest.raises(TimeoutError):
        finish(impatient(world))
    assert gone(pid, 10)


PARENT = """
import sys, time
from actors.play.live import Failure
from actors.play.play import Play
from actors.play.players import Cast
from actors.settings import RolloutSettings
from envs.coroutines import finish
from envs.episode import Ticket
from envs.game import Step
from envs.processes.pool import lease
from envs.processes.process import Kind
world = finish(lease(Kind("crooked", "tests.support.crooked_world:Crooked")))
print(finish(world.call("whoami")), finish(world.call("start_another")), flush=True)
if sys.argv[1] == "hang":
    from envs.coroutines import submit
    submit(world.call("hang_in_c"))
time.sleep(600 if sys.argv[1] != "leave" else 0)
"""


@pytest.mark.parametrize("how", ["hang", "leave"])
def test_worlds_end_with_their_parent_however_it_ends(how):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, how], stdout=subprocess.PIPE, text=True)
    pids = [int(each) for each in parent.stdout.readline().split()]
    if how != "leave":
        parent.send_signal(signal.SIGKILL)
    assert parent.wait(20) in (0, -signal.SIGKILL)
    assert len(pids) == 2 and all(gone(pid, 10) for pid in pids)


def test_a_game_holds_a_process_as_long_as_an_episode_and_goes_on_from_a_snapshot():
    game, other = Blocking(CrookedGame(processes=1)), Blocking(CrookedGame(processes=1))
    game.reset(1)
    for word in "abcd":
        game.step(f"say {word}")
    half = game.save()
    last = game.step("say e")
    assert game.observe() == "['a', 'b', 'c', 'd', 'e']" and last.truncated and game.outcome() == {"player": 1.0}
    other.restore(half)  # would wait for ever if the finished game held its process
    assert other.step("say e").truncated and other.observe() == game.observe()
    game.reset(2)
    del game  # an episode that was given up
    other.reset(3)
    assert other.observe() == "seed 3"


class Saying:
    def __init__(self, method: str):
        self.method = method

    def reset(self, seed: int) -> None:
        self.turn = 0

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        self.turn += 1
        return self.method if self.turn == 3 else "say a"


def test_episodes_wait_for_a_process_where_no_clock_runs():
    play = Play(
        Cast({}, {}, lambda game, player: Saying("rest")),
        RolloutSettings(episode_seconds=2.5),
        lambda game: CrookedGame(processes=1),
    )
    play.admit([Ticket("run", "crooked", n, n, (("player", "scripted:x"),)) for n in range(6)])
    found = []
    while play.busy():
        found += play.step()
        assert len(play.live) <= 1
    play.close()
    assert [len(each.result.turns) for each in found] == [5] * 6


def test_a_run_counts_each_fault_by_its_name_and_the_other_episodes_go_on():
    play = Play(Cast({}, {}, lambda game, player: Saying(player)), RolloutSettings(), lambda game: CrookedGame())
    said = ["say", "crash", "fall", "whoami", "nan", "bytes", "whoami", "hang_in_c", "whoami"]
    play.admit([Ticket("run", "crooked", n, n, (("player", f"scripted:{said[n]}"),)) for n in range(len(said))])
    found = {}
    while play.busy():
        found |= {ticket.number: result for ticket, result, _ in play.step()}
    play.close()
    reasons = {said[n]: each.reason for n, each in found.items() if isinstance(each, Failure)}
    names = {"say": "Raised", "crash": "Crashed", "fall": "Raised", "hang_in_c": "Hung"}
    names |= {"nan": "SpokeNoJSON", "bytes": "SpokeNoJSON"}
    assert reasons == {method: f"game_error:World{name}" for method, name in names.items()}
    assert all(len(found[n].turns) == 5 for n in (3, 6, 8))
