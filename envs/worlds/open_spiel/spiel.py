"""A game of OpenSpiel as it is loaded: checked, turn by turn, with its scale and the names of its actions.

opened(title) -> Opened           one line of ValueError for what cannot be played
named(state) -> {name: action}    each legal action by its own name, one line, no two alike
Position(opened, seed)            an episode; chance is drawn from the seed and the number of moves before
"""

from __future__ import annotations

import difflib
import random
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from envs.doors.inward.imported import returns_of
from envs.worlds.package import number_of, package, text_of

CHANCE = "chance"  # who draws cards and rolls dice, in a list of moves
NAME_CHARACTERS = 200


@dataclass(frozen=True, eq=False)
class Opened:
    """What all episodes of one game share."""

    title: str  # as OpenSpiel is asked for it
    short: str  # without parameters
    game: Any
    turned: bool  # simultaneous moves, made one after the other by OpenSpiel's own converter
    perfect: bool  # nothing is hidden: every move is everybody's to see
    worst: float  # of what a seat may earn in a game, on OpenSpiel's scale
    best: float
    reseeded: bool  # the game has dice of its own, and takes a seed for them

    @property
    def seats(self) -> tuple[str, ...]:
        return tuple(f"player_{number}" for number in range(self.game.num_players()))

    @property
    def largest(self) -> float:
        """By which rewards are divided, so that none is above 1 or below -1 and those that sum to 0 still do."""
        return max(abs(self.worst), abs(self.best))

    def share(self, earned: float) -> float:
        """Where it lies between the worst and the best, in [0, 1]."""
        return min(1.0, max(0.0, (earned - self.worst) / (self.best - self.worst)))

    def start(self, seed: int) -> Any:
        """The very beginning, before chance does anything."""
        if not self.reseeded:
            return self.game.new_initial_state()
        dice = random.Random(f"open_spiel dice {seed}").randrange(2**31)
        settings = {**self.game.get_parameters(), "rng_seed": dice}
        return package("pyspiel", "open_spiel").load_game(self.short, settings).new_initial_state()

    def returns(self, state: Any) -> list[float]:
        """What each seat has earned so far."""
        return [number_of(each) for each in state.returns()]


def opened(title: Any, returns: Any = None) -> Opened:
    """`returns`: the worst and the best that a seat may earn, where OpenSpiel's own bounds are not wanted."""
    if not isinstance(title, str):
        raise ValueError(f"game option game={title!r} must be text")
    scale = None if returns is None else returns_of(returns)
    return _opened(title, scale)


@lru_cache(maxsize=256)
def _opened(title: str, scale: tuple[float, float] | None) -> Opened:
    spiel = package("pyspiel", "open_spiel")
    short = title.partition("(")[0].strip()
    known = spiel.registered_names()
    if short not in known:
        close = difflib.get_close_matches(short, known, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"it has {len(known)}, such as kuhn_poker and connect_four"
        raise ValueError(f"game option game={title!r}: OpenSpiel has no such game; {hint}")

    def refused(why: str) -> ValueError:
        return ValueError(f"game option game={title!r}: {why}")

    try:
        game = spiel.load_game(title)
    except Exception as error:  # whatever a game says to its parameters
        raise refused(f"OpenSpiel refuses it: {' '.join(str(error).split())[:200]}") from None
    kind = game.get_type()
    dynamics, chance = spiel.GameType.Dynamics, spiel.GameType.ChanceMode
    if kind.dynamics == dynamics.MEAN_FIELD:
        raise refused("it is a mean-field game, in which nobody takes a turn")
    turned = kind.dynamics == dynamics.SIMULTANEOUS
    if turned:
        game = spiel.convert_to_turn_based(game)
    reseeded = kind.chance_mode == chance.SAMPLED_STOCHASTIC
    if reseeded and "rng_seed" not in game.get_parameters():
        raise refused("it rolls dice of its own, for which it takes no seed")
    shows = game.get_type()
    if not (shows.provides_information_state_string or shows.provides_observation_string):
        raise refused("it has no text of what a player sees")
    worst, best = scale or (game.min_utility(), game.max_utility())
    if not -1e18 < worst < best < 1e18:
        raise refused(f"what can be earned in it is from {worst:g} to {best:g}: say returns=[worst, best]")
    perfect = not turned and kind.information == spiel.GameType.Information.PERFECT_INFORMATION
    found = Opened(title, short, game, turned, perfect, float(worst), float(best), reseeded)
    try:
        named(Position(found, 0).state)
    except Exception as error:  # of a game that asks for something else than an action out of a list
        raise refused(f"it cannot be played: {' '.join(str(error).split())[:200]}") from None
    return found


def named(state: Any) -> dict[str, int]:
    """Of the acting player. A name that two actions share gets the action's number behind it."""
    player = state.current_player()
    actions = state.legal_actions()
    names = [plain_name(state.action_to_string(player, action)) for action in actions]
    alike = Counter(map(heard_as, names))
    return {
        name if heard_as(name) and alike[heard_as(name)] == 1 else f"{name} #{action}".strip(): action
        for name, action in zip(names, actions, strict=True)
    }


@lru_cache(maxsize=2**14)  # a game names the same actions in every turn
def plain_name(text: Any) -> str:
    return " ".join(text_of(text, NAME_CHARACTERS).split())


@lru_cache(maxsize=2**14)
def heard_as(utterance: str) -> str:
    """Two texts that are heard as the same name that action: but for upper case, space and one final period."""
    return " ".join(utterance.split()).removesuffix(".").rstrip().lower()


class Position:
    """Where an episode stands. `moves`: (who, name) of everything that was done, by chance too."""

    def __init__(self, of: Opened, seed: int):
        self.of, self.seed = of, seed
        self.state = of.start(seed)
        self.moves: list[tuple[str, str]] = []
        self.actions: list[int] = []  # of players: with the seed they say everything
        self._draw()

    @classmethod
    def at(cls, of: Opened, history: list[int]) -> Position:
        """After these actions of players and of chance."""
        found = cls.__new__(cls)
        found.of, found.seed, found.state, found.moves, found.actions = of, 0, of.start(0), [], []
        for action in history:
            found._move(action)
        return found

    def apply(self, action: int) -> None:
        self._move(action)
        self.actions.append(action)
        self._draw()

    def _draw(self) -> None:
        """Whatever chance does now."""
        while self.state.is_chance_node():
            actions, weights = zip(*self.state.chance_outcomes(), strict=True)
            dice = random.Random(f"open_spiel {self.seed} {len(self.moves)}")
            self._move(dice.choices(actions, weights)[0])

    def _move(self, action: int) -> None:
        who = self.state.current_player()
        name = plain_name(self.state.action_to_string(who, action))
        self.moves.append((CHANCE if who < 0 else f"player_{who}", name))
        self.state.apply_action(action)

    def since(self, seat: str) -> list[tuple[str, str]]:
        """The moves since the seat's own last one."""
        own = [place for place, (who, _) in enumerate(self.moves) if who == seat]
        return self.moves[own[-1] + 1 :] if own else list(self.moves)
