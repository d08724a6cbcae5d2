"""`parley offline` as a whole, on real workers and learners: stopped, gone on with, changed, done again."""

from __future__ import annotations

import json
import os
import shutil
import signal
from inspect import ismethod
from pathlib import Path
from types import MethodType

import numpy as np
import pytest
import ray

from cluster.commands.cli import main
from cluster.commands.offline import checked
from cluster.errors import RunError
from cluster.offline import pipeline
from cluster.offline.examples import Sequences, Speech
from cluster.offline.play import tickets_of
from cluster.offline.recording import tokenizer_name
from cluster.offline.stages import STAGES, settings_of
from cluster.offline.terminal import Terminal
from cluster.offline.train import batches
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record.run_folder import RunFolder
from envs.settings import GameSettings, Settings
from learners.embedded.cloning import ScriptedGames
from learners.group import LearnerGroup
from tests.support.engines import model_logprobs, model_of
from tests.support.offline_games import QUESTIONS, ROOT, lone, offline, one_hot, rows, work_of, write

SMALL = (
    "rollout.engine.kind=transformers", "rollout.cpus_per_worker=0.5", "learner.cpus_per_rank=0.5",
    "reward.shaper=aria", "learner.loss.kind=likelihood", "learner.loss_aggregation=turn", "offline.iterations=2",
    "offline.games=24", "offline.at_once=16", "offline.epochs=2", "offline.batch=24", "offline.evaluate=false",
    "checkpoint.every=1",
)  # fmt: skip


class Stopped(Terminal):
    """Presses Ctrl-C when something has come this far."""

    def __init__(self, stage: str, done: int):
        super().__init__()
        self.stop_at = stage, done

    def at(self, done: int, total: int, of: str = "") -> None:
        super().at(done, total, of)
        if self.what == self.stop_at[0] and done >= self.stop_at[1]:
            raise KeyboardInterrupt


def stopped(folder: Path, stage: str, done: int) -> None:
    config = checked(load_recipe(folder / "config.yaml"))
    with RunFolder(folder) as owned, pytest.raises(KeyboardInterrupt):
        pipeline.run(config, owned, "train", Stopped(stage, done))


@pytest.fixture(scope="module")
def folder(ray_cluster, parrot_model, tmp_path_factory) -> Path:
    """A run whose first iteration was stopped while it collected and while it trained, and then went on."""
    folder = tmp_path_factory.mktemp("offline") / "work"
    config = checked(load_recipe(ROOT / "recipes" / "games" / "parrot.yaml", [*SMALL, f"model.path={parrot_model}"]))
    folder.mkdir()
    with RunFolder(folder) as owned:
        owned.write_config(config)
    stopped(folder, "collect", 17)
    scratch = folder / "iteration-1" / ".unfinished" / "collect"
    assert json.loads((scratch / "written.json").read_text())["games"] == 16
    (part,) = scratch.glob("*_msgs.jsonl")
    kept = part.read_text()
    with open(part, "a") as file:
        file.write('{"actions": ["half a li')
    stopped(folder, "train", 3)
    whole = (folder / "iteration-1" / part.name).read_text()
    assert whole.startswith(kept) and len(whole.splitlines()) == 24, "what was written stays; what was cut off goes"
    assert main(["offline", "run", str(folder), "--until", "train"]) == 0
    return folder


def test_each_game_is_collected_once_and_read_as_it_was_played(folder):
    (msgs,) = (folder / "iteration-1").glob("*_msgs.jsonl")
    games = [json.loads(line) for line in msgs.read_text().splitlines()]
    assert len({game["seed"] for game in games}) == 24 and all(game["seed"] < 1_000_000 for game in games)
    tokens = Sequences(folder / "iteration-1" / "tokens")
    for place, game in enumerate(games):
        played = [ids for turn in game["tokens"] for ids in turn]
        trained = [part.tolist() for turn in tokens.game(place) for part in (turn.seen, turn.said)]
        assert trained == played, "training takes the very ids that were sampled"
    manifest = json.loads((folder / "iteration-1" / "manifest.json").read_text())
    assert manifest["aggregate"]["figures"]["turns"] == sum(len(game["actions"]) for game in games)


