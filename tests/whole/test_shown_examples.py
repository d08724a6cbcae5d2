"""Every piece of Python, YAML and JSON that README and docs show is run, by this file or by the test that it names.

What a page takes from a file of docs/examples is tested with that file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cluster.recipe.reading import load_recipe

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```(python|yaml|json)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
HERE = "run here"
RUN_BY = {
    ("docs/concepts/intentions.md", "yaml"): [HERE],
    ("docs/games/case_study.md", "python"): [HERE],
    ("docs/games/twenty_questions.md", "yaml"): [HERE],
    ("docs/how-to/doors.md", "python"): ["tests/envs/test_doors_out.py", HERE],  # RLlib trains with the first
    ("docs/how-to/doors.md", "yaml"): [HERE],
    ("docs/how-to/new_game.md", "python"): ["tests/envs/test_doors_third_party.py"],
    ("docs/how-to/python.md", "python"): ["tests/cluster/test_api.py"],
    ("docs/how-to/reward_service.md", "json"): ["tests/reward_service/test_reward_http.py"] * 2,
    ("docs/how-to/reward_service.md", "python"): ["tests/reward_service/test_reward_http.py"],
    ("docs/how-to/reward_service.md", "yaml"): [HERE],
    ("docs/how-to/training.md", "yaml"): [HERE] * 2,
}


def shown() -> dict[tuple[str, str], list[str]]:
    """(page, language) -> blocks, without the generated pages and what is taken from files."""
    found: dict[tuple[str, str], list[str]] = {}
    for page in PAGES:
        if page.parent.name != "reference":
            for _, language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
                if "--8<--" not in block:
                    found.setdefault((str(page.relative_to(ROOT)), language), []).append(textwrap.dedent(block))
    return found


BLOCKS = shown()
HERE_RUN = [
    (page, language, block)
    for (page, language), blocks in BLOCKS.items()
    for block, run_by in zip(blocks, RUN_BY.get((page, language), ()), strict=False)
    if run_by == HERE
]


def test_every_example_is_run_by_a_test_that_is_there():
    assert {key: len(blocks) for key, blocks in BLOCKS.items()} == {key: len(by) for key, by in RUN_BY.items()}
    assert [by for every in RUN_BY.values() for by in every if by != HERE and not (ROOT / by).is_file()] == []


@pytest.mark.parametrize(("page", "block"), [(page, block) for page, kind, block in HERE_RUN if kind == "python"])
def test_python_that_a_page_shows_runs(page, block, tmp_path):
    """In a process of its own, from a folder of its own, as a reader would run it."""
    (tmp_path / "example.py").write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "example.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("page", "block"), [(page, block) for page, kind, block in HERE_RUN if kind == "yaml"])
def test_yaml_that_a_page_shows_is_a_layer_that_is_taken(page, block, tmp_path, monkeypatch):
    monkeypatch.setenv("EMBEDDING_KEY", "a key")
    (tmp_path / "layer.yaml").write_text(block, encoding="utf-8")
    assert load_recipe(ROOT / "recipes" / "demo.yaml", [str(tmp_path / "layer.yaml")])


@pytest.mark.parametrize("block", [block for (_, kind), blocks in BLOCKS.items() if kind == "json" for block in blocks])
def test_json_that_a_page_shows_is_json(block):
    assert json.loads(block)
