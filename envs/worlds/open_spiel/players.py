"""Scripted players of OpenSpiel's games, which see what their seat is shown.

expert     hidden cards, two players, zero sum, at most 30,000 information states: near the equilibrium, by CFR+
           nothing hidden: Monte Carlo tree search, with 1,000 games for each move of connect four
           any other: there is none, and it says so
mediocre   the expert, and in many of its turns any legal action; where there is no expert, always
random     any legal action
"""

from __future__ import annotations

import random
import re
from typing import Any

from envs.text.listed import Chooser
from envs.worlds.open_spiel.equilibrium import by_words
from envs.worlds.open_spiel.spiel import CHANCE, Opened, named, opened, plain_name
from envs.worlds.package import package

SIMULATIONS = 5000  # for one move, at most
MOVES_SIMULATED = 42_000  # the same in moves
MOVE = re.compile(rf"(player_\d+|{CHANCE}): (.*)")


class Mixing:
    """Draws an action as the equilibrium does, by the words that it is shown."""

    def __init__(self, of: Opened):
        self.chances = by_words(of)

    def reset(self, dice: random.Random) -> None:
        self.dice = dice

    def look(self, observation: str) -> None:
        *text, menu = observation.split("\n")
        known = "\n".join(text) if menu.startswith("You can: ") else observation
        self.row = self.chances[known]

    def choose(self, actions: tuple[str, ...]) -> str:
        return self.dice.choices(list(self.row), list(self.row.values()))[0]

    def said(self, action: str) -> None:
        """What is shown next says it."""


class Searching:
    """Looks ahead, by OpenSpiel's Monte Carlo tree search, in the game as the moves that it was told have made it."""

    def __init__(self, of: Opened):
        self.of, self.spiel = of, package("pyspiel", "open_spiel")
        longest = max(1, of.game.max_game_length())
        self.simulations = max(10, min(SIMULATIONS, MOVES_SIMULATED // longest))

    def reset(self, dice: random.Random) -> None:
        self.state = self.of.start(0)
        judge = self.spiel.RandomRolloutEvaluator(1, dice.randrange(2**31))
        self.search = self.spiel.MCTSBot(
            self.of.game, judge, 2.0, self.simulations, 1000, True, dice.randrange(2**31), False
        )

    def look(self, observation: str) -> None:
        for line in observation.split("\n"):
            if (move := MOVE.fullmatch(line)) is None:
                return
            self._play(move[2])

    def _play(self, name: str) -> None:
        if self.state.is_chance_node():
            who, actions = self.state.current_player(), [action for action, _ in self.state.chance_outcomes()]
            known = {plain_name(self.state.action_to_string(who, action)): action for action in actions}
        else:
            known = named(self.state)
        self.state.apply_action(known[name])

    def choose(self, actions: tuple[str, ...]) -> str:
        best = self.search.step(self.state)
        return next(name for name, action in named(self.state).items() if action == best)

    def said(self, action: str) -> None:
        self._play(action)


class Expert(Chooser):
    """Nobody gains more than 0.001 chips a game on it in Kuhn poker, 0.02 in Leduc poker, 0.03 games at liar's dice.
    Loses no game of tic-tac-toe in 600 against itself, and none of connect four to a random player."""

    def __init__(self, game: str = "kuhn_poker", show: str = "words", returns: Any = None, **options):
        self.of = opened(game, returns)
        if show != "words":
            raise ValueError(f"game option show={show!r}: the expert reads words only")
        self.mind = Searching(self.of) if self.of.perfect else Mixing(self.of)

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.mind.reset(random.Random(f"expert {seed}"))

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        self.mind.look(observation)
        wise = self.random.random() < self.wisdom
        said = self.mind.choose(actions) if wise else self.random.choice(actions)
        self.mind.said(said)
        return said


class Mediocre(Expert):
    """An expert in 3 of 10 turns. Against one it is worth 0.23 as the first at tic-tac-toe and 0.05 as the second, and
    loses half a chip a game of Leduc poker."""

    wisdom = 0.3

    def __init__(self, game: str = "kuhn_poker", **options):
        try:
            super().__init__(game, **options)
        except ValueError:
            opened(game, options.get("returns"))  # or there is no such game
            self.mind = None

    def reset(self, seed: int) -> None:
        Chooser.reset(self, seed)
        if self.mind is not None:
            self.mind.reset(random.Random(f"expert {seed}"))

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        return self.random.choice(actions) if self.mind is None else super().reply(observation, actions)


class Random(Chooser):
    """Any legal action. Against the expert it is worth 0.12 as the first at tic-tac-toe and 0.01 as the second, nothing
    at connect four, and loses 0.7 chips a game of Leduc poker."""


PLAYERS: dict[str, type[Chooser]] = {"expert": Expert, "mediocre": Mediocre, "random": Random}
