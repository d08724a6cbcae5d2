"""What a process does not import."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIGHT = "assert not {'sklearn', 'scipy.stats'} & set(sys.modules)"

FOUND = "from transformers.utils import is_sklearn_available as there; assert there()"


LOWERING = "torch._inductor.lowering"


def test_the_sender_does_not_import_torchs_compiler_and_leaves_it_importable():
    code = (
        "import sys; from parley.light import without_inductor\n"
        "with without_inductor():\n    import learners.transport.sender\n"
        f"assert '{LOWERING}' not in sys.modules; import {LOWERING} as lowering; assert lowering.FALLBACK_ALLOW_LIST\n"
        "with without_inductor():\n    import vllm.config\n"
        f"assert sys.modules['{LOWERING}'] is lowering"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-300:]


@pytest.mark.parametrize("what", ["learners.rank", "actors.engines.transformers_engine", "learners.embedded.build"])
def test_neither_a_rank_nor_an_engine_nor_the_driver_imports_scikit_learn(what):
    code = f"import sys; from parley.light import without_sklearn; without_sklearn(); import {what}; {LIGHT}; {FOUND}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-300:]
