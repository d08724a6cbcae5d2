"""What Parley costs on top of what it is made of, measured on the machine at hand.

    python -m benchmarks                 everything, one after the other (make bench)
    python -m benchmarks.rollout         one of: rollout, learner, sync, stages
    ... --quick                          fewer sizes and rounds
    python -m benchmarks.gpu             not how fast, but whether right: the GPU path on a card (make gpu-check)

Benchmarks stand beside the floors: they may import all of them, none imports a benchmark.
"""

from __future__ import annotations

import os

# Read by libraries when they are imported. One thread, as each rollout worker and each learner rank has on a CPU.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # a worker closed on purpose ends its last call with an error