@pytest.mark.parametrize("dies", [False, pytest.param(True, marks=pytest.mark.long)], ids=["undisturbed", "rank dies"])
def test_training_that_was_stopped_ends_where_it_would_have(folder, tmp_path, monkeypatch, dies):
    made = (folder / "iteration-1" / "policy" / "model.safetensors").read_bytes()
    log = (folder / "iteration-1" / "training_log.jsonl").read_text()
    plain, calls = LearnerGroup.update_on, []

    def update_on(group, games):
        calls.append(len(games))
        if dies and len(calls) == 5:
            os.kill(ray.get(group.actors[0].process.remote()), signal.SIGKILL)
        return plain(group, games)

    monkeypatch.setattr(LearnerGroup, "update_on", update_on)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("run.lock", "policy", "training_log.jsonl"))
    assert main(["offline", "train", str(copy), "checkpoint.every=3"]) == 0
    assert (copy / "iteration-1" / "policy" / "model.safetensors").read_bytes() == made
    assert (copy / "iteration-1" / "training_log.jsonl").read_text() == log
    assert len(log.splitlines()) > 5 and len(calls) == len(log.splitlines()) + 2 * dies


def test_the_loss_is_the_objective(folder, parrot_model):
    """-1/turns * sum of log pi(utterance) * worth, computed again without the learner."""
    log = json.loads((folder / "iteration-1" / "training_log.jsonl").read_text().splitlines()[0])
    tokens, model = Sequences(folder / "iteration-1" / "tokens"), model_of(str(parrot_model))
    total = turns = 0
    for game in next(batches(tokens.turns, 24, 2, 0)):
        spoken = tokens.game(int(game))
        logprobs = model_logprobs(model, np.concatenate([part for turn in spoken for part in (turn.seen, turn.said)]))
        place = -1  # of the token before: the first one has no log-prob
        for turn in spoken:
            place += len(turn.seen)
            total -= turn.worth * logprobs[place : place + len(turn.said)].sum()
            place += len(turn.said)
        turns += len(spoken)
    assert log["loss"] == pytest.approx(total / turns, rel=1e-4) and log["loss"] > 0


def test_the_trained_policy_collects_the_next_games(folder, parrot_model):
    assert main(["offline", "collect", str(folder), "--iteration", "2"]) == 0
    (msgs,) = (folder / "iteration-2").glob("*_msgs.jsonl")
    (first,) = (folder / "iteration-1").glob("*_msgs.jsonl")
    game, before = (json.loads(path.read_text().splitlines()[0]) for path in (msgs, first))
    assert game["tokenizer"] == before["tokenizer"] and game["seed"] != before["seed"]
    recorded = json.loads((folder / "iteration-2" / "manifest.json").read_text())["collect"]["reads"]
    made = json.loads((folder / "iteration-1" / "manifest.json").read_text())["train"]["writes"]["policy"]
    assert recorded["beginning"]["sha256"] == made["sha256"]
    old, new = (model_of(str(path)) for path in (parrot_model, folder / "iteration-1" / "policy"))
    gained = 0.0  # E[log new - log old] is a KL divergence, above 0, if new has played, and one below 0 if old has
    for line in msgs.read_text().splitlines():
        sizes = [(len(seen), len(said)) for seen, said in json.loads(line)["tokens"]]
        ids = [token for turn in json.loads(line)["tokens"] for part in turn for token in part]
        said = np.concatenate([np.repeat([False, True], pair) for pair in sizes])[1:]
        gained += (model_logprobs(new, ids) - model_logprobs(old, ids))[said].sum()
    assert gained > 0


# Without engines: what is done again, and why


