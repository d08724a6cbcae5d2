"""`rules: published` against 2,000 episodes of each task that gym-macro-overcooked played.

What was recorded there, macro action by macro action: the reward, whether the episode was over, the
primitive steps so far, where the cook and everything else was, how often food was chopped, what the actions
were called, and whether the text was one that had been there before, and which. A line of
`tests/data/overcooked_published.txt` is the digest of 100 episodes."""

from __future__ import annotations

import random
from hashlib import sha256
from pathlib import Path

import pytest

from envs.overcooked.kitchen import IN_BOWL, IN_HAND, TASKS
from envs.registry import make_game, make_player
from tests.support.kitchens import SEAT, game_of

RECORDED = Path(__file__).parents[1] / "data" / "overcooked_published.txt"
BLOCK, EPISODES = 100, 2000


def chosen(draws: random.Random, names: tuple[str, ...]) -> int:
    """Any macro action, and three times as often one that sounds as if it did something."""
    weights = [3 if name.startswith(("put", "take", "chop the")) else 1 for name in names]
    return draws.choices(range(len(names)), weights)[0]


def places(kitchen) -> list[int]:
    """The cell of each thing, with what is held at the cook's, in the bowl at the bowl's, served at the hatch."""
    found = []
    for place in kitchen.at:
        place = kitchen.at[kitchen.room.bowl] if place == IN_BOWL else place
        place = kitchen.cook if place == IN_HAND else place
        found.append(kitchen.room.hatch if place < 0 else place)
    return found


def lines(task: str, episode: int, known: dict[tuple, int]):
    game = game_of(task, seed=episode, rules="published", shuffle=False)
    draws = random.Random(f"{task} {episode}")
    while True:
        names = game.actions() if game.seat else ()
        text = "over" if not names else known.setdefault((names, game.observe()), len(known))
        yield f"{text} {','.join(names)}"
        if not names:
            return
        step = game.step(names[chosen(draws, names)])
        over, kitchen = step.terminated or step.truncated, game.kitchen
        yield f"{step.rewards[SEAT]:.9f} {over} {kitchen.steps} {kitchen.cook} {places(kitchen)} {kitchen.chops}"


@pytest.mark.parametrize("blocks", [3, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("task", TASKS)
def test_every_episode_is_that_of_the_published_game(task, blocks):
    expected = [line.split()[1:] for line in RECORDED.read_text().splitlines() if line.split()[0] == task]
    known: dict[tuple, int] = {}
    assert len(expected) == EPISODES // BLOCK
    for block, (digest,) in enumerate(expected[:blocks]):
        numbers = range(block * BLOCK, (block + 1) * BLOCK)
        played = "\n".join(line for number in numbers for line in lines(task, number, known))
        assert sha256(played.encode()).hexdigest()[:24] == digest, f"episodes {numbers[0]} to {numbers[-1]}"


@pytest.mark.parametrize(("task", "turns", "paid"), [("tomato_salad", 6, 1.1103), ("tomato_lettuce_salad", 10, 1.3381)])
def test_the_expert_knows_the_way_by_these_rules_too(task, turns, paid):
    options = {"task": task, "rules": "published"}
    game, expert = make_game("overcooked", options), make_player("overcooked", "expert", options)
    game.reset(3)
    expert.reset(3)
    rewards = []
    while game.seat is not None:
        rewards.append(game.step(expert.reply(game.observe(), game.actions())).rewards[SEAT])
    assert (len(rewards), game.outcome()[SEAT]) == (turns, 1.0)
    assert sum(rewards) == pytest.approx(paid, abs=1e-4)


def test_nothing_is_told_before_the_first_observation():
    assert make_game("overcooked", {"rules": "published"}).briefing(SEAT) == ""
    with pytest.raises(ValueError, match="rules='real' must be one of: own, published"):
        make_game("overcooked", {"rules": "real"})
