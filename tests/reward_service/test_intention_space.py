"""Clustering: the tree, its cuts, prototypes, and a space that labels, is saved and never changes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage

from reward_service.intentions.clustering.agglomerative import nested_cuts
from reward_service.intentions.clustering.clustering import CLUSTERINGS
from reward_service.intentions.clustering.hdbscan import ClusteringError, Hdbscan, density_clusters
from reward_service.intentions.clustering.ward import Ward
from reward_service.intentions.fit import Utterances, fit_space
from reward_service.intentions.gist import Gist
from reward_service.intentions.matching import compare
from reward_service.intentions.prototypes import centres_of, nearest, principal_axes, project, surely_nearest
from reward_service.intentions.space import ARRAYS, IntentionSpace

METHODS = ("average", "ward")


def same_partition(one, two) -> bool:
    pairs = set(zip(list(one), list(two), strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def mixture(n: int, clusters: int, dimension: int = 64, spread: float = 0.05, seed: int = 0):
    """Unit vectors around well-spread centres, and which centre each is from."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, dimension))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    truth = random.integers(clusters, size=n)
    points = centres[truth] + spread * random.normal(size=(n, dimension))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32), truth


def said(points, counts=None) -> Utterances:
    gists = [Gist(f"utterance {number}") for number in range(len(points))]
    return Utterances(gists, points, np.ones(len(points), np.int64) if counts is None else counts)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 6), st.sampled_from(METHODS))
def test_unweighted_trees_and_cuts_are_scipys(seed, count, dimension, method):
    points = np.random.default_rng(seed).normal(size=(count, dimension))
    tree, theirs = CLUSTERINGS.make(method).link(points, np.ones(count)), linkage(points, method)
    assert tree.height == pytest.approx(theirs[:, 2], rel=1e-9)
    for k, cut in enumerate(nested_cuts(tree, np.ones(count), count), start=1):
        assert same_partition(cut, fcluster(theirs, k, "maxclust"))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 15), st.sampled_from(METHODS))
def test_a_weight_is_so_many_equal_points(seed, count, method):
    random = np.random.default_rng(seed)
    points, weights = random.normal(size=(count, 3)), random.integers(1, 6, count)
    tree, theirs = CLUSTERINGS.make(method).link(points, weights), linkage(np.repeat(points, weights, axis=0), method)
    assert tree.height == pytest.approx(theirs[len(theirs) - count + 1 :, 2], rel=1e-9)
    for k, cut in enumerate(nested_cuts(tree, weights, count), start=1):
        assert same_partition(np.repeat(cut, weights), fcluster(theirs, k, "maxclust"))


def test_each_cut_splits_one_cluster_and_the_heavier_half_keeps_its_number():
    points, weights = np.random.default_rng(3).normal(size=(30, 4)), np.arange(1, 31)
    cuts = nested_cuts(Ward().link(points, weights), weights, 30)
    for k in range(1, 30):
        moved = cuts[k] != cuts[k - 1]
        assert set(cuts[k][moved]) == {k} and set(cuts[k]) == set(range(k + 1))
        (old,) = set(cuts[k - 1][moved])
        assert weights[moved].sum() <= weights[cuts[k] == old].sum()


