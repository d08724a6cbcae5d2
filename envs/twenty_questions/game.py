"""Twenty Questions: find the object that the oracle thinks of.

One seat, the guesser. Each turn is one question or one guess; the oracle says "yes",
"no" or, to anything that it cannot make sense of, "invalid" (which costs the turn).
Only a right guess wins: reward and outcome 1, else 0. Running out of questions is how
the game itself ends, and known to the player from the start: terminated with outcome
0, not truncated, so nothing is bootstrapped beyond it.

Everything about the world is in the table. The questions to the small one are in a small language; those to the
others are put as anybody puts them. They are read by the rules alone (`oracle: plain`), by these and everyday
phrasings (free), by these and for all else the nearest of many known questions (nearest), or by a server (endpoint).
Published rules are those of envs/text/published.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial
from envs.text import guessing
from envs.text.published import ANSWERS, Prompts, Rules, rules_of
from envs.twenty_questions.oracle import Oracle
from envs.twenty_questions.oracles import oracle_for
from envs.twenty_questions.players import PLAYERS, guess_of, words_players_say

SEAT = "guesser"
ORACLES = ("", "plain", "free", "nearest", "endpoint")


class TwentyQuestions(Game):
    name = "twenty_questions"
    seats = (SEAT,)
    observations = "labels"  # of intentions: an answer is yes, no or neither

    def __init__(
        self,
        table: Annotated[
            str, "small (30 objects), full (217), lmrl (158 of LMRL-Gym), or the path of a TOML file of that form"
        ] = "small",
        turns: Annotated[int, "questions and guesses, at least 1"] = 10,
        listed: Annotated[bool, "whether the briefing names all objects, or only their kinds"] = True,
        oracle: Annotated[
            str, "who reads the questions: plain, free, nearest or endpoint; empty: the table decides"
        ] = "",
        endpoint: Annotated[
            dict | None, "of the server that answers: `url`, `model` and others of envs/settings.py"
        ] = None,
        constrained: Annotated[bool, "the server may only choose between the three answers (vLLM)"] = False,
        rules: Rules = "own",
        prompts: Prompts = None,
    ):
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise ValueError(f"game option turns={turns!r} must be a whole number of at least 1")
        for option, value in (("listed", listed), ("constrained", constrained)):
            if not isinstance(value, bool):
                raise ValueError(f"game option {option}={value!r} must be true or false")
        self.oracle = _oracle(table, oracle, endpoint, constrained)
        self.slow = self.oracle.slow
        self.table = self.oracle.table
        if not listed and not self.table.kinds:
            raise ValueError(f"game option listed=False needs a table whose objects have kinds; {table!r} has none")
        self.listed = listed
        self.published = rules_of(self.name, rules, prompts)
        self.horizon = turns
        self._secret: str | None = None
        self._asked, self._won, self._seen = 0, False, self.table.opening

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
        if self.published:
            return self.published
        if self.listed:
            world = f"I think of one of these objects: {', '.join(self.table.names)}. "
        else:
            world = f"I think of one object of one of these kinds: {', '.join(self.table.kinds)}. "
        doubtful = "" if self.table.reading == "plain" else (
            "I say yes to what is true of the object or often true of it, and invalid to what I cannot understand. "
        )  # fmt: skip
        return (
            f"We play a guessing game. {world}"
            f"You have {self.horizon} turns. In each turn, ask one short question that I can answer with yes or no, "
            f"or make a guess, like this: i guess {self.table.names[0]}. {doubtful}"
            "You win only by guessing the object. Say nothing but the question or the guess."
        )

    def observe(self) -> str:
        return self._seen

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError(OVER)
        meaning = self.oracle.understand(utterance)
        answer = self.oracle.answer(meaning, self._secret)  # a server that fails leaves the game as it is
        self._seen = ANSWERS[answer] if self.published else answer
        self._asked += 1
        self._won = meaning is not None and meaning.guess == self._secret
        if meaning is None:
            caption = "the guesser says something that is neither a question nor a guess"
        elif meaning.guess is not None and (self._won or answer == "no"):
            caption = f"the guesser guesses {meaning.guess}: {'right' if self._won else 'wrong'}"
        else:
            caption = f"the guesser asks {meaning.words}: {answer}"
        return Step(
            rewards={SEAT: 1.0} if self._won else {},
            executable=answer != "invalid",
            terminated=self.seat is None,
            caption=caption,
        )

    def helpful(self, caption: str) -> float:
        """Of what `step` says: 1 for the right guess and for a question that halves the objects, less for one that
        splits them unevenly, 0 for a wrong guess and for nonsense; a half where the table cannot tell."""
        if not caption.startswith("the guesser asks ") or caption.endswith(": invalid"):
            return float(caption.startswith("the guesser guesses ") and caption.endswith(": right"))
        asked = caption.removeprefix("the guesser asks about ").rpartition(": ")[0].removeprefix("the contrary of ")
        if asked not in self.table.yes:
            return 0.5
        true = self.table.yes[asked].bit_count() / len(self.table.names)
        return 2 * min(true, 1 - true)

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
        yield self.table.opening
        yield from ANSWERS.values() if self.published else ANSWERS
        yield from words_players_say(self.table)

    @classmethod
    def gist(cls, utterance: str) -> str:
        return guessing.gist(utterance)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return PLAYERS

    @classmethod
    def trials(cls) -> list[Trial]:
        published = {"table": "lmrl", "turns": 20, "rules": "published"}
        return [Trial("small"), Trial("full", {"table": "full", "turns": 20}), Trial("published", published)]


def _oracle(table: str, oracle: str, endpoint: dict | None, constrained: bool) -> Oracle:
    if oracle not in ORACLES:
        raise ValueError(f"game option oracle={oracle!r} must be one of: {', '.join(ORACLES[1:])}")
    if oracle == "endpoint":
        from envs.twenty_questions.endpoint import endpoint_oracle  # needs httpx, which only training installs

        return endpoint_oracle(table, endpoint, constrained)
    if endpoint is not None or constrained:
        raise ValueError("game options endpoint and constrained are for oracle='endpoint'")
    return oracle_for(table, oracle)
