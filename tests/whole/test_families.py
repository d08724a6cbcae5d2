"""Every family through the whole loop, by the benchmark's own command: learner, engine, sync, export.

A process of its own, since vLLM's engines share what the first one of a process sets up: where that one has
no experts, none after it may."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.architectures import FORMS
from benchmarks.families import FIGURES, MODES, TOLERANCE

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    output = tmp_path_factory.mktemp("families") / "found.json"
    command = [sys.executable, "-m", "benchmarks.families", "--quick", "--output", str(output)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert output.is_file(), ended.stderr[-2000:]
    return json.loads(output.read_text())["families"]["families"]


@pytest.mark.parametrize(("family", "tied"), FORMS)
def test_engine_and_learner_agree_on_every_token(found, family, tied):
    """After the first sync, after two updates, and on what was exported, however it was trained."""
    modes = found[f"{family}, {'tied' if tied else 'untied'}"]
    assert "full" in modes
    for mode, figures in modes.items():
        assert all(figures[name] < TOLERANCE for name in FIGURES), (mode, figures)
        assert figures["moved"] > 100 * TOLERANCE, "else agreeing says nothing"


def test_every_way_of_training_was_tried(found):
    assert {mode for modes in found.values() for mode in modes} == MODES.keys()
    assert sum("lora" in modes for modes in found.values()) == len({family for family, _ in FORMS})
