"""Openings: what a learner saves by computing once what games of a micro-batch begin with alike.

    python -m benchmarks.openings

64 games of each recipe, eight of each of eight tasks, by its scripted players, with the rules of their seats in front,
as language models read them; the embedded policy reads none. A token is a word, so real models have somewhat more of
them. A pass is forward and backward over all of them with an untrained policy of 10M parameters; CPU seconds.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from benchmarks.games import demo
from benchmarks.models import untrained
from benchmarks.report import Say, run_alone, spread_of
from benchmarks.rounds import cpu_ratio, spread, take_turns
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from envs.episode import Episode, Ticket, Turn, TurnTokens
from envs.registry import make_game, make_player
from learners.batch.packing import pack_trajectories, plan
from learners.batch.trajectories import Trajectory, collect
from learners.model.load import load_model, pack_logprobs
from learners.settings import LearnerSettings
from reward_service.shaper import ShapedRewards

RECIPES = ("demo", "games/bargaining", "games/negotiation", "games/twenty_questions_full", "games/guess_my_city")
RECIPES += ("games/case_study", "games/data_science", "games/overcooked")
TASKS, EACH, ROUNDS = 8, 8, 5
CPU = torch.device("cpu")


class Words:
    """Ids of words, in the order in which they are first met."""

    def __init__(self):
        self.known: dict[str, int] = {}

    def ids(self, text: str) -> np.ndarray:
        return np.array([self.known.setdefault(word, len(self.known)) for word in text.split()], np.int32)


def played(config: RunConfig, seed: int, number: int, words: Words) -> Episode:
    """By scripted players in all seats; the first seat's turns are taken as the policy's."""
    game, name, options = make_game(config.game.name, config.game.options), config.game.name, config.game.options
    players = {seat: make_player(name, config.model.embedded.player, options) for seat in game.seats}
    game.reset(seed)
    for place, player in enumerate(players.values()):
        player.reset(number * len(players) + place)
    turns: list[Turn] = []
    ours = game.seats[0]
    while (seat := game.seat) is not None:
        observation = game.observe()
        said = players[seat].reply(observation, game.actions())
        if seat == ours:
            seen = observation if turns else f"{game.briefing(seat)} {observation}"
            spoken = words.ids(f"{said} <end>")
            tokens = TurnTokens(
                words.ids(seen), spoken, np.full(len(spoken), -3, np.float32), np.zeros(len(spoken), np.int32)
            )
            turns.append(Turn(seat, "policy", observation, said, tokens=tokens))
        game.step(said)
    ticket = Ticket("run", name, number, seed, ((ours, "policy"),))
    return Episode(ticket, turns, {ours: 1.0}, terminated=True)


def batch(config: RunConfig) -> list[Trajectory]:
    words = Words()
    episodes = [played(config, number // EACH, number, words) for number in range(TASKS * EACH)]
    seat = episodes[0].policy_seats()[0]
    episodes = [each for each in episodes if each.turns]
    rewards = [ShapedRewards(e.ticket.number, seat, np.zeros(len(e.turns), np.float32), version=0) for e in episodes]
    return collect(episodes, rewards)


def one_pass(model: torch.nn.Module, trajectories: list[Trajectory], shared: bool) -> int:
    budget = LearnerSettings().tokens_per_micro_batch
    (mine,) = plan(trajectories, 1, budget, shared=shared)
    for indices in mine:
        chosen = [trajectories[index] for index in indices]
        nothing = [np.zeros(int(each.turn_tokens.sum()), np.float32) for each in chosen]
        pack = pack_trajectories(chosen, nothing, version=None, shared=shared)
        pack.ids %= model.config.vocab_size
        pack.targets %= model.config.vocab_size
        pack_logprobs(model, pack, 1.0, CPU).sum().backward()
        model.zero_grad()
    return sum(len(each) for each in trajectories)


def computed(trajectories: list[Trajectory]) -> int:
    """Tokens that are fed where openings are shared."""
    (mine,) = plan(trajectories, 1, LearnerSettings().tokens_per_micro_batch, shared=True)
    nothing = [np.zeros(int(each.turn_tokens.sum()), np.float32) for each in trajectories]
    packs = [
        pack_trajectories([trajectories[i] for i in each], [nothing[i] for i in each], None, shared=True)
        for each in mine
    ]
    return sum(len(pack.ids) for pack in packs)


def measure(quick: bool, say: Say) -> dict[str, Any]:
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder:
        model = load_model(str(untrained("10M", demo(), Path(folder))), LearnerSettings(), 0)
        for recipe in RECIPES[: 2 if quick else None]:
            say(recipe)
            trajectories = batch(load_recipe(f"recipes/{recipe}.yaml"))
            ways = {name: partial(one_pass, model, trajectories, name == "shared") for name in ("apart", "shared")}
            for once in ways.values():
                once()
            samples = take_turns(ways, 2 if quick else ROUNDS)
            tokens = sum(len(each) for each in trajectories)
            results[recipe] = {
                "tokens": tokens,
                "shared_tokens": 1 - computed(trajectories) / tokens,
                "cpu_seconds": asdict(spread([each.cpu_seconds for each in samples["apart"]])),
                "speed": asdict(cpu_ratio(samples["shared"], samples["apart"])),
            }
    return {"recipes": results}


def tables(found: dict[str, Any]) -> list[Table]:
    table = Table(title="a pass where openings are shared, beside one where they are not")
    for name in ("", "tokens a game", "in common", "CPU s, not shared", "times as fast, shared"):
        table.add_column(name, justify="right" if name else "left")
    for recipe, each in found["recipes"].items():
        cells = f"{each['tokens'] / (TASKS * EACH):.0f}", f"{each['shared_tokens']:.2f}"
        table.add_row(recipe, *cells, spread_of(each["cpu_seconds"], ".2f"), spread_of(each["speed"], ".2f"))
    return [table]


if __name__ == "__main__":
    run_alone("openings", measure, tables)