@pytest.fixture
def work(tmp_path) -> Path:
    """A folder that was brought as far as the training set, from a file."""
    games = [lone("0123", "ynyy", n % 2, action_embeddings=[one_hot(i) for i in range(4)]) for n in range(8)]
    folder = tmp_path / "work"
    assert offline(QUESTIONS, write(tmp_path / "msgs.jsonl", games), folder) == 0
    return folder


def state(folder: Path, *overrides: str) -> dict[str, str]:
    """Stage -> what has to be done with it."""
    config = checked(load_recipe(folder / "config.yaml", overrides))
    lines = pipeline.status(config, folder)
    return {line.split()[2]: line.split(maxsplit=3)[3] for line in lines if line.startswith("iteration 1")}


def test_what_is_done_is_not_done_again(work, capsys):
    before = (work / "iteration-1" / "manifest.json").read_bytes()
    assert main(["offline", "run", str(work), "--until", "aggregate"]) == 0
    assert (work / "iteration-1" / "manifest.json").read_bytes() == before
    assert capsys.readouterr().out.count("is done") == 5
    assert main(["offline", "choose", str(work)]) == 0
    assert "nothing it depends on has changed" in capsys.readouterr().out


def test_the_status_of_a_run_that_goes_on_is_told(work, capsys):
    with RunFolder(work):
        before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
        assert main(["offline", "status", str(work)]) == 0
        assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before
    assert "iteration 1  choose     done" in capsys.readouterr().out


def test_a_setting_makes_stale_what_depends_on_it_and_says_which(work):
    found = state(work, "reward.shaper.intentions.space.method=average")
    assert found["embed"] == "done"
    assert found["cluster"] == 'to be done again: reward.shaper.intentions.space.method was "ward", is "average"'
    assert found["label"] == "done, and again if cluster comes out different"
    again = state(work, "reward.shaper.intentions.aggregate.gamma=0.5")
    assert again["cluster"] == "done"
    assert again["choose"].endswith("reward.shaper.intentions.aggregate.gamma was 0.95, is 0.5")
    assert state(work, "game.options={turns: 9}")["embed"].endswith("game.options.turns was not set, is 9")


def test_a_whole_section_is_looked_at_again_but_what_comes_out_the_same_spreads_no_further(work):
    assert main(["offline", "cluster", str(work), "reward.shaper.intentions.space.keep=0.4"]) == 0
    found = state(work)
    assert found["cluster"] == "done" and found["choose"].endswith("space.keep was 0.3, is 0.4")
    assert main(["offline", "choose", str(work)]) == 0
    assert {*state(work).values()} == {"done", "not done yet"}


def test_another_k_is_chosen_without_clustering_again(work):
    for granularity in ("{kind: fixed, k: 2}", "{kind: split, epsilon: 0.5}"):
        found = state(work, f"reward.shaper.intentions.space.granularity={granularity}")
        assert found["cluster"] == "done" and "space.granularity" in found["choose"]


class Watched:
    """Settings that note what is read of them."""

    def __init__(self, settings: Settings, read: set[str], section: str = ""):
        self._settings, self._read, self._section = settings, read, section

    def __getattr__(self, name: str):
        value, key = getattr(self._settings, name), f"{self._section}{name}"
        if ismethod(value):
            return MethodType(value.__func__, self)  # what it reads is noted
        if name in type(self._settings).__class_vars__:
            return value
        if isinstance(value, Settings):
            return Watched(value, self._read, f"{key}.")
        self._read.add(key)
        return value


@pytest.mark.parametrize("number", range(1, 6))
def test_a_stage_reads_no_setting_that_it_does_not_depend_on(work, tmp_path, number):
    """One that it read unnoticed would leave a stage done with another value of it."""
    watched, stage = work_of(work), STAGES[number]
    depends, read, scratch = settings_of(watched, stage), set(), tmp_path / "scratch"
    watched.config = Watched(watched.config, read)
    scratch.mkdir()
    stage.do(watched, scratch)
    elsewhere = {"offline.input", "model.path"}  # which file it reads, and what the files are called
    assert read - elsewhere and {key for key in read - elsewhere if not key.startswith(tuple(depends))} == set()


def test_a_folder_that_was_made_with_fewer_settings_is_gone_on_with(work):
    """As its stages were recorded before they depended on whole sections."""
    path = work / "iteration-1" / "manifest.json"
    stages = json.loads(path.read_text())
    del stages["embed"]["settings"]["game.options"]
    del stages["choose"]["settings"]["reward.shaper.intentions.aggregate.own"]
    path.write_text(json.dumps(stages))
    found = state(work)
    assert found["embed"] == found["cluster"] == "done", "nothing is set in game.options"
    assert found["choose"] == "to be done again: reward.shaper.intentions.aggregate.own was not set, is 0.0"
    assert main(["offline", "run", str(work), "--until", "aggregate"]) == 0
    assert {*state(work).values()} == {"done", "not done yet"}


def test_a_folder_whose_loss_asks_who_played_says_what_to_give(work, capsys):
    config = work / "config.yaml"
    config.write_text(config.read_text().replace("kind: likelihood", "kind: policy_gradient"))
    assert main(["offline", "run", str(work), "--until", "aggregate"]) == 2
    assert "give learner.loss.kind=likelihood" in capsys.readouterr().err
    assert main(["offline", "run", str(work), "--until", "aggregate", "learner.loss.kind=likelihood"]) == 0
    assert "is done" in capsys.readouterr().out


def test_where_and_how_fast_changes_no_stage(work):
    fast = ("learner.cpus_per_rank=2", "rollout.workers=3", "rollout.engine.max_sequences=7", "rollout.batch_seconds=9")
    fast += ("learner.update_seconds=9", "learner.sync.bucket_mib=9", "learner.tokens_per_micro_batch=8192")
    assert all(settings_of(work_of(work), stage) == settings_of(work_of(work, 1, fast), stage) for stage in STAGES)
    other = ("learner.learning_rate=0.5", "rollout.temperature=0.7", "offline.context=99")
    changed = [s.name for s in STAGES if settings_of(work_of(work), s) != settings_of(work_of(work, 1, other), s)]
    assert changed == ["collect", "tokenize", "train", "evaluate"]


def test_an_input_that_changed_and_an_output_that_is_damaged_are_done_again(work):
    file = work.parent / "msgs.jsonl"
    file.write_text(file.read_text().replace("question 3", "question 9"))
    assert state(work)["embed"] == "to be done again: msgs is not the one that was read"
    assert main(["offline", "run", str(work), "--until", "aggregate"]) == 0
    assert set(state(work).values()) == {"done", "not done yet"}
    assert any(row["action"] == "question 9" for row in rows(work))
    training = work / "iteration-1" / "training.json"
    training.write_text(training.read_text()[:-30])
    assert state(work)["aggregate"] == "to be done again: training is not as it was written"
    training.unlink()
    assert state(work)["aggregate"] == "to be done again: training is missing"
    assert main(["offline", "aggregate", str(work)]) == 0
    assert state(work)["aggregate"] == "done"


def test_a_touched_file_with_the_same_bytes_is_the_same(work):
    for path in (work / "iteration-1").rglob("*"):
        path.touch()
    assert state(work)["aggregate"] == "done"


