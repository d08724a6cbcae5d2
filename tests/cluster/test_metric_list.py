"""The list of metrics is whole and true: what is recorded is in it, what is in it is recorded, and what is
made of it is made of it as it is."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.recipe.fields import dotted_keys
from cluster.recipe.reading import load_recipe
from cluster.record.metric_list import METRICS, SECTIONS, STAGES, exported, unlisted
from cluster.record.metric_list.__main__ import MADE
from cluster.record.metric_list.dashboard import ROWS, asks_of
from cluster.record.metric_list.metric import HIGHER, LOWER, Metric
from cluster.record.run_folder import RunFolder
from cluster.record.terminal import Show
from reward_service.desk import RewardDesk
from tests.support.report_runs import ARIA, made_run
from tests.support.runs import assert_listed

ROOT = Path(__file__).parents[2]
FLOORS = ("actors", "cluster", "envs", "learners", "reward_service")


# --- the entries ------------------------------------------------------------------------------------


def test_no_name_is_listed_twice():
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    plain = [name for name in names if not re.search("[<{]", name)]
    twice = {name: found for name in plain if len(found := [m.name for m in METRICS if m.matches(name)]) > 1}
    assert twice == {}


def test_every_entry_says_what_it_is():
    assert {metric.section for metric in METRICS} == set(SECTIONS)
    assert [metric.name for metric in METRICS if metric.better not in ("", HIGHER, LOWER)] == []
    assert [metric.name for metric in METRICS if not re.fullmatch(r"[A-Z][^|]*\.", metric.meaning)] == []


@pytest.mark.parametrize(
    ("name", "stands_for", "does_not"),
    [
        ("failures/<reason>", "failures/player_error:KeyError", "failures/"),
        ("evaluation/win_{low,high}", "evaluation/win_high", "evaluation/win_rate"),
        ("a.b/c", "a.b/c", "a-b/c"),
    ],
)
def test_a_pattern_stands_for_its_names_alone(name, stands_for, does_not):
    metric = Metric(name, "", "")
    assert metric.matches(stands_for) and not metric.matches(does_not)


# --- the code ---------------------------------------------------------------------------------------


def words_of_the_code() -> set[str]:
    """Texts, and names of attributes, that the product's modules hold, docstrings and the list itself left out."""
    found: set[str] = set()
    for path in (path for floor in FLOORS for path in (ROOT / floor).rglob("*.py")):
        if path.parent.name == "metric_list":
            continue
        tree = ast.parse(path.read_text())
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                found.add(node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def names_for(metric: Metric) -> list[str]:
    """The last part of each of its names; where that stands for any text, the part before it."""
    parts = [part for part in metric.name.split("/") if not part.startswith("<")]
    words = re.split(r"<\w+>", parts[-1])[0]
    choice = re.search(r"\{([\w,]+)\}", words)
    if choice is None:
        return [words]
    return [words.replace(choice.group(), each) for each in choice.group(1).split(",")]


def test_every_listed_metric_is_made_by_some_code():
    held = words_of_the_code()
    ends = {word.rpartition("/")[2] or word.rstrip("/").rpartition("/")[2] for word in held}

    def made(name: str) -> bool:
        """As one text, or of two: the parts of an f-string, with a _ between them."""
        cuts = [at for at, letter in enumerate(name) if letter == "_"]
        halves = [(name[:cut], name[cut:]) for at in cuts for cut in (at, at + 1)]
        return name in ends or any({first, second} <= ends for first, second in halves)

    missing = [name for metric in METRICS for name in names_for(metric) if not made(name)]
    assert missing == [], "listed, but no code mentions it"


def test_reading_the_list_loads_nothing_heavy():
    code = (
        "import sys, cluster.record.metric_list.__main__\n"
        "print(sorted({'numpy', 'pydantic', 'torch', 'ray', 'vllm', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


# --- what is recorded -------------------------------------------------------------------------------
# Every whole run of the tests is held against the list too: tests.support.runs.assert_whole, and the
# learners of tests.support.learner_pair at every update.


def test_what_a_run_with_intentions_records_is_listed(ray_cluster, tmp_path):
    rows = [json.loads(line) for line in (made_run(tmp_path, *ARIA) / "metrics.jsonl").read_text().splitlines()]
    assert "reward/intentions/singletons_turn_1" in rows[-1]
    assert_listed(rows)


@pytest.mark.parametrize("shaper", ["outcome", "aria", "aria_rm", "regressed", "spa", "oni"])
def test_what_a_reward_service_says_of_itself_is_listed(shaper):
    settings = [f"reward.shaper={shaper}", "game.name=overcooked"]
    if shaper == "oni":
        settings += ["reward.shaper.model=ranking"]
    config = load_recipe(None, settings)
    desk = RewardDesk(config.reward.shaper.make(config.game))
    try:
        assert unlisted(desk.metrics()) == []
    finally:
        desk.close()


# --- what is made of it -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", MADE)
def test_a_file_is_what_the_list_makes_of_it(path):
    assert (ROOT / path).read_text() == MADE[path](), "run python -m cluster.record.metric_list"


def test_the_dashboard_shows_every_panel_that_the_list_names_and_no_empty_one():
    panels = [panel for row in ROWS.values() for panel in row]
    assert {metric.dashboard for metric in METRICS} - {""} <= {panel.title for panel in panels}
    assert [panel.title for panel in panels if not asks_of(panel)] == []


def test_what_is_exported_has_one_kind_and_a_panel():
    for name, metrics in exported().items():
        assert name.startswith("parley_")
        assert all(metric.dashboard for metric in metrics), f"{name} is on no panel"
        assert len({metric.name for metric in metrics}) == 1 or not name.endswith("_total"), f"{name} adds up counters"


def test_the_terminal_shows_every_stage_of_an_update(capsys, tmp_path):
    config = load_recipe(None, [f"output={tmp_path}", "updates=10"])
    values = {f"seconds/{name}": 1.25 for name in ("collect", "shape", "samples", "record", "checkpoint")}
    with RunFolder.create(config) as folder, Show(config, folder) as show:
        show.updated(3, values | {"seconds/sync": 0.01, "seconds/update": 6.26})
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.endswith("collect 1.2 shape 1.2 samples 1.2 record 1.2 checkpoint 1.2 s")


# --- the page that rests on it ----------------------------------------------------------------------


def test_the_page_on_slow_runs_names_listed_metrics_and_settings_that_there_are():
    text = (ROOT / "docs/troubleshooting.md").read_text()
    assert len(text.split()) < 900
    named = set(re.findall(r"`([\w./]+)(?:[=:][^`]*)?`", text))
    metrics = {name for name in named if name.partition("/")[0] in SECTIONS and "/" in name}
    assert len(metrics) > 20 and unlisted(metrics) == []
    sections = {"batch_episodes", "max_staleness", "output"}
    settings = {name for name in named if "." in name and "/" not in name} | named & sections
    known = set(dotted_keys())
    assert settings - known <= {"metrics.jsonl", "parley.log"}


def test_every_stage_has_a_rule_on_the_page():
    text = (ROOT / "docs/troubleshooting.md").read_text()
    assert [stage.name for stage in STAGES if f"`{stage.name}`" not in text] == ["seconds/record"]
