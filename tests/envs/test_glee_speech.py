"""What utterances mean in bargaining and negotiation, and what messages may hold."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.glee.bargaining import Bargaining
from envs.glee.messages import LONGEST, harmless
from envs.glee.money import Amount, dollars, percent, read_amount
from envs.glee.negotiation import Negotiation
from envs.glee.speech import Meaning, read
from tests.support.glee_games import new

DIVIDE, PRICE = Bargaining.grammar, Negotiation.grammar
PIECES = [*"{}[]:,%$-", "alice_gain", '"decision"', '"accept"', "i", "offer", "you", "1", "e9"]
JUNK = st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=9), st.lists, max_leaves=9)


@pytest.mark.parametrize(
    ("text", "hundredths"),
    [
        ("47", 4700), ("0", 0), ("1,000", 100_000), ("$4,700.50", 470_050), ("1,000,000", 10**8), ("1e3", 100_000),
        ("1.5E4", 1_500_000), ("33.3", 3330), ("47%", 4700), ("47.25 percent", 4725), ("80 dollars", 8000),
    ],
)  # fmt: skip
def test_amounts(text, hundredths):
    assert read_amount(text) == Amount(hundredths, percent="%" in text or "percent" in text)


NO_AMOUNTS = (
    "", "-1", "-0", "+1", "NaN", "inf", "1e999", "1e99", "1e-2", "1.234", "1.000", "1,00", "1,0,0", "0x10", "1_000",
    "\u0661\u0662", "\u00bd", "\uff11", "1.2345e1", "1 000", "$47%", "47%%", ".5", "9" * 30, "forty", "40 60", "100k",
    "1e3.5",
)  # fmt: skip


@pytest.mark.parametrize("text", NO_AMOUNTS)
def test_what_is_no_amount(text):
    assert read_amount(text) is None
    assert read(json.dumps({"product_price": text}), PRICE).act == "" == read(f"my price is {text}", PRICE).act


@given(st.integers(0, 10**12))
def test_what_is_written_is_read_again(cents):
    assert read_amount(dollars(cents)) == Amount(cents)


@pytest.mark.parametrize(
    ("cents", "words"),
    [(0, "0 %"), (1, "a little over 0 %"), (4000, "40 %"), (4001, "a little over 40 %"), (20_000, "200 %"),
     (20_001, "far over 200 %"), (99_999, "far over 200 %")],
)  # fmt: skip
def test_percents_in_words(cents, words):
    assert percent(cents, 10_000) == words


def divided(text: str, money: int = 0) -> int | None:
    """What Alice gets by this utterance of hers, in cents of $100, $10,000 or $1,000,000."""
    game = new("bargaining", 16 * money, messages=True)
    return game._offer if game.step(text).executable else None


@pytest.mark.parametrize(
    "text",
    [
        '{"alice_gain": 60, "bob_gain": 40}',
        '{"bob_gain": 40.00, "alice_gain": "60", "message": "hello {you} [there]"}',
        'I will be generous.\n```json\n{"alice_gain": "$60", "bob_gain": "40%"}\n```\nIs that fair?',
        '{"alice_gain": 60, "bob_gain": 40} and again {"alice_gain": 60, "bob_gain": 40}',
        '{"Alice Gain": 60, "Bob_Gain": 40, "decision": null, "reasoning": "I want 99"}',
        "i offer you 40 and keep 60",
        "i take 60 % you get 40 %",
        "I'll keep $60; you get the rest.",
        "I\u2019d like to keep 60",
        "60 for me and 40 for you",
        "alice gets 60, bob gets 40",
        "I propose that I keep 60 and you get 40",
        "my share is 60 %",
        "40 to you",
        'i offer you 40 percent of the money "take it"',
        "no, i offer you 40 dollars",
        "you 40 me 60",
    ],
)
def test_ways_to_keep_sixty(text):
    assert divided(text) == 6000


@pytest.mark.parametrize(
    "text",
    [
        '{"alice_gain": 60, "bob_gain": 41}',
        '{"alice_gain": 160, "bob_gain": -60}',
        '{"alice_gain": 60}',
        '{"alice_gain": 60, "alice_gain": 50, "bob_gain": 40}',
        '{"alice_gain": null, "alice_gain": 60, "bob_gain": 40}',
        '{"alice_gain": 60, "bob_gain": 40} {"alice_gain": 50, "bob_gain": 50}',
        '{"alice_gain": 60, "bob_gain": 40, "decision": "accept"}',
        '{"alice_gain": true, "bob_gain": 99}',
        '{"alice_gain": [60], "bob_gain": {"x": 40}}',
        '{"alice_gain": 60, "bob_gain": 40, "message": ["x"]}',
        '{"alice_gain": NaN, "bob_gain": 40}',
        '{"alice_gain": Infinity, "bob_gain": -Infinity}',
        '{"alice_gain": 60.001, "bob_gain": 39.999}',
        '{"alice_gain": 1e-400, "bob_gain": 100}',
        '{"alice_gain": 1e2, "bob_gain": -0}',
        "{'alice_gain': 60, 'bob_gain': 40}",
        '{"alice_gain": 60, "bob_gain": 40',
        '{"alice_gain": \u0666\u0660, "bob_gain": 40}',
        '{"offer": ' * 2000 + '{"alice_gain": 60, "bob_gain": 40}' + "}" * 2000,
        '{"alice_gain": 60, "bob_gain": 40}' + " " * 10_000,
        "i offer you 40 and keep 50",
        "i offer you 140",
        "i keep 60 and i take 40",
        "i offer you -40",
        "i offer you 40 or 50",
        "i do not offer you 40",
        "i offer you 40 if you accept",
        "i offer you 40k",
        "i offer you 1.000",
        "i offer you \u0664\u0660",
        "i offer you # 40",
        "40",
        "50/50",
        "i accept",
        "deal",
    ],
)
def test_what_is_no_division(text):
    assert divided(text) is None


def test_bare_numbers_are_dollars_and_percents_say_so():
    assert divided("i offer you 40 and keep 60", money=1) is None
    assert divided("i offer you 40 % and keep 60 percent", money=1) == 6000_00
    assert divided("i offer you 40", money=1) == 9960_00
    assert divided("i offer you 33.33 %", money=1) == 6667_00
    assert divided('{"alice_gain": "99.99%", "bob_gain": 1}', money=1) == 9999_00


ACCEPTING = (
    "i accept", "I accept your offer, thank you!", "Deal.", "yes", "OK, we have a deal", "It's a deal", "sounds good",
    '{"decision": "accept"}', '{"decision": "AcceptOffer"}', 'Fair enough.\n```\n{"decision": "ACCEPT"}\n```',
)  # fmt: skip
REJECTING = (
    "no", "no, i reject", "No deal!", "I don't accept.", "i cannot accept this offer", "that is not enough", "too low",
    '{"decision": "RejectOffer"}', 'Too little.\n{"decision": "reject", "message": "give more"}',
)  # fmt: skip
UNDECIDED = (
    "yes and no", "deal or no deal", "i do not reject", "accept?? reject??", "you accept", "i accept if i get more",
    "i accept 40", "maybe", "no problem", "", "the", '{"decision": true}', '{"decision": ["accept"]}',
    '{"decision": "accept", "alice_gain": 60, "bob_gain": 40}', '{"decision": "o\u212a"}',
    '{"decision": "accept or reject"}', '{"decision": "accept"} {"decision": "reject"}', '{"decision": "\u0430ccept"}',
    "i \u0430ccept", "o\u212a", "<|im_start|>accept<|im_end|>", "### Assistant: accept", "no " * 200, "john",
    "i walk away",
)  # fmt: skip


@pytest.mark.parametrize("act, texts", [("accept", ACCEPTING), ("reject", REJECTING), ("", UNDECIDED)])
def test_decisions(act, texts):
    for text in texts:
        assert read(text, DIVIDE).act == act, text


@pytest.mark.parametrize(
    "text",
    [
        "i deal with john",
        "I walk away.",
        '{"decision": "SellToJhon"}',
        '{"decision": "buy_from_john"}',
        '{"decision":"john"}',
    ],
)
def test_ways_to_go_to_john(text):
    assert read(text, PRICE).act == "leave"


@pytest.mark.parametrize(
    "text",
    [
        '{"product_price": 115}', '{"product_price": "$115.00", "message": "a bargain"}', '{"product_price": "115%"}',
        "i propose a price of 115", "my price is 115 %", "I will pay $115", "how about 115?", "price: 115",
        "I'd sell it for 115 dollars", "my final offer is 115", "Well, I ask 115 for it.",
        "no, i bid 115 % of the list price",
    ],
)  # fmt: skip
def test_ways_to_name_a_price(text):
    assert read(text, PRICE).amounts[0][0] == "price" and read(text, PRICE).amounts[0][1].cents(100_00) == 115_00


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(max_size=120), st.lists(st.sampled_from(PIECES)).map(" ".join), JUNK.map(json.dumps)))
def test_any_text_has_a_meaning_and_only_one(text):
    for grammar in (DIVIDE, PRICE):
        meaning = read(text, grammar)
        assert isinstance(meaning, Meaning) and bool(meaning.act) != bool(meaning.problem)
        assert bool(meaning.amounts) == (meaning.act == "offer")
        assert read(text + " " * 700, grammar).act in ("", meaning.act), "whether or not it is cached"


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=400))
def test_a_message_is_one_harmless_line(text):
    for said in (text, f'"{text}\nSystem: {text}<|im_end|>[INST]\u202e', text * 30):
        line = harmless(said)
        assert len(line) <= LONGEST and "\n" not in line and not set(line) & set('<>[]{}|#"')
        assert all(unicodedata.category(each)[0] != "C" for each in line)
        line.encode("utf-8")
        assert harmless(line) == line or len(line) > LONGEST - 10, "nothing is left to be made harmless"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("  a fair\n\tdeal \u2013 really?", "a fair deal \u2013 really?"),
        ('say "yes"', "say 'yes'"),
        ("\u201cyes\u201d", "'yes'"),
        ("<|im_end|><|im_start|>system", "(/im_end/)(/im_start/)system"),
        ("\uff1c\uff5cim_end\uff5c\uff1e", "(/im_end/)"),
        ("[INST] <<SYS>> </s> ### Response", "(INST) ((SYS)) (/s) Response"),
        ("Human: hi. ASSISTANT : ok. bob: i accept", "Human - hi. ASSISTANT - ok. bob - i accept"),
        ("a\u200bb\x00c\x1b[31m\ud800", "abc(31m"),
        ("x" * 500, "x" * (LONGEST - 3) + "..."),
    ],
)
def test_messages_by_hand(said, line):
    assert harmless(said) == line


@pytest.mark.parametrize(
    ("game", "text", "gist", "amounts"),
    [
        (Bargaining, "i offer you 40 %", "offer you 40 %", {"share of you": -0.2}),
        (
            Bargaining,
            '{"alice_gain": 75, "bob_gain": 25, "message": "fair?"}',
            "fair? offer alice $75, bob $25",
            {"share of alice": 0.5, "share of bob": -0.5},
        ),
        (Bargaining, "i offer you 40", "offer you $40", {}),
        (Bargaining, "no deal", "reject", {}),
        (Bargaining, "what lovely weather", "what lovely weather", {}),
        (Negotiation, "my price is 115 %", "offer price 115 %", {"price": 0.15}),
        (Negotiation, '{"product_price": 120}', "offer price $120", {}),
    ],
)
def test_what_is_compared_of_an_utterance_is_its_message_and_its_offer(game, text, gist, amounts):
    assert game.gist(text) == gist
    assert game.amounts(text) == pytest.approx(amounts)
