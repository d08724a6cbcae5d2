"""Run folders for the tests of reports: real games of scripted players in the policy's seats,
shaped by a real shaper and written by the very classes that a run writes with."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import ray

from cluster.recipe.reading import load_recipe
from cluster.record.checkpoints import CheckpointStore
from cluster.record.metrics import Metrics
from cluster.record.run_folder import RunFolder
from cluster.record.samples import Samples
from cluster.run.evaluate import measure
from envs.episode import Episode, Ticket, Turn
from envs.registry import make_game, make_player
from reward_service.service.storage import write_state
from reward_service.shapers.aria import AriaShaper

HOSTILE = '</script><img src=x onerror="alert(1)"> & <!-- \'\u2028'
GAME = "bargaining"
Seats = tuple[tuple[str, str], ...]
SEATS: Seats = (("alice", "policy"), ("bob", "policy"))
RIVALS: Seats = (("alice", "policy"), ("bob", "scripted:conceding"))  # of the held-out games
BATCH = 24


def embed(texts: list[str]) -> np.ndarray:
    """Unit rows that depend on the text alone: what is tested is what is made of them."""
    rows = []
    for text in texts:
        digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
        rows.append(np.frombuffer(digest[:16], np.uint8).astype(np.float32) - 127.5)
    return np.stack([row / np.linalg.norm(row) for row in rows])


def played(number: int, seed: int, hostile: bool = False, seats: Seats = SEATS) -> Episode:
    """One game; where it is `hostile`, its first words are an attempt on whoever shows them."""
    game = make_game(GAME, {"rounds": 4})
    game.reset(seed)
    who = ("random", "conceding", "tit_for_tat", "stubborn")
    players = {seat: make_player(GAME, who[(number + i) % 4], {"rounds": 4}) for i, (seat, _) in enumerate(seats)}
    for place, player in enumerate(players.values()):
        player.reset(2 * seed + place)
    turns, terminated = [], False
    while (seat := game.seat) is not None:
        seen = game.observe()
        said = players[seat].reply(seen, game.actions())
        said = HOSTILE if hostile and not turns else said
        step = game.step(said)
        terminated = step.terminated
        turns.append(
            Turn(seat, dict(seats)[seat], seen, said, step.executable, step.rewards.get(seat, 0.0), step.caption)
        )
    ticket = Ticket("run", GAME, number, seed, seats)
    return Episode(ticket, turns, game.outcome(), terminated, game.closing(), facts=game.facts())


def batch(update: int, seed: int) -> list[Episode]:
    first = (update - 1) * BATCH
    return [played(first + i, 1000 * seed + first + i, hostile=(update, i) == (2, 0)) for i in range(BATCH)]


def _held_out(seed: int) -> list[Episode]:
    return [played(10**9 + i, 10**6 + 100 * seed + i, seats=RIVALS) for i in range(20)]


def made_run(output: Path, *overrides: str, updates: int = 6) -> Path:
    """A finished run without its engines and learners: the folder that they would have left."""
    config = load_recipe(
        None, [f"output={output}", f"updates={updates}", f"game.name={GAME}", "game.options={rounds: 4}", *overrides]
    )
    shaper = config.reward.shaper.make(config.game)
    if isinstance(shaper, AriaShaper):
        shaper = AriaShaper(config.reward.shaper.intentions, embed=embed)
    with RunFolder.create(config) as folder, Metrics(folder, config) as metrics:
        samples = Samples(folder.samples, config)
        for update in range(updates + 1):
            held_out = measure(_held_out(config.seed + update), update, gamma=0.95)
            if update == 0:
                metrics.evaluated(0, held_out.metrics())
                continue
            episodes = batch(update, config.seed)
            rewards = shaper.shape(episodes)
            samples.keep(update, [ray.put(episode) for episode in episodes], rewards)
            outcomes = [episode.outcome[seat] for episode in episodes for seat, _ in SEATS]
            if update in (updates // 2, updates):
                metrics.evaluated(update, held_out.metrics())
            metrics.updated(
                update,
                {
                    "rollout/outcome": sum(outcomes) / len(outcomes),
                    "rollout/episodes": len(episodes),
                    "rollout/tokens": 10 * len(episodes),
                    "rollout/staleness": update % 2,
                    "learner/loss": -0.1 * update,
                    "learner/logprob_gap_max": 1e-6,
                    "seconds/update": 1.5,
                }
                | {f"reward/{name}": value for name, value in shaper.metrics().items()},
            )
        state = {"next_batch": updates, "shaper": shaper.state()}
        CheckpointStore(folder.checkpoints, 1).save(updates, lambda inside: write_state(inside / "rewards", state))
    return folder.path


ARIA = ("reward.shaper=aria", "reward.shaper.intentions.first_fit=200", "reward.shaper.intentions.refit=inline")
