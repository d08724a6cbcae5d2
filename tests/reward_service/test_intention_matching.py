"""Versions of a space, compared: ids that stay, ids that are new, and how much moved."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as checked
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from reward_service.intentions.clustering.hdbscan import Hdbscan
from reward_service.intentions.clustering.ward import Ward
from reward_service.intentions.fit import Utterances, fit_space
from reward_service.intentions.gist import Gist
from reward_service.intentions.matching import compare, keep_ids

SETTINGS = Ward(max_k=12)


def kinds(which: str, each: int = 30, seed: int = 0) -> np.ndarray:
    """Points of several kinds, by letter."""
    random = np.random.default_rng(seed)
    rows = np.repeat([ord(letter) - ord("a") for letter in which], each)
    return (np.eye(26)[rows] + 0.02 * random.normal(size=(len(rows), 26))).astype(np.float32)


def fitted(points, version, settings=SETTINGS):
    counts = np.ones(len(points), np.int64)
    return fit_space(Utterances([Gist(str(i)) for i in range(len(points))], points, counts), settings, version)


def followed(old, new, points, keep=0.3):
    return keep_ids(old, new, old.nearest(points)[0], new.nearest(points)[0], np.ones(len(points)), keep)


@checked(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=8))
def test_agreement_is_the_adjusted_rand_index_and_moved_the_best_pairing(rows):
    one, two, counts = (np.array(column) for column in zip(*rows, strict=True))
    found = compare(one, two, counts)
    one, two = np.repeat(one, counts), np.repeat(two, counts)
    assert found.agreement == pytest.approx(adjusted_rand_score(one, two), abs=1e-12)
    stay = max(sum(order[a] == b for a, b in zip(one, two, strict=True)) for order in itertools.permutations(range(4)))
    assert found.moved == pytest.approx(1 - stay / len(one), abs=1e-12)


def test_the_same_utterances_keep_their_ids_whatever_order_they_came_in():
    points = kinds("abcd")
    old, mixed = fitted(points, 1), np.random.default_rng(1).permutation(len(points))
    new = followed(old, fitted(points[mixed], 2), points)
    for level in range(2, 13):
        assert np.array_equal(old.labels(points, level), new.labels(points, level))
    assert new.fresh == old.fresh and new.version == 2


def test_what_is_gone_takes_its_id_along_and_what_is_new_gets_one_never_used():
    points = kinds("abcd")
    old = fitted(points, 1)
    later = kinds("bcde", seed=1)
    new = followed(old, fitted(later, 2), later)
    name = {letter: int(old.labels(kinds(letter, 1), 4)[0]) for letter in "abcd"}
    after = {letter: int(new.labels(kinds(letter, 1), 4)[0]) for letter in "bcde"}
    assert {letter: after[letter] for letter in "bcd"} == {letter: name[letter] for letter in "bcd"}
    assert after["e"] not in name.values()


def test_an_id_once_given_up_does_not_come_back_as_something_else():
    first = fitted(kinds("abcd"), 1)
    second = followed(first, fitted(kinds("bcde"), 2), kinds("bcde"))
    third = followed(second, fitted(kinds("cdef"), 3), kinds("cdef"))
    gone = int(first.labels(kinds("a", 1), 4)[0])
    assert gone not in third.labels(kinds("cdef"), 4)
    assert third.fresh[4] >= second.fresh[4] >= first.fresh[4] == 4


def test_a_cluster_that_hardly_overlaps_is_a_new_one():
    points = kinds("ab")
    old, new = fitted(points, 1), fitted(points, 2)
    half = dataclasses.replace(new, cuts=np.where(np.arange(60) % 2, 1, 0)[None].repeat(len(new.levels), 0))
    kept = followed(old, half, points, keep=0.6)
    assert not set(kept.labels(points, 2)) & set(old.labels(points, 2))
    assert set(followed(old, half, points, keep=0.2).labels(points, 2)) == set(old.labels(points, 2))


def test_a_flat_clustering_keeps_ids_though_their_number_changes():
    flat = Hdbscan()
    old = fitted(kinds("abc"), 1, flat)
    points = kinds("abcde", seed=1)
    new = followed(old, fitted(points, 2, flat), points)
    assert (old.levels, new.levels) == ((3,), (5,))
    for letter in "abc":
        assert old.labels(kinds(letter, 1))[0] == new.labels(kinds(letter, 1))[0]
    assert len(set(new.labels(points))) == 5 and new.fresh == {0: 5}
