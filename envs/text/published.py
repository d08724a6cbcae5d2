"""Twenty Questions and Guess My City as ARIA publishes them: what the guesser is told, in our own words.

Told are what to find, that there is one question in each turn until it is found, and its form. Not told are
how many turns there are, which objects or cities there are, and how to guess: a question that names the secret
is a guess. The answers of Twenty Questions are "Yes.", "No." and "Invalid Question.". What was asked and
answered before is the conversation itself, so the place {history} stays empty.
"""

from __future__ import annotations

from typing import Annotated

from envs.text.prompts import Text, filled, is_published, places_in, texts_of

Rules = Annotated[str, "own, or published: the guesser is told what ARIA's version tells, in words of our own"]
Prompts = Annotated[str | None, "a folder with ARIA's own file, whose text is told instead of our own"]

OBJECT = """\
We play Twenty Questions. I think of an object, and you find out which one.
In each turn you ask me one question that I can answer with yes or no. Go on until you have found the object.
Say nothing but the question, in this form:
Question: <your question>
{{history}}"""
CITY = """\
We play Guess My City. I think of a city, and you find out which one.
In each turn you ask me one question about it. Go on until you have found the city.
Keep to this form exactly:
Question: <your question>
{{history}}"""
_PLACES = places_in("history")
TEXTS = {
    "twenty_questions": {"rules": Text(OBJECT, _PLACES, constant="INSTRUCTION_TWENTY_QUESTIONS")},
    "guess_my_city": {"rules": Text(CITY, _PLACES, constant="INSTRUCTION_GUESS_MY_CITY")},
}
ANSWERS = {"yes": "Yes.", "no": "No.", "invalid": "Invalid Question."}


def rules_of(game: str, rules: str, prompts: str | None) -> str | None:
    """The published rules of that game, or None if the game's own are to be told."""
    if not is_published(rules, prompts):
        return None
    return filled(texts_of(prompts, game, TEXTS[game])["rules"], {"history": ""})
