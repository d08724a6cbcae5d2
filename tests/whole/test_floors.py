"""The floors: a floor imports only from those below it, and reading a config stays light."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = ["envs", "reward_service", "actors", "learners", "cluster", "parley"]
LINT = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]


def lint_imports(folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(LINT, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of the five floors under the same contract, for breaking it."""
    folder = tmp_path_factory.mktemp("checkout")
    for floor in FLOORS:
        shutil.copytree(ROOT / floor, folder / floor, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", folder)
    return folder


def test_the_contract_of_the_floors_holds():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("learners/loss/ppo.py", "import actors.engines.contract"),
        ("learners/loss/ppo.py", "import learners.update.learning"),
        ("cluster/record/terminal.py", "import cluster.run.loop"),
        ("actors/engines/contract.py", "import learners.loss.ppo"),
        ("envs/game.py", "import reward_service.shaper"),
        ("reward_service/shaper.py", "import actors.engines.contract"),
        ("actors/settings.py", "import ray"),
        ("envs/game.py", "import torch"),
        ("cluster/recipe/config.py", "import learners.update.learning"),
        ("cluster/run/ledger.py", "import vllm"),
        ("learners/loss/ppo.py", "import vllm"),
    ],
)
def test_an_import_that_breaks_the_contract_is_caught(checkout, module, line):
    path = checkout / module
    whole = path.read_text()
    path.write_text(f"{whole}\n{line}\n")
    try:
        result = lint_imports(checkout)
    finally:
        path.write_text(whole)
    assert result.returncode == 1, f"{line} in {module} was not caught:\n{result.stdout}{result.stderr}"
    assert line.split()[1].split(".")[0] in result.stdout.partition("Broken contracts")[2]


def test_no_level_has_more_rooms_than_a_newcomer_can_hold():
    for floor in FLOORS:
        for folder in [ROOT / floor, *(ROOT / floor).rglob("*")]:
            rooms = [each for each in folder.iterdir() if (each / "__init__.py").is_file()] if folder.is_dir() else []
            assert len(rooms) <= 12, folder


def test_reading_a_config_imports_neither_torch_nor_ray_nor_vllm():
    code = (
        "import sys, cluster.recipe.config, cluster.recipe.reading\n"
        "cluster.recipe.reading.load_recipe(None, ['rollout.workers=2'])\n"
        "print(sorted({'torch', 'ray', 'vllm', 'transformers', 'deepspeed'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"
