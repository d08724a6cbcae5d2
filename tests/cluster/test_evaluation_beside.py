"""Held-out games that are played while training goes on: the right weights, the right update, and nothing stops."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from actors.fleet.finished import Finished
from actors.fleet.tokens import FleetTokens
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record import checkpoints
from cluster.record.metrics import Metrics
from cluster.record.run_folder import RunFolder
from cluster.report.reading import read_run
from cluster.run.collecting import Collector
from cluster.run.evaluate import HeldOut, beside_training
from cluster.run.loop import TrainingLoop
from cluster.run.playing import Playing
from envs.episode import Episode, Turn, TurnTokens
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

    def ending(held_out, weights):
        order.append(f"end {held_out.begun[0]}")
        return end(held_out, weights)

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
def test_an_evaluation_that_loses_its_worker_while_none_may_start_ends(
    ray_cluster, parrot_model, tmp_path, monkeypatch
):
    """Where cards are shared no engine starts while the learners work, and one has to, for what is left of it."""
    config, learn = beside_config(parrot_model, tmp_path), TrainingLoop.learn
    config.evaluation.episodes, config.rollout.batch_seconds = 600, 60.0

    def losing(loop, *batch):
        if loop.update == 1:
            ray_cluster.kill(loop.fleet.processes.handles[0])
        return learn(loop, *batch)

    monkeypatch.setattr(TrainingLoop, "learn", losing)
    monkeypatch.setattr(TrainingLoop, "learners_at_work", lambda loop: loop.fleet.no_starts())
    summary, folder = run(config)
    assert_whole(summary, folder, updates=3, batch=8)
    assert [e["version"] for e in summary["evaluations"]] == [0, 2, 3], "newer weights are no measure of version 1"


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
    ended = go_on(folder, ["updates=2"])  # the checkpoint is the end then, and is evaluated
    assert [e["version"] for e in ended.summary["evaluations"]] == [0, 1, 2] and ended.summary["updates"] == 2
    of_2 = [(each["held_out"], each["newest"]) for each in ended.episodes("update == 2")]
    assert {each for each in of_2 if each[0]} == {(True, 1), (True, 2)}, "the one before ended within this update"
    assert sum(not held_out for held_out, _ in of_2) == 8, "those that it learned from are there still"
    assert ended.summary["seconds"]["learn"] > 0, "of the whole run, though the second start learned nothing"
    again = go_on(folder, ["updates=3"])
    assert [e["version"] for e in again.summary["evaluations"]] == [0, 1, 2, 3]
    played = Counter(each["newest"] for each in again.episodes("held_out == True"))
    assert played == dict.fromkeys(range(4), config.evaluation.episodes), "each evaluation is there once"
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
        held_out.end(0)
    held_out.begun = 3, None
    with pytest.raises(RuntimeError, match="the evaluation of version 3 has not ended"):
        held_out.begin(4)


class TwoWorkers:
    """A fleet that plays a game a poll; the replacement of a worker waits for its weights."""

    draining = frozenset()

    def __init__(self, live: int):
        self.live, self.asked, self.version, self.replacements = live, [], 0, ["replacement"]
        self.tokens = FleetTokens()

    def assign(self, tickets, temperature):
        self.asked += tickets

    def playing(self):
        return list(range(self.live))

    def joining(self):
        return self.replacements

    def poll(self, seconds):
        ticket = self.asked.pop(0)
        tokens = TurnTokens(*(np.array([self.version], np.int32) for _ in range(4)))
        turn = Turn("a", "policy", "o", "u", tokens=tokens)
        return [Finished(ticket, Episode(ticket, [turn], {"a": 1.0}, True), None, None)]


@pytest.mark.parametrize(("live", "versions"), [(1, {0}), (0, {1})])
def test_one_that_joins_while_older_weights_are_evaluated_waits_for_the_sync(monkeypatch, live, versions):
    """The learners hold version 1 by now. Where nobody is left who holds version 0, its evaluation is given up."""
    config, fleet, kept = RunConfig(), TwoWorkers(live), {}
    config.evaluation.episodes = 4

    def welcome():
        fleet.replacements.clear()
        fleet.version, fleet.live = 1, fleet.live + 1

    playing = Playing(fleet, config.rollout, welcome)
    monkeypatch.setattr("cluster.run.playing.fetch", lambda results, seconds: [result.ref for result in results])
    keep = kept.__setitem__, lambda results, episodes: None
    held_out = HeldOut(playing, config, "run", (("a", "policy"),), *keep)
    held_out.begin(0)
    found = held_out.end(1)
    assert fleet.version == max(versions) and not fleet.asked and held_out.begun is None
    assert (found is None) == (kept == {}) == (versions == {1}) and (found is held_out.newest)


def test_a_line_whose_evaluation_is_given_up_waits_no_longer(tmp_path):
    with RunFolder.create(load_recipe(None, [f"output={tmp_path}", "name=test"])) as folder:
        with Metrics(folder, load_recipe(None)) as metrics:
            metrics.updated(1, {"rollout/outcome": 0.5}, waits=True)
            metrics.not_evaluated()
            metrics.not_evaluated()
            metrics.updated(2, {"rollout/outcome": 0.25})
        lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert [(line["update"], line["rollout/outcome"]) for line in lines] == [(1, 0.5), (2, 0.25)]


def test_a_line_that_waits_is_kept_where_a_resume_evaluates_at_other_updates(tmp_path):
    with RunFolder.create(load_recipe(None, [f"output={tmp_path}", "name=test"])) as folder:
        with Metrics(folder, load_recipe(None)) as metrics:
            metrics.updated(1, {"rollout/outcome": 0.5}, waits=True)
            waiting = metrics.waiting_line()
        with Metrics(folder, load_recipe(None), resume_at=1) as metrics:
            metrics.restore(waiting, {})
            metrics.updated(2, {"rollout/outcome": 0.25}, waits=True)
            metrics.evaluated(2, {"evaluation/win_rate": 0.75})
        lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert [(line["update"], line.get("evaluation/win_rate")) for line in lines] == [(1, None), (2, 0.75)]


def test_an_evaluation_that_a_resume_asks_for_is_in_the_line_of_its_update(tmp_path):
    with RunFolder.create(load_recipe(None, [f"output={tmp_path}", "name=test"])) as folder:
        with Metrics(folder, load_recipe(None)) as metrics:
            for update in (1, 2):
                metrics.updated(update, {"rollout/outcome": 0.5})
        with Metrics(folder, load_recipe(None), resume_at=2) as metrics:
            metrics.restore(None, {})
            metrics.evaluated(2, {"evaluation/win_rate": 0.75})
            metrics.updated(3, {"rollout/outcome": 0.25})
        lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert [(line["update"], line.get("evaluation/win_rate")) for line in lines] == [(1, None), (2, 0.75), (3, None)]
