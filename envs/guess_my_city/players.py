"""Scripted guessers of stated strength.

    expert     asks what is expected to tell most, and guesses when one city is left
    mediocre   knows how, and mostly does something else: the one that a policy is cloned from
    random     asks and guesses without listening

They see what their seat sees. What they believe is the set of cities that fit every answer,
kept as a bit mask: each of their questions parts the cities by the answer that each would get.
"""

from __future__ import annotations

import random
from functools import lru_cache
from math import log
from typing import ClassVar

from envs.guess_my_city.atlas import Atlas
from envs.guess_my_city.oracle import Oracle
from envs.guess_my_city.oracles import oracle_for

JUNK = ("hello there", "i like it", "what is what?", "who are you?", "no idea")
MILLION = 1_000_000
FEWEST_CITIES = 4  # that a value asked for must be true of
MOST_ANSWERS = 10
TELLING = 3  # so many of the best questions are as good as each other


def guess_of(name: str) -> str:
    return f"i guess {name.lower()}"


@lru_cache(maxsize=8)
def questions_of(oracle: Oracle) -> dict[str, dict[str, int]]:
    """Each question that players ask -> each answer to it -> bit mask of the cities that give it.
    Yes or no for whatever is true of a few cities, and the open ones with few answers: "what is
    it known for?" would end the game."""
    atlas = oracle.atlas
    asked: list[str] = []
    for name, topic in oracle.topics.items():
        asked += [question for question in (topic.which, topic.has) if question]
        if topic.kind == "number":
            asked += [topic.ask.format(n // MILLION if n >= MILLION else n) for n in topic.thresholds]
        elif "{}" in topic.ask:
            shared = {value for city in atlas.cities.values() for value in city.truths.get(name, ())}
            counts = {value: sum(value in city.truths[name] for city in atlas.cities.values()) for value in shared}
            common = sorted(value for value, count in counts.items() if count >= FEWEST_CITIES)
            asked += [topic.ask.format(atlas.values[name][value].lower()) for value in common]
        else:
            asked.append(topic.ask)
    parted = {question: _parted(oracle, question) for question in asked}
    return {question: answers for question, answers in parted.items() if 1 < len(answers) <= MOST_ANSWERS}


def _parted(oracle: Oracle, question: str) -> dict[str, int]:
    meaning, answers = oracle.understand(question), {}
    for place, city in enumerate(oracle.atlas.cities):
        answer = oracle.answer(meaning, city)
        answers[answer] = answers.get(answer, 0) | 1 << place
    return answers


@lru_cache(maxsize=65536)
def _informative(oracle: Oracle, candidates: int) -> tuple[str, ...]:
    """The questions that tell most about the candidates, in falling order of expected information."""
    everyone = candidates.bit_count()
    expected = []
    for question, answers in questions_of(oracle).items():
        counts = [(candidates & mask).bit_count() for mask in answers.values()]
        expected.append((sum(count * log(count) for count in counts if count) / everyone, question))
    return tuple(question for _, question in sorted(expected)[:TELLING])


def words_players_say(oracle: Oracle) -> list[str]:
    atlas: Atlas = oracle.atlas
    return [*questions_of(oracle), *(guess_of(city.name) for city in atlas.cities.values()), *JUNK]


class Guesser:
    """Keeps the candidates; what to say next is each player's own."""

    def __init__(
        self, table: str = "world", turns: int = 20, paraphrases: bool = True, most_answers: int = 0, **_options
    ):
        self.oracle = oracle_for(table, paraphrases, most_answers)
        self.cities = tuple(self.oracle.atlas.cities.values())
        self.questions = tuple(questions_of(self.oracle))
        self.turns = turns

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"guesser {seed}")
        self.candidates = (1 << len(self.cities)) - 1
        self.said: list[str] = []

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        if self.said:
            self._learn(self.said[-1], observation)
        utterance = self.choose()
        self.said.append(utterance)
        return utterance

    def _learn(self, said: str, answer: str) -> None:
        if said in questions_of(self.oracle):
            left = self.candidates & questions_of(self.oracle)[said].get(answer, self.candidates)
        else:
            guessed = [place for place, city in enumerate(self.cities) if guess_of(city.name) == said]
            left = self.candidates & ~sum(1 << place for place in guessed)
        self.candidates = left or self.candidates

    def choose(self) -> str:
        raise NotImplementedError

    @property
    def turns_left(self) -> int:
        return self.turns - len(self.said)

    def informed_question(self) -> str:
        return self.random.choice(_informative(self.oracle, self.candidates))

    def random_question(self) -> str:
        return self.random.choice(self.questions)

    def candidate_guess(self) -> str:
        left = [city for place, city in enumerate(self.cities) if self.candidates >> place & 1]
        return guess_of(self.random.choice(left).name)


class Expert(Guesser):
    """Near-optimal: wins every one of 1,000 games, in 4.8 turns on average."""

    def choose(self) -> str:
        if self.candidates.bit_count() <= 2 or self.turns_left <= 1:
            return self.candidate_guess()
        return self.informed_question()


class Mediocre(Guesser):
    """Understands the answers, but uses them in few of its turns: 5 % informed questions, 35 % any,
    25 % repeats of itself, 20 % nonsense, 15 % guesses among the candidates. Wins 33 %
    of 1,000 games: room to learn is what it is for."""

    habits: ClassVar[dict[str, int]] = {"informed": 5, "random": 35, "repeat": 25, "junk": 20, "guess": 15}

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
    """Half questions, half guesses, deaf to the answers: wins 7 % of 1,000 games."""

    def choose(self) -> str:
        if self.random.random() < 0.5:
            return self.random_question()
        return guess_of(self.random.choice(self.cities).name)


PLAYERS: dict[str, type[Guesser]] = {"expert": Expert, "mediocre": Mediocre, "random": Random}
