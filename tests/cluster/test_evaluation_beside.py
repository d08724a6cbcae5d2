"""Held-out games that are played while training goes on: the right weights, the right update, and nothing stops."""

from __future__ import annotations

import json

import pytest

from cluster.record import checkpoints
from cluster.record.run_folder import RunFolder
from cluster.report.reading import read_run
from cluster.run.collecting import Collector
from cluster.run.evaluate import HeldOut, beside_training
from tests.support.runs import assert_whole, config_for, run


def beside_config(model, output, **changes):
    evaluation = {"every": 1, "episodes": 24}
    return config_for(model, output, evaluation=evaluation, rollout={"engine": {"kind": "transformers"}}, **changes)


@pytest.mark.timeout(300)
def test_each_evaluation_has_the_weights_of_its_update_while_games_go_on(
    ray_cluster, parrot_model, tmp_path, monkeypatch
):
    config, played, order = beside_config(parrot_model, tmp_path), {}, []
    config.learner.learning_rate = 1e-2
    assert beside_training(config)
    begin, end, write, batch = HeldOut.begin, HeldOut.end, RunFolder.write_transcripts, Collector.batch

    def beginning(held_out, version):
        begin(held_out, version)
        order.append(f"begin {version}")

    def ending(held_out):
        order.append(f"end {held_out.begun[0]}")
        return end(held_out)

    def collecting(collector):
        order.append("batch")
        return batch(collector)

    def writing(folder, version, episodes):
        played[version] = episodes
        return write(folder, version, episodes)

    monkeypatch.setattr(HeldOut, "begin", beginning)
    monkeypatch.setattr(HeldOut, "end", ending)
    monkeypatch.setattr(Collector, "batch", collecting)
    monkeypatch.setattr(RunFolder, "write_transcripts", writing)
    summary, folder = run(config)
    assert_whole(summary, folder, updates=3, batch=8)
    assert [e["version"] for e in summary["evaluations"]] == [0, 1, 2, 3] == sorted(played)
    for version, episodes in played.items():
        tokens = [turn.tokens for episode in episodes for turn in episode.turns if turn.tokens is not None]
        assert tokens and all((each.versions == version).all() for each in tokens), "tokens of other weights"
        assert [e.ticket.seed for e in episodes] == [1_000_000 + n for n in range(24)]
    between = [f"{word} {version}".replace(f"batch {version}", "batch") for version in range(3)
               for word in ("begin", "batch", "end")]  # fmt: skip
    assert order == [*between, "begin 3", "end 3"], "a batch is collected between the beginning and the end of each"
    lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert [line["update"] for line in lines] == [0, 1, 2, 3], "one line for each update"
    assert [line["evaluation/win_rate"] for line in lines] == [e["evaluation/win_rate"] for e in summary["evaluations"]]
    rates = {e["version"]: e["evaluation/win_rate"] for e in summary["evaluations"]}
    for checkpoint in checkpoints.all_checkpoints(folder.checkpoints):
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        assert manifest["metrics"] == {"win_rate": rates[manifest["update"]]}
        assert checkpoints.damage_of(checkpoint) is None


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_stop_during_an_evaluation_costs_that_evaluation_only(ray_cluster, parrot_model, tmp_path, monkeypatch):
    """The checkpoint of update 2 is there and its games are in play: a restart plays them again, once."""
    from cluster.api import go_on

    config, batch = beside_config(parrot_model, tmp_path), Collector.batch

    def stopped(collector):
        if collector.ledger.next_batch == 2:
            raise KeyboardInterrupt
        return batch(collector)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Collector, "batch", stopped)
        run(config)
    (folder,) = (each for each in tmp_path.iterdir() if each.is_dir())
    state = json.loads((folder / "checkpoints" / "update-000002" / "state.json").read_text())
    assert [e["version"] for e in state["evaluations"]] == [0, 1] and state["waiting_line"]["update"] == 2
    assert read_run(folder).versions["engine"] == "transformers", "a run that has not ended says what plays"
    again = go_on(folder, [])
    assert [e["version"] for e in again.summary["evaluations"]] == [0, 1, 2, 3]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == [0, 1, 2, 3] and all("evaluation/win_rate" in line for line in lines)
    assert lines[2]["learner/loss"] == state["waiting_line"]["learner/loss"]


def test_training_waits_where_bytes_or_a_card_ask_for_it(parrot_model, tmp_path):
    config = beside_config(parrot_model, tmp_path, max_staleness=0)
    assert not beside_training(config)
    config.max_staleness, config.rollout.engine.sleep = 2, True
    assert not beside_training(config)
    config.evaluation.beside = True
    assert beside_training(config)


def test_one_evaluation_at_a_time():
    held_out = HeldOut(None, None, "run", (), None, None)
    with pytest.raises(RuntimeError, match="no evaluation was begun"):
        held_out.end()
    held_out.begun = 3, None
    with pytest.raises(RuntimeError, match="the evaluation of version 3 has not ended"):
        held_out.begin(4)
