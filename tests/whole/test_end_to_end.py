"""The whole loop on the real stack, small: Ray actors, vLLM engines, DeepSpeed learners."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from cluster.episodes.reader import Episodes
from tests.support.runs import SMALL, assert_whole, command, config_for, kept_games, merged, run


@pytest.mark.timeout(300)
@pytest.mark.long
def test_two_workers_two_ranks_zero_three(ray_cluster, parrot_model, tmp_path):
    config = config_for(
        parrot_model,
        tmp_path,
        game={"options": {"seats": 2}, "players": {"parrot1": "scripted:random"}},
        rollout={"workers": 2},
        learner={"ranks": 2, "zero": 3},
        evaluation={"every": 2},
    )
    summary, folder = run(config)
    assert_whole(summary, folder, updates=3, batch=8)
    assert [e["version"] for e in summary["evaluations"]] == [0, 2, 3]


@pytest.mark.timeout(300)
@pytest.mark.long
def test_lora_trains_and_its_checkpoint_is_a_peft_adapter(ray_cluster, parrot_model, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    config = config_for(parrot_model, tmp_path, learner={"lora": {"rank": 8}, "learning_rate": 1e-2})
    summary, folder = run(config)
    assert_whole(summary, folder, updates=3, batch=8)
    newest = sorted(folder.checkpoints.glob("*3/policy"))[-1]
    assert len({path.stat().st_mode for path in newest.iterdir()}) == 1, "who reads one file of it reads all"
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(parrot_model), newest)
    adapted = [p for name, p in model.named_parameters() if "lora_B" in name]
    assert adapted and any(p.abs().max() > 0 for p in adapted)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_killed_worker_is_replaced_and_nothing_is_trained_twice(ray_cluster, parrot_model, tmp_path):
    """SIGKILL of the only rollout worker while the run is on: it goes on, and the ledger
    balances. The model has tied embeddings, which have to survive every sync too."""
    import ray
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    tied = tmp_path / "tied"
    shape = AutoConfig.from_pretrained(parrot_model)
    shape.tie_word_embeddings = True
    model = AutoModelForCausalLM.from_config(shape)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    model.save_pretrained(tied)
    AutoTokenizer.from_pretrained(parrot_model).save_pretrained(tied)
    config = config_for(tied, tmp_path / "runs", updates=6)
    killed = []

    def kill_one_worker_once_training_runs():
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and not killed:
            rows = list(tmp_path.glob("runs/*/metrics.jsonl"))
            if rows and '"update": 1,' in rows[0].read_text():
                worker = ray.get_actor(f"parley-{rows[0].parent.name}-rollout-0")
                killed.append(ray.get(worker.ready.remote(), timeout=30))
                os.kill(killed[0], signal.SIGKILL)
                return
            time.sleep(0.05)

    assassin = threading.Thread(target=kill_one_worker_once_training_runs, daemon=True)
    assassin.start()
    summary, folder = run(config)
    assassin.join(timeout=10)
    assert killed, "the run was over before a worker could be killed"
    assert_whole(summary, folder, updates=6, batch=8)
    assert summary["failures"].get("worker_died", 0) == summary["ledger"]["ledger/reissued"]
    lost = Episodes(folder.games, "failure == 'worker_died'").table(["worker", "turns"])
    assert lost.to_pylist() == [{"worker": 0, "turns": 0}] * summary["failures"].get("worker_died", 0)
    assert not [name for name in ray.util.list_named_actors() if folder.name in name], "the run left actors behind"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("moment", "engine", "number"),
    [
        pytest.param("starting learners", "vllm", signal.SIGINT, marks=pytest.mark.long),
        pytest.param("held-out games after update 0", "vllm", signal.SIGINT, marks=pytest.mark.long),
        ("update    2/", "transformers", signal.SIGTERM),
    ],
)
def test_ctrl_c_or_a_stopped_job_leaves_one_line_and_no_process(parrot_model, tmp_path, moment, engine, number):
    """While the engines start, while the run plays, and while it trains and saves."""
    recipe = tmp_path / "small.yaml"
    recipe.write_text(json.dumps(merged(SMALL, {"model": {"path": str(parrot_model)}})))
    run = command("train", str(recipe), "updates=1000", f"rollout.engine.kind={engine}", f"output={tmp_path}/runs")
    seen, started = [], []
    try:
        for line in run.stdout:
            seen.append(line)
            if moment in line:
                started = psutil.Process(run.pid).children(recursive=True)
                (checkpoints,) = (tmp_path / "runs").glob("*/checkpoints")
                (checkpoints / ".dropping-update-000000" / "learner").mkdir(parents=True)  # as an interrupt leaves it
                run.send_signal(number)
                break
        rest, _ = run.communicate(timeout=90)
    finally:
        run.kill()  # nothing if it is over
    assert run.returncode == 130, "".join(seen) + rest
    assert rest.strip().splitlines()[-1].startswith("parley: stopped"), rest
    assert "Traceback" not in rest
    assert started and not psutil.wait_procs(started, timeout=20)[1], "processes outlived the run"
    left = [path.name for path in checkpoints.iterdir() if not path.name.startswith("update-")]
    assert not left, "what a save left that was interrupted"


@pytest.mark.long
@pytest.mark.timeout(500)
def test_a_killed_run_goes_on_by_itself_to_the_same_bytes(parrot_model, tmp_path):
    """Deterministic mode: SIGKILL of the run's process before the first checkpoint and between two; it goes on both
    times, and the final weights, optimiser and ledger are those of a run that was never stopped."""
    changes = [
        "max_staleness=0", "updates=4", "learner.learning_rate=3e-3", "checkpoint.every=2", "checkpoint.keep=9",
        "rollout.engine.kind=transformers",
    ]  # fmt: skip
    recipe = tmp_path / "small.yaml"
    recipe.write_text(json.dumps(merged(SMALL, {"model": {"path": str(parrot_model)}})))

    whole = command("train", str(recipe), *changes, f"output={tmp_path}/whole")
    output, _ = whole.communicate(timeout=200)
    assert whole.returncode == 0, output[-3000:]
    assert not list(Path(tempfile.gettempdir(), "ray").glob(f"session_*_{whole.pid}")), "Ray's logs of a run that ended"
    (whole_run,) = (tmp_path / "whole").iterdir()

    lasting, killed = command("train", str(recipe), *changes, f"output={tmp_path}/killed", "--keep-going"), []
    deadline = time.monotonic() + 400
    for moment, saved in (('"update": 1,', []), ('"update": 3,', ["update-000002"])):
        while time.monotonic() < deadline and lasting.poll() is None:
            rows = [
                row for each in (tmp_path / "killed").glob("*/metrics.jsonl") for row in each.read_text().splitlines()
            ]
            if any(moment in row for row in rows):
                break
            time.sleep(0.02)
        (at_work,) = psutil.Process(lasting.pid).children()
        at_work.kill()
        killed.append(at_work.pid)
        (run_folder,) = (tmp_path / "killed").iterdir()
        assert sorted(path.name for path in run_folder.glob("checkpoints/update-*")) == saved
        psutil.wait_procs([at_work], timeout=30)
        while saved == [] and (run_folder / "metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.02)  # until it begins again
    output, _ = lasting.communicate(timeout=200)
    assert lasting.returncode == 0, output[-3000:]
    assert output.count("the run's process ended with signal 9") == len(set(killed)) == 2
    ours, theirs = run_folder / "checkpoints/update-000004", whole_run / "checkpoints/update-000004"
    names = sorted(
        path.relative_to(theirs) for path in theirs.rglob("*") if path.is_file() and path.name != "manifest.json"
    )
    assert any(path.name == "model.safetensors" for path in names) and len(names) > 5
    different = [str(name) for name in names if (ours / name).read_bytes() != (theirs / name).read_bytes()]
    assert different in ([], ["state.json"])  # which tells of the restarts
    ours_state, theirs_state = (json.loads((path / "state.json").read_text()) for path in (ours, theirs))
    assert ours_state["ledger"]["next_number"] == theirs_state["ledger"]["next_number"]
    assert ours_state["evaluations"] == theirs_state["evaluations"]
    lines = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == [0, 1, 2, 3, 4]
    assert kept_games(run_folder) == kept_games(whole_run), "each game is in the store once"
