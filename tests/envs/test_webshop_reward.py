"""What a purchase in WebShop is worth: every part of the published reward, worked by hand."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from envs.worlds.webshop.products import Product
from envs.worlds.webshop.reward.matching import alike, colour
from envs.worlds.webshop.reward.nouns import nouns_by
from envs.worlds.webshop.reward.worth import Goal, Worth, type_of, worth

NOUNS = nouns_by("words")
SCARF = Product(
    asin="B01",
    title="Harrow Soft Wool Scarf",
    category="fashion",
    query="wool scarf",
    product_category="Clothing \u203a Winter \u203a Scarves",
    description="Warm on cold mornings.",
    bullets=["Machine washable at thirty degrees.", "Two metres long."],
    tag="$24.5",
    price=24.5,
    options={"color": ["navy", "dark red"], "size": ["short", "long"]},
    attributes=["soft wool", "does not itch"],
)
GOAL = Goal(
    asin="B01",
    query="wool scarf",
    name="Harrow Soft Wool Scarf",
    product_category="Clothing \u203a Winter \u203a Scarves",
    instruction="",
    attributes=("soft wool", "machine washable", "hand made"),
    options=("navy", "long"),
    price_upper=30.0,
)


def test_the_reward_is_the_share_of_what_was_wanted():
    """3 attributes, 2 options and the price: 6 in all. Hand made it is not."""
    chosen = {"color": "navy", "size": "long"}
    assert worth(SCARF, chosen, GOAL, NOUNS) == Worth(2, 2, True, 1.0, pytest.approx(5 / 6))
    assert worth(SCARF, chosen, replace(GOAL, attributes=GOAL.attributes[:2]), NOUNS).reward == 1.0
    assert worth(SCARF, {"color": "dark red"}, GOAL, NOUNS) == Worth(2, 0, True, 1.0, pytest.approx(3 / 6))
    assert worth(SCARF, {}, replace(GOAL, price_upper=24.49), NOUNS) == Worth(2, 0, False, 1.0, pytest.approx(2 / 6))
    assert worth(SCARF, {}, replace(GOAL, price_upper=24.5, options=()), NOUNS).reward == pytest.approx(3 / 4)
    other = replace(SCARF, query="lamp", product_category="", title="Wool socks with grey dots from Fife and Skye")
    assert type_of(SCARF, replace(GOAL, name=other.title), NOUNS) == 1.0, "1 noun of 6, and of one query"


def test_an_attribute_may_stand_in_title_bullets_or_description():
    wanted = replace(
        GOAL, attributes=("harrow", "two metres", "cold mornings", "itch does not", "softest wool"), options=()
    )
    assert worth(SCARF, {}, wanted, NOUNS).attributes == 5, "the last two are about the same as its attributes"
    assert worth(SCARF, {}, replace(GOAL, attributes=("silk", "wood")), NOUNS).attributes == 0


def test_options_are_compared_by_their_first_colour_and_with_their_names_if_they_have_them():
    for wanted, chosen, met in (
        (("red",), {"color": "dark red"}, 0),  # dark is a colour, and before red
        (("dark brown",), {"color": "dark red"}, 0),
        (("dark yellow",), {"color": "dark red"}, 1),
        (("rose gold",), {"color": "gold"}, 1),
        (("navy",), {"color": "navy blue"}, 0),  # blue comes first,
        (("long", "short"), {"size": "short"}, 1),
        (("extra long",), {"size": "long"}, 1),  # all words of one are in the other
        (("longer",), {"size": "long"}, 0),  # 80
    ):
        assert worth(SCARF, chosen, replace(GOAL, options=wanted), NOUNS).options == met, wanted
    named = replace(GOAL, options=("size long", "navy"), named_options=True)
    assert worth(SCARF, {"size": "long", "color": "navy"}, named, NOUNS).options == 2


@pytest.mark.parametrize(
    ("name", "query", "category", "worth"),
    [
        ("Harrow Lamp", "lamp", "", 1.0),  # a half of the nouns
        ("Scarf Pin Box Tin Bag", "pin", "", 0.5),  # a fifth, which is not more than one
        ("Scarf Pin Box Tin Bag", "wool scarf", "", 1.0),
        ("Scarf Pin Box Tin Bag", "pin", "Winter \u203a Clothing \u203a Pins", 1.0),
        ("Scarf Pin Box Tin Bag", "pin", "Clothing \u203a Clothing \u203a Pins", 0.5),
        ("Scarf " + " ".join(f"{letter}pin" for letter in "abcdefghij"), "wool scarf", "", 0.1),  # 1 of 11
        ("Oak Table", "wool scarf", "Clothing \u203a Winter", 0.0),
        ("Soft and Warm", "pin", "", 0.5),  # no noun
    ],
)
def test_the_type_is_told_by_nouns_query_and_category(name, query, category, worth):
    assert type_of(SCARF, replace(GOAL, name=name, query=query, product_category=category), NOUNS) == worth


def test_phrases_are_compared_as_sets_of_words():
    assert alike("Tea-Tree Oil", "oil of tea tree") == 100 == alike("tea", "tea tree")
    assert alike("essential oil", "essential oils") == 96  # 2 * 13 of 27 letters
    assert alike("natural oils", "natural oil") == 96 and alike("green", "red") == 50
    assert alike("", "tea") == 0 == alike("!!", "!!") and alike("th\u00e9 vert", "th vert") == 100
    assert [colour(each) for each in ("dark navy", "Red", "size 7", "tangerine")] == ["dark", "Red", "size 7", "tan"]


def test_nouns_are_what_no_list_calls_otherwise():
    assert NOUNS("Soft Wool Scarf, 2-Pack for Women's Machine-Washable 4K") == [
        "wool",
        "scarf",
        "pack",
        "women",
        "machine",
    ]


def test_a_tagger_that_is_not_here_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    says = "^game option tagger='en_core_web_lg' needs the package spacy: pip install spacy, then python -m spacy"
    with pytest.raises(ValueError, match=says):
        nouns_by("en_core_web_lg")


@pytest.mark.long  # spaCy is slow to import
def test_a_pipeline_of_spacy_finds_the_nouns(tmp_path):
    spacy = pytest.importorskip("spacy", reason="NOT tested here: spaCy is not installed")
    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("attribute_ruler")
    for word, kind in {"Wool": "NOUN", "Harrow": "PROPN", "Soft": "ADJ"}.items():
        ruler.add([[{"ORTH": word}]], {"POS": kind})
    pipeline.to_disk(tmp_path / "tagger")
    assert nouns_by(str(tmp_path / "tagger"))("Harrow Soft Wool") == ["harrow", "wool"]
    with pytest.raises(ValueError, match="^game option tagger='en_no_such' is no pipeline of spaCy that is here"):
        nouns_by("en_no_such")
