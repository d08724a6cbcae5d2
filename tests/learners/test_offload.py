"""An optimiser that is offloaded: a step that is left out leaves nothing behind. On CPUs, with DeepSpeed's own code."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from tests.support.job_cluster import free_ports

STEPS = """
    import json, math, os, sys

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[2], "RANK": "0", "WORLD_SIZE": "1"}
    os.environ |= {"LOCAL_RANK": "0", "LOCAL_SIZE": "1", "DS_ACCELERATOR": "cpu"}
    import deepspeed
    import torch

    from learners.optimiser import deepspeed_config, make_optimiser, take_step
    from learners.settings import LearnerSettings

    torch.set_num_threads(1)
    deepspeed.ops.__compatible_ops__ = {}
    deepspeed.utils.logger.setLevel("ERROR")
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, verbose=False)
    settings = LearnerSettings(zero=int(sys.argv[1]), dtype="bfloat16", learning_rate=1e-2, loss={"kl_guard": 0.1})
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 1)).bfloat16()
    optimiser = make_optimiser(list(model.parameters()), settings)
    config = deepspeed_config(settings)
    config["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": False}
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=list(model.parameters()), optimizer=optimiser, config=config
    )
    given = torch.randn(4, 8, dtype=torch.bfloat16)

    def stepped(weight):
        for _ in range(2):
            engine.backward(weight * engine(given).float().pow(2).mean())
        return take_step(engine)

    def weights():
        return [each.detach().float().clone() for each in engine.module.parameters()]

    applied = [stepped(weight) for weight in (1.0, math.nan, 1.0, math.inf, 1.0)]
    before = weights()
    stepped(1.0)
    stepped(math.nan)
    optimiser.shorten_to = 0.0
    engine.backward(0.0 * engine(given).float().sum())
    back = take_step(engine)
    same = all(torch.equal(*pair) for pair in zip(before, weights(), strict=True))
    print(json.dumps({"applied": applied, "back": back, "same": same}))
"""


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_a_step_that_is_left_out_leaves_nothing_behind(zero):
    command = [sys.executable, "-c", textwrap.dedent(STEPS), str(zero), str(free_ports(1)[0])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"applied": [True, False, True, False, True], "back": True, "same": True}