def test_a_stage_says_what_comes_before_it(work):
    (work / "iteration-1" / "embeddings.npy").unlink()
    with pytest.raises(RunError, match="comes after embed, which has to be done first .*parley offline embed"):
        config = checked(load_recipe(work / "config.yaml"))
        with RunFolder(work) as owned:
            pipeline.run_stage(config, owned, "choose", 1)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["offline.rival=scripted:random"], "has one seat"),
        (["game.name=bargaining", "offline.rival=scripted:nobody"], "no such player; there are: scripted:conceding"),
        (["game.name=parrot", "game.options={seats: 3}"], "has 3 seats"),
        (["offline.context=9000"], "does not fit into learner.tokens_per_micro_batch=4096"),
        (["learner.loss.kind=ppo"], "which recorded games do not tell: give learner.loss.kind=likelihood"),
        (["learner.mask_cut_off=true"], "do not tell which were cut off"),
        (["reward.shaper.gives=outcome"], "leave it at advantage"),
        (["offline.input=/nowhere/at/all"], "offline.input: no file at"),
        (["game.players.guesser=scripted:expert"], "nothing would be trained"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(tmp_path, capsys, overrides, words):
    assert main(["offline", "run", *QUESTIONS, *overrides, "--folder", str(tmp_path / "work")]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "work").exists()


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_run_that_plays_its_own_games_refuses_the_likelihood(tmp_path, capsys, more):
    words = ["train", str(ROOT / "recipes/games/parrot.yaml"), "learner.loss.kind=likelihood", f"output={tmp_path}"]
    assert main([*words, *more]) == 2
    told = capsys.readouterr()
    assert (
        "likelihood is for recorded games (parley offline)" in told.err and not told.out and not [*tmp_path.iterdir()]
    )


def test_collected_games_are_numbered_and_seeded_as_training_games(work):
    first, second = (tickets_of(work_of(work, number), range(300)) for number in (1, 2))
    assert [ticket.number for ticket in first] == [ticket.number for ticket in second] == list(range(300))
    seeds = [ticket.seed for ticket in first + second]
    assert len({*seeds}) == 600 and max(seeds) < 1_000_000, "held-out games are seeded from 1,000,000 on"


def test_every_stage_depends_on_settings_that_there_are():
    settings = RunConfig(reward={"shaper": "aria"}).what_is_computed()
    for section in {section for stage in STAGES for section in stage.sections}:
        assert any(f"{key}.".startswith(f"{section}.") for key in settings), section


# Token ids


def test_text_becomes_the_ids_that_play_would_have_given(tiny_model):
    """A scripted game's text, as a file of others would bring it, against the layout of play."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    speech, scripted = Speech(tokenizer, tokenizer_name(tokenizer)), ScriptedGames(GameSettings(), "expert", tokenizer)
    laid = scripted.play(5)[0]
    game, player = scripted.game, scripted.players["guesser"]
    game.reset(5)
    player.reset(5)
    told = []
    while game.seat is not None:
        shown = game.observe()
        told.append(
            {"observation": "", "seen": shown, "action": player.reply(shown, ()), "reward": 1.0, "turn": len(told)}
        )
        game.step(told[-1]["action"])
    spoken = speech.game(told)
    assert [token for turn in spoken for part in (turn.seen, turn.said) for token in part] == laid.ids
    assert [turn.said[-1] for turn in spoken] == [tokenizer.eos_token_id] * len(spoken)


def test_ids_of_another_tokenizer_are_not_taken_for_ones_of_this(tiny_model):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    speech = Speech(tokenizer, tokenizer_name(tokenizer))
    row = {
        "observation": "",
        "seen": "what is it?",
        "action": "is it alive?",
        "reward": 1.0,
        "turn": 0,
        "tokens": [[5], [6]],
    }
    assert speech.game([row | {"tokenizer": speech.name}])[0].said == [6]
    assert len(speech.game([row | {"tokenizer": "0" * 16}])[0].said) == 4


def test_every_game_is_trained_on_once_an_epoch():
    turns = np.random.default_rng(0).integers(1, 9, 50)
    plan = list(batches(turns, 32, 3, seed=4))
    order = np.concatenate(plan)
    assert [sorted(part.tolist()) for part in np.split(order, 3)] == [list(range(50))] * 3
    assert all(turns[batch].sum() >= 32 for batch in plan) or sum(turns[batch].sum() < 32 for batch in plan) <= 3
    again = list(batches(turns, 32, 3, seed=4))
    assert all((one == other).all() for one, other in zip(plan, again, strict=True))
    assert not (order[:50] == order[50:100]).all()
