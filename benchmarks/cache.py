"""Cache: games whose keys and values do not all fit into the engine's cache, first games first or as they come.

    first games first   what Parley asks of vLLM: a game that began earlier goes first, so that its keys and
                        values are still there at its next turn, and later games wait
    as they come        each request goes behind those that came before it, so that all games take turns, and
                        each pushes out what another one needs next

The same games are played over the same engine, Twenty Questions by an untrained model. How much of them fits is the
number of tokens in the cache over the number of tokens in all games when they end.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from actors.engines.contract import Engine, Request
from benchmarks.games import demo, new_play, play_out, start_engine, tickets, tokens_made
from benchmarks.models import untrained
from benchmarks.report import Say, run_alone, spread_of
from benchmarks.rounds import ratio, speed, take_turns
from envs.episode import Episode

SIZE, GAMES, ROUNDS = "10M", 96, 3
CACHES_GIB = (0.4, 0.1, 0.05)
NAMES = ("first games first", "as they come")


class AsTheyCome:
    """An engine that is not told which game began first."""

    def __init__(self, engine: Engine):
        self.engine = engine

    def submit(self, request: Request) -> None:
        self.engine.submit(replace(request, order=0))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def measure(quick: bool, say: Say) -> dict[str, Any]:
    found = []
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder:
        model = untrained(SIZE, demo(), Path(folder))
        for gib in CACHES_GIB[2:3] if quick else CACHES_GIB:
            say(f"a cache of {gib:g} GiB")
            found.append(of_cache(gib, model, 1 if quick else ROUNDS))
    return {"model": SIZE, "games": GAMES, "caches": found}


def of_cache(gib: float, model: Path, rounds: int) -> dict[str, Any]:
    config = demo("rollout.engine.kind=vllm", f"rollout.engine.cpu_cache_gib={gib}", "rollout.engine.max_sequences=64")
    engine, wanted = start_engine(config, model), tickets(config, GAMES)
    engines = dict(zip(NAMES, (engine, AsTheyCome(engine)), strict=True))

    def play(name: str) -> list[Episode]:
        return play_out(new_play(config, model, engines[name]), wanted)

    try:
        hits, needed = {}, 0
        for name in NAMES:  # which warms up too
            before = engine.metrics()
            needed = sum(map(context_tokens, play(name)))
            prompt, cached = (engine.metrics()[key] - before[key] for key in ("prompt_tokens", "cached_tokens"))
            hits[name] = cached / prompt
        samples = take_turns({name: lambda name=name: tokens_made(play(name)) for name in NAMES}, rounds)
        held = engine.engine.vllm_config.cache_config
        return {
            "gib": gib,
            "fits": held.num_gpu_blocks * held.block_size / needed,
            "hit_rate": hits,
            "tokens_per_second": {name: asdict(speed(each)) for name, each in samples.items()},
            "ratio": asdict(ratio(*(samples[name] for name in NAMES))),
        }
    finally:
        engine.close()


def context_tokens(episode: Episode) -> int:
    """Of the policy when the game ends."""
    spoken = (turn.tokens for turn in episode.turns if turn.tokens)
    return sum(len(tokens.observation_ids) + len(tokens.utterance_ids) for tokens in spoken)


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(title=f"Cache: {result['games']} games, {result['model']}", title_justify="left")
    table.add_column("of the games fits", justify="right")
    for name in NAMES:
        table.add_column(f"{name}: from the cache", justify="right")
        table.add_column("tokens/s", justify="right")
    table.add_column("faster by", justify="right")
    for one in result["caches"]:
        cells = [(f"{one['hit_rate'][name]:.0%}", spread_of(one["tokens_per_second"][name], ",.0f")) for name in NAMES]
        both = (cell for pair in cells for cell in pair)
        table.add_row(f"{one['fits']:.0%}", *both, spread_of(one["ratio"], ".2f"))
    return [table]


if __name__ == "__main__":
    run_alone("cache", measure, tables)