def test_the_nearest_prototype_does_not_depend_on_who_else_is_asked_about():
    """Equal prototypes, and points as near to two of them: products of matrices may round either way."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(120, 96)).astype(np.float32)
    centres[80:] = centres[40:80]
    points = np.concatenate([centres, (centres[:40] + centres[40:80]) / 2, random.normal(size=(100, 96))]).astype("f4")
    index, squared = surely_nearest(points, centres)
    assert index[:120].tolist() == [*range(80), *range(40, 80)] and not squared[:120].any()
    for size in (1, 3, 16, 50):
        parts = [surely_nearest(points[start : start + size], centres) for start in range(0, len(points), size)]
        assert np.concatenate([part for part, _ in parts]).tolist() == index.tolist()
        assert np.concatenate([part for _, part in parts]).tolist() == squared.tolist()
    assert np.allclose(squared, nearest(points, centres)[1], atol=1e-4)


def test_the_projection_of_a_point_does_not_depend_on_who_else_is_projected():
    """Above the number of prototypes labels are found among principal components."""
    points, _ = mixture(700, 12, 384)
    points = points.astype(np.float16).astype(np.float32)
    mean, axes = principal_axes(points, np.ones(len(points)), 64)
    whole = project(points, mean, axes)
    for size in (1, 2, 7, 64, 333):
        parts = [project(points[start : start + size], mean, axes) for start in range(0, len(points), size)]
        assert np.array_equal(np.concatenate(parts), whole)
    assert np.allclose(whole, points.astype(np.float64) @ axes - mean @ axes, atol=1e-5)


def test_density_clustering_has_a_limit_of_time():
    points, _ = mixture(200, 4)
    with pytest.raises(ClusteringError, match=r"200 points .* hdbscan took more than 1e-06 s .reward.shaper.int"):
        fit_space(said(points), Hdbscan(density_seconds=1e-6))
    with pytest.raises(ClusteringError, match="3 points were not clustered: ValueError: Min samples"):
        density_clusters(points[:3], -1, 60)


def test_equal_points_are_merged_first_and_do_no_harm():
    points = np.repeat(np.eye(3), 4, axis=0)
    tree = CLUSTERINGS.make("average").link(points, np.ones(12))
    assert tree.height[:9].tolist() == [0] * 9
    assert same_partition(nested_cuts(tree, np.ones(12), 3)[2], np.repeat(range(3), 4))


def test_principal_axes_are_those_of_the_repeated_points():
    random = np.random.default_rng(0)
    points, counts = random.normal(size=(50, 6)).astype(np.float32) * [5, 4, 3, 2, 1, 0.1], random.integers(1, 5, 50)
    mean, axes = principal_axes(points, counts, 3)
    repeated = np.repeat(points, counts, axis=0)
    assert mean == pytest.approx(repeated.mean(axis=0), abs=1e-5)
    _, _, rows = np.linalg.svd(repeated - repeated.mean(axis=0), full_matrices=False)
    assert np.abs(rows[:3] @ axes) == pytest.approx(np.eye(3), abs=1e-3)
    assert project(points, mean, axes) == pytest.approx((points - mean) @ axes, abs=1e-4)


def test_prototypes_leave_no_rare_kind_out_and_repeat_exactly():
    """60 kinds, the rarest with four utterances in 7,297, and 120 prototypes."""
    truth = np.repeat(range(60), np.geomspace(4, 600, 60).astype(int))
    noise = np.random.default_rng(5).normal(size=(len(truth), 64))
    points, once = (np.eye(64)[truth] + 0.01 * noise).astype(np.float32), np.ones(len(truth))
    centres = centres_of(points, once, 120, 10, seed=4)
    index, squared = nearest(points, centres)
    assert all(len(set(truth[index == each])) == 1 for each in set(index)) and squared.max() < 0.05
    assert np.array_equal(centres, centres_of(points, once, 120, 10, seed=4))


def test_there_are_no_more_prototypes_than_distinct_points():
    assert len(centres_of(np.repeat(np.eye(5, dtype=np.float32), 20, axis=0), np.ones(100, np.int64), 50, 5, 0)) == 5


@pytest.mark.parametrize("method", [*METHODS, "hdbscan"])
@pytest.mark.parametrize("prototypes", [3000, 200])  # every utterance its own, and reduced
def test_well_spread_intentions_are_found_and_new_utterances_join_them(method, prototypes):
    points, truth = mixture(4000, 12)
    space = fit_space(said(points[:2500]), CLUSTERINGS.make(method, prototypes=prototypes, dimensions=24))
    labels = space.labels(points[2500:], 12)
    assert compare(labels, truth[2500:], np.ones(1500)).agreement > 0.99
    assert (space.axes.size > 0) == (prototypes < 2500)


def test_counts_are_repetition_and_not_only_ballast():
    points = np.array([[0.0], [1.0], [2.1]], np.float32)
    for counts, partition in (([1, 1, 1], [0, 0, 1]), ([50, 1, 1], [0, 1, 1])):
        space = fit_space(said(points, np.array(counts)), Ward())
        assert same_partition(space.labels(points, 2), partition)
        assert space.weights.tolist() == counts


def test_all_levels_are_nested():
    points, _ = mixture(300, 8)
    space = fit_space(said(points), Ward(max_k=30))
    every = np.stack([space.labels(points, level) for level in space.levels])
    assert space.levels == tuple(range(2, 31)) and every.shape == (29, 300)
    for coarse, fine in zip(every, every[1:], strict=False):
        assert all(len(set(coarse[fine == each])) == 1 for each in set(fine))


def test_offers_lie_apart_by_amount_when_amounts_are_weighted():
    random = np.random.default_rng(0)
    phrases, _ = mixture(4, 4, seed=1)
    phrase, share = random.integers(4, size=200), random.integers(2, size=200)
    gists = [Gist(f"{number}", (("share", 2.0 * each - 1),)) for number, each in enumerate(share)]
    for weight, follows in ((0.0, phrase), (4.0, share)):
        utterances = Utterances(gists, phrases[phrase], np.ones(200, np.int64))
        space = fit_space(utterances, Ward(amount_weight=weight))
        labels = space.labels(space.features(phrases[phrase], gists), len(set(follows)))
        assert same_partition(labels, follows)


def test_amounts_that_the_space_does_not_know_are_left_out():
    space = fit_space(Utterances([Gist("a", (("x", 1.0),)), Gist("b")], np.eye(2), np.ones(2)), Ward())
    features = space.features(np.eye(2), [Gist("c", (("x", 0.5), ("y", 1.0))), Gist("d")])
    assert features[:, 2].tolist() == [2.0, 0.0] and features.shape == (2, 3)


@pytest.mark.parametrize("prototypes", [500, 50])
def test_saved_and_loaded_and_made_twice_is_the_same_space(tmp_path, prototypes):
    points, _ = mixture(300, 8)
    space = fit_space(said(points), Ward(prototypes=prototypes))
    space.save(tmp_path / "space")
    again = fit_space(said(points), Ward(prototypes=prototypes))
    for other in (again, IntentionSpace.load(tmp_path / "space"), IntentionSpace.of_state(space.state())):
        for field in dataclasses.fields(space):
            mine, its = getattr(space, field.name), getattr(other, field.name)
            assert (
                (mine.tobytes() == its.tobytes() and mine.dtype == its.dtype) if field.name in ARRAYS else mine == its
            )
    assert sorted(path.name for path in (tmp_path / "space").iterdir()) == ["space.json", "space.npz"]


def test_a_damaged_space_is_named(tmp_path):
    fit_space(said(mixture(20, 2)[0]), Ward()).save(tmp_path)
    (tmp_path / "space.npz").write_bytes((tmp_path / "space.npz").read_bytes()[:100])
    with pytest.raises(ValueError, match=f"{tmp_path} holds no readable intention space"):
        IntentionSpace.load(tmp_path)


def test_a_space_never_changes():
    space = fit_space(said(mixture(20, 2)[0]), Ward())
    with pytest.raises(dataclasses.FrozenInstanceError):
        space.k = 3
    with pytest.raises(ValueError, match="read-only"):
        space.ids[0, 0] = 7
    mine = np.array(space.ids)
    other = dataclasses.replace(space, ids=mine)
    mine[:] = 9
    assert np.array_equal(other.ids, space.ids)


def test_a_level_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="intention space 1 has no cut into 21; it has 2 to 20"):
        fit_space(said(mixture(20, 2)[0]), Ward()).labels(np.zeros((1, 64)), 21)


def test_one_utterance_is_one_intention():
    space = fit_space(said(np.eye(1, 4)), Ward())
    assert space.levels == (1,) and space.labels(np.eye(2, 4)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("points", "counts", "says"),
    [
        (np.empty((0, 4)), [], "no utterances"),
        (np.array([[0.0], [np.nan]]), [1, 1], "the embedding of 'utterance 1' is not finite"),
        (np.eye(2), [1, 0], "a count is below 1"),
        (np.eye(2), [1], "2 gists, 2 embeddings and 1 counts differ"),
    ],
)
def test_what_cannot_be_fitted_is_named(points, counts, says):
    with pytest.raises(ValueError, match=says):
        said(points, np.array(counts, np.int64))


def test_members_show_what_an_intention_is():
    points, truth = mixture(60, 3)
    space = fit_space(said(points, np.arange(1, 61)), Ward())
    members = space.members(3)
    assert [len(members[each]) for each in range(3)] == np.bincount(space.labels(points, 3)).tolist()
    (text, weight), *_ = members[int(space.labels(points, 3)[59])]
    assert (text, weight) == ("utterance 59", 60)


@pytest.mark.parametrize("fitted", [90, 110, 140, 300, 1000])
def test_what_is_new_of_the_same_kind_lies_outside_as_seldom_however_many_were_fitted(fitted):
    """Utterances that are prototypes by themselves, or nearly, say nothing of how near the next one comes."""
    points, _ = mixture(fitted + 2000, clusters=30, dimension=16, spread=0.15, seed=7)
    space = fit_space(said(points[:fitted]), Ward(prototypes=100, dimensions=16))
    fresh = [Gist("new")] * 2000
    _, distance = space.nearest(space.features(points[fitted:], fresh))
    assert len(space.prototypes) == min(fitted, 100)
    assert 0.01 < (distance > space.radius).mean() < 0.12


def test_each_utterance_is_measured_from_the_prototypes_of_the_others():
    points, _ = mixture(60, clusters=4, dimension=8, spread=0.2, seed=3)
    counts = np.random.default_rng(4).integers(1, 5, 60)
    space = fit_space(said(points, counts), Ward(prototypes=20, dimensions=8, rounds=100))
    found, _ = space.nearest(space.features(points, [Gist("x")] * 60))
    distances = []
    for number in range(60):
        kept = np.delete(np.arange(60), number)
        centres = [
            np.average(points[same], axis=0, weights=counts[same])
            for each in range(20)
            if len(same := kept[found[kept] == each])
        ]
        distances.append(min(np.linalg.norm(points[number] - centre) for centre in centres))
    assert space.radius == pytest.approx(np.quantile(distances, 0.95), rel=1e-4)
