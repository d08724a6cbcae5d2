"""Twenty Questions: find the object that the oracle thinks of.

One seat, the guesser. Each turn is one question or one guess; the oracle says "yes",
"no" or, to anything that it cannot make sense of, "invalid" (which costs the turn).
Only a right guess wins: reward and outcome 1, else 0. Running out of questions is how
the game itself ends, and known to the player from the start: terminated with outcome
0, not truncated, so nothing is bootstrapped beyond it.

Everything about the world is in the table: `table="small"` ships with the game, a path
to a TOML file of the same form replaces it, and `turns` says how many questions there are.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from envs.game import Player, Step
from envs.twenty_questions.oracle import oracle_for
from envs.twenty_questions.players import PLAYERS, words_players_say

SEAT = "guesser"


class TwentyQuestions:
    name = "twenty_questions"
    seats = (SEAT,)

    def __init__(self, table: str = "small", turns: int = 10):
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise ValueError(f"game option turns={turns!r} must be a whole number of at least 1")
        self.oracle = oracle_for(table)
        self.table = self.oracle.table
        self.horizon = turns
        self._secret: str | None = None

    def reset(self, seed: int) -> None:
        self._secret = random.Random(f"secret {seed}").choice(self.table.names)  # a string: -1 is not 1
        self._asked = 0
        self._won = False
        self._seen = self.table.opening

    @property
    def seat(self) -> str | None:
        if self._secret is None or self._won or self._asked >= self.horizon:
            return None
        return SEAT

    def briefing(self, seat: str) -> str:
        return (
            f"We play a guessing game. I think of one of these objects: {', '.join(self.table.names)}. "
            f"You have {self.horizon} turns. In each turn, ask one short question that I can answer with yes or no, "
            "or make a guess, like this: i guess " + self.table.names[0] + ". You win only by guessing the object. "
            "Say nothing but the question or the guess."
        )

    def observe(self) -> str:
        return self._seen

    def actions(self) -> tuple[str, ...]:
        return ()

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError("the game is over (or was never reset): no seat may act")
        meaning = self.oracle.understand(utterance)
        self._seen = self.oracle.answer(meaning, self._secret)
        self._asked += 1
        self._won = meaning is not None and meaning.guess == self._secret
        if meaning is None:
            caption = "the guesser says something that is neither a question nor a guess"
        elif meaning.guess is not None:
            caption = f"the guesser guesses {meaning.guess}: {'right' if self._won else 'wrong'}"
        else:
            caption = f"the guesser asks about {meaning.attribute}: {self._seen}"
        return Step(
            rewards={SEAT: 1.0} if self._won else {},
            executable=meaning is not None,
            terminated=self.seat is None,
            caption=caption,
        )

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self._won)}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._seen} if self.seat is None and self._secret is not None else {}

    def facts(self) -> dict[str, str]:
        return {"secret": self._secret} if self.seat is None and self._secret is not None else {}

    def save(self) -> dict[str, Any]:
        return {"secret": self._secret, "asked": self._asked, "won": self._won, "seen": self._seen}

    def restore(self, saved: dict[str, Any]) -> None:
        self._secret, self._asked = saved["secret"], saved["asked"]
        self._won, self._seen = saved["won"], saved["seen"]

    def language(self) -> Iterable[str]:
        yield self.table.opening
        yield from ("yes", "no", "invalid")
        yield from words_players_say(self.table)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS
