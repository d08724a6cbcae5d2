"""Practice: play a game at random, count what followed what, and act well in the game as counted.

    p(o' | o, a) = count(o, a, o') / count(o, a)
    value(o) = max over a tried at o of  sum over o' of p(o' | o, a) (reward + discount value(o'))

That is near-optimal where the observation is all that matters and there are few of them, as
in the small worlds of Gymnasium. Its seeds are below zero, those of no episode that is played.
"""

from __future__ import annotations

import random
from collections import defaultdict

from envs.game import Game

STEPS = 40_000  # of practice
DISCOUNT = 0.99
SWEEPS = 300
OVER = ""  # what follows the last observation


def best_actions(game: Game) -> dict[str, str]:
    """What to say to each observation that practice has shown. The game has one seat, and
    lists its actions."""
    counts = _practise(game)
    values: defaultdict[str, float] = defaultdict(float)
    worth: dict[str, dict[str, float]] = {}
    for _ in range(SWEEPS):
        change = 0.0
        for seen, tried in counts.items():
            worth[seen] = {
                said: sum(
                    paid + count * DISCOUNT * (values[then] if then != OVER else 0.0)
                    for then, (count, paid) in followed.items()
                )
                / sum(count for count, _ in followed.values())
                for said, followed in tried.items()
            }
            value = max(worth[seen].values())
            change = max(change, abs(value - values[seen]))
            values[seen] = value
        if change < 1e-9:
            break
    return {seen: max(said, key=said.get) for seen, said in worth.items()}


def _practise(game: Game) -> dict[str, dict[str, dict[str, tuple[int, float]]]]:
    """seen -> said -> seen next -> (how often, reward in all)"""
    player = random.Random("practice")
    counts: dict = defaultdict(lambda: defaultdict(dict))
    steps = 0
    while steps < STEPS:
        game.reset(-1 - steps)
        while game.seat is not None:
            seen = game.observe()
            said = player.choice(game.actions())
            step = game.step(said)
            then = OVER if step.terminated else game.observe()
            count, paid = counts[seen][said].get(then, (0, 0.0))
            counts[seen][said][then] = count + 1, paid + sum(step.rewards.values())
            steps += 1
    return counts
