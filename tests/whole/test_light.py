"""What a process does not import."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIGHT = "assert not {'sklearn', 'scipy.stats'} & set(sys.modules)"

FOUND = "from transformers.utils import is_sklearn_available as there; assert there()"


@pytest.mark.parametrize("what", ["learners.rank", "actors.engines.transformers_engine", "learners.embedded.build"])
def test_neither_a_rank_nor_an_engine_nor_the_driver_imports_scikit_learn(what):
    code = f"import sys; from parley.light import without_sklearn; without_sklearn(); import {what}; {LIGHT}; {FOUND}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-300:]
