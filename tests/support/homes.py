"""What the tests of VirtualHome share: breadth-first search through the game itself, and short names."""

from __future__ import annotations

import json
from collections import deque

from envs.registry import make_game, make_player

SEAT = "agent"


def game_of(task: str = "food_preparation", seed: int = 0, **options):
    game = make_game("virtualhome", {"task": task, **options})
    game.reset(seed)
    return game


def play(game, *utterances: str) -> list:
    return [game.step(utterance) for utterance in utterances]


def done(game, *utterances: str):
    """The game after actions that can all be done."""
    assert all(step.executable for step in play(game, *utterances))
    return game


def fewest_turns(task: str, **options) -> int:
    """Breadth first over the game itself, by what it saves and restores."""
    game = game_of(task, **options)
    waiting, seen = deque([(0, game.save())]), set()
    while waiting:
        turns, saved = waiting.popleft()
        game.restore({**saved, "turn": 0})
        for said in game.actions():
            game.restore({**saved, "turn": 0})
            if game.step(said).terminated:
                return turns + 1
            then = game.save()
            key = json.dumps(then["home"])
            if key not in seen:
                seen.add(key)
                waiting.append((turns + 1, then))
    raise AssertionError("the task cannot be done")


def fails(game, utterance: str) -> bool:
    """Whether it is listed, costs the turn and changes nothing else."""
    before = game.save()
    assert utterance in game.actions()
    step = game.step(utterance)
    assert step.rewards == {} and "cannot be done" in step.caption
    return not step.executable and game.save() == {**before, "turn": before["turn"] + 1}


def success(task: str, player: str, episodes: int) -> float:
    game, one, won = make_game("virtualhome", {"task": task}), make_player("virtualhome", player, {"task": task}), 0
    for seed in range(episodes):
        game.reset(seed)
        one.reset(seed)
        while game.seat:
            game.step(one.reply(game.observe(), game.actions()))
        won += game.outcome()[SEAT]
    return won / episodes
