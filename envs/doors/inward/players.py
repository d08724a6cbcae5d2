"""Scripted players for games that nobody here wrote: they know no rules, only what they read.

    curious    does what it has done least after seeing what it sees now
    mediocre   curious in half of its turns, random in the others
    random     any of the things it could say

What a player could say is the listed actions. Where speech is free it is what the newest
observation has in square brackets, as games for language models show their moves; else its
numbers, put in brackets; else any brackets read before. What each player is worth depends
on the game: docs/results/players.md has measured figures.
"""

from __future__ import annotations

import random
import re
from collections import Counter

BRACKETED = re.compile(r"\[[^\[\]\n]{1,40}\]")
NUMBER = re.compile(r"(?<![\w.\[])\d{1,3}(?![\w.\]])")
SPEAKERS = re.compile(r"\[(?:game|player\b.*)\]", re.IGNORECASE)  # who speaks, not what can be said


class TextReader:
    """Reads; `choose` is each player's own."""

    def __init__(self, **options):
        """Players are given the game's options; these need none."""

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"reader {seed}")
        self.read: dict[str, None] = {}  # bracketed words in the order of first reading
        self.done: Counter[tuple[str, str]] = Counter()

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        said = self.choose(observation, tuple(actions), self._speech(observation) if not actions else ())
        self.done[observation, said] += 1
        return said

    def _speech(self, observation: str) -> tuple[str, ...]:
        fresh = bracketed(observation)
        self.read |= dict.fromkeys(fresh)
        return fresh or tuple(f"[{number}]" for number in NUMBER.findall(observation)) or tuple(self.read) or ("[1]",)

    def anything(self, sayable: tuple[str, ...]) -> str:
        return self.random.choice(sayable)

    def choose(self, observation: str, listed: tuple[str, ...], speech: tuple[str, ...]) -> str:
        raise NotImplementedError


class Random(TextReader):
    """Any of the things it could say: wins 1 % of slippery frozen lakes, finds 2 % of the coins
    of level 10, and is worth 0.66 at noughts and crosses if it begins and the other is its like."""

    def choose(self, observation: str, listed: tuple[str, ...], speech: tuple[str, ...]) -> str:
        return self.anything(listed or speech)


class Curious(TextReader):
    """What it has done least after this very observation, ties broken at random: it does not
    walk in circles. Of free speech it takes only what the last line with brackets offers,
    where games list the moves: from 22 to 50 % in the iterated prisoner's dilemma against random
    players, no better than they are at most other games."""

    def choose(self, observation: str, listed: tuple[str, ...], speech: tuple[str, ...]) -> str:
        lines = [found for line in observation.splitlines() if (found := bracketed(line))]
        sayable = listed or (lines[-1] if lines else speech)
        least = min(self.done[observation, said] for said in sayable)
        return self.anything(tuple(said for said in sayable if self.done[observation, said] == least))


class Mediocre(Curious):
    """Curious in half of its turns, random in the others: 35 % in the iterated prisoner's dilemma."""

    def choose(self, observation: str, listed: tuple[str, ...], speech: tuple[str, ...]) -> str:
        if self.random.random() < 0.5:
            return self.anything(listed or speech)
        return super().choose(observation, listed, speech)


def bracketed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(said for said in BRACKETED.findall(text) if not SPEAKERS.fullmatch(said)))
