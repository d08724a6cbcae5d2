"""The command line as a person meets it: subprocesses for what must hold of a fresh process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from rich.console import Console

from actors.serving import Serving
from actors.settings import EngineSettings
from cluster.api import evaluated
from cluster.commands import cli
from cluster.commands.serve_model import _told
from cluster.errors import shortened
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record.checkpoints import CheckpointStore
from cluster.record.run_folder import RunFolder
from cluster.record.terminal import Show, sparkline
from cluster.run import session

ROOT = Path(__file__).parents[2]
DEMO = str(ROOT / "recipes" / "demo.yaml")


def parley(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "cluster", *arguments],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("arguments", [["train", DEMO, "--dry-run"], ["train", DEMO, "rollout.workrs=2"], ["games"]])
def test_nothing_heavy_is_imported_before_it_is_needed(arguments):
    program = f"""
        import sys
        from cluster.commands.cli import main
        code = main({arguments!r})
        heavy = sorted({{"torch", "vllm", "ray", "transformers", "deepspeed"}} & set(sys.modules))
        print("HEAVY", code, heavy, file=sys.stderr)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stderr.splitlines()[-1] == f"HEAVY {2 if 'rollout.workrs=2' in arguments else 0} []"


def test_a_mistake_is_one_line_on_stderr_and_exit_code_2():
    done = parley("train", DEMO, "learner.zero=5")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "parley: command line: learner.zero: 5 is not one of 0, 1, 2, 3\n"


def test_debug_shows_the_traceback():
    done = parley("train", DEMO, "learner.zero=5", PARLEY_DEBUG="1")
    assert done.returncode != 0
    assert "Traceback" in done.stderr and "learner.zero: 5 is not one of" in done.stderr


