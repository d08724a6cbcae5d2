"""Every game trains by its own recipe, from its own warm start. In one process: the game, its prompts, play, reward,
credit and the update. As a whole run: with workers, DeepSpeed's learners and proved weight sync too. Few steps of
everything; whether it learns is measured elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from envs.registry import GAMES, WORLDS
from tests.support.runs import ROOT, assert_whole, run
from tests.support.worlds import NEED_OPTIONS, needs

UPDATES, BATCH = 2, 16
PLAYED = [*sorted(GAMES), *(pytest.param(world, marks=needs(world)) for world in sorted(set(WORLDS) - NEED_OPTIONS))]
HALF = "model.embedded.games_per_step=4"  # of what is cloned, where games are long
# Whole games of these are long or run code: a test that learning works at all needs less.
# Of the two games that end in a deal, what a deal is worth differs from game to game.
SHORTER = {
    "babyai": [HALF],
    "bargaining": ["game.options.reward=money", "reward.shaper=game"],
    "negotiation": ["game.options.reward=money", "reward.shaper=game"],
    "persuasion": ["game.options.rounds=3"],
    "scienceworld": [HALF],
    "car_dealer": ["game.options.lines=6", "game.players.buyer=scripted:expert"],
    "chess": ["game.options.turns=12", "game.options.pieces=Q"],
    "maze": ["game.options.turns=12"],
    "data_science": ["game.options.attempts=2", "rollout.max_utterance_tokens=64"],
    "overcooked": ["game.options.steps=60", "rollout.engine.max_context=2048", HALF],
    "text_navigation": ["game.options.turns=6"],
    "virtualhome": ["game.options.turns=12", "rollout.engine.max_context=2048", HALF],
}
RECIPES = {  # of games without one of their own name
    "twenty_questions": ("demo", []),
    **{name: (f"worlds/{name}", []) for name in ("tools", "webshop")},
    **{name: ("demo", [f"game.name={name}"]) for name in ("car_dealer", "chess", "maze", "text_navigation", "wordle")},
    "persuasion": ("games/negotiation", ["game.name=persuasion", "game.options={}", "game.players={}"]),
}


def recipe_of(game: str, *changes: str) -> RunConfig:
    recipe, words = RECIPES.get(game, (f"{'worlds' if game in WORLDS else 'games'}/{game}", []))
    config = load_recipe(
        ROOT / "recipes" / f"{recipe}.yaml",
        [
            *words,
            f"updates={UPDATES}",
            f"batch_episodes={BATCH}",
            "model.embedded.steps=80",
            "model.embedded.games_per_step=8",
            "rollout.engine.kind=transformers",
            "rollout.engine.max_sequences=16",
            "evaluation.episodes=8",
            *changes,
            *SHORTER.get(game, []),
        ],
    )
    assert config.game.name == game and config.model.path == "embedded"
    return config


@pytest.mark.parametrize("game", PLAYED)
def test_a_game_trains_in_one_process(game, tmp_path, monkeypatch):
    from benchmarks.lab.trainee import Trainee
    from learners.embedded.build import build_policy

    monkeypatch.setenv("PARLEY_CACHE", str(tmp_path / "cache"))
    config = recipe_of(game, "learner.ranks=1", "learner.zero=0", "model.embedded.steps=2", "batch_episodes=4")
    trainee = Trainee(config, build_policy(config.game, config.model.embedded), config.group_size)
    episodes = trainee.play(trainee.tickets(config.batch_episodes, 0))
    trajectories = trainee.shaped(episodes)
    for number, trajectory in enumerate(trajectories):
        trajectory.rewards[-1] = number % 2  # so few steps of cloning seldom win
    figures = trainee.learning.update(trajectories, 0)
    assert len(trajectories) >= config.batch_episodes and figures["logprob_gap_max"] < 1e-4
    assert np.isfinite(figures["loss"]) and np.isfinite(figures["grad_norm"]) and figures["grad_norm"] > 0
    trainee.sampler.forget()
    assert np.isfinite(trainee.outcomes(2)).all()


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("game", PLAYED)
def test_a_game_trains_by_its_recipe(game, ray_cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("PARLEY_CACHE", str(tmp_path / "cache"))
    config = recipe_of(game, "rollout.cpus_per_worker=0.5", "learner.cpus_per_rank=0.5", f"output={tmp_path}/runs")
    summary, folder = run(config)
    assert_whole(summary, folder, UPDATES, BATCH)
    assert summary["failures"] == {}
