"""Credit methods that somebody else wrote: what they gave is checked before it is learned from."""

from __future__ import annotations

import numpy as np
import pytest

from learners.batch.crediting import assign_credit, turns_of
from learners.batch.trajectories import collect
from learners.credit.method import ActorCritic, CreditMethod
from learners.credit.steps import rewards_to_go
from learners.credit.turns import FIELDS, Credit
from tests.learners.test_update_passes import learned
from tests.support.learner_batches import make_batch

HERE = "tests.learners.test_own_credit"


class Own(CreditMethod):
    def credit(self, turns, state):
        return GIVES["credit"](int(turns.tokens.sum()))


GIVES = {}


@pytest.mark.parametrize(
    ("gives", "says"),
    [
        (lambda count: None, "has to return a Credit, not NoneType"),
        (lambda count: Credit(np.zeros(count - 1)), r"gave advantages of shape \(\d+,\) for \d+ trained tokens"),
        (lambda count: Credit(np.full(count, np.nan)), r"gave trained token 0 of \d+ advantages of nan"),
        (lambda count: Credit(np.zeros(count), targets=np.zeros((count, 1))), "gave targets of shape"),
        (lambda count: Credit(np.zeros(count), {"mean": np.float32(1)}), "gave a state that a checkpoint cannot hold"),
        (lambda count: Credit(np.zeros(count), np.zeros(count)), "has to give a dict as state, not ndarray"),
    ],
)
def test_what_a_method_of_a_user_gave_is_checked(gives, says):
    GIVES["credit"] = gives
    with pytest.raises((TypeError, ValueError), match=f"^credit method '{HERE}:Own' {says}"):
        assign_credit(collect(*make_batch(4, seed=8)), Own(), {})


class NoTargets(ActorCritic):
    def credit(self, turns, state):
        return Credit(np.zeros(int(turns.tokens.sum())))


def test_a_critic_has_to_be_given_targets():
    trajectories = collect(*make_batch(4, seed=8))
    read = {"values": np.zeros(sum(int(each.turn_tokens.sum()) for each in trajectories)), "bootstrap": np.zeros(4)}
    with pytest.raises(ValueError, match=f"^credit method '{HERE}:NoTargets' has a critic and gave it no targets"):
        assign_credit(trajectories, NoTargets(), {}, **read)


@pytest.mark.parametrize(
    ("needs", "says"),
    [("group", r"has to be a tuple, such as \('group',\)"), (("valuez",), "names 'valuez'; there are: values,")],
)
def test_what_nobody_reads_cannot_be_needed(needs, says):
    with pytest.raises(TypeError, match=f"^Odd.needs {says}"):
        type("Odd", (Own,), {"needs": needs, "__annotations__": {}})


def test_returns_are_of_the_rewards_whatever_a_method_makes_of_them():
    trajectories = collect(*make_batch(4, seed=8))
    GIVES["credit"] = lambda count: Credit(list(range(count)))
    found = assign_credit(trajectories, Own(gamma=0.5), {})
    assert found.returns.tolist() == rewards_to_go(turns_of(trajectories), 0.5).tolist()
    assert found.advantages.dtype == np.float32 and found.state == {}


OF_OTHERS = {"values", "bootstrap", "turn_values", "action_values", "reference", "token_rewards"}  # or of a critic


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - OF_OTHERS))
def test_whatever_can_be_read_of_a_batch_comes_where_it_is_needed(name, tiny_model):
    own = type(
        f"Needs_{name}", (Own,), {"needs": (name,), "__annotations__": {}, "__module__": HERE, "credit": needing}
    )
    globals()[own.__name__] = own
    for passes in ({}, {"epochs": 2, "minibatches": 2}):
        figures = learned(tiny_model, {"credit": {"method": f"{HERE}:{own.__name__}"}} | passes)[2]
        assert figures["applied"]


def needing(self, turns, state):
    assert getattr(turns, self.needs[0]) is not None
    return Credit(np.ones(int(turns.tokens.sum())))
