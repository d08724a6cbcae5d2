"""Every game trains end to end, by its own recipe, from its own warm start: games, engine,
DeepSpeed learner, proved weight sync. Few steps of everything; whether it learns is measured
elsewhere."""

from __future__ import annotations

import pytest

from cluster.recipe.reading import load_recipe
from envs.registry import GAMES
from tests.support.runs import ROOT, assert_whole, run

UPDATES, BATCH = 2, 16
HALF = "model.embedded.games_per_step=4"  # of what is cloned, where games are long
# Whole games of these are long or run code: a test that learning works at all needs less.
# Of the two games that end in a deal, what a deal is worth differs from game to game.
SHORTER = {
    "bargaining": ["game.options.reward=money", "reward.shaper=game"],
    "negotiation": ["game.options.reward=money", "reward.shaper=game"],
    "data_science": ["game.options.attempts=2", "rollout.max_utterance_tokens=64"],
    "overcooked": ["game.options.steps=60", "rollout.engine.max_context=2048", HALF],
    "virtualhome": ["game.options.turns=12", "rollout.engine.max_context=2048", HALF],
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("game", sorted(GAMES))
def test_a_game_trains_by_its_recipe(game, ray_cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("PARLEY_CACHE", str(tmp_path / "cache"))
    config = load_recipe(
        ROOT / "recipes" / ("demo.yaml" if game == "twenty_questions" else f"games/{game}.yaml"),
        [
            f"updates={UPDATES}",
            f"batch_episodes={BATCH}",
            "model.embedded.steps=80",
            "model.embedded.games_per_step=8",
            "rollout.engine.kind=transformers",
            "rollout.engine.max_sequences=16",
            "rollout.cpus_per_worker=0.5",
            "learner.cpus_per_rank=0.5",
            "evaluation.episodes=8",
            f"output={tmp_path}/runs",
            *SHORTER.get(game, []),
        ],
    )
    assert config.game.name == game and config.model.path == "embedded"
    summary, folder = run(config)
    assert_whole(summary, folder, UPDATES, BATCH)
    assert summary["failures"] == {}
