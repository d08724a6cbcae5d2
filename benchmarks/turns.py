"""Turns: how fast the games themselves are, and how much memory a live episode takes.

Games are recorded once with their mediocre player; then only the game is timed, on one core:
reset, observe, actions, step for each recorded turn. What a player or an engine costs is
not in it. Games that run code are left out here; `slow` says which.

    turns/s         turns of all seats, in recorded games
    nonsense/s      utterances that mean nothing, each one new: what a broken policy costs
    bytes/episode   allocated by a live game in mid-episode, without what all games share

and, of single games,

    primitive       Overcooked's primitive steps, random ones
    oracle          the labelled questions of tests/data put to the oracles that read free language,
                    for the first time ("new": one question in several is embedded) and again ("cached")
"""

from __future__ import annotations

import random
import time
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.report import Say, run_alone, spread_of
from benchmarks.rounds import spread
from envs.game import hook
from envs.registry import GAMES, make_game, make_player
from envs.text.embedding import embed

QUESTIONS = Path(__file__).parent.parent / "tests" / "data"
ORACLES = {"twenty_questions": {"table": "full", "turns": 20}, "guess_my_city": {}}
GAMES_RECORDED = 60
ROUNDS = 9
ROUND_SECONDS = 0.5
LIVE = 50


def measure(quick: bool, say: Say) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted(GAMES):
        if hook(make_game(name), "slow"):
            found[name] = {"slow": True}
            continue
        say(name)
        games = record(name, GAMES_RECORDED)
        rounds = 3 if quick else ROUNDS
        found[name] = {
            "slow": False,
            "turns_per_second": figures([turns_per_second(name, games) for _ in range(rounds)]),
            "nonsense_per_second": figures([nonsense_per_second(name, number) for number in range(rounds)]),
            "bytes_per_episode": bytes_per_episode(name, games),
        }
    say("Overcooked's primitive steps")
    found["primitive_steps_per_second"] = figures([primitive_steps_per_second() for _ in range(3 if quick else ROUNDS)])
    for name, options in ORACLES.items():
        say(f"the oracle of {name}")
        found.setdefault("oracles", {})[name] = answers_per_second(name, options)
    return found


def primitive_steps_per_second() -> float:
    from envs.overcooked.kitchen import Kitchen, room_of

    kitchen, rng, done = Kitchen(room_of("tomato_lettuce_salad")), random.Random("steps"), 0
    moves = [rng.randrange(5) for _ in range(200)]
    started = time.perf_counter()
    while time.perf_counter() - started < ROUND_SECONDS:
        kitchen.begin()
        for move in moves:
            kitchen.act(move)
        done += len(moves)
    return done / (time.perf_counter() - started)


def answers_per_second(name: str, options: dict[str, Any]) -> dict[str, float]:
    """Whole turns, with what the game itself costs. The embedding model is loaded before."""
    game = make_game(name, options)
    lines = [line for file in sorted(QUESTIONS.glob(f"{name}_*.tsv")) for line in file.read_text().splitlines()]
    questions = list(dict.fromkeys(line.partition("\t")[0] for line in lines))
    embed(["a sentence to load the model"])

    def ask() -> float:
        started, seed = time.perf_counter(), 0
        for question in questions:
            if game.seat is None:
                seed += 1
                game.reset(seed)
            game.step(question)
        return len(questions) / (time.perf_counter() - started)

    return {"questions": len(questions), "new": ask(), "cached": ask()}


def figures(values: list[float]) -> dict[str, float]:
    return asdict(spread(values))


def record(name: str, count: int) -> list[tuple[int, list[str]]]:
    """(seed, everything that was said) of so many games."""
    game, games = make_game(name), []
    players = {seat: make_player(name, "mediocre") for seat in game.seats}
    for seed in range(count):
        game.reset(seed)
        for number, player in enumerate(players.values()):
            player.reset(seed * len(players) + number)
        said = []
        while (seat := game.seat) is not None:
            said.append(players[seat].reply(game.observe(), tuple(game.actions())))
            game.step(said[-1])
        games.append((seed, said))
    return games


def turns_per_second(name: str, games: list[tuple[int, list[str]]]) -> float:
    game, turns, started = make_game(name), 0, time.perf_counter()
    while time.perf_counter() - started < ROUND_SECONDS:
        for seed, said in games:
            game.reset(seed)
            for utterance in said:
                game.observe()
                game.actions()
                game.step(utterance)
            turns += len(said)
    return turns / (time.perf_counter() - started)


def nonsense_per_second(name: str, number: int) -> float:
    rng, game, said = random.Random(f"nonsense {number}"), make_game(name), 0
    letters = 'abcdefghijklmnopqrstuvwxyz  {}[]",.:0123456789'
    texts = ["".join(rng.choices(letters, k=40)) for _ in range(20_000)]
    started = time.perf_counter()
    for text in texts:
        if game.seat is None:
            game.reset(said)
        game.observe()
        game.actions()
        game.step(text)
        said += 1
        if time.perf_counter() - started > ROUND_SECONDS:
            break
    return said / (time.perf_counter() - started)


def bytes_per_episode(name: str, games: list[tuple[int, list[str]]]) -> int:
    def live(seed: int, said: list[str]):
        game = make_game(name)
        game.reset(seed)
        for utterance in said[: len(said) // 2 + 1]:
            if game.seat is not None:
                game.observe()
                game.step(utterance)
        return game

    chosen = games[:LIVE]
    kept = [live(seed, said) for seed, said in chosen]  # caches that all games share are filled now
    del kept
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [live(seed, said) for seed, said in chosen]
        return (tracemalloc.get_traced_memory()[0] - before) // len(kept)
    finally:
        tracemalloc.stop()


def tables(found: dict[str, Any]) -> list[Table]:
    table = Table(title="Games on one core", title_justify="left")
    for column in ("game", "turns/s", "nonsense/s", "bytes/episode"):
        table.add_column(column, justify="left" if column == "game" else "right")
    for name, each in found.items():
        if name not in GAMES:
            continue
        if each["slow"]:
            table.add_row(name, "runs code", "", "")
            continue
        speed, nonsense = (spread_of(each[key], ",.0f") for key in ("turns_per_second", "nonsense_per_second"))
        table.add_row(name, speed, nonsense, f"{each['bytes_per_episode']:,}")
    more = Table(title="And", title_justify="left")
    more.add_column("")
    more.add_column("a second", justify="right")
    more.add_row("Overcooked, primitive steps", spread_of(found["primitive_steps_per_second"], ",.0f"))
    for name, each in found["oracles"].items():
        for kind in ("new", "cached"):
            more.add_row(f"{name}: {each['questions']} {kind} questions", f"{each[kind]:,.0f}")
    return [table, more]


if __name__ == "__main__":
    run_alone("turns", measure, tables)
