"""WebShop's search: words as Lucene's English analyser makes them, scores worked by hand, and lengths of one byte."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from envs.worlds.webshop.search.index import HITS, K1, B, Index, kept_length, write_index
from envs.worlds.webshop.search.porter import stem
from envs.worlds.webshop.search.words import terms_of


def index(folder: Path, *texts: str) -> Index:
    write_index(folder, texts)
    return Index(folder, np.array([f"B{9 - number}".encode() for number in range(len(texts))]))


def test_words_are_those_of_the_published_analyser():
    told = "The Women's 2.5-inch shoes, size 1,000; u.s. fit! it_s \u2019tis o\u2019clock a.b 3.x"
    assert terms_of(told) == [
        "women", "2.5", "inch", "shoe", "size", "1,000", "u.", "fit", "it_", "ti", "o\u2019clock", "a.b", "3", "x",
    ]  # fmt: skip
    assert terms_of("caf\u00e9 \u65e5\u672c \u30c6\u30b9\u30c8 5m\u00b2 \u00bd __ 5'4") == [
        "caf\u00e9", "\u65e5", "\u672c", "\u30c6\u30b9\u30c8", "5m", "5'4",
    ]  # fmt: skip
    assert terms_of("It is not for the") == [] and terms_of("x" * 300) == ["x" * 255, "x" * 45]


def test_stems_are_porters():
    told = (
        "caresses ponies caress cats feed agreed plastered motoring sing conflated hopping falling filing happy sky "
        "relational conditional conformably archaeology triplicate hopefulness adjustable adoption probate controlling"
    )
    stems = (
        "caress poni caress cat feed agre plaster motor sing conflat hop fall file happi sky "
        "relat condit conform archaeolog triplic hope adjust adopt probat control"
    )
    assert [stem(word) for word in told.split()] == stems.split()


def test_lengths_keep_what_one_byte_of_lucene_holds():
    lengths = [0, 1, 23, 24, 39, 40, 41, 42, 55, 56, 59, 60, 87, 88, 95, 96, 1000]
    kept = [0, 1, 23, 24, 39, 40, 40, 42, 54, 56, 56, 60, 84, 88, 88, 96, 984]
    assert kept_length(np.array(lengths)).tolist() == kept


def test_scores_are_worked_by_hand(tmp_path):
    shop = index(tmp_path, "red scarf", "red red lamps on desks", "lamp")
    assert (K1, B) == (0.9, 0.4)
    idf = math.log(1.6)  # of a word in 2 of 3 documents: ln(1 + 1.5 / 2.5)
    one = 1 / (1 + 0.9 * (0.6 + 0.4 * 2 / (7 / 3)))  # 2 of 7/3 words
    two = 2 / (2 + 0.9 * (0.6 + 0.4 * 4 / (7 / 3)))
    assert shop.scores("Red") == pytest.approx([idf * one, idf * two, 0])
    assert shop.found("Red") == [1, 0] and shop.found("the moon") == [] == shop.found("")
    rare = math.log(1 + 2.5 / 1.5) * one
    assert shop.scores("red scarf red")[0] == pytest.approx(2 * idf * one + rare), "a word said twice counts twice"


def test_equals_are_in_the_order_of_their_names_and_no_more_than_fifty_are_found(tmp_path):
    assert index(tmp_path, "lamp", "desk lamp", "lamp", "scarf").found("lamp") == [2, 0, 1]
    (tmp_path / "many").mkdir()
    texts = [f"lamp {'shade ' * (number % 7)}" for number in range(90)]
    write_index(tmp_path / "many", texts)
    many = Index(tmp_path / "many", np.array([b"%03d" % (number * 37 % 90) for number in range(90)]))
    found = many.found("lamp")
    best = sorted(range(90), key=lambda number: (-many.scores("lamp")[number], number * 37 % 90))
    assert found == best[:HITS] and len(found) == HITS == 50


def test_an_index_of_nothing_finds_nothing(tmp_path):
    assert index(tmp_path, "", "the").found("the lamp") == []
