"""Intention rewards inside a whole run: made beside the play, refitted, saved with the run, resumed."""

from __future__ import annotations

import json

import pytest

from cluster.record.run_folder import RunFolder
from reward_service.service.storage import read_state
from tests.support.runs import assert_whole, config_for, metrics_of, run


@pytest.mark.timeout(300)
def test_a_run_learns_from_intentions_and_resumes_with_its_space(ray_cluster, parrot_model, tmp_path):
    from cluster.run.session import resume

    config = config_for(
        parrot_model,
        tmp_path,
        batch_episodes=16,
        max_staleness=0,
        rollout={"engine": {"kind": "transformers"}},
        reward={"shaper": {"kind": "aria", "intentions": {"first_fit": 40}}},
    )
    summary, folder = run(config)
    assert_whole(summary, folder, updates=3, batch=16)
    rows = metrics_of(folder)
    assert [row["reward/shaped"] for row in rows] == [16, 32, 48]
    assert rows[0]["reward/intentions/version"] == 0 and rows[-1]["reward/intentions/version"] >= 1
    assert all(row["reward/failed_refits"] == row["reward/failed_prepares"] == 0 for row in rows)
    saved = read_state(folder.path / "checkpoints" / "update-000003" / "rewards")
    assert saved["next_batch"] == 3 and saved["shaper"]["space"] is not None
    config.updates = 4
    with RunFolder.open(folder.path) as again:
        summary = resume(config, again)
    last = metrics_of(folder)[-1]
    assert summary["updates"] == 4 and last["reward/shaped"] == 16, "of this process; the state goes on"
    assert last["reward/intentions/version"] >= saved["shaper"]["space"]["version"]
    assert json.loads((folder.path / "summary.json").read_text())["ledger"]["ledger/consumed"] == 64
