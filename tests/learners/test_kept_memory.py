"""What a rank on CPUs frees after a pass is there for the next one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from learners.group import environment
from learners.settings import LearnerSettings

PASSES = """
import resource
import numpy

def one():
    held = [numpy.ones(2**20, numpy.float32) for _ in range(20)]  # 80 MiB, all freed at its end

for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    one()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's settings")
def test_a_pass_finds_the_memory_of_the_one_before_it():
    faults = []
    for variables in ({}, environment(LearnerSettings())):
        plain = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
        made = subprocess.run(
            [sys.executable, "-c", PASSES], env=plain | variables, capture_output=True, text=True, check=True
        )
        faults.append(int(made.stdout))
    assert faults[1] < 100 < 1000 < faults[0]
