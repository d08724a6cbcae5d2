"""Learned shapers inside whole runs: trained beside the play, published, saved with the run."""

from __future__ import annotations

import pytest

from reward_service.service.storage import read_state
from tests.support.runs import assert_whole, config_for, metrics_of, run

MODEL = {"steps": 40}


@pytest.mark.long
@pytest.mark.parametrize(
    ("shaper", "settings", "group"),
    [
        ("spa", {"first": 1, "every": 1, "model": MODEL}, "spa"),
        (
            "aria_rm",
            {"first": 1, "every": 2, "model": MODEL, "intentions": {"first_fit": 20}},
            "reward_model",
        ),
    ],
)
def test_a_run_learns_from_a_learned_shaper_and_saves_its_model(
    ray_cluster, parrot_model, tmp_path, shaper, settings, group
):
    config = config_for(
        parrot_model,
        tmp_path,
        updates=4,
        batch_episodes=16,
        max_staleness=0,
        rollout={"engine": {"kind": "transformers"}},
        reward={"shaper": {"kind": shaper, **settings}},
    )
    summary, folder = run(config)
    assert_whole(summary, folder, updates=4, batch=16)
    rows = metrics_of(folder)
    versions = [row[f"reward/{group}/version"] for row in rows]
    assert versions[0] == 0 < versions[-1]
    assert all(row["reward/failed_refits"] == row["reward/failed_prepares"] == 0 for row in rows)
    assert 0 < rows[-1][f"reward/{group}/held_out_mse"] < 1
    saved = read_state(folder.path / "checkpoints" / "update-000004" / "rewards")["shaper"]
    kept = saved["estimator"] if shaper == "aria_rm" else saved
    assert kept["model"]["version"] >= versions[-1] and kept["batches"] == 4
