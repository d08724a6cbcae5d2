"""`parley watch` without a browser: what the server tells, whom it tells it, and the rules of advice."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from cluster.commands.cli import main
from cluster.episodes.columns import PLAIN, table_of
from cluster.episodes.store import EpisodeStore
from cluster.recipe.fields import dotted_keys
from cluster.recipe.reading import load_recipe
from cluster.record.now import Now
from cluster.record.run_folder import RunFolder
from cluster.record.statistics import mean_interval
from cluster.report.held_out import HELD_OUT, held_out
from cluster.report.results import interval
from cluster.watch.advice import RULES, advice
from cluster.watch.app import application, changes
from cluster.watch.demo import unpacked
from cluster.watch.followed import Followed
from cluster.watch.lanes import BINS, lanes
from cluster.watch.server import bound
from tests.support.watched import HOSTILE, at_work, game, learned, made_run

NAMES = ("testserver", "127.0.0.1")
CALM = {"rollout/outcome": 0.5, "rollout/episodes": 100.0, "seconds/update": 10.0, "learner/entropy": 1.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = made_run(tmp_path_factory.mktemp("runs"))
    for update in (1, 2, 3):
        learned(folder, update)
    return folder


@pytest.fixture
def client(run):
    return TestClient(application([Followed.of(run)], None, NAMES))


def test_figures_are_those_of_the_folder(client):
    told = client.get("/runs/0").json()
    assert (told["game"], told["state"], told["headline"]["updates"]) == ("twenty_questions", "killed", 3)
    assert told["curves"]["outcome"] == pytest.approx([0.1, 0.2, 0.3])
    assert told["lanes"]["updates"][0] == [1, [["collect", 0, 1], ["learn", 1, 3], ["sync", 3, 3.5]]]
    assert [each["worker"] for each in told["lanes"]["workers"]] == [0, 1]


def test_a_worker_s_lane_counts_its_games_by_the_seconds_that_they_took(run):
    """Two games of each update are its own, each of two seconds in an update of four."""
    found = lanes(
        [{"update": n, "time": 1000.0 + 4 * n, "seconds/update": 4.0} for n in (1, 2, 3)], Followed.of(run).kept()
    )
    assert found["seconds"] == 12
    for lane in found["workers"]:
        assert sum(lane["games"]) * 12 / BINS == pytest.approx(3 * 2 * 2, rel=0.01) and max(lane["games"]) == 2


def test_games_are_found_sorted_and_sent_in_parts(client):
    told = client.get("/runs/0/games", params={"by": "-turns", "count": 5}).json()
    turns = [row[told["columns"].index("turns")] for row in told["rows"]]
    assert told["total"] == 12 and turns == [3, 3, 3, 3, 2]
    rest = client.get("/runs/0/games", params={"by": "-turns", "skip": 5, "count": 100}).json()
    assert len(rest["rows"]) == 7
    found = client.get("/runs/0/games", params={"where": "outcome >= 1 and text('thing like 5')"}).json()
    assert [row[found["columns"].index("number")] for row in found["rows"]] == [5]


def test_a_report_shows_games_of_the_first_and_the_newest_evaluation(tmp_path):
    folder = made_run(tmp_path)
    assert held_out(folder / "episodes") == []
    for update in (0, 2, 4):
        played = [replace(game(update + 1, 20 * update + n), held_out=True, update=update) for n in range(20)]
        EpisodeStore(folder / "episodes", 2**30).write(update, update, table_of(played))
    shown = held_out(folder / "episodes")
    assert [each["update"] for each in shown] == [0] * HELD_OUT + [4] * HELD_OUT
    assert shown[-1]["turns"][0]["said"] == HOSTILE and shown[-1]["turns"][0]["executable"] is False
    assert shown[-1]["outcome"] == {"guesser": 1.0} and shown[-1]["facts"] == {"secret": "elephant"}


def test_all_games_that_fit_a_condition_can_be_taken_away(client):
    answer = client.get("/runs/0/games.csv", params={"where": "outcome >= 1"})
    head, *rows = csv.reader(answer.text.splitlines())
    assert head == list(PLAIN) and len(rows) == 6 and {row[head.index("outcome")] for row in rows} == {"1"}


def test_a_folder_may_be_named_in_any_language(run, tmp_path):
    named = shutil.copytree(run, tmp_path / '実験 "1"')
    answer = TestClient(application([Followed.of(named)], None, NAMES)).get("/runs/0/games.csv")
    assert answer.headers["content-disposition"].endswith("UTF-8''%E5%AE%9F%E9%A8%93%20%221%22.csv")


def test_runs_are_compared_by_recipe_while_they_go_on_and_those_before_their_first_line_are_left_out(tmp_path):
    runs = [Followed.of(made_run(tmp_path, name, f"seed={seed}")) for seed, name in enumerate(("a", "b", "c"))]
    client = TestClient(application(runs, None, NAMES))
    for run, level in zip(runs[:2], (0.0, 0.2), strict=True):
        learned(run.folder, 1, **{"time": level, "rollout/outcome": level})
    (found,) = client.get("/compared").json()
    (group,) = found["groups"]
    assert group["runs"] == [run.name for run in runs[:2]] and group["outcome"][0]["mean"] == pytest.approx(0.1)
    learned(runs[2].folder, 1, **{"time": 5.0, "rollout/outcome": 0.4})
    ((group,),) = [each["groups"] for each in client.get("/compared").json()]
    low, high = mean_interval([0.0, 0.2, 0.4])
    last = group["outcome"][-1]
    assert (last["mean"], last["low"], last["high"]) == (
        pytest.approx(0.2), pytest.approx(max(0, low)), pytest.approx(high, rel=1e-4)
    )  # fmt: skip


def test_a_game_is_sent_whole(client):
    game = client.get("/runs/0/game", params={"update": 2, "number": 9, "attempt": 0, "held_out": "false"}).json()
    turn = game["dialogue"][0]
    assert (game["number"], game["facts"], len(turn["utterance_ids"])) == (9, {"secret": "elephant"}, 3)
    assert turn["logprobs"] == [-0.5, -1.0, -2.0] and turn["credit"] == [-0.75] * 3 and turn["versions"] == [1] * 3


def test_what_is_lost_is_counted_from_all_games_and_anew_when_there_are_more(tmp_path):
    followed = Followed.of(made_run(tmp_path))
    assert followed.results() is None
    for update in (1, 2, 3, 4):
        learned(followed.folder, update, games=6)
        told = followed.results()
    turns = [turn for game in followed.kept("update == 4") for turn in game["dialogue"]]
    over = told["over"]["training"]
    assert (told["games"], over["updates"]) == (24, [1, 2, 3, 4])
    assert over["not_understood"][3] == pytest.approx(sum(not turn["executable"] for turn in turns) / len(turns), 1e-4)
    assert over["tokens"] == [3.0] * 4 and over["seats"] == {"guesser": [0.5] * 4}
    (by_secret,) = told["groups"]["training"]  # there is one seat, one game and no opponent
    assert (by_secret["kind"], by_secret["from"]) == ("secret", 3)
    rows = [(row["value"], row["cases"], row["before"], row["now"]) for row in by_secret["rows"]]
    assert rows == [("teapot", 12, 0.0, 0.0), ("elephant", 12, 1.0, 1.0)]
    low, high = mean_interval([0.2, 0.6, 0.7, 0.5])
    assert interval(4, 2.0, 1.14) == (pytest.approx(low), pytest.approx(high)) and told["groups"]["held_out"] == []


def test_games_that_a_resumed_run_plays_again_are_counted_again(tmp_path):
    followed = Followed.of(made_run(tmp_path))
    for update in (1, 2):
        learned(followed.folder, update, games=6)
    assert followed.results()["games"] == 12
    EpisodeStore(followed.episodes, 2**30).cut_back(1)
    learned(followed.folder, 2, games=4)
    assert followed.results()["games"] == 10


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("/runs/0/games?where=outcomes<1", "outcomes is no column, did you mean outcome?"),
        ("/runs/0/games?by=dialogue", "no column 'dialogue'"),
        ("/runs/0/games?count=5000", "at most 500"),
        ("/runs/0/games?skip=-1", "skip='-1' must be a whole number"),
        ("/runs/0/game?update=1&number=99&attempt=0", "there is no such game"),
        ("/runs/0/game?update=x&number=1&attempt=0", "update='x' must be a whole number"),
        ("/runs/0/games?where=outcome==4611686018427387905", "cannot be looked for: Integer value 4611686018427387905"),
        ("/runs/0/games?where=text('%5Cud83d')", "cannot be looked for: 'utf-8' codec can't encode"),
        ("/runs/7", "there is no run 7; 1 are watched"),
    ],
)
def test_a_wrong_question_is_one_line(client, asked, said):
    answer = client.get(asked)
    assert said in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_two_evaluations_that_end_within_one_update_are_told_apart(tmp_path):
    """Beside training that of the weights before ends within an update, and the last one too."""
    folder = made_run(tmp_path)
    learned(folder, 1)
    store = EpisodeStore(folder / "episodes", 2**30)
    found = [replace(game(version, number), held_out=True, update=3) for version in (2, 3) for number in range(2)]
    for place, each in enumerate(found):
        each.episode.outcome["guesser"] = float(place >= 2)
    store.write(3, 3, table_of(found))
    assert [each["outcome"]["guesser"] for each in held_out(folder / "episodes")] == [0.0, 0.0, 1.0, 1.0]
    over = Followed.of(folder).results()["over"]["held_out"]
    assert (over["updates"], over["seats"]) == ([1, 2], {"guesser": [0.0, 1.0]})
    client = TestClient(application([Followed.of(folder)], None, NAMES))
    rows = client.get("/runs/0/games", params={"where": "held_out == True", "by": "-outcome"}).json()
    for row in rows["rows"]:
        at = dict(zip([*rows["columns"], "newest"], row, strict=True))
        key = {name: at[name] for name in ("update", "number", "attempt", "newest")} | {"held_out": "true"}
        assert client.get("/runs/0/game", params=key).json()["outcome"] == at["outcome"] == at["newest"] - 1


def test_a_run_before_its_first_update_and_one_without_a_store_say_so(tmp_path):
    empty = TestClient(application([Followed.of(made_run(tmp_path))], None, NAMES))
    assert "nothing to report yet" in empty.get("/runs/0").json()["nothing"]
    assert "keeps no games" in empty.get("/runs/0/games").json()["error"]


def test_nobody_without_the_token_sees_anything(run):
    client = TestClient(application([Followed.of(run)], "sesame", ["*"]), follow_redirects=False)
    for path in ("/", "/runs", "/runs/0", "/events", "/?token=", "/?token=wrong"):
        assert client.get(path).status_code == 401
    entered = client.get("/?token=sesame")
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert "HttpOnly" in entered.headers["set-cookie"] and client.get("/runs").status_code == 200
    other = TestClient(application([Followed.of(run)], "other", ["*"]), "http://testserver:99", follow_redirects=False)
    assert not set(other.get("/?token=other").cookies) & set(entered.cookies), "two ports of a host share no cookie"


def test_a_page_of_somebody_else_cannot_ask_under_a_name_of_its_own(client):
    assert client.get("/runs", headers={"host": "evil.example"}).status_code == 400


def test_the_page_may_run_its_own_scripts_and_ask_its_own_server_alone(client):
    page = client.get("/").text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy


def test_an_event_says_what_has_changed(tmp_path):
    folder = made_run(tmp_path)

    async def told():
        events = changes([Followed.of(folder)])

        async def heard():
            async for event in events:
                if event.startswith("data"):
                    return json.loads(event.removeprefix("data: "))

        first = await heard()
        at_work(folder, os.getpid(), 0, "collect")
        second = await heard()
        learned(folder, 1)
        return first, second, await heard()

    first, second, third = asyncio.run(asyncio.wait_for(told(), 20))
    assert first["changed"] == ["figures", "games", "intentions", "now"]
    assert (second["changed"], second["state"], second["now"]["stage"]) == (["now"], "running", "collect")
    assert third["changed"] == ["figures", "games"]


# --- advice ---------------------------------------------------------------------------------------


def rows(count: int = 12, **last: float) -> list[dict[str, float]]:
    return [CALM | {"update": n} | last for n in range(1, count + 1)]


DIFFER = rows(**{"learner/logprob_gap_warned": 1.0, "learner/logprob_gap_mean": 0.2})
ADVISED = {
    "waits_for_games": rows(**{"seconds/collect": 6.0}),
    "waits_for_rewards": rows(**{"seconds/shape": 3.0}),
    "syncs_and_saves": rows(**{"seconds/checkpoint": 3.0}),
    "no_signal": rows(**{"rollout/groups_without_spread": 0.7}),
    "entropy_fell": [row | {"learner/entropy": 0.5 ** row["update"]} for row in rows()],
    "engines_differ": [row | {"learner/logprob_gap_mean": None} for row in DIFFER[:5]] + DIFFER[5:],  # null: NaN
    "bad_steps": rows(**{"learner/bad_steps": 1.0}),
    "failing": [row | {"failures/timeout": 30.0 * row["update"]} for row in rows()],
    "cut_off": rows(**{"rollout/cut_off": 0.5}),
}


@pytest.mark.parametrize("rule", [rule.__name__ for rule in RULES])
def test_each_rule_speaks_of_its_own_trouble_alone_and_names_settings_that_exist(rule):
    (said,) = advice(ADVISED[rule])
    assert re.search(r"\d", said), "the figure that it rests on"
    known = {*dotted_keys(), "parley.log", "learner.loss.kl", "learner.mask_cut_off"}
    assert set(re.findall(r"\b(?:[a-z_]+\.)+[a-z_]+\b", said)) <= known


def test_a_run_that_goes_well_or_has_hardly_begun_gets_no_advice():
    assert advice(rows()) == [] and advice(ADVISED["cut_off"][:2]) == []
    evaluated = [row | ({"seconds/evaluate": 8.0} if row["update"] == 10 else {}) for row in rows()]
    assert advice(evaluated) == [], "a stage of one update in ten takes no share of the others"


# --- commands -------------------------------------------------------------------------------------


def test_a_run_is_running_from_its_start_until_it_has_said_how_it_ended(tmp_path):
    (tmp_path / "config.yaml").write_text("game: {name: parrot}\n")
    run = Followed.of(tmp_path)
    assert run.state() == "killed"
    Now(tmp_path / "now.json").starting(0)
    assert run.state() == "running"
    for end, state in ((None, "running"), ({"how": "failed"}, "failed")):
        (tmp_path / "summary.json").write_text(json.dumps({"updates": 3, "end": end}))
        assert run.state() == state
    Now(tmp_path / "now.json").ended()
    assert run.state() == "failed"
    (tmp_path / "summary.json").write_text(json.dumps({"end": None}))
    assert run.state() == "killed", "it went on, and nobody was left to say how it ended"
    (tmp_path / "summary.json").write_text(json.dumps({"updates": 3}))
    assert run.state() == "finished", "as earlier versions told it"


@pytest.mark.parametrize(
    ("host", "process", "age", "state"),
    [
        ("node7", 2**22 + 1, 0, "running on node7"),
        ("node7", 1, 10**6, "silent on node7"),
        (None, None, 0, "running"),
        (None, 1, 10**6, "silent"),
        (None, 2**22 + 1, 0, "killed"),
    ],
)
def test_a_run_on_another_host_is_judged_by_its_signs_of_life(tmp_path, host, process, age, state):
    """None: this host, this process."""
    (tmp_path / "config.yaml").write_text("game: {name: parrot}\n")
    now, who = tmp_path / "now.json", {"process": process or os.getpid(), "host": host or socket.gethostname()}
    now.write_text(json.dumps({"update": 3, "stage": "learn", "since": 1.0} | who))
    os.utime(now, (time.time() - age,) * 2)
    assert Followed.of(tmp_path).state() == state


def test_whatever_works_in_a_run_folder_is_running(tmp_path, monkeypatch):
    """An evaluation, an offline run, and one stage of that."""
    config = load_recipe("recipes/offline/tiny_bargaining.yaml", [f"output={tmp_path}"])
    with RunFolder.create(config) as folder:
        run = Followed.of(folder.path)
        with folder.telling_its_end():
            assert run.state() == "running"
        assert run.state() == "finished"
    (folder.path / "summary.json").unlink()
    seen = []
    work = SimpleNamespace(run_stage=lambda *_: seen.append(run.state()))
    monkeypatch.setattr("cluster.commands.offline._pipeline", lambda: work)
    assert main(["offline", "choose", str(folder.path)]) == 0 and seen == ["running"]


def test_runs_lists_them_and_what_cannot_be_read(run, capsys):
    broken = run.parent / "broken"
    broken.mkdir()
    (broken / "config.yaml").write_text("game: {name: parrot}\n")
    (broken / "metrics.jsonl").write_text("{\n")
    assert main(["runs", str(run.parent), "--json"]) == 0
    bad, good = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (bad["name"], bad["state"]) == ("broken", "unreadable") and "metrics.jsonl is damaged" in bad["why"]
    assert (good["game"], good["state"], good["update"], good["of"]) == ("twenty_questions", "killed", 3, 9)
    assert main(["runs", str(run.parent)]) == 0
    titles, told_of, whole = capsys.readouterr().out.splitlines()
    assert titles.split() == ["name", "game", "state", "update", "of", "score", "first", "update"]
    assert run.name in whole and told_of.endswith(bad["why"]) and len(whole) < len(told_of)
    assert main(["runs", str(run.parent / "elsewhere")]) == 2


def test_the_demo_is_a_finished_run_that_learned_and_goes_when_nobody_looks(run, capsys):
    with unpacked() as folder:
        followed = Followed.of(folder)
        figures, results = followed.figures(), followed.results()
        assert (figures["state"], results["over"]["held_out"]["updates"][0]) == ("finished", 0)
        assert figures["headline"]["after"]["rate"] > figures["headline"]["before"]["high"]
        assert "output: runs\n" in (folder / "config.yaml").read_text(), "no place of the machine's"
    assert not folder.exists() and (files("cluster.watch") / "demo.tar.xz").stat().st_size < 150_000
    for words in (["watch"], ["watch", "--demo", str(run)]):
        assert main(words) == 2 and "or --demo alone" in capsys.readouterr().err


SLOW = """
import contextlib, sys, time
from pathlib import Path
from cluster.watch.followed import Followed
from cluster.watch.server import serve
Followed.figures = lambda run: print("asked", flush=True) or time.sleep(5)
with contextlib.suppress(KeyboardInterrupt):
    serve([Followed.of(Path(sys.argv[1]))], "127.0.0.1", 0, True, say=lambda text: print(text, flush=True))
"""


def test_ctrl_c_while_something_is_worked_out_is_no_error(run):
    command = [sys.executable, "-c", SLOW, str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            where = urlsplit(process.stdout.readline().split(": ", 1)[1].split(" ")[0])
            with socket.create_connection((where.hostname, where.port), 30) as asking:
                asking.sendall(f"GET /runs/0 HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
                assert process.stdout.readline() == "asked\n"
                process.send_signal(signal.SIGINT)
                _, complaints = process.communicate(timeout=30)
            assert complaints == ""
        finally:
            process.kill()


def test_a_port_that_is_taken_is_one_line(run, capsys):
    with bound("127.0.0.1", 0) as taken:
        taken.listen()
        assert main(["watch", str(run), "--port", str(taken.getsockname()[1])]) == 2
    assert "choose another with --port" in capsys.readouterr().err
