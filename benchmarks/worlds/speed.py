"""Turns a second: Parley's game, one episode at a time and many at once, beside the bare package.

The mediocre player plays some episodes; then the same utterances are said again, without a player. Contestants take
turns (`benchmarks.rounds`), each for about as long, and a ratio is taken within a round. The CPU time of a turn is that
of this process and of all that it has started (worlds, Java): unlike turns a second, it hardly depends on who else
computes on the machine.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report import Say
from benchmarks.rounds import ratio, speed, spread, take_turns
from benchmarks.worlds.bare import BARE, Act, Tape, process, recorded, tape_of_moves
from envs.coroutines import Blocking, finish, has_coroutines
from envs.processes.family import JUST_ENDED, family
from envs.registry import make_game, make_player

TICKS = os.sysconf("SC_CLK_TCK")  # a second
AT_ONCE = 16
EPISODES = 32
QUICK, WHOLE = (0.5, 3), (2.0, 7)  # seconds of a contestant's turn, rounds
WORLDS = {  # options by the line's name
    "babyai: GoToLocal": {"level": "GoToLocal"},
    "babyai: BossLevel": {"level": "BossLevel", "turns": 100},
    "nethack": {"turns": 200},
    "open_spiel: kuhn_poker": {"game": "kuhn_poker"},
    "open_spiel: connect_four": {"game": "connect_four"},
    "scienceworld": {"turns": 30},
    "textworld_express: coin": {"game": "coin", "turns": 50},
    "textworld_express: cookingworld": {"game": "cookingworld", "turns": 50},
}


@dataclass
class Episode:
    seed: int
    said: list[str] = field(default_factory=list)
    tape: Tape = field(default_factory=list)


def episodes(name: str, options: dict[str, Any], count: int) -> list[Episode]:
    game = make_game(name, options)
    inner = game.game if isinstance(game, Blocking) else game
    players, tape, found = {seat: make_player(name, "mediocre", options) for seat in game.seats}, [], []
    recorded(name, inner, tape)
    for seed in range(count):
        tape.clear()
        game.reset(seed)
        for number, player in enumerate(players.values()):
            player.reset(seed * len(players) + number)
        episode = Episode(seed)
        while (seat := game.seat) is not None:
            episode.said.append(players[seat].reply(game.observe(), tuple(game.actions())))
            game.step(episode.said[-1])
        episode.tape = tape_of_moves(inner) if name == "open_spiel" else list(tape)
        found.append(episode)
    return found


async def said_again(game: Any, episode: Episode) -> int:
    """As a rollout worker plays it."""
    begun = game.reset(episode.seed)
    if begun is not None:
        await begun
    for utterance in episode.said:
        game.observe(), game.actions()
        step = game.step(utterance)
        if not hasattr(step, "rewards"):
            await step
    return len(episode.said)


def many(name: str, options: dict[str, Any], played: list[Episode], at_once: int, seconds: float) -> Callable[[], int]:
    """So many episodes at a time, for about so long."""
    games = [make_game(name, options, blocking=False) for _ in range(at_once)]
    again = itertools.cycle(played)

    async def lane(game: Any, until: float) -> int:
        turns = 0
        while time.perf_counter() < until:
            turns += await said_again(game, next(again))
        return turns

    async def all_lanes() -> int:
        until = time.perf_counter() + seconds
        return sum(await asyncio.gather(*(lane(game, until) for game in games)))

    return lambda: finish(all_lanes())


def without(act: Act, played: list[Episode], seconds: float) -> Callable[[], int]:
    again = itertools.cycle(played)

    def run() -> int:
        turns, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            episode = next(again)
            for method, argument in episode.tape:
                act(method, argument)
            turns += len(episode.said)
        return turns

    return run


def cpu_seconds() -> float:
    """Of this process and of those that it has started."""
    spent = time.process_time()
    for pid in family(os.getpid())[1:]:
        with suppress(*JUST_ENDED):
            told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            spent += (int(told[11]) + int(told[12])) / TICKS
    return spent


def accounted(run: Callable[[], int], spent: list[float]) -> Callable[[], int]:
    """Writes down the microseconds of CPU time that a turn took."""

    def accounted_run() -> int:
        before = cpu_seconds()
        turns = run()
        spent.append(1e6 * (cpu_seconds() - before) / turns)
        return turns

    return accounted_run


def divided(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(ones, others, strict=True)]


def measured(line: str, quick: bool, say: Say) -> dict[str, Any]:
    name, options = line.partition(":")[0], WORLDS[line]
    say(line)
    played = episodes(name, options, EPISODES // 4 if quick else EPISODES)
    seconds, rounds = QUICK if quick else WHOLE
    waits = has_coroutines(make_game(name, options, blocking=False))
    with ExitStack() as stack:
        bare = stack.enter_context(BARE[name](options))
        if waits:
            bare["process"] = stack.enter_context(process(name, options))
        contestants = {
            **{each: without(act, played, seconds) for each, act in bare.items()},
            "one": many(name, options, played, 1, seconds),
            **({"many": many(name, options, played, AT_ONCE, seconds)} if waits else {}),
        }
        for run in contestants.values():  # starts what it needs
            run()
        spent: dict[str, list[float]] = {each: [] for each in contestants}
        samples = take_turns({each: accounted(run, spent[each]) for each, run in contestants.items()}, rounds)
    ours = {each: "many" if waits and each != "process" else "one" for each in bare}  # which of Parley's is beside it
    return {
        "turns": sum(len(each.said) for each in played),
        "turns_per_second": {each: asdict(speed(found)) for each, found in samples.items()},
        "microseconds_per_turn": {each: asdict(spread(found)) for each, found in spent.items()},
        "speed_beside": {each: asdict(ratio(samples[ours[each]], samples[each])) for each in bare},
        "cpu_beside": {each: asdict(spread(divided(spent[each], spent[ours[each]]))) for each in bare},
    }
