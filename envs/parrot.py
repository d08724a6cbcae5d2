"""Parrot: say the word you are shown. A game for finding out whether anything learns.

Each seat has a word of its own that only it is shown; the seats take turns. A turn pays
the share of the utterance's words that are the seat's word, so even a random policy is
paid a little and a learning one climbs within a minute. The game never ends by itself: it
is cut off after `rounds` turns of each seat (truncated), and the outcome is the mean pay.

Small as it is, it uses the whole contract: several seats, private observations, listed
actions, rewards for each turn, truncation.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial

WORDS = ("apple", "bread", "cloud", "drum", "eagle", "fern")


class Parrot(Game):
    name = "parrot"

    def __init__(self, seats: Annotated[int, "1 to 99"] = 1, rounds: Annotated[int, "turns of each seat, 1 to 99"] = 3):
        for option, value in (("seats", seats), ("rounds", rounds)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 99:
                raise ValueError(f"game option {option}={value!r} must be a whole number from 1 to 99")
        self.seats = tuple(f"parrot{i}" for i in range(seats))
        self.horizon = seats * rounds
        self._words: dict[str, str] = {}
        self._paid = dict.fromkeys(self.seats, 0.0)
        self._turn = self.horizon

    def reset(self, seed: int) -> None:
        rng = random.Random(f"words {seed}")  # a string: -1 is not 1
        self._words = {seat: rng.choice(WORDS) for seat in self.seats}
        self._paid = {seat: 0.0 for seat in self.seats}
        self._turn = 0

    @property
    def seat(self) -> str | None:
        return self.seats[self._turn % len(self.seats)] if self._turn < self.horizon else None

    def briefing(self, seat: str) -> str:
        return "Repeat the word you are shown, and say nothing else."

    def observe(self) -> str:
        return f"say {self._words[self.seat]}"

    def actions(self) -> tuple[str, ...]:
        return WORDS

    def step(self, utterance: str) -> Step:
        seat = self.seat
        if seat is None:
            raise RuntimeError(OVER)
        said = utterance.lower().split()
        pay = sum(word == self._words[seat] for word in said) / len(said) if said else 0.0
        self._paid[seat] += pay
        self._turn += 1
        return Step(
            rewards={seat: pay},
            executable=any(word in WORDS for word in said),
            truncated=self.seat is None,
            caption=f"{seat} is shown {self._words[seat]} and {'repeats it' if pay == 1 else 'says something else'}",
        )

    def outcome(self) -> dict[str, float]:
        rounds = self.horizon // len(self.seats)
        return {seat: paid / rounds if self.seat is None else 0.0 for seat, paid in self._paid.items()}

    def closing(self) -> dict[str, str]:
        return {seat: f"say {word}" for seat, word in self._words.items()} if self.seat is None else {}

    def facts(self) -> dict[str, str]:
        return dict(self._words) if self.seat is None else {}

    def save(self) -> dict[str, Any]:
        return {"words": dict(self._words), "paid": dict(self._paid), "turn": self._turn}

    def restore(self, saved: dict[str, Any]) -> None:
        self._words, self._paid, self._turn = dict(saved["words"]), dict(saved["paid"]), saved["turn"]

    def language(self) -> Iterable[str]:
        yield from (f"say {word}" for word in WORDS)

    @classmethod
    def trials(cls) -> list[Trial]:
        beside = Trial("beside a perfect one", {"seats": 2}, {"parrot1": "scripted:perfect"}, episodes=100)
        return [Trial("alone", episodes=100), beside]

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"mediocre": Mediocre, "perfect": Perfect, "random": Random}


class Perfect:
    """Always says the word: mean pay 1."""

    def __init__(self, **options):
        """Players are given the game's options; this game's change nothing for them."""

    def reset(self, seed: int) -> None:
        pass

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        return observation.removeprefix("say ")


class Mediocre:
    """Says the word half of the time, else any: mean pay 7/12."""

    def __init__(self, **options):
        pass

    def reset(self, seed: int) -> None:
        self.rng = random.Random(f"mediocre {seed}")

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        return observation.removeprefix("say ") if self.rng.random() < 0.5 else self.rng.choice(actions)


class Random:
    """Says any of the words: mean pay 1/6."""

    def __init__(self, **options):
        pass

    def reset(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        return self.rng.choice(actions)
