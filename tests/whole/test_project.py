"""A user's project that has folders called `envs` and `actors`, as Parley has: a script of it, the command line in it,
and a job from it train the project's own game, which lies in one of these folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cluster.errors import RunError
from cluster.run.session import ray_cluster as session_ray
from tests.support.job_cluster import RAY, job_cluster

ROOT = Path(__file__).parents[2]
FILES = {
    "envs/__init__.py": "from envs.words import WORDS",
    "envs/words.py": 'WORDS = ("apple", "bread", "cloud")',
    "envs/echo.py": """
        import random

        from actors.voices import VOICE
        from envs import WORDS
        from parley import Game, Step

        class Echo(Game):
            seats = ("one",)
            horizon = 2

            def reset(self, seed):
                self.word = random.Random(seed).choice(WORDS)

            def observe(self):
                return f"{VOICE} {self.word}"

            def step(self, utterance):
                right = utterance.split()[:1] == [self.word]
                return Step({"one": float(right)}, executable=bool(utterance), terminated=right)
    """,
    "actors/voices.py": 'VOICE = "say"',
    "project-1.0.dist-info/METADATA": "Name: project\nVersion: 1.0",
    "project-1.0.dist-info/entry_points.txt": "[parley.games]\necho = envs.echo:Echo",
    "recipe.yaml": """
        name: project
        updates: 2
        batch_episodes: 8
        game: {name: echo}
        rollout:
          cpus_per_worker: 0.5
          max_utterance_tokens: 4
          engine: {kind: transformers, max_context: 64}
        learner: {cpus_per_rank: 0.5}
        evaluation: {episodes: 8}
    """,
    "run.py": """
        import json, sys

        import parley
        from envs import WORDS
        from envs.echo import Echo

        def main():
            model, output = sys.argv[1:]
            run = parley.train("recipe.yaml", model={"path": model}, output=output, **{"checkpoint.every": 1})
            print(json.dumps({"folder": str(run.folder), "updates": len(run.metrics), "score": run.score,
                              "policy": str(run.policy), "mine": [WORDS[0], Echo.name, issubclass(Echo, parley.Game)]}))

        if __name__ == "__main__":
            main()
    """,
}


@pytest.fixture
def project(tmp_path) -> Path:
    folder = tmp_path / "project"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def in_project(project: Path, *command: str, seconds: float = 200) -> subprocess.CompletedProcess:
    """As where Parley is installed: its folder is on the path, behind the project's."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("RAY_ADDRESS", None)
    return subprocess.run(
        [sys.executable, *command], cwd=project, env=environment, capture_output=True, text=True, timeout=seconds
    )


def assert_trained(output: Path) -> None:
    (folder,) = output.iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["updates"] == 2 and summary["ledger"]["ledger/consumed"] == 16 and summary["failures"] == {}
    assert "say apple" in "".join(path.read_text() for path in (folder / "transcripts").iterdir())


@pytest.mark.long
@pytest.mark.timeout(220)
def test_a_script_of_the_project_uses_its_own_folders_and_parley(project, parrot_model, tmp_path):
    done = in_project(project, "run.py", str(parrot_model), str(tmp_path / "runs"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["updates"] >= 2 and 0 <= told["score"] <= 1 and (Path(told["policy"]) / "config.json").is_file()
    assert told["mine"] == ["apple", "echo", True]
    assert_trained(tmp_path / "runs")


@pytest.mark.timeout(220)
def test_the_command_line_works_in_the_project(project, parrot_model, tmp_path):
    done = in_project(
        project, "-m", "parley", "evaluate", str(parrot_model), "--recipe", "recipe.yaml", f"output={tmp_path / 'runs'}"
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "on 8 held-out games" in done.stdout
    (transcripts,) = (tmp_path / "runs").rglob("transcripts/*.txt")
    assert "say apple" in transcripts.read_text()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_job_is_submitted_from_the_project(project, parrot_model, tmp_path, tmp_path_factory):
    with job_cluster(tmp_path_factory.mktemp("cluster"), PYTHONPATH=str(ROOT)) as cluster:
        address, runs = f"http://127.0.0.1:{cluster['dashboard']}", tmp_path / "runs"
        job = subprocess.run(
            [RAY, "job", "submit", "--address", address, "--working-dir", str(project),
             "--", "python", "-m", "parley", "train", "recipe.yaml", f"model.path={parrot_model}", f"output={runs}"],
            env=cluster["environment"], capture_output=True, text=True, timeout=240,
        )  # fmt: skip
    assert job.returncode == 0 and "succeeded" in job.stdout, job.stdout[-4000:] + job.stderr[-1000:]
    assert_trained(tmp_path / "runs")


def test_a_module_that_both_have_is_refused_in_one_line(project):
    (project / "envs" / "registry.py").write_text("GAMES = []")
    done = in_project(project, "run.py", "x", "y")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: Parley cannot be used beside {project / 'envs'}: both have a module")
    assert "envs.registry" in last and "rename yours" in last
    shown = in_project(project, "-m", "parley", "config", "seed")
    assert shown.returncode == 0 and shown.stdout.startswith("seed = "), "the command line does not need the project's"


def test_ray_that_was_started_before_is_refused_in_one_line(ray_cluster, project, monkeypatch):
    monkeypatch.chdir(project)
    said = "let Parley start Ray, or call ray.init.runtime_env={'worker_process_setup_hook': 'parley.names.put_first'}"
    with pytest.raises(RunError, match=said), session_ray(None, None):
        pass


def test_import_parley_loads_nothing_heavy():
    code = (
        "import sys, parley\n"
        "heavy = {'torch', 'ray', 'vllm', 'transformers', 'deepspeed', 'pydantic', 'numpy', 'envs', 'cluster'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "from parley import Game, Step, Player, Trial\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "from parley import Episode, train, resume, evaluate, load_run\n"
        "print(sorted({'torch', 'ray', 'vllm', 'transformers', 'deepspeed'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["[]", "['envs']", "[]"], done.stderr
