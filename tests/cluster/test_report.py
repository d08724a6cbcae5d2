"""What a report says: the figures of a run folder, its intentions and its games, and the page around them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cluster.commands import cli
from cluster.episodes.columns import table_of
from cluster.episodes.store import EpisodeStore
from cluster.errors import ConfigError
from cluster.record.run_folder import RunFolder, read_config
from cluster.record.samples import Samples
from cluster.record.statistics import mean_interval
from cluster.report.comparing import _along, compared
from cluster.report.figures import MOST_UPDATES, TAKEN, pooling, settings, thinned
from cluster.report.games import games
from cluster.report.held_out import held_out
from cluster.report.intentions import Meanings, intention_map, layout, share_of_play, worth_of_turns
from cluster.report.page import page, write_report
from cluster.report.reading import read_run
from cluster.watch.followed import POINTS, Followed
from reward_service.intentions.gist import NOTHING
from reward_service.intentions.trajectory import CodedGame
from tests.support.report_runs import ARIA, BATCH, HOSTILE, batch, embed, made_run
from tests.support.runs import config_for, metrics_of, run
from tests.support.watched import game


@pytest.fixture(scope="module")
def aria_run(ray_cluster, tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("runs"), *ARIA)


@pytest.fixture(scope="module")
def plain_runs(ray_cluster, tmp_path_factory):
    """Two seeds of one recipe, without intentions."""
    output = tmp_path_factory.mktemp("runs")
    return [made_run(output, f"seed={seed}", f"name=plain-{seed}", updates=4) for seed in (0, 1)]


@pytest.fixture(scope="module")
def html(aria_run):
    return write_report([aria_run]).read_text(encoding="utf-8")


def data_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


# --- what a run keeps -----------------------------------------------------------------------------


def test_samples_hold_what_was_played_and_what_each_turn_was_given(aria_run):
    samples = read_run(aria_run).samples
    assert [each["update"] for each in samples] == [update for update in range(1, 7) for _ in range(8)]
    assert [each["number"] for each in samples[:8]] == list(range(0, BATCH, 3)), "evenly over the batch"
    assert {each["kind"] for each in samples} == {"advantage"} and samples[0]["space"] == 0 < samples[-1]["space"]
    first = batch(1, seed=0)[3]
    assert [(turn["seat"], turn["said"]) for turn in samples[1]["turns"]] == [
        (turn.seat, turn.utterance) for turn in first.turns
    ]
    last = [[t for t in samples[1]["turns"] if t["seat"] == seat][-1]["credit"] for seat in ("alice", "bob")]
    assert last == [first.outcome["alice"], first.outcome["bob"]], "before the first space, a turn's own return"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_run_keeps_samples_and_a_resumed_one_keeps_them_once(ray_cluster, parrot_model, tmp_path):
    from cluster.run.session import resume

    config = config_for(
        parrot_model, tmp_path, rollout={"engine": {"kind": "transformers"}}, samples={"updates": 2, "episodes": 2}
    )
    _, folder = run(config)
    kept = [(each["update"], each["number"]) for each in read_run(folder.path).samples]
    assert kept == [(2, 8), (2, 12)], "of every second update, and at most two games"
    shutil.rmtree(folder.path / "checkpoints" / "update-000003")
    folder.samples.write_text("".join(f"{json.dumps({'update': update})}\n" for update in (1, 2, 3)))
    with RunFolder.open(folder.path) as again:
        resume(config, again)
    assert [json.loads(line)["update"] for line in folder.samples.read_text().splitlines()] == [1, 2]
    assert len(metrics_of(folder)) == 3


def test_samples_are_bounded_however_long_the_run(tmp_path):
    for updates, wanted, every in ((1, 100, 1), (100, 100, 1), (101, 100, 2), (10_000, 100, 100), (3, 2, 2)):
        config = config_for(tmp_path, tmp_path, updates=updates, samples={"updates": wanted, "episodes": 1})
        samples = Samples(tmp_path / "samples.jsonl", config)
        assert samples.every == every and updates // samples.every <= wanted


# --- intentions -----------------------------------------------------------------------------------


def test_aggregated_rewards_of_three_games_by_hand():
    """Utterances 1 to 4 are codes 0 to 3, what is heard between them, a and b, codes 4 and 5."""
    game = ("twenty_questions", "guesser")
    played = [
        CodedGame(game, (0, 1, 2), (NOTHING, 4, 5), 1.0),
        CodedGame(game, (0, 1), (NOTHING, 4), 0.0),
        CodedGame(game, (0, 1, 2, 3), (NOTHING, 4, 5, 4), 1.0),
    ]
    said, worth = worth_of_turns(played, np.arange(6), 0.95)
    for code, expected in enumerate([0.586625, 0.6175, 0.975, 1.0]):
        assert worth[said == code] == pytest.approx(expected, abs=1e-12)


def test_the_map_has_every_utterance_once_and_loses_no_reward(aria_run):
    run_ = read_run(aria_run)
    meanings = Meanings.of_state(run_.intentions)
    found = intention_map(meanings, 0.95)
    said, returns = {}, []
    for update in range(1, 7):
        for episode in batch(update, seed=0):
            for seat in ("alice", "bob"):
                turns = episode.turns_of(seat)
                returns += [0.95 ** (len(turns) - t) * episode.outcome[seat] for t in range(1, len(turns) + 1)]
                for turn in turns:
                    said[turn.utterance] = said.get(turn.utterance, 0) + 1
    points = found["points"]
    assert sum(points["count"]) == found["turns"] == sum(said.values())
    assert len(set(points["text"])) == len(points["text"]) == found["distinct"]
    mean = np.average(points["worth"], weights=points["count"])
    assert mean == pytest.approx(np.mean(returns), abs=1e-4), "group means leave the mean as it was"
    ranked = found["intentions"]
    assert [each["worth"] for each in ranked] == sorted((each["worth"] for each in ranked), reverse=True)
    assert sum(each["turns"] for each in ranked) == found["turns"]
    assert {each["id"] for each in ranked} == set(points["intention"])
    assert all(0 <= value <= 1 for axis in "xy" for value in points[axis])


def test_shares_of_play_are_those_of_the_sampled_turns(aria_run):
    run_ = read_run(aria_run)
    labels = Meanings.of_state(run_.intentions).of_samples(run_.samples, embed)
    play = share_of_play(run_.samples, labels, 0.95)
    assert play["updates"] == [1, 2, 3, 4, 5, 6]
    assert play["turns"] == [
        sum(len(each["turns"]) for each in run_.samples if each["update"] == update) for update in range(1, 7)
    ]
    live = Followed.of(aria_run).intentions()
    assert live["play"] == play and live["map"] == intention_map(Meanings.of_state(run_.intentions), 0.95, POINTS)
    first = [turn for each in run_.samples if each["update"] == 1 for turn in each["turns"]]
    earned = [shares[0] * play["turns"][0] * (play["credit"][each][0] or 0) for each, shares in play["shares"].items()]
    assert sum(earned) == pytest.approx(sum(turn["credit"] for turn in first), abs=0.01), "no credit is lost"
    for number in range(6):
        assert sum(shares[number] for shares in play["shares"].values()) == pytest.approx(1.0, abs=1e-4)


def test_what_the_checkpoint_has_forgotten_is_embedded_again(aria_run):
    run_ = read_run(aria_run)
    meanings = Meanings.of_state(run_.intentions)
    whole = meanings.of_samples(run_.samples, embed)
    state = run_.intentions | {"gists": run_.intentions["gists"]}
    asked: list[str] = []
    few = Meanings(meanings.space, meanings.gists[:5], meanings.features[:5], meanings.labels[:5], [], 0)
    again = few.of_samples(run_.samples, lambda texts: asked.extend(texts) or embed(texts).astype(np.float16))
    assert {gist: again[gist] for gist in again} == {gist: whole[gist] for gist in again}
    assert len(set(asked)) == len(asked) == len(again) - 5 and state["space"]


def test_the_layout_is_the_same_again_and_needs_no_minimum(aria_run):
    meanings = Meanings.of_state(read_run(aria_run).intentions)
    weights = np.arange(1, len(meanings.features) + 1)
    first, second = (layout(meanings.features, weights) for _ in range(2))
    assert (first == second).all() and first.min() == 0 and first.max() == 1
    for size in (1, 2, 3):
        assert np.isfinite(layout(meanings.features[:size], np.ones(size))).all()


# --- games ----------------------------------------------------------------------------------------


def told(number: int, credits: list[float]) -> dict:
    turns = [{"seat": "guesser", "heard": "", "said": f"word {i}", "credit": value} for i, value in enumerate(credits)]
    return {
        "update": 1, "number": number, "game": "twenty_questions", "players": {"guesser": "policy"}, "kind": "reward",
        "outcome": {"guesser": credits[-1]}, "terminated": True, "facts": {}, "closing": {}, "turns": turns,
    }  # fmt: skip


def test_credit_of_rewards_is_the_return_less_the_mean_at_the_turn():
    found = games([told(0, [0.0, 1.0]), told(1, [0.0, 0.0])], gamma=0.5, labels=None)
    assert [[turn["credit"] for turn in game["turns"]] for game in found["games"]] == [[0.25, 0.5], [-0.25, -0.5]]


def test_a_page_takes_as_many_games_as_it_has_room_for():
    samples = [told(number, [0.0, 1.0]) for number in range(40)]
    all_of_them = games(samples, 0.5, None)
    some = games(samples, 0.5, None, room=len(json.dumps(all_of_them["games"])) // 4)
    assert len(all_of_them["games"]) == 40 and 5 <= len(some["games"]) <= 10 and some["sampled"] == 40
    assert some["games"][0]["number"] == 0 and some["games"][-1]["number"] > 30, "evenly"


# --- curves ---------------------------------------------------------------------------------------


@given(st.integers(0, 3 * MOST_UPDATES))
def test_a_long_curve_is_thinned_evenly_and_keeps_its_end(length):
    kept = thinned(list(range(length)))
    assert len(kept) <= MOST_UPDATES and kept[-1:] == list(range(length))[-1:]
    assert len({later - earlier for earlier, later in pairwise(kept)}) <= 1


def test_shared_reward_is_what_the_newest_update_recorded(aria_run):
    run_ = read_run(aria_run)
    last, found = run_.rows[-1], pooling(run_)
    assert found["variance_before"][-1] == pytest.approx(last["reward/intentions/variance_before"], rel=1e-4)
    assert found["variance_after"]["values"][-1] <= found["variance_before"][-1]
    assert found["turns"] == list(range(1, len(found["turns"]) + 1)) and found["window"] == 6 * BATCH
    assert found["alone"][0] == pytest.approx(last["reward/intentions/singletons_turn_1"], rel=1e-4)


# --- several runs ---------------------------------------------------------------------------------


def test_seeds_of_one_recipe_are_one_line_with_an_interval(plain_runs, aria_run):
    runs = [read_run(folder) for folder in (*plain_runs, aria_run)]
    shutil.copytree(plain_runs[0], copy := plain_runs[0].with_name("copy"), dirs_exist_ok=True)
    game = runs[2].config.game.model_copy(update={"name": "negotiation"})
    other = replace(runs[2], config=runs[2].config.model_copy(update={"game": game}))
    bargaining, negotiation = compared([*runs, read_run(copy), other])
    assert (bargaining["game"], negotiation["game"]) == ("bargaining", "negotiation"), "never in one chart"
    assert bargaining["copies"] == [("copy", runs[0].name)] and negotiation["differ"] == []
    assert "reward.shaper.kind" in [each["setting"] for each in bargaining["differ"]]
    plain, aria = bargaining["groups"]
    assert plain["runs"] == [run_.name for run_ in runs[:2]]
    assert "shaper=outcome" in plain["name"] and "shaper=aria" in aria["name"]
    rates = [run_.evaluated[-1]["evaluation/win_rate"] for run_ in runs[:2]]
    low, high = mean_interval(rates)
    last = plain["evaluations"][-1]
    assert last["mean"] == pytest.approx(sum(rates) / 2, rel=1e-4)
    assert (last["low"], last["high"]) == (pytest.approx(max(0, low), rel=1e-4), pytest.approx(min(1, high), rel=1e-4))
    alone = aria["evaluations"][-1]
    assert alone["low"] == pytest.approx(runs[2].evaluated[-1]["evaluation/win_low"], rel=1e-4), "Wilson's"
    taken = [1.5 * update for update in range(len(plain["along"]["updates"]))]
    assert plain["along"]["seconds"] == taken and plain["along"]["games"][-1] == 4 * BATCH
    assert aria["outcome"][0]["low"] is None, "one run says nothing of how seeds differ"


# --- the page -------------------------------------------------------------------------------------


def test_what_models_say_is_data_and_nothing_else(html):
    assert html.count("</script") == 2 and "<img" not in html and "<!--" not in html
    said = [turn["said"] for game in data_of(html)["runs"][0]["games"]["games"] for turn in game["turns"]]
    assert HOSTILE in said


def test_the_policy_of_the_page_knows_its_script_and_style_by_hash(html):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', html)[1]
    for kind, text in (
        ("script", re.search(r"<script>(.*)</script>", html, re.S)[1]),
        ("style", re.search(r"<style>(.*?)</style>", html, re.S)[1]),
    ):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert set(re.findall(r"https?://[^\s\"']+", html)) == {"http://www.w3.org/2000/svg"}


def test_a_title_cannot_leave_its_element(html):
    data = data_of(html) | {"title": HOSTILE}
    assert page(data).count("</script") == 2


def test_the_engine_is_the_one_that_plays_also_before_the_end(plain_runs, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(plain_runs[0], folder)

    def shown() -> str:
        return dict(settings(read_run(folder)))["engine"].partition(",")[0]

    assert shown() == "auto" and read_run(folder).summary == {}, "nobody has said"
    with RunFolder.open(folder) as opened:
        opened.write_engine("transformers")
        assert shown() == "transformers"
        assert read_run(folder).versions["packages"] == read_run(plain_runs[0]).versions["packages"]
        assert read_config(folder) == read_config(plain_runs[0]), "its digest is still asked for"
        opened.write_summary({"engine": "vllm"})
        assert shown() == "vllm"


def test_a_run_without_intentions_says_what_would_add_them(plain_runs):
    (told_,) = data_of(write_report(plain_runs[:1]).read_text(encoding="utf-8"))["runs"]
    assert told_["results"] is None and told_["pooling"] is None and told_["games"]["kind"] == "reward"
    assert told_["intentions"] == {
        "map": None,
        "play": None,
        "missing": "A run with reward.shaper=aria adds a map of what its utterances meant and were worth.",
    }


# --- what is wrong is one line --------------------------------------------------------------------


def test_the_command_makes_the_page_and_says_where(aria_run, tmp_path, capsys):
    target = tmp_path / "page.html"
    assert cli.main(["report", str(aria_run), "--output", str(target)]) == 0
    assert capsys.readouterr().out.startswith(f"report in {target}") and target.read_text().startswith(
        "<!doctype html>"
    )


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("metrics.jsonl", "", "has nothing to report yet: its metrics.jsonl holds no line"),
        ("metrics.jsonl", '{"update": 1}\n{"upd\n', "metrics.jsonl is damaged: line 2 is no update"),
        ("samples.jsonl", '{"update": 1}\n', "samples.jsonl is damaged: line 1 is no sampled game"),
        ("versions.json", "[]", "versions.json is damaged: it holds no JSON object"),
        ("config.yaml", "updates: [", "config.yaml"),
    ],
)
def test_a_damaged_folder_is_one_clear_line(plain_runs, tmp_path, capsys, file, text, said):
    folder = tmp_path / "run"
    shutil.copytree(plain_runs[0], folder, ignore=shutil.ignore_patterns("report.html"))
    (folder / file).write_text(text)
    assert cli.main(["report", str(folder)]) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith("parley: ") and error.count("\n") == 1 and said in error
    assert not (folder / "report.html").exists()


def test_a_run_is_read_where_neither_its_model_nor_its_game_is(tmp_path, plain_runs):
    folder = tmp_path / "moved"
    shutil.copytree(plain_runs[0], folder)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["model"]["path"], config["game"]["name"] = "/data/models/qwen", "my_games:Chess"
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "versions.json").write_text("{}")  # else its digest would be asked for
    assert read_run(folder).config.model.path == "/data/models/qwen"
    with pytest.raises(ConfigError, match="game.name"):
        read_config(folder)


def test_a_line_that_is_still_being_written_is_left_for_the_next_report(plain_runs, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(plain_runs[0], folder)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"update": 5, "rollout/out')
    assert read_run(folder).rows[-1]["update"] == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{run}", "{run}"], "is named twice"),
        (["{run}", "--output", "{run}/nowhere/page.html"], "there is no folder"),
        (["{run}/nowhere"], "no run folder at"),
        (["{run}/checkpoints"], "is no run folder: it holds no config.yaml"),
    ],
)
def test_a_wrong_command_is_one_clear_line(plain_runs, capsys, words, said):
    assert cli.main(["report", *(word.format(run=plain_runs[0]) for word in words)]) in (1, 2)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and said in error


def test_held_out_games_in_which_the_policy_said_nothing_are_shown_too(tmp_path):
    silent = [replace(game(1, number), held_out=True) for number in range(3)]
    for each in silent:
        for turn in each.episode.turns:
            turn.tokens = None
    EpisodeStore(tmp_path / "episodes", 2**30).write(1, 1, table_of(silent))
    assert [each["number"] for each in held_out(tmp_path / "episodes")] == [0, 1, 2]


def test_runs_of_unequal_length_are_compared_along_the_updates_that_both_have():
    """Each alone would be thinned to updates of its own."""
    lengths = 2 * MOST_UPDATES + 1, 2 * MOST_UPDATES + 3
    runs = [
        SimpleNamespace(rows=[{"update": at} | dict.fromkeys(TAKEN.values(), 2.0) for at in range(n)]) for n in lengths
    ]
    found = _along(runs)
    assert len(found["updates"]) > MOST_UPDATES / 2 and found["updates"][-1] == lengths[0] - 1
    assert found["games"] == [2 * (at + 1) for at in found["updates"]]
