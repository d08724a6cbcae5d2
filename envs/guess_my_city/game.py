"""Guess My City: find the city that the oracle thinks of.

One seat, the guesser. Each turn is one question, open ("what language do they speak?") or
closed ("is it on the coast?"), or one guess. The oracle answers in a short sentence; what it
cannot make sense of costs the turn, and so does a question about the name. Only a right guess
wins: reward and outcome 1, else 0. Running out of turns is how the game itself ends, and
known to the player from the start: terminated with outcome 0, not truncated.

With `most_answers=10` no city can be looked up by two open questions such as "what is it known for?". Published rules
are those of envs/text/published.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial
from envs.guess_my_city.oracle import INVALID, NAME_REFUSED, RIGHT, TOO_TELLING
from envs.guess_my_city.oracles import oracle_for
from envs.guess_my_city.players import PLAYERS, guess_of, words_players_say
from envs.text import guessing
from envs.text.published import Prompts, Rules, rules_of

SEAT = "guesser"


class GuessMyCity(Game):
    name = "guess_my_city"
    seats = (SEAT,)

    def __init__(
        self,
        table: Annotated[
            str, "world (140 cities), small (24), lmrl (the 100 of LMRL-Gym), or the path of a TOML file of that form"
        ] = "world",
        turns: Annotated[int, "questions and guesses, at least 1"] = 20,
        paraphrases: Annotated[
            bool, "false: questions in the words of the rules only, without sentence embeddings; quick for any text"
        ] = True,
        rules: Rules = "own",
        prompts: Prompts = None,
        most_answers: Annotated[
            int, "leave open questions unanswered that part the cities into more groups; 0: answer all"
        ] = 0,
        nearest: Annotated[bool, "read what is left by the nearest of many known questions"] = False,
    ):
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise ValueError(f"game option turns={turns!r} must be a whole number of at least 1")
        self.oracle = oracle_for(table, paraphrases, most_answers, nearest)
        self.published = rules_of(self.name, rules, prompts)
        self.horizon = turns
        self._secret: str | None = None
        self._asked, self._won, self._seen = 0, False, self.oracle.atlas.opening

    def reset(self, seed: int) -> None:
        self._secret = random.Random(f"secret {seed}").choice(list(self.oracle.atlas.cities))  # a string: -1 is not 1
        self._asked = 0
        self._won = False
        self._seen = self.oracle.atlas.opening

    @property
    def seat(self) -> str | None:
        if self._secret is None or self._won or self._asked >= self.horizon:
            return None
        return SEAT

    def briefing(self, seat: str) -> str:
        if self.published:
            return self.published
        cities, most = len(self.oracle.atlas.cities), self.oracle.most_answers
        examples = "Which language do they speak? Is it on the coast? Has it more than 5 million people? "
        examples += "What food is it known for?"
        if most:
            examples = "Which continent is it on? Is it on the coast? Has it more than 5 million people? Do they speak "
            examples += f"Spanish? Open questions with more than {most} possible answers are not answered."
        return (
            f"We play a guessing game. I am thinking of a city: one of {cities} well-known cities of the world. "
            f"You have {self.horizon} turns to find out which one it is. In each turn, say exactly one thing:\n"
            "- a short question about the city, open or to be answered with yes or no, such as: "
            f"{examples}\n"
            "- or a guess that names one city and nothing else, such as: Is it Paris?\n"
            "I answer each question with one short and true sentence. I say nothing about the name of the city, such "
            "as its letters, and I do not answer several questions at once. What I do not understand costs a turn like "
            "anything else. You win only by guessing the city, with your last turn at the latest. Say nothing but the "
            "question or the guess."
        )

    def observe(self) -> str:
        return self._seen

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError(OVER)
        meaning = self.oracle.understand(utterance)
        self._seen = self.oracle.answer(meaning, self._secret)
        self._asked += 1
        self._won = self._seen == RIGHT
        understood = self._seen not in (INVALID, NAME_REFUSED, TOO_TELLING)
        if meaning is None:
            caption = "the guesser says something that is neither a question nor a guess"
        elif meaning.topic == "name":
            caption = "the guesser asks about the name of the city and is refused"
        elif self._seen == TOO_TELLING:
            caption = "the guesser asks for more than the rules tell"
        elif not understood:
            caption = "the guesser asks what people would not agree on and is refused"
        elif meaning.topic == "guess":
            caption = f"the guesser guesses {meaning.value}: {'right' if self._won else 'wrong'}"
        else:
            caption = f"the guesser asks about {meaning.topic}: {self._seen}"
        return Step(
            rewards={SEAT: 1.0} if self._won else {},
            executable=understood,
            terminated=self.seat is None,
            caption=caption,
        )

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self._won)}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._seen} if self.seat is None and self._secret is not None else {}

    def facts(self) -> dict[str, str]:
        return {"secret": self._secret} if self.seat is None and self._secret is not None else {}

    def answers(self) -> dict[str, str]:
        return {SEAT: guess_of(self._secret)} if self.facts() else {}

    def save(self) -> dict[str, Any]:
        return {"secret": self._secret, "asked": self._asked, "won": self._won, "seen": self._seen}

    def restore(self, saved: dict[str, Any]) -> None:
        self._secret, self._asked = saved["secret"], saved["asked"]
        self._won, self._seen = saved["won"], saved["seen"]

    def language(self) -> Iterable[str]:
        said = (self.oracle.atlas.opening, *self.oracle.atlas.cities)
        for sentence in (*said, *words_players_say(self.oracle), *self.oracle.answers()):
            yield sentence.lower()

    @classmethod
    def gist(cls, utterance: str) -> str:
        return guessing.gist(utterance)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS

    @classmethod
    def trials(cls) -> list[Trial]:
        published = {"table": "lmrl", "rules": "published"}
        return [Trial("guess_my_city", episodes=200), Trial("published", published)]
