"""What scripts and shells ask of the command line: JSON alone on standard output, less or more words, completion."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import subprocess
from argparse import Namespace
from contextlib import redirect_stdout
from io import StringIO
from typing import Annotated

import pytest
from rich.console import Console

from cluster.commands import cli, doctor
from cluster.recipe.reading import load_recipe
from cluster.record.manner import MANNER, console, is_said, manner_of
from cluster.record.run_folder import RunFolder
from cluster.record.terminal import Show
from envs.parrot import Parrot
from tests.support.watched import learned, made_run

SHELLS = {
    "bash": 'COMP_WORDS=(parley "$@"); COMP_CWORD=$#; source {script}; _parley; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "zsh": "compdef() {{}}; _files() {{}}; compadd() {{ print -rl -- $@ | grep -- ^$words[-1]; }}; "
    " source {script}; words=(parley $@); CURRENT=$#words; _parley",
    "fish": 'source {script}; complete -C "parley $argv" | cut -f 1',
}


def printed(capsys, *words: str) -> tuple[int, str, str]:
    code = cli.main(words)
    told = capsys.readouterr()
    return code, told.out, told.err


class Priced(Parrot):
    def __init__(self, most: Annotated[int, "the biggest number"]):
        super().__init__()


def test_games_as_json(capsys):
    code, out, err = printed(capsys, "games", "--json")
    games = {game["name"]: game for game in json.loads(out)}
    assert (code, err) == (0, "") and set(games["parrot"]["players"]) == {"mediocre", "perfect", "random"}
    assert all("missing" in game or {"seats", "horizon", "options", "trials"} <= set(game) for game in games.values())
    assert json.loads(printed(capsys, "games", "parrot", "--json")[1]) == games["parrot"]
    unmade = json.loads(printed(capsys, "games", "tests.cluster.test_scripting:Priced", "--json")[1])
    assert "needs the option 'most'" in unmade["missing"] and "horizon" not in unmade
    assert set(unmade["players"]) == {"mediocre", "perfect", "random"} and unmade["trials"]["alone"] == 100
    code, out, err = printed(capsys, "games", "parrott", "--json")
    assert (code, out) == (2, "") and err.count("\n") == 1


def test_doctor_as_json(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", (doctor.python, doctor.disk))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    code, out, _ = printed(capsys, "doctor", "parrot", "--json")
    found = json.loads(out)
    assert code == (found["to_mend"] > 0) and found["findings"][0]["subject"] == "python"
    assert {"level", "subject", "what", "mend"} == set(found["findings"][0])


def test_doctor_tells_of_a_port_that_another_ray_has(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(doctor, "AGENT_PORT", other.getsockname()[1])
        (taken,) = doctor.job_agent()
    (free,) = doctor.job_agent()
    assert (taken.level, free.level) == ("warn", "ok")
    assert "No available agent" in taken.what and f"-listen-port={doctor.AGENT_PORT + 1}" in taken.mend


@pytest.mark.parametrize("words", [("runs",), ("timeline", "--updates", "2")])
def test_what_takes_a_while_moves_on_the_terminal_alone(words, tmp_path, capsys, monkeypatch):
    class Screen(StringIO):
        def isatty(self) -> bool:
            return True

    run = made_run(tmp_path)
    learned(run, 1)
    monkeypatch.setenv("TERM", "xterm")
    told = []
    for screen in (Screen(), StringIO()):
        monkeypatch.setattr("sys.stderr", screen)
        where = str(tmp_path if words[0] == "runs" else run)
        assert cli.main([*words, where]) == 0
        told.append((capsys.readouterr().out, screen.getvalue()))
    (result, moving), (same, nothing) = told
    assert result == same and "\x1b" not in result and nothing == ""
    assert "reading the run" in moving


@pytest.mark.parametrize("words", [(), ("quiet",), ("verbose",), ("json",)])
def test_how_much_is_said_and_where(tmp_path, capsys, words):
    screen = StringIO()
    with manner_of(Namespace(**dict.fromkeys(words, True))):
        assert all(is_said(word) for word in words), "a process that it starts follows it"
        assert console().stderr == ("json" in words)
        config = load_recipe(None, [f"output={tmp_path}"])
        with (
            RunFolder.create(config) as folder,
            Show(config, folder, Console(file=screen, force_terminal=True)) as show,
        ):
            assert (show.moving is None) == ("quiet" in words)
            show.doing("learn", 2)
            assert show.moving is None or show.moving.status == "update 3/60: learning"
            show.doing("checkpoint", 3)
            show.stage("starting learners")
            show.warning("trouble")
            logging.getLogger("parley").warning("a line of the log")
    assert MANNER not in os.environ
    said = screen.getvalue()
    assert "trouble" in said and ("starting learners" in said) == ("quiet" not in words)
    assert ("update 3/60: saving the checkpoint" in said) == ("quiet" not in words)
    assert ("a line of the log" in capsys.readouterr().err) == ("verbose" in words)


@pytest.fixture(scope="module", params=SHELLS)
def complete(request, tmp_path_factory):
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here: apt-get install {shell}")
    folder = tmp_path_factory.mktemp(shell)
    (folder / "script").write_text(script_of(shell))

    def ask(*words: str) -> set[str]:
        program = SHELLS[shell].format(script=folder / "script")
        command = [shell, "-c", program, *([] if shell == "fish" else [shell]), *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 or not done.stderr, done.stderr
        return set(done.stdout.split())

    return ask


def script_of(shell: str) -> str:
    out = StringIO()
    with redirect_stdout(out):
        assert cli.main(["completion", shell]) == 0
    return out.getvalue()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["tra"], "train"),
        (["train", "dem"], "demo"),
        (["train", "learner.lora.ra"], "learner.lora.rank="),
        (["train", "--keep"], "--keep-going"),
        (["play", "parr"], "parrot"),
        (["offline", "stat"], "status"),
        (["config", "learner.lora.ra"], "learner.lora.rank"),
    ],
)
def test_a_shell_completes_commands_options_recipes_games_and_settings(complete, words, found):
    assert found in complete(*words)
