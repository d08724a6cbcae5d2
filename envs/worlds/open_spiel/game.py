"""OpenSpiel: poker, dice and board games, over a hundred of them, for one seat or many.

Games are kuhn_poker, leduc_poker, liars_dice, tic_tac_toe, connect_four and so on, with parameters:
kuhn_poker(players=3), liars_dice(dice_sides=4), goofspiel(num_cards=4).

A seat is shown its own information state in words and no more: never another's card. Cards and dice fall by the
episode's seed. Moves that are made at once are made one after the other by OpenSpiel's own converter, unseen by the
others. Actions are listed by their own names; anything else costs the turn.

OpenSpiel's returns are kept as `money`. The outcome is where a return lies between the worst and the best; a reward is
what a move earned, divided by the larger of the two, so that a zero-sum game stays one. Whoever loses by `tries` earns
the worst, and in a game whose returns have a fixed sum the others share the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from envs.doors.inward.imported import world
from envs.game import OVER, Game, Player, Step, Trial
from envs.options import Menu, one_of, whole_number
from envs.text import listed
from envs.text.listed import menu_of, yes_or_no
from envs.worlds.open_spiel.players import PLAYERS, Random
from envs.worlds.open_spiel.spiel import CHANCE, Position, heard_as, named, opened
from envs.worlds.open_spiel.words import RULES, briefing, shown

SHOWS = ("words", "observation")
REFUSED = "That is none of your actions."
NAMED_ACTIONS = 1000  # whose names are all words of the language
PRACTICE_GAMES = 60
TRIALS = {"kuhn_poker": 1000, "leduc_poker": 1000, "liars_dice": 400, "tic_tac_toe": 200, "connect_four": 100}


class OpenSpielGame(Game):
    name = "open_spiel"

    def __init__(
        self,
        game: Annotated[
            str, "as OpenSpiel calls it, with its parameters: leduc_poker, liars_dice(dice_sides=4), ..."
        ] = "kuhn_poker",
        turns: Annotated[int, "until it is truncated"] = 200,
        tries: Annotated[
            int, "how often in a row a seat may say what is no legal action; the last one loses the game"
        ] = 3,
        show: Annotated[str, "words, or observation: OpenSpiel's own text of what is in sight now"] = "words",
        menu: Menu = True,
        returns: Annotated[
            list[float] | None, "the worst and the best that a seat may earn; null: OpenSpiel's own bounds"
        ] = None,
    ):
        self.of = opened(game, returns)
        self.seats = self.of.seats
        self.horizon = whole_number("turns", turns, 1, 10_000)
        self.tries = whole_number("tries", tries, 1, 100)
        self.show, self.menu = one_of("show", show, SHOWS), yes_or_no("menu", menu)
        if self.show == "observation" and not self.of.game.get_type().provides_observation_string:
            raise ValueError(f"game option show='observation': {self.of.short} has no observation as text")
        self._seed: int | None = None
        self._forget()

    def _forget(self) -> None:
        self._position: Position | None = None
        self._turn, self._refused = 0, 0  # refused: how often in a row
        self._loser: str | None = None  # by `tries`

    def reset(self, seed: int) -> None:
        self._seed = None  # no seat may act if the beginning fails
        self._forget()
        with world(self.of.title):
            self._position = Position(self.of, seed)
            self._look()
        self._seed = seed

    def _look(self) -> None:
        """What the acting seat sees and may do."""
        state = self._position.state
        self._actions: dict[str, int] = {}
        self._seat = None
        if state.is_terminal() or self._loser is not None:
            return
        player = state.current_player()
        self._seat, self._actions = self.seats[player], named(state)
        if not self._actions:
            raise RuntimeError(f"it lists no action for {self._seat}")
        self._listed = tuple(self._actions)
        self._heard = {heard_as(name): name for name in self._listed}
        text = shown(self._position, player, self.show)
        self._shown = "\n".join([part for part in (text, menu_of(self._listed) if self.menu else "") if part])

    @property
    def seat(self) -> str | None:
        return None if self._seed is None or self._turn >= self.horizon else self._seat

    def briefing(self, seat: str) -> str:
        return briefing(self.of, seat, self.show, self.horizon)

    def observe(self) -> str:
        return f"{REFUSED}\n{self._shown}" if self._refused else self._shown or "Say one of your actions."

    def actions(self) -> tuple[str, ...]:
        return self._listed if self.seat is not None else ()

    def step(self, utterance: str) -> Step:
        seat = self.seat
        if seat is None:
            raise RuntimeError(OVER)
        said = self._heard.get(heard_as(utterance)) if len(utterance) <= 1000 else None
        said = listed.named(utterance, self._listed) if said is None else said
        self._turn += 1
        with world(self.of.title):
            before = self._earned()
            self._hear(seat, said)
            gained = {each: (now - before[each]) / self.of.largest for each, now in self._earned().items()}
        over = self._seat is None
        return Step(
            rewards={each: reward for each, reward in gained.items() if reward},
            executable=said is not None,
            terminated=over,
            truncated=not over and self._turn >= self.horizon,
            caption=self._caption(seat, said),
        )

    def _hear(self, seat: str, said: str | None) -> None:
        if said is None:
            self._refused += 1
            if self._refused < self.tries:
                return
            self._loser = seat
        else:
            self._refused = 0
            self._position.apply(self._actions[said])
        self._look()

    def _caption(self, seat: str, said: str | None) -> str:
        if said is not None:
            return f"{seat} plays {said}"
        return f"{seat} says nothing that is legal{' and loses the game' if self._loser else ''}"

    def _earned(self) -> dict[str, float]:
        """On OpenSpiel's scale, so far."""
        returns = self.of.returns(self._position.state)
        if self._loser is not None:
            total, others = self.of.game.utility_sum(), max(1, len(self.seats) - 1)
            returns = [
                self.of.worst if seat == self._loser else so_far if total is None else (total - self.of.worst) / others
                for seat, so_far in zip(self.seats, returns, strict=True)
            ]
        return dict(zip(self.seats, returns, strict=True))

    def _over(self) -> bool:
        return self._seed is not None and self.seat is None

    def outcome(self) -> dict[str, float]:
        if not self._over():
            return dict.fromkeys(self.seats, 0.0)
        return {seat: self.of.share(earned) for seat, earned in self._earned().items()}

    def money(self, seat: str) -> float | None:
        return self._earned()[seat] if self._over() else None

    def closing(self) -> dict[str, str]:
        if not self._over():
            return {}
        return {seat: f"The game is over: you earn {earned:g}." for seat, earned in self._earned().items()}

    def facts(self) -> dict[str, str]:
        if not self._over():
            return {}
        return {"played": ", ".join(f"{who}: {name}" for who, name in self._position.moves)}

    def save(self) -> dict[str, Any]:
        played = [] if self._position is None else list(self._position.actions)
        return {
            "seed": self._seed,
            "played": played,
            "turn": self._turn,
            "refused": self._refused,
            "loser": self._loser,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        self._seed = None
        self._forget()
        if saved["seed"] is None:
            return
        self._position = Position(self.of, saved["seed"])
        for action in saved["played"]:
            self._position.apply(action)
        self._turn, self._refused, self._loser = saved["turn"], saved["refused"], saved["loser"]
        self._seed = saved["seed"]
        self._look()

    def language(self) -> Iterable[str]:
        """All names of actions, and what is seen in practice games at random."""
        yield from (REFUSED, CHANCE, *(f"{seat}: {seat}." for seat in self.seats))
        spiel = self.of.game
        if spiel.num_distinct_actions() <= NAMED_ACTIONS and self.of.short in RULES:
            for player in range(len(self.seats)):
                for action in range(spiel.num_distinct_actions()):
                    name = spiel.action_to_string(player, action)
                    yield from (name, menu_of((name, name)), f"{name}, {name}.")
        game = type(self)(self.of.title, self.horizon, self.tries, self.show, self.menu, [self.of.worst, self.of.best])
        player = Random()
        for number in range(-PRACTICE_GAMES, 0):
            game.reset(number)
            player.reset(number)
            while game.seat is not None:
                yield from (game.observe(), *game.actions())
                game.step(player.reply(game.observe(), game.actions()))
            yield from game.closing().values()

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS

    @classmethod
    def trials(cls) -> list[Trial]:
        """In either seat, against the strongest player that the game has."""
        seats = (("player_0", "player_1"), ("player_1", "player_0"))
        return [
            Trial(f"{game}, {free}", {"game": game}, {rival: "scripted:expert"}, episodes)
            for game, episodes in TRIALS.items()
            for free, rival in seats
        ]