def test_a_dry_run_prints_a_recipe_and_the_placement_and_makes_no_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    overrides = ["rollout.workers=2", "learner.ranks=2", "learner.zero=3", "learner.cpus_per_rank=1.5"]
    assert cli.main(["train", DEMO, overrides[0], "--dry-run", "--machine", "2x4x80", *overrides[1:]]) == 0
    printed = capsys.readouterr().out
    assert RunConfig(**yaml.safe_load(printed)) == load_recipe(DEMO, overrides)
    plan = dict(line[2:].split("  ", 1) for line in printed.splitlines() if line.startswith("# ") and "  " in line)
    assert {name: plan[name].strip() for name in ("machine", "learner", "engine", "weights go by", "cards")} == {
        "machine": "CUDA build, 2 nodes x 4 cards of 80 GiB",
        "learner": "2 ranks on 1 GPU and 1.5 CPU, bfloat16, sdpa, ZeRO-3, all weights",
        "engine": "2 workers on 1 GPU and 1 CPU, bfloat16, vllm",
        "weights go by": "nccl",
        "cards": "0: rank 0   1: rank 1   6: worker 0   7: worker 1",
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("typed", "meant"), [("trian", "train"), ("evalute", "evaluate"), ("serve_model", "serve-model")]
)
def test_a_command_that_is_nearly_one(typed, meant, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([typed, "demo"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith(f"there is no command {typed!r}; did you mean {meant}?\n")


def test_help_of_every_command_reads(capsys):
    for command in ("", "train", "resume", "evaluate", "doctor", "games", "config", "version"):
        with pytest.raises(SystemExit) as stop:
            cli.main([*command.split(), "--help"])
        assert stop.value.code == 0
        text = capsys.readouterr().out
        assert f"usage: parley {command}".strip() in text
        assert max(map(len, text.splitlines())) < 400


def test_config_lists_settings_with_their_meaning(capsys):
    assert cli.main(["config", "learner.credit"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "learner.credit.gamma = 1.0" in lines and "    discount between turns" in lines
    assert not any(line.startswith("rollout") for line in lines)
    assert cli.main(["config", "learner.credi.gamma"]) == 2
    assert "did you mean learner.credit.gamma?" in capsys.readouterr().err


@pytest.fixture
def finished_run(tmp_path) -> Path:
    """A run folder with a checkpoint at update 4, made without training."""
    with RunFolder.create(load_recipe(None, [f"output={tmp_path}", "updates=4"])) as folder:

        def write(path: Path) -> None:
            (path / "policy").mkdir()
            (path / "policy" / "config.json").write_text("{}")

        CheckpointStore(folder.checkpoints, keep=2).save(4, write)
    return folder.path


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["resume", "{run}", "seed=3"], 2, "resume cannot change 'seed'"),
        (["resume", "{run}", "updates=3"], 2, "updates=3, but {run} is already at update 4"),
        (["resume", "{run}", "updates=3", "--keep-going"], 2, "updates=3, but {run} is already at update 4"),
        (["resume", "{run}/nowhere"], 2, "no run folder at '{run}/nowhere'"),
        (["resume", "{run}/checkpoints"], 2, "is no run folder: it holds no config.yaml"),
        (["evaluate", "{run}x"], 2, "no run folder at '{run}x'; did you mean {run}?"),
        (["serve-model", "runs/typo"], 2, "no run folder at 'runs/typo'"),
        (["evaluate", "{run}", "--checkpoint", "7"], 2, "no complete checkpoint '7'; it has: update-000004"),
        (["evaluate", "{run}", "--recipe", "x.yaml"], 2, "--recipe is for evaluating a model"),
        (["evaluate", "{run}/checkpoints/update-000004/nowhere"], 2, "model.path: no model folder at"),
        (["evaluate", "embedded", "--checkpoint", "best"], 2, "--checkpoint chooses among a run's checkpoints"),
    ],
)
def test_resume_and_evaluate_refuse_what_cannot_be(finished_run, capsys, arguments, code, line):
    run = str(finished_run)
    before = (finished_run / "config.yaml").read_bytes()
    assert cli.main([argument.format(run=run) for argument in arguments]) == code
    printed = capsys.readouterr().err
    assert line.format(run=run) in printed and printed.count("\n") == 1
    assert (finished_run / "config.yaml").read_bytes() == before
    assert [path.name for path in finished_run.parent.iterdir()] == [finished_run.name]


def test_a_run_that_has_ended_is_not_started_again(finished_run, capsys):
    with RunFolder.open(finished_run) as folder:
        folder.write_summary({"updates": 4})
    assert cli.main(["resume", str(finished_run)]) == 0
    told = f"{finished_run} has ended: all 4 updates are done. Train on: parley resume {finished_run} updates=8\n"
    assert capsys.readouterr().out == told


def test_a_long_message_keeps_its_beginning_and_its_end():
    long = shortened(f"RayError: {'traceback ' * 90}; after that is mended: parley resume RUN")
    assert shortened("short") == "short" and len(long) <= 400
    assert long.startswith("RayError: traceback") and long.endswith("mended: parley resume RUN")


def test_the_moving_line_has_words_from_the_start(finished_run):
    screen = Console(file=StringIO(), force_terminal=True)
    with RunFolder.open(finished_run) as folder, Show(load_recipe(None), folder, screen) as show:
        assert show.moving.status == "starting"


def test_a_game_without_the_policy_measures_nothing(finished_run, capsys):
    assert cli.main(["evaluate", str(finished_run), "game.players={guesser: scripted:expert}"]) == 2
    assert "game.players leaves no seat to the policy: nothing would be measured" in capsys.readouterr().err


def test_resume_without_a_whole_checkpoint_says_so(tmp_path, capsys):
    with RunFolder.create(load_recipe(None, [f"output={tmp_path}"])) as folder:
        (folder.checkpoints / "update-000003").mkdir()
    assert cli.main(["resume", str(folder.path)]) == 1
    assert "holds no complete checkpoint to resume from" in capsys.readouterr().err


def test_ctrl_c_is_one_line_that_says_how_to_go_on(finished_run):
    """SIGINT to a real process inside a run's context."""
    program = f"""
        import sys, time
        from cluster.commands import cli
        from cluster.commands.command import Command
        from cluster.api import continuing
        from cluster.record.run_folder import RunFolder
        def rest(asked):
            with RunFolder.open({str(finished_run)!r}) as folder, continuing(folder):
                print("ready", flush=True)
                time.sleep(30)
        cli.COMMANDS.append(Command("rest", "run until it is stopped", rest))
        sys.exit(cli.main(["rest"]))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=20)
    assert process.returncode == 130
    assert printed == f"\nparley: stopped: update-000004 is saved; go on with: parley resume {finished_run}\n"


def test_doctor_names_what_to_mend(monkeypatch, capsys):
    from cluster.commands import doctor

    monkeypatch.setattr(doctor, "CHECKS", [check for check in doctor.CHECKS if check is not doctor.imports])
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert cli.main(["doctor"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("ready")
    monkeypatch.setenv("PATH", "/nowhere")
    for build, code, level, last in (("cpu", 0, "warn", "ready"), ("cuda", 1, "fail", "1 to mend")):
        monkeypatch.setattr(doctor, "installed_build", lambda build=build: build)
        assert cli.main(["doctor"]) == code
        lines = capsys.readouterr().out.splitlines()
        assert any(line.startswith(f"{level}  g++") and "apt-get install g++" in line for line in lines)
        assert lines[-1].endswith(last)


def test_doctor_lets_a_node_without_cards_be_the_head_of_those_that_have_some(monkeypatch):
    from cluster.commands import doctor

    monkeypatch.setattr(doctor, "installed", lambda name: "0.32.0" if name == "vllm" else None)
    monkeypatch.setattr(doctor, "gpus", list)
    (found,) = (each for each in doctor.processors() if each.subject == "GPUs")
    assert found.level == "warn" and "unless other nodes of the cluster have them" in found.mend


def test_doctor_says_which_worlds_can_be_played(monkeypatch, tmp_path):
    from cluster.commands import doctor
    from tests.support.worlds import installed

    there, _, lacking = next(each.what for each in doctor.worlds() if each.subject == "worlds").partition("; not ")
    assert "mcp" in there and ("nethack" in lacking) != installed("nethack")
    (tmp_path / "pyspiel.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyspiel", raising=False)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    told = {each.subject: each for each in doctor.worlds()}
    crashed = told["world open_spiel"]
    assert (crashed.level, crashed.what) == ("warn", f"crashed with signal {signal.SIGKILL.value}")
    assert "mcp" in told["worlds"].what and "open_spiel" not in told["worlds"].what
    if installed("textworld_express"):
        assert "textworld_express: Java is not installed (there is no bin/java in JAVA_HOME" in told["java"].what
        assert "textworld_express" not in told["worlds"].what


def test_doctor_survives_an_import_that_crashes(tmp_path, monkeypatch):
    from cluster.commands import doctor

    (tmp_path / "crashing.py").write_text("import os; os.abort()")
    (tmp_path / "lacking.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert doctor.import_error("crashing") == f"crashed with signal {signal.SIGABRT.value}"
    assert doctor.import_error("lacking") == "RuntimeError: operator torchvision::nms does not exist"
    assert doctor.import_error("json") is None


def test_version_is_the_installed_one(capsys):
    assert cli.main(["version"]) == 0
    told = capsys.readouterr().out
    assert "ray 2." in told
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert (stop.value.code, capsys.readouterr().out) == (0, told)


def test_the_summary_on_the_terminal_holds_the_figures_of_summary_json(finished_run):
    summary = {
        "game": "twenty_questions", "updates": 4, "held_out_games": 400,
        "win_rate_before": 0.275, "win_rate_before_interval": [0.2336, 0.3208],
        "win_rate_after": 0.4625, "win_rate_after_interval": [0.4142, 0.5115],
        "seconds": {"collect": 6.0, "learn": 2.0},
        "tokens": {f"tokens/{name}": 10 for name in ("sampled", "trained")}
        | {f"tokens/{name}": 0 for name in ("evaluated", "waiting", "playing", "dropped")},
    }  # fmt: skip
    screen = StringIO()
    with RunFolder.open(finished_run) as folder:
        folder.write_summary(summary)
        with Show(load_recipe(None), folder, Console(file=screen, soft_wrap=True)) as show:
            show.finished(json.loads((finished_run / "summary.json").read_text()))
    printed = screen.getvalue()
    assert "before  27.5 %  (95 % interval 23.4 - 32.1)" in printed
    assert "after   46.2 %  (95 % interval 41.4 - 51.1)" in printed or "after   46.3 %" in printed
    assert "time  collect 75 %, learn 25 % of 8.0 s" in printed
    assert f"parley resume {finished_run} updates=8" in printed
    with RunFolder.open(finished_run) as folder, Show(load_recipe(None), folder, Console(file=screen)) as show:
        show.finished(summary | {"win_rate_before": None, "win_rate_before_interval": None})
    assert "before  not measured" in screen.getvalue()
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█" and sparkline([1.0, 1.0]) == "▁▁"
    assert len(sparkline([float(i) for i in range(1000)])) == 48


@pytest.mark.parametrize("machine", ["0x8x80", "", "8x"])
def test_a_machine_in_no_such_words_is_refused(machine, capsys):
    assert cli.main(["train", DEMO, "--dry-run", "--machine", machine]) == 2
    assert f"--machine {machine!r} is not cpu, CARDSxGIB" in capsys.readouterr().err


def test_a_resumed_run_says_from_where_it_goes_on(tmp_path):
    for update in (8, 50, 60):
        (tmp_path / f"update-{update:06d}").mkdir()
    folder = SimpleNamespace(checkpoints=tmp_path)
    assert session._from_where(folder, tmp_path / "update-000060") == "going on from update-000060"
    line = "going on from update-000008, for update-000050 and update-000060 cannot be read"
    assert session._from_where(folder, tmp_path / "update-000008") == line


@pytest.mark.parametrize("checkpoint", ["4", "000004", "update-000004", "latest"])
def test_a_checkpoint_has_the_name_of_its_folder_or_its_number(finished_run, checkpoint):
    _, policy = evaluated(str(finished_run), [], None, checkpoint)
    assert policy.endswith("update-000004/policy")


@pytest.mark.parametrize(
    ("overrides", "found"),
    [
        ([], ("{run}-evaluation", "{parent}")),
        (["name=mine", "output=elsewhere"], ("mine", "elsewhere")),
        (["{layer}"], ("of-a-layer", "{parent}")),
    ],
)
def test_an_evaluation_is_named_and_put_where_it_is_asked_to_be(finished_run, tmp_path, overrides, found):
    names = {"run": finished_run.name, "parent": finished_run.parent, "layer": tmp_path / "layer.yaml"}
    names["layer"].write_text("name: of-a-layer")
    config, _ = evaluated(str(finished_run), [word.format(**names) for word in overrides], None, "latest")
    assert (config.name, config.output) == tuple(word.format(**names) for word in found)
    config, _ = evaluated("embedded", [word.format(**names) for word in overrides], None, "latest")
    assert config.name == (found[0] if overrides else "evaluate")


def test_a_run_in_a_folder_of_any_name_can_be_evaluated(finished_run, tmp_path):
    odd = tmp_path / "🚀" / "my run"
    shutil.copytree(finished_run, odd)
    config, policy = evaluated(str(odd), [], None, "latest")
    assert (config.name, config.output) == ("my-run-evaluation", str(odd.parent)) and policy.startswith(str(odd))


@pytest.mark.parametrize("key", ["", "secret"])
def test_what_serve_model_prints_is_a_recipe(tmp_path, key):
    _, *lines = _told(Serving("embedded", "demo", "127.0.0.1", 8123, EngineSettings(), key=key))
    (tmp_path / "rival.yaml").write_text("\n".join(lines).replace("SEAT", "guesser"))
    config = load_recipe(str(tmp_path / "rival.yaml"), [])
    served = config.rollout.endpoints["served"]
    assert (served.url, served.model) == ("http://127.0.0.1:8123/v1", "demo")
    assert config.game.players == {"guesser": "endpoint:served"} and bool(served.key_variable) == bool(key)


def test_a_terminal_that_lacks_a_letter_ends_nothing():
    code = "import sys; from parley.__main__ import main; sys.argv[1:] = ['--version']\n"
    code += "try:\n    main()\nexcept SystemExit:\n    pass\nprint('\\u2581 fine')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONIOENCODING": "latin-1"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("? fine\n"), done.stderr
