"""`make gpu-check`, tried on the CPU: whatever a check does is a line; each check sees what it is there to see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch

from actors.engines.transformers_engine import TransformersEngine
from benchmarks.games import demo
from benchmarks.gpu import __main__ as command
from benchmarks.gpu import card, packs, player, updates
from benchmarks.gpu import demo as run_demo
from benchmarks.gpu.bench import FAIL, FIGURE, NOT_CHECKED, OK, Bench, Check, Line, read
from benchmarks.gpu.checks import CHECKS
from benchmarks.gpu.made_up import behind, random_model, trajectories
from benchmarks.gpu.page import counts, report
from benchmarks.gpu.runner import Result, run
from learners.embedded.build import build_policy
from learners.model import attention
from learners.optimiser import make_optimiser
from learners.settings import EmbeddedSettings

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
MISSING = ("ray", "deepspeed", "vllm", "hdbscan", "sentence_transformers", "sklearn")


def trouble(name: str, seconds: float = 30.0, packages: tuple[str, ...] = ()) -> Check:
    return Check(name, "nothing", packages, seconds, function=f"tests.support.gpu_trouble:{name}")


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench("cpu", tmp_path / "lines")


def of(bench: Bench, part: str) -> list[str]:
    """The statuses of the lines that speak of it."""
    return [line.status for line in read(bench.lines) if part in line.what]


def runs(process: int) -> bool:
    return psutil.pid_exists(process) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE


# the runner


def test_a_crash_is_a_line_after_those_before_it(tmp_path):
    result = run(trouble("crash"), "cpu", 60, tmp_path)
    assert "the last words" in (tmp_path / "crash.log").read_text()
    assert result.lines == [Line(OK, "before"), Line(FAIL, "crash", "ended by SIGABRT; the last words")]


@pytest.mark.parametrize("name", ["hang", "leave"])
def test_nothing_that_a_check_started_outlives_it(name):
    began = time.monotonic()
    result = run(trouble(name, seconds=2.0), "cpu", 60)
    assert time.monotonic() - began < 60
    assert not runs(int(result.lines[0].found))
    assert result.lines[1:] == ([Line(FAIL, "hang", "not done after 8 s")] if name == "hang" else [])


def test_a_part_that_breaks_is_a_line_and_the_next_is_looked_at():
    assert run(trouble("half"), "cpu", 60).lines == [
        Line(FAIL, "a part", "ValueError: of no use"),
        Line(OK, "small", "1 (limit 2)"),
        Line(FAIL, "not a number", "nan (limit 2)"),
    ]
    assert [line.status for line in run(trouble("silent"), "cpu", 60).lines] == [FAIL]


def test_what_cannot_be_checked_is_said_and_not_begun():
    assert run(trouble("crash", packages=("torch", "not_there")), "cpu", 60).lines == [
        Line(NOT_CHECKED, "nothing", "not_there is not installed")
    ]
    assert run(trouble("crash"), "cpu", 1.0).lines[0].status == NOT_CHECKED


def test_all_limits_together_are_less_than_that_of_the_command():
    assert sum(check.seconds for check in CHECKS) < 60 * command.MINUTES


@pytest.mark.parametrize(("name", "code"), [("leave", 1), ("half", 1), ("fine", 0)])
def test_the_exit_code_is_0_only_if_something_holds_and_nothing_fails(name, code, monkeypatch, tmp_path, capsys):
    lines = {"leave": [FIGURE], "half": [OK, FAIL], "fine": [OK, NOT_CHECKED]}[name]
    result = Result(trouble("silent"), [Line(status, "a | b", "c") for status in lines], 1.0)
    monkeypatch.setattr(command, "run", lambda *_: result)
    monkeypatch.setattr(command, "CHECKS", CHECKS[:1])
    monkeypatch.setattr(sys, "argv", ["gpu-check", "--device", "cpu", "--report", str(tmp_path / "made" / "r.md")])
    assert command.main() == code
    written = (tmp_path / "made" / "r.md").read_text()
    assert all(f"| {status} | a \\| b | c |" in written for status in lines)
    assert "says nothing of a card" in written


def test_a_report_that_cannot_be_written_is_said_first(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sys, "argv", ["gpu-check", "--device", "cpu", "--report", str(tmp_path / "file" / "r.md")])
    assert command.main() == 2
    assert "give --report" in capsys.readouterr().err


def test_a_report_counts_what_it_lists():
    results = [Result(CHECKS[0], [Line(OK, "a"), Line(FAIL, "b")], 1.0), Result(CHECKS[1], [Line(OK, "c")], 1.0)]
    assert counts(results) == {OK: 2, FAIL: 1, FIGURE: 0, NOT_CHECKED: 0}
    assert "**2 ok, 1 failed, 0 not checked.**" in report(results, "cuda", 3.0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_without_a_card_one_line_fails_and_the_rest_is_not_checked():
    first, last = (replace(check, seconds=120) for check in CHECKS if check.name in ("card", "demo"))
    assert [(line.status, line.what) for line in run(first, "cuda", 120).lines] == [(FAIL, "a card that torch sees")]
    assert run(last, "cuda", 120).lines == [Line(NOT_CHECKED, "demo", "torch sees no card")]


# on torch and transformers alone


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[str, str]:
    """The environment of a Python in which these packages are not there."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({MISSING!r}))\n")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def test_without_ray_the_command_says_what_it_cannot_check(alone, tmp_path):
    asked = [sys.executable, "-m", "benchmarks.gpu", "card", "zero", "rollout", "demo", "--device", "cpu"]
    done = subprocess.run(
        [*asked, "--report", tmp_path / "r.md"], cwd=ROOT, env=alone, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = (tmp_path / "r.md").read_text()
    assert written.count("ray is not installed") == 2
    assert written.count("vllm is not installed") == 1
    assert "0 failed, 3 not checked" in done.stdout


@pytest.mark.long
def test_the_checks_of_torch_alone_hold_on_a_cpu(alone, tmp_path):
    names = [check.name for check in CHECKS if not check.card and not {"ray", "vllm"} & set(check.packages)]
    assert names == ["card", "packs", "updates", "player", "speed"]
    lines = tmp_path / "lines"
    each = "".join(f"main('benchmarks.gpu.{name}:check', 'cpu', {str(lines)!r})\n" for name in names)
    code = "from benchmarks.gpu.child import main\n" + each
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=alone, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    said = read(lines)
    assert [line for line in said if line.status == FAIL] == []
    assert sum(line.status == OK for line in said) > 40


# each check sees what it is there to see


def test_the_limit_of_products_lies_between_float32_and_tf32():
    torch.manual_seed(0)
    left, right = torch.randn(256, 256), torch.randn(256, 256)
    short = [(tensor.view(torch.int32) & ~0x1FFF).view(torch.float32) for tensor in (left, right)]
    exact = left.double() @ right.double()
    error = float(((short[0] @ short[1]).double() - exact).abs().max() / exact.abs().max())
    assert card.product_error("cpu", torch.float32, 256) < card.LIMITS[torch.float32] < error / 10


def test_sequences_that_see_each_other_fail(bench, monkeypatch):
    whole = attention.layout
    monkeypatch.setattr(attention, "layout", lambda lengths, *rest, **_: whole(lengths.sum(keepdims=True), *rest))
    packs.of_family(bench, CPU, "qwen3")
    assert of(bench, "qwen3, float32") == [FAIL]


@pytest.mark.parametrize("sees", [True, False])
def test_games_that_do_not_see_their_opening_fail(bench, monkeypatch, sees):
    if not sees:
        monkeypatch.setattr(attention, "segments_seen", lambda *_: [])
    batch = [behind(packs.OPENING, each) for each in trajectories(6, 4)]
    packs.of_openings(bench, random_model(bench.folder), batch, CPU)
    assert of(bench, "openings") == ([OK, OK] if sees else [FAIL, FAIL])


def test_weights_that_go_elsewhere_fail(bench, monkeypatch):
    def other_at_first(parameters, learner):
        made.append(make_optimiser(parameters, learner))
        made[-1].param_groups[0]["eps"] = 1e-8 if len(made) > 1 else 1e-5
        return made[-1]

    made: list = []
    monkeypatch.setattr(updates, "make_optimiser", other_at_first)
    monkeypatch.setattr(updates, "METHODS", {"policy gradient": {}})
    updates.check(bench)
    assert of(bench, "policy gradient")[0] == FAIL


def test_keys_and_values_of_older_weights_fail(bench, monkeypatch):
    monkeypatch.setattr(TransformersEngine, "forget", lambda self: None)
    config = demo(*player.PLAIN)
    paths = [build_policy(config.game, EmbeddedSettings(steps=0, seed=seed), cache=bench.folder) for seed in (0, 1)]
    player.updated(bench, config, *paths)
    assert of(bench, "after a weight update") == [FAIL]
    assert of(bench, "every token knows") == [OK]


def test_what_a_run_said_before_its_time_was_over_is_in_the_log(bench, tmp_path, monkeypatch, capfd):
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "__init__.py").touch()
    (tmp_path / "cluster" / "__main__.py").write_text("import time\nprint('the plan', flush=True)\ntime.sleep(60)\n")
    monkeypatch.setattr(run_demo, "ROOT", tmp_path)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="it did not end within 4 s: the plan"):
        run_demo.train(bench, ("recipes/demo.yaml",), seconds=1.0)
    assert time.monotonic() - began < 30
    assert "the plan" in capfd.readouterr().err


def test_a_demo_that_unlearns_fails(bench, tmp_path):
    for after, status in ((0.1, FAIL), (0.2, OK)):
        summary = {
            "win_rate_before": 0.3,
            "win_rate_before_interval": [0.2, 0.4],
            "win_rate_after": after,
            "win_rate_after_interval": [after - 0.05, after + 0.05],
            "held_out_games": 128,
        }
        (tmp_path / "summary.json").write_text(json.dumps(summary))
        line = {"learner/applied": 1.0, "learner/logprob_gap_mean": 1e-6, "sync/tensors": 27} | dict.fromkeys(
            ("seconds/update", "seconds/learn", "seconds/sync"), 1.0
        )
        lines = [json.dumps({"update": update, **line}) for update in range(1, run_demo.UPDATES + 1)]
        (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
        run_demo.judge(bench, f"{after}", tmp_path, "CPU build, 1 node")
        assert of(bench, f"{after}: it does not unlearn") == [status]
        assert of(bench, f"{after}: the run ends well") == [OK]
