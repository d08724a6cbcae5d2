"""Overcooked: no way to the dishes is shorter, nor pays more, than those worked out by hand."""

from __future__ import annotations

import heapq
from math import isclose

import pytest

from envs.overcooked.kitchen import (
    CHOPS,
    DOWN,
    IN_BOWL,
    IN_HAND,
    LEFT,
    RIGHT,
    UP,
    Kitchen,
)
from envs.overcooked.macros import macros_of, moves_of, perform, phrase
from tests.support.kitchens import TOMATO, WAYS, game_of, kitchen_of, paid


def snapshot(kitchen: Kitchen) -> tuple:
    return (*kitchen.situation(), tuple(sorted(set(kitchen.paid))), kitchen.served)


def put_back(kitchen: Kitchen, taken: tuple) -> None:
    kitchen.cook, kitchen.hand, at, chops, paid_for, kitchen.served = taken
    kitchen.at, kitchen.chops, kitchen.paid, kitchen.steps = list(at), list(chops), list(paid_for), 0


def steps_still_needed(kitchen: Kitchen) -> int:
    """Never more than are needed. One step for each touch that must still happen: taking the
    bowl; taking, putting on a board, chopping and putting into the bowl each ingredient;
    serving. And moves: boards and hatch are on the left, the food and the bowl on the right,
    and each whole ingredient and the dish crosses a line between two columns in a hand of
    its own, so the cook crosses it once for each and once back in between. Between two
    rows below the hatch the bowl is fetched up; in the end the cook stands at the hatch."""
    room, at, cook = kitchen.room, kitchen.at, kitchen.cook
    if kitchen.served:
        return 0
    last = room.width - 2  # of the floor's rows and columns, which begin at 1

    def row(thing: int) -> int:
        return min(max((cook if at[thing] == IN_HAND else at[thing]) // room.width, 1), last)

    def column(thing: int) -> int:
        return min(max((cook if at[thing] == IN_HAND else at[thing]) % room.width, 1), last)

    loose = [food for food in room.needed if at[food] != IN_BOWL]
    whole = [food for food in loose if kitchen.chops[food] < CHOPS]
    touches = 1 + (kitchen.hand != room.bowl) + len(loose)
    for food in whole:
        touches += CHOPS - kitchen.chops[food]
        touches += 1 if at[food] == IN_HAND else 0 if at[food] in room.boards else 2
    cook_row, cook_column = divmod(cook, room.width)
    dish = max([column(room.bowl), *(column(food) for food in loose if food not in whole)])
    loads = [*(column(food) for food in whole), dish]
    moves = 0
    for line in range(1, last):
        right = sum(load > line for load in loads)
        moves += 2 * right - (cook_column > line) if right else 0
        hatch_row = room.hatch // room.width
        if line < hatch_row:
            moves += cook_row <= line
        elif row(room.bowl) > line:
            moves += 2 - (cook_row > line)
        else:
            moves += cook_row > line
    return touches + moves


def fewest_steps(task: str, estimate) -> int:
    """A* over primitive steps, nothing left out."""
    kitchen = kitchen_of(task)
    start = snapshot(kitchen)
    taken, waiting = {start: 0}, [(estimate(kitchen), 0, start)]
    while waiting:
        guess, minus_steps, state = heapq.heappop(waiting)
        steps = -minus_steps
        if steps > taken[state]:
            continue
        put_back(kitchen, state)
        if kitchen.served:
            return steps
        for move in (UP, DOWN, LEFT, RIGHT):
            put_back(kitchen, state)
            kitchen.act(move)
            then = snapshot(kitchen)
            still = estimate(kitchen)
            assert still >= guess - steps - 1, "one step brings the estimate down by one at most"
            if steps + 1 < taken.get(then, 10**9):
                taken[then] = steps + 1
                heapq.heappush(waiting, (steps + 1 + still, -steps - 1, then))
    raise AssertionError("the dish cannot be made")


@pytest.mark.parametrize(("task", "steps"), [("tomato_salad", 28), ("tomato_lettuce_salad", 45)])
def test_no_way_of_primitive_steps_is_shorter(task, steps):
    """By hand, the ways above. The tomato salad: fetch the tomato 2, to the board 5, chop 3,
    and then either with the tomato to the bowl (1 + 10) and on to the hatch (7): 28; or for
    the bowl (9), back for the tomato (9) and to the hatch (3): 31. The other one: both
    ingredients must cross to the boards, one at a time (2 + 5 + 3 + 5 + 6 + 3 = 24); now the
    bowl is fetched (8 + 8 + 2) and served (3): 45; taking the lettuce along costs one more."""
    assert fewest_steps(task, steps_still_needed) == steps == sum(taken for _, taken in WAYS[task])


def test_the_estimate_is_not_what_makes_it_so():
    assert fewest_steps("tomato_salad", lambda kitchen: 0) == 28


def macro_graph(task: str, discount: float) -> dict[tuple, list[tuple[str, float, int, tuple]]]:
    kitchen, graph = kitchen_of(task), {}
    waiting = [snapshot(kitchen)]
    while waiting:
        state = waiting.pop()
        if state in graph:
            continue
        graph[state] = []
        if state[-1]:
            continue
        for macro in macros_of(kitchen.room):
            put_back(kitchen, state)
            name = phrase(kitchen, macro)
            reward = perform(kitchen, moves_of(kitchen, macro), discount)
            graph[state].append((name, reward, kitchen.steps, snapshot(kitchen)))
            waiting.append(graph[state][-1][-1])
    return graph


def best_of(graph: dict, start: tuple, worth) -> float:
    """The highest sum of `worth(reward, steps)` on a way to the dish."""
    best = {state: 0.0 if state[-1] else float("-inf") for state in graph}
    for _ in graph:
        changed = False
        for state, ways in graph.items():
            found = max((worth(reward, steps) + best[then] for _, reward, steps, then in ways), default=best[state])
            if found > best[state] + 1e-12:
                best[state], changed = found, True
        if not changed:
            return best[start]
    raise AssertionError("there is no best: some round trip pays")


@pytest.mark.parametrize(("task", "steps", "turns"), [("tomato_salad", 28, 6), ("tomato_lettuce_salad", 45, 10)])
def test_the_best_that_macro_actions_can_do(task, steps, turns):
    start = snapshot(kitchen_of(task))
    graph = macro_graph(task, discount=1.0)
    assert best_of(graph, start, lambda reward, steps: -steps) == -steps
    assert best_of(graph, start, lambda reward, steps: -1) == -turns
    needed = {"tomato_salad": 1, "tomato_lettuce_salad": 2}[task]
    assert isclose(best_of(graph, start, lambda reward, steps: reward), 0.2 * needed + 1 - 0.001 * steps)


def test_the_discount_within_turns_favours_a_last_turn_that_is_short():
    """Summed over turns without any discount between them, the tomato salad of 31 steps pays
    more than that of 28: its last turn has 3 steps instead of 7."""
    start, graph = snapshot(kitchen_of("tomato_salad")), macro_graph("tomato_salad", discount=0.99)
    turns = [(2, 0.0), (5, 0.0), (3, 0.2), (9, 0.0), (9, 0.0), (3, 1.0)]
    total = sum(-0.001 * (1 - 0.99**steps) / 0.01 + bonus * 0.99 ** (steps - 1) for steps, bonus in turns)
    assert isclose(best_of(graph, start, lambda reward, steps: reward), total)
    game = game_of()
    assert isclose(sum(paid(game, utterance) for utterance, _ in TOMATO), 1.1102837966825794) and total > 1.1459
