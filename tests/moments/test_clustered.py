from __future__ import annotations

import numpy as np
import pytest
import torch

import cluster_grams
from microtome.moments import clustered
from microtome.moments.clustered import (
    ClusterRows,
    Layout,
    along_weights,
    cluster_scores,
    cluster_terms,
    unit_codes,
)
from microtome.moments.crossing import cross
from microtome.moments.stack import Stack, make_stack
from microtome.randomness import generator

SIZES = np.array([3, 1, 7, 2, 2, 5, 1, 4, 3, 6])
STARTS = np.cumsum(SIZES) - SIZES
CODES = np.repeat(np.arange(10), SIZES)
N = int(SIZES.sum())
LAYOUT = Layout(starts=STARTS, sizes=SIZES)
WHERE = {"dtype": torch.float64, "device": torch.device("cpu")}


def layers(*widths: int) -> list[np.ndarray]:
    rng = generator(0, "test_clustered", len(widths))
    base = rng.normal(size=(10, 5))[CODES] + rng.normal(size=(N, 5))
    return [base @ rng.normal(size=(5, w)) + rng.normal(size=(N, w)) + 2 for w in widths]


def cluster_rows(*stacks: Stack, **reading: int) -> ClusterRows:
    return ClusterRows(stacks=stacks, layout=LAYOUT, **reading, **WHERE)


def centered(x: np.ndarray) -> np.ndarray:
    return x - x.mean(axis=0)


@pytest.mark.parametrize("most", [1, 4, 8, 20, 1000])
def test_tiles_end_between_clusters(most: int) -> None:
    ranges = LAYOUT.ranges(most)
    assert [r for start, stop in ranges for r in range(start, stop)] == list(range(N))
    edges = {*STARTS.tolist(), N}
    for start, stop in ranges:
        assert {start, stop} <= edges
        clusters = ((start <= STARTS) & (stop > STARTS)).sum()
        assert stop - start <= most or clusters == 1


def test_blocks_list_every_cluster_of_a_tile_once() -> None:
    for start, stop in LAYOUT.ranges(12):
        seen = []
        for clusters, rows in LAYOUT.blocks(start, stop):
            assert rows.shape == (len(clusters), SIZES[clusters[0]])
            for cluster, members in zip(clusters, rows, strict=True):
                assert (CODES[start + members] == cluster).all()
                seen += (start + members).tolist()
        assert sorted(seen) == list(range(start, stop))


@pytest.mark.parametrize("tile", [5, 1000])
def test_terms_are_those_of_the_definition(tile: int) -> None:
    x = layers(6, 4)
    found = cluster_terms(cluster_rows(make_stack(x), tile_rows=tile))
    same = CODES[:, None] == CODES[None, :]
    grams = [np.where(same, centered(z) @ centered(z).T, 0) for z in x]
    np.testing.assert_allclose(found.within, [[(a * b).sum() for b in grams] for a in grams], rtol=1e-12)
    assert found.weights.k_rows is not None
    np.testing.assert_allclose(found.weights.k_rows, [-g.sum(axis=1) for g in grams], atol=1e-11)
    for mean, z in zip(found.mean, x, strict=True):
        np.testing.assert_allclose(mean, z.mean(axis=0), rtol=1e-13)


def test_means_of_both_sides() -> None:
    x = layers(6, 4)
    found = cluster_rows(make_stack(x[:1]), make_stack(x[1:]), tile_rows=4).means()
    for mean, z in zip(found, x, strict=True):
        np.testing.assert_allclose(mean, z.mean(axis=0), rtol=1e-13)


@pytest.mark.parametrize("tile", [7, 1000])
@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("held", [True, False])
def test_scores_are_shares_of_the_projected_products(tile: int, sides: int, held: bool) -> None:
    x = layers(6, 4, 3)
    left, right = (make_stack(x), None) if sides == 1 else (make_stack(x[:1]), make_stack(x[1:]))
    rows = cluster_rows(*([left] if right is None else [left, right]), tile_rows=tile)
    terms = cluster_terms(rows, held=held)
    assert (terms.weights.u_rows is not None) == held
    same = CODES[:, None] == CODES[None, :]
    k = np.array([-np.where(same, centered(z) @ centered(z).T, 0).sum(axis=1) for z in x])
    u = cluster_grams.off_cluster_weights(k, CODES)
    weights = terms.weights
    for found, expected in ((weights.uk, u @ k.T), (weights.uu, u @ u.T), (weights.u_sum, u.sum(axis=1))):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
    along = along_weights(rows, terms)
    for z, found in zip(x, along, strict=True):
        np.testing.assert_allclose(found, centered(z).T @ u.T, atol=1e-10)
    crossing = cross(left, right, **WHERE)
    found = cluster_scores(rows, crossing, terms, along, np.arange(10))
    grams = [centered(z) @ centered(z).T for z in x]
    projected = [cluster_grams.projected(gram, CODES) for gram in grams]

    def shares(a: int, b: int) -> np.ndarray:
        return cluster_grams.cluster_scores(projected[a], projected[b], CODES)

    def moves(a: int, b: int) -> np.ndarray:
        """What the biased norm loses without a cluster: twice its terms, less those within it."""
        terms = grams[a] * grams[b]
        return np.bincount(CODES, (2 * terms - np.where(same, terms, 0)).sum(axis=1))

    pairs = [(i, j) for i in range(3) for j in range(i, 3)] if right is None else [(0, 1), (0, 2)]
    for i, j in pairs:
        column = j if right is None else j - 1
        for table, brute in ((found.cross, shares(i, j)), (found.biased_cross, moves(i, j))):
            np.testing.assert_allclose(table[i, column], brute, atol=1e-9 * float(np.abs(brute).max()))
    for k in range(3):
        np.testing.assert_allclose(found.own[k], shares(k, k), rtol=1e-9)
        np.testing.assert_allclose(found.biased_own[k], moves(k, k), rtol=1e-9)


def test_scores_of_many_clusters_are_summed_in_random_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unit_codes(LAYOUT, generator(0, "units")).tolist() == list(range(10))
    monkeypatch.setattr(clustered, "MOST_UNITS", 4)
    codes = unit_codes(LAYOUT, generator(0, "units"))
    assert sorted(np.bincount(codes).tolist()) == [2, 2, 3, 3]


def test_large_clusters_are_read_in_strips() -> None:
    stack = make_stack(layers(6, 4))
    crossing = cross(stack, None, **WHERE)

    def everything(products: int) -> list[torch.Tensor]:
        rows = cluster_rows(stack, products=products)
        terms = cluster_terms(rows)
        units = unit_codes(LAYOUT, generator(0))
        scores = cluster_scores(rows, crossing, terms, along_weights(rows, terms), units)
        return [terms.within, terms.weights.uk, scores.cross, scores.own, scores.biased_cross]

    whole = everything(clustered.MOST_PRODUCTS)
    for most in (1, 20, 60):
        for one, other in zip(everything(most), whole, strict=True):
            torch.testing.assert_close(one, other, equal_nan=True)
