"""Recorded games for the tests of `parley offline`: small files in the published shapes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from cluster.commands.cli import main
from cluster.commands.offline import checked
from cluster.offline.resources import Resources
from cluster.offline.terminal import Terminal
from cluster.offline.work import Work
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
BARGAINING = [str(ROOT / "recipes" / "offline" / "tiny_bargaining.yaml")]
LIKELIHOOD = ["reward.shaper=aria", "learner.loss=likelihood", "learner.loss_aggregation=turn"]
QUESTIONS = [str(ROOT / "recipes" / "demo.yaml"), "rollout.engine.kind=transformers", *LIKELIHOOD]

# The data set whose values are known: actions, answers, whether it was won.
KNOWN = [("123", "yny", 1.0), ("12", "yy", 0.0), ("1234", "ynyy", 1.0)]


def write(path: Path, records: Iterable[dict]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def one_hot(place: int, width: int = 8) -> list[float]:
    return [float(place == each) for each in range(width)]


def lone(said: Sequence[str], answers: str, won: float, **more) -> dict:
    """A lone player's record as ARIA's tools write it: 0 is won, -1 is lost."""
    heard = [{"y": "Yes.", "n": "No.", "o": "Who knows?"}[answer] for answer in answers]
    return {
        "actions": [f"question {each}" for each in said],
        "obs": heard,
        "next_observations": heard,
        "reward": won - 1.0,
        "action_embeddings": [one_hot(int(each)) for each in said],
    } | more


def pair(alice: Sequence[str], bob: Sequence[str], won: float, **more) -> dict:
    """Two players' record; Alice speaks first, in turn."""
    turns = sorted([(2 * n, "alice") for n in range(len(alice))] + [(2 * n + 1, "bob") for n in range(len(bob))])
    return {
        "player_1_name": "Alice",
        "player_2_name": "Bob",
        "product_price_order": 100,
        "seller_value": 1.0,
        "buyer_value": 1.2,
        "player_1_system_prompt": "\nYou are Alice.\n",
        "player_2_system_prompt": "\nYou are Bob.\n",
        "alice_reward": won,
        "bob_reward": 1.0 - won,
        "alice_gain": 10,
        "bob_gain": 0,
        "alice_actions": list(alice),
        "bob_actions": list(bob),
        "alice_ids": [place for place, who in turns if who == "alice"],
        "bob_ids": [place for place, who in turns if who == "bob"],
    } | more


def offline(recipe: Sequence[str], file: Path, folder: Path, *overrides: str, until: str = "aggregate") -> int:
    words = ["offline", "run", *recipe, *overrides]
    return main([*words, "--input", str(file), "--folder", str(folder), "--until", until])


def rows(folder: Path, iteration: int = 1) -> list[dict]:
    return json.loads((folder / f"iteration-{iteration}" / "training.json").read_text())


def work_of(folder: Path, number: int = 1, overrides: Sequence[str] = ()) -> Work:
    config: RunConfig = checked(load_recipe(folder / "config.yaml", overrides))
    with RunFolder(folder) as owned:  # gives the lock back; the paths stay good
        terminal = Terminal()
        return Work(config, owned, number, Resources(config, owned, terminal), terminal)
