"""AdamW: a step takes no room of its own, and a gradient that is not finite moves nothing."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from learners.optimiser import make_optimiser
from learners.settings import LearnerSettings

WEIGHTS = 100_000
SMALL = 10_000  # bytes: a norm, a count of steps


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_step_takes_no_room_of_its_own(pieces):
    optimiser, parameters = made(pieces)
    optimiser.step()  # its moments are there from now on
    assert allocated(optimiser.step) < SMALL
    assert optimiser.state[parameters[0]]["step"] == 2


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_gradient_that_is_not_finite_moves_nothing(bad):
    optimiser, parameters = made(3)
    parameters[1].grad[5] = bad
    before = [parameter.clone() for parameter in parameters]
    optimiser.step()
    assert optimiser.overflow
    assert all(torch.equal(*pair) for pair in zip(before, parameters, strict=True))
    assert not optimiser.state
    parameters[1].grad[5] = 1e38
    optimiser.step()
    assert not optimiser.overflow
    assert not any(torch.equal(*pair) for pair in zip(before, parameters, strict=True))


def test_weights_without_gradients_stay():
    optimiser, (parameter,) = made(1)
    parameter.grad = None
    before = parameter.clone()
    optimiser.step()
    assert not optimiser.overflow and torch.equal(before, parameter)


def test_a_checkpoint_of_an_optimiser_that_stepped_in_another_way_is_stepped_as_this_one_is():
    ours, parameters = made(2)
    plain = torch.optim.AdamW([each.detach().clone().requires_grad_() for each in parameters], lr=ours.defaults["lr"])
    for optimiser in (plain, plain):
        for mine, given in zip(optimiser.param_groups[0]["params"], parameters, strict=True):
            mine.grad = given.grad.clone()
        optimiser.step()
    assert plain.state_dict()["param_groups"][0]["fused"] is None
    ours.load_state_dict(plain.state_dict())
    assert all(group["fused"] and group["foreach"] is None for group in ours.param_groups)
    assert ours.state[parameters[0]]["step"].dtype == torch.float32 and ours.state[parameters[0]]["step"] == 2
    assert allocated(ours.step) < SMALL and ours.state[parameters[1]]["step"] == 3


def made(pieces: int):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(WEIGHTS // pieces)) for _ in range(pieces)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return make_optimiser(parameters, LearnerSettings(dtype="float32", zero=1)), parameters


def allocated(work) -> int:
    """Bytes that are asked for, whether or not they are given back."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        work()
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    return sum(size for event in events if (size := event.nbytes()) > 0)
