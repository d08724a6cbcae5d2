"""Scripted guessers of stated strength.

    expert     halves the candidates with each question and guesses when one is left
    mediocre   knows how, and mostly does something else: the one the embedded policy is cloned from
    random     asks and guesses without listening

They see what their seat sees: the words "yes", "no", "invalid". What they believe is the
set of objects that no answer has ruled out, kept as a bit mask. An object of which something
is only sometimes true stays in it whatever the answer was.
"""

from __future__ import annotations

import random
from typing import ClassVar

from envs.twenty_questions.oracles import oracle_for
from envs.twenty_questions.table import Attribute, Table

JUNK = ("hello there", "i like it", "is it it?", "what is what?", "who are you?", "no idea")


def guess_of(name: str) -> str:
    return f"i guess {name}"


def words_players_say(table: Table) -> list[str]:
    said = [question for attribute in table.attributes for question in attribute.ask]
    return [*said, *(guess_of(name) for name in table.names), *JUNK]


class Guesser:
    """Keeps the candidates; what to say next is each player's own."""

    def __init__(self, table: str = "small", turns: int = 10, **_options):
        self.oracle = oracle_for(table, "plain")  # to know what it asked itself; every oracle understands that
        self.table = self.oracle.table
        self.turns = turns

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"guesser {seed}")
        self.candidates = self.table.everything
        self.said: list[str] = []
        self.asked: set[str] = set()

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        if self.said:
            self._learn(self.said[-1], observation)
        utterance = self.choose()
        self.said.append(utterance)
        return utterance

    def _learn(self, said: str, answer: str) -> None:
        meaning, answer = self.oracle.understand(said), answer.lower().removesuffix(".")
        if meaning is None or answer not in ("yes", "no"):
            return
        if meaning.guess is not None:
            matching = 1 << self.table.names.index(meaning.guess)
            self.candidates &= matching if answer == "yes" else ~matching
        else:
            self.candidates &= (self.table.yes if answer == "yes" else self.table.no)[meaning.attribute]
            self.asked.add(meaning.attribute)

    def choose(self) -> str:
        raise NotImplementedError

    @property
    def turns_left(self) -> int:
        return self.turns - len(self.said)

    def ask(self, attribute: Attribute) -> str:
        return self.random.choice(attribute.ask)

    def left_over(self, attribute: Attribute) -> int:
        """How many candidates the worse of the two answers leaves."""
        table, name = self.table, attribute.name
        return max((self.candidates & table.yes[name]).bit_count(), (self.candidates & table.no[name]).bit_count())

    def informed_question(self) -> str:
        """About an attribute that splits the candidates most evenly; ties broken at random."""
        best = min(map(self.left_over, self.table.attributes))
        return self.ask(self.random.choice([each for each in self.table.attributes if self.left_over(each) == best]))

    def random_question(self) -> str:
        return self.ask(self.random.choice(self.table.attributes))

    def candidate_guess(self) -> str:
        left = [name for place, name in enumerate(self.table.names) if self.candidates >> place & 1]
        return guess_of(self.random.choice(left or self.table.names))


class Expert(Guesser):
    """Near-optimal: even splits, and a guess once guessing is as good as asking. Wins every game
    of the small table in 10 turns (5.6 on average) and of the full one in 20 (9.1)."""

    def choose(self) -> str:
        if self.candidates.bit_count() <= 2 or self.turns_left <= 1:
            return self.candidate_guess()
        return self.informed_question()


class Mediocre(Guesser):
    """Understands the answers, but uses them in less than half of its turns: 30 % informed
    questions, 30 % random ones, 15 % repeats of itself, 10 % nonsense, 15 % guesses among
    the candidates. Room to learn is what it is for. Wins 34 % of the small table's games (10
    turns) and 38 % of the full one's (20)."""

    habits: ClassVar[dict[str, int]] = {"informed": 30, "random": 30, "repeat": 15, "junk": 10, "guess": 15}

    def choose(self) -> str:
        habit = self.random.choices(list(self.habits), list(self.habits.values()))[0]
        if habit == "guess":
            return self.candidate_guess()
        if habit == "junk":
            return self.random.choice(JUNK)
        if habit == "repeat" and self.said:
            return self.random.choice(self.said)
        if habit == "informed" and self.candidates.bit_count() > 1:
            return self.informed_question()
        return self.random_question()


class Random(Guesser):
    """Half questions, half guesses, deaf to the answers. Wins 15 % of the small table's games (10
    turns) and 4 % of the full one's (20)."""

    def choose(self) -> str:
        if self.random.random() < 0.5:
            return self.random_question()
        return guess_of(self.random.choice(self.table.names))


PLAYERS: dict[str, type[Guesser]] = {"expert": Expert, "mediocre": Mediocre, "random": Random}
