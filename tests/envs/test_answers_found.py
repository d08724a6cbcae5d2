"""The answer in an utterance: where it is found, and that two of them are none."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.glee.bargaining import Bargaining
from envs.glee.negotiation import Negotiation
from envs.glee.speech import read
from envs.text import guessing, listed
from envs.text.answer import LONGEST, undecorated
from envs.text.listed import named
from envs.twenty_questions.meaning import Meaning
from envs.twenty_questions.oracles import oracle_for
from tests.support.city_games import understood

SMALL = oracle_for("small")
ACTIONS = ("walk to the kitchen", "open the fridge", "[wait]")


@pytest.mark.parametrize(
    "text",
    [
        "Question: Is it a dog?\nQuestion: Is it a cat?",
        "Question: Is it alive?\nGuess: a cat",
        "Question: Is it a dog? Answer: No. Question: Is it a cat?",
        "<question>Is it a dog?</question><guess>cat</guess>",
        "Is it a dog?\n\nIs it a cat?",
        "Is it a dog?\nNo.\nIs it a cat?",
        "1. Is it a dog?\n2. Is it a cat?",
        "I guess dog.\n\nIs it a cat?",
        "I guess dog.\n\nI guess cat.",
        "Is it a cat?\n\nI guess dog.",
        "Final answer: cat, dog",
        "Final answer: i guess cat. i guess dog.",
        "Is it alive? Or is it a cat.",
        "Thought: Is it a cat?",
        "Thought: cat\nReasoning: i guess cat",
        "The answer: not a cat",
        "I will not say: Is it a cat?",
        "previous guess: a cat",
        "Question:",
        "Guess: none",
        "**",
    ],
)
def test_two_answers_are_none(text):
    assert SMALL.understand(text) is None


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Question: Is it a cat?\nQuestion: is it a cat", Meaning(guess="cat")),
        ("Is it a dog? No, it purrs.\nQuestion: Is it a cat?", Meaning(guess="cat")),
        ("Guess: a cat\nIt may also be a dog.", Meaning(guess="cat")),
        ("My final guess is a cat.\n\nI am sure of it.", Meaning(guess="cat")),
        ("is it\na cat", Meaning(guess="cat")),
        ("Question: Thanks! Next question: Is it alive?", Meaning(attribute="alive")),
        ("<answer>cat", Meaning(guess="cat")),
        ('{"question": "Is it a cat?"}', Meaning(guess="cat")),
        ('{"thought": "Is it a dog?", "question": "Is it a cat?"}', Meaning(guess="cat")),
        ('{"question": "Is it a dog?", "guess": "cat"}', None),
        ("Question: Is it a cat? I am quite sure.", Meaning(guess="cat")),
        ("Question: Is it a cat? I guess dog.", None),
        ("Question: Is it a cat? Is it a dog?", None),
        ("Is it a cat? I am quite sure.", None),
        ("Is it a cat? \U0001f431", Meaning(guess="cat")),
        ("Is it a \u0441at?", None),  # a Cyrillic letter
        ("I think I know it \u2014 is it a cat?", Meaning(guess="cat")),
        ("Let me make a guess: is it a cat?", Meaning(guess="cat")),
        ("Answer: orange", None),  # no object of this table
        ("Thought: " + "it may be anything. " * 200 + "\nQuestion: Is it alive?", Meaning(attribute="alive")),
    ],
)
def test_a_label_names_the_one_answer(text, meaning):
    assert SMALL.understand(text) == meaning


@pytest.mark.parametrize(
    ("text", "city"),
    [
        ("Final answer: Singapore", "guess=singapore"),
        ("**Question:** Is it Paris, France?", "guess=paris"),
        ("Great. Is it St. Petersburg?", "guess=saint petersburg"),
        ("I know.\n\nIs it Washington, D.C.?", "guess=washington"),
        ("hm\ndc", "invalid"),  # too few letters for a guess
        ("Question: Is it like Paris?", "invalid"),
        ("Answer: Paris or London", "invalid"),
        ("Question: What letter does it start with?", "name"),
    ],
)
def test_cities_after_labels(text, city):
    assert understood(text) == city


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Action: walk to the kitchen\nAction: open the fridge", None),
        ("Action: walk to the kitchen\nAction: Walk to the kitchen.", "walk to the kitchen"),
        ("walk to the kitchen\ndance", None),
        ("walk to the kitchen\nopen the fridge", None),
        ("walk to the kitchen\n\nThen I can eat.", "walk to the kitchen"),
        ("I have to eat.\nwalk to the kitchen", "walk to the kitchen"),
        ("walk to the kitchen. I am hungry.", "walk to the kitchen"),
        ("Open the fridge. Walk to the kitchen.", None),
        ("[walk to] kitchen", "walk to the kitchen"),
        ("Action: [walk to] <kitchen>", "walk to the kitchen"),
        ("walk to kitchen", None),
        ("[walk to the kitchen and dance]", None),
        ("[wait]", "[wait]"),
        ("Action: [wait]", "[wait]"),
        ("Action: walk to the kitchen!", None),
        ("Step 1: open the fridge\nStep 2: walk to the kitchen", None),
        ("Observation: The fridge is shut.\nAction: open the fridge", "open the fridge"),
        ("Thought: " + "hm " * 500 + "\nAction: open the fridge", "open the fridge"),
        ("To eat something, I will now open the fridge.", "open the fridge"),
        ("I will never open the fridge.", None),
        ("I'll go ahead and open the fridge.", "open the fridge"),
        ("Since I am hungry, the best action here is to open the fridge.", "open the fridge"),
        ('{"thought": "walk to the kitchen", "action": "open the fridge"}', "open the fridge"),
        ('{"action": "open the fridge", "answer": "walk to the kitchen"}', None),
    ],
)
def test_one_listed_action_is_named(said, meant):
    assert named(said, ACTIONS) == meant


@pytest.mark.parametrize(
    ("text", "act", "message"),
    [
        ("Message: Take it.\n\nHe will never know.\nProposal: i offer you 40", "offer", "Take it."),
        ("Message: Take it,\nplease.\nProposal: i offer you 40", "offer", "Take it, please."),
        ("Proposal: i offer you 40\nReasoning: He is weak.", "offer", ""),
        ("Thought: He is weak.\nMessage: Hi.\nThought: Very.\nOffer: i offer you 40", "offer", "Hi."),
        ("I accept.\nProposal: i offer you 40", "", ""),
        ("Proposal: i offer you 40\nI offer you 50.", "", ""),
        ("Proposal: i offer you 40\nBob: $40", "", ""),
        ("Message: Hi.\nMessage: Ho.\nProposal: i offer you 40", "", ""),
        ("Thought: $60?\nAlice: $60\nBob: $40", "offer", ""),
        ("Alice: - 60\nBob: 160", "offer", ""),  # a dash before a space is a mark of a list
        ("Alice: -60\nBob: 160", "", ""),
        ('Offer: i offer you 40 "Hi."', "offer", "Hi."),
        ("Thought: He is weak.\nAnd poor.\n\ni offer you 40", "offer", ""),
        ("Thought: i accept\n\ni reject", "reject", ""),
        ("Thought: He is weak.\ni accept\n\ni offer you 40", "", ""),
        ("I am poor.\n\ni offer you 40", "", ""),  # plain words are understood as a whole
        ("Message: i accept\nDecision: reject", "reject", ""),
    ],
)
def test_offers_and_messages_by_label(text, act, message):
    meaning = read(text, Bargaining.grammar)
    assert (meaning.act, meaning.message) == (act, message)


def test_a_price_may_stand_alone_after_a_label_and_shares_may_not():
    assert read("Offer: $115.", Negotiation.grammar).act == "offer"
    assert read("Proposal: $60", Bargaining.grammar).act == ""


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('1. **"[Is it a cat?]"**', "Is it a cat?"),
        ("> - `open`", "open"),
        ("(7) Is it? (Yes/No)", "Is it?"),
        ("[a] or [b]", "[a] or [b]"),
        ("is it a cat?", "is it a cat?"),
        ("### **Answer**", "Answer"),
        ("", ""),
    ],
)
def test_marks_around_a_line(text, plain):
    assert undecorated(text) == plain


PIECES = (
    "Question: ", "\n", "q: ", "<answer>", "</answer>", "(", "my ", "1. ", "given a, ", "<think>", "</think>", "so ",
    "> ", "- ", "is it? ", "[a] ", "to a ", "I will ", "Question 1 ", "based on ", "let me ask ", "\\boxed{", "```\n",
    "**", "step ", "'", "Q1", "#", "given answers ", "Alice: 1 ", "message: ", "cat ", ". ",
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_floods_are_read_in_time(piece):
    """Whatever stands at the beginning of a line is looked at a few times only."""
    text = (piece * LONGEST)[:LONGEST]
    started = time.process_time()
    for reading in (SMALL.understand, understood, guessing.gist, listed.gist, lambda text: named(text, ACTIONS)):
        reading(text)
    for talk in (Bargaining, Negotiation):
        talk.gist(text)
    assert time.process_time() - started < 5


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=80))
def test_any_text_can_be_read(text):
    SMALL.understand(text), guessing.gist(text), listed.gist(text)
    action = named(text, ACTIONS)
    assert action is None or action.strip("[]").split()[0] in text.lower()
    for talk in (Bargaining, Negotiation):
        meaning = read(text, talk.grammar)
        assert bool(meaning.act) != bool(meaning.problem)


@pytest.mark.parametrize("form", ["{}", " {}. ", "Action: {}.", "I see.\n\nI will {}"])
def test_where_a_letter_is_listed_in_both_cases_it_names_its_own(form):
    for letter in "abA":
        assert named(form.format(letter), tuple("abA")) == letter
    assert named(form.format("B"), tuple("abA")) == "b"
