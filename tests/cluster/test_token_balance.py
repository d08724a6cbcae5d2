"""Every sampled token is somewhere once: on random histories of a fleet. Each whole run of the tests is
checked at every update, whatever is killed in it, and at its end (tests/support/runs.py)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.fleet.fleet import Finished
from actors.fleet.tokens import FleetTokens
from cluster.run.token_balance import TokenBalance
from envs.episode import Ticket

WORKERS = 3
TICKET = Ticket("run", "game", 0, 0, ())


def finished(tokens: int, reason: str | None = None) -> Finished:
    return Finished(TICKET, None, reason, None, tokens)


@given(
    moves=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "sample",
                    "hand over",
                    "waste",
                    "fail",
                    "lose",
                    "take up",
                    "forget",
                    "train",
                    "evaluate",
                    "redraw",
                    "restart",
                ]
            ),
            st.integers(0, WORKERS - 1),
            st.integers(0, 50),
        ),
        max_size=100,
    )
)
@settings(max_examples=200, deadline=None)
def test_any_history_balances(moves):
    fleet = FleetTokens()
    balance, waiting = TokenBalance(fleet), []
    said, held, everything, kept = [0] * WORKERS, [0] * WORKERS, 0, []
    for move, worker, tokens in moves:
        if move == "sample":
            said[worker] += tokens
            held[worker] += tokens
            everything += tokens
            fleet.heard(worker, said[worker])
        elif move in ("hand over", "waste", "fail"):
            tokens = min(tokens, held[worker])
            wasted = tokens // 3 if move == "waste" else 0
            fleet.heard(worker, said[worker])
            held[worker] -= tokens
            tokens -= wasted
            fleet.hand_over(worker, tokens, wasted)
            if move == "fail":
                balance.drop(finished(tokens, "timeout"), "timeout")
            else:
                waiting.append(finished(tokens))
        elif move == "lose":
            kept.append(min(tokens, held[worker]))
            fleet.lose(worker, "worker_died", kept[-1])
            said[worker] = held[worker] = 0
        elif move == "take up" and kept:
            held[worker] += kept[0]
            fleet.take_up(worker, kept.pop(0))
        elif move == "forget" and kept:
            fleet.forget(kept.pop())
        elif move in ("train", "evaluate", "redraw") and waiting:
            result = waiting.pop()
            if move == "redraw":
                balance.drop(result, "no_spread")
            else:
                (balance.train_on if move == "train" else balance.evaluate)([result])
        elif move == "restart":
            saved = json.loads(json.dumps(balance.state(waiting)))
            fleet = FleetTokens()
            balance, waiting = TokenBalance(fleet), []
            balance.restore(saved)
            said, held, kept = [0] * WORKERS, [0] * WORKERS, []
        balance.check(waiting)
        assert balance.sampled == everything and fleet.playing == sum(held) + sum(kept)


@pytest.mark.parametrize("wrong", ["twice", "never"])
def test_tokens_that_are_used_twice_or_never_are_an_error(wrong):
    fleet = FleetTokens()
    fleet.heard(0, 10)
    fleet.hand_over(0, 10)
    balance, result = TokenBalance(fleet), finished(10)
    balance.train_on([result, result] if wrong == "twice" else [])
    with pytest.raises(RuntimeError, match="tokens do not balance: sampled 10, but trained (20|0) "):
        balance.check([])


def test_a_checkpoint_of_before_tells_nothing():
    balance = TokenBalance(FleetTokens())
    balance.restore(None)
    balance.check([])
