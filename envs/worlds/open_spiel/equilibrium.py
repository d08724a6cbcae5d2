"""What OpenSpiel's own CFR+ plays in a small two-player zero-sum game with hidden cards: near an equilibrium.

    chances(opened) -> {information state: {action: probability}}      computed once
    by_words(opened) -> {what is shown: {name: probability}}           the same, for who reads

The average policy of so many iterations that its exploitability (what the best reply earns more than the value of the
game, by OpenSpiel's own measure) is below

    kuhn_poker 0.001, leduc_poker 0.02, liars_dice 0.03

on OpenSpiel's scale. It takes a blink for Kuhn poker, some ten seconds for the others, and is then kept in
$PARLEY_CACHE/open_spiel, or else ~/.cache/parley/open_spiel.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from envs.cache import cache_folder
from envs.worlds.open_spiel.spiel import Opened, Position, named
from envs.worlds.open_spiel.words import shown
from envs.worlds.package import package

ITERATIONS = ((100, 1000), (2_000, 200), (30_000, 60))  # (information states at most, iterations)
MOST_HISTORIES = 200_000
Chances = dict[str, dict[int, float]]


@lru_cache(maxsize=8)
def by_words(of: Opened) -> dict[str, dict[str, float]]:
    found = {}
    for known, row in chances(of).items():
        position = Position.at(of, _information_states(of)[known].history())
        player = position.state.current_player()
        names = {action: name for name, action in named(position.state).items()}
        found[shown(position, player, "words")] = {names[action]: chance for action, chance in row.items()}
    return found


@lru_cache(maxsize=8)
def chances(of: Opened) -> Chances:
    spiel, game = package("pyspiel", "open_spiel"), of.game
    kind = game.get_type()
    if game.num_players() != 2 or kind.utility != spiel.GameType.Utility.ZERO_SUM:
        raise ValueError(f"{no_expert(of)}: CFR is for two players and a sum of zero")
    if of.reseeded or not kind.provides_information_state_string:
        raise ValueError(f"{no_expert(of)}: its tree cannot be walked")
    made_from = repr((version("open_spiel"), str(game), ITERATIONS)).encode()
    path = folder() / f"{hashlib.sha256(made_from).hexdigest()[:16]}.json"
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {known: {int(action): chance for action, chance in row.items()} for known, row in kept.items()}
    found = solved(spiel, of)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(file.name, path)  # a file that is there is whole
    return found


def folder() -> Path:
    return cache_folder() / "open_spiel"


def solved(spiel: Any, of: Opened) -> Chances:
    known = _information_states(of)
    solver = spiel.CFRPlusSolver(of.game)
    for _ in range(next(iterations for most, iterations in ITERATIONS if len(known) <= most)):
        solver.evaluate_and_update_policy()
    policy = solver.average_policy()
    return {each: dict(policy.action_probabilities(state)) for each, state in known.items()}


@lru_cache(maxsize=2)
def _information_states(of: Opened) -> dict[str, Any]:
    """Each with a state that has it."""
    found: dict[str, Any] = {}
    waiting, walked = [of.game.new_initial_state()], 0
    while waiting:
        state = waiting.pop()
        if state.is_terminal():
            continue
        if not state.is_chance_node():
            found.setdefault(state.information_state_string(), state)
        walked += 1
        if len(found) > ITERATIONS[-1][0] or walked > MOST_HISTORIES:
            raise ValueError(f"{no_expert(of)}: its tree is too large for CFR")
        waiting += [state.child(action) for action in state.legal_actions()]
    return found


def no_expert(of: Opened) -> str:
    return f"game option game={of.title!r} has no expert"
