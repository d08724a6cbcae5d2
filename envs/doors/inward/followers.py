"""Players of text adventures that do as they are told.

The first paragraph of an adventure of TextWorld says step by step what to do, in ever other
words ("attempt to take a trip south", "lift the fondue from the floor of the cookhouse").
For each sentence in turn a follower says the admissible command that shares most words with
it; a sentence that fits no command is passed over. When the sentences are used up, or in
adventures that tell no steps, it is as curious as `envs.doors.inward.players.Curious`.
"""

from __future__ import annotations

import re

from envs.doors.inward.players import Curious

IDLE = ("inventory", "look", "examine", "drop", "close", "go")  # no evidence that a command is meant
SYNONYMS = {
    "open": "open opened",
    "unlock": "unlock unlocked",
    "take": "take pick pick-up lift recover retrieve get grab",
    "put": "put place rest",
    "insert": "insert put place",
    "lock": "lock locked",
    "eat": "eat",
}
WORD = re.compile(r"[a-z][a-z'-]*")


class Expert(Curious):
    """Finds every coin of level 10."""

    slips = 0.0  # share of turns in which it does just anything

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.sentences: list[set[str]] | None = None

    def choose(self, observation: str, listed: tuple[str, ...], speech: tuple[str, ...]) -> str:
        if self.sentences is None:
            quest = observation.splitlines()[0].lower()
            self.sentences = [set(WORD.findall(sentence)) for sentence in re.split(r"[.!?]", quest)][::-1]
        if self.random.random() < self.slips:
            return self.anything(listed or speech)
        while self.sentences:
            sentence = self.sentences.pop()
            shared = {command: _shared(command, sentence) for command in listed}
            best = max(shared, key=shared.get)
            if shared[best] > 0:
                return best
        return super().choose(observation, listed, speech)


class Mediocre(Expert):
    """An expert that does just anything in half of its turns: finds 41 % of the coins of level 10."""

    slips = 0.5


def _shared(command: str, sentence: set[str]) -> float:
    """How many of its words a command shares with a sentence; the verb may be another word for it."""
    verb, *rest = WORD.findall(command)
    named = sum(word in sentence for word in rest) / max(1, len(rest))
    meant = bool(sentence & set(SYNONYMS.get(verb, verb).split()))
    return named + meant if verb not in IDLE or verb == "go" else 0.0
