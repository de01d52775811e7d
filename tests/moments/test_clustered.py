from __future__ import annotations

import numpy as np
import pytest
import torch

from microtome.moments import clustered
from microtome.moments.clustered import (
    ClusterRows,
    cluster_terms,
)
from microtome.moments.rowweights import Layout
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
    rows = cluster_rows(make_stack(x), tile_rows=tile)
    found = cluster_terms(rows, units=np.arange(10) // 2)
    same = CODES[:, None] == CODES[None, :]
    grams = [np.where(same, centered(z) @ centered(z).T, 0) for z in x]
    within = [[np.bincount(CODES // 2, (a * b).sum(1)) for b in grams] for a in grams]
    np.testing.assert_allclose(found.within, within, rtol=1e-12)
    np.testing.assert_allclose(cluster_terms(rows).within[..., 0], np.sum(within, 2), rtol=1e-12)
    assert found.weights.k_rows is not None
    np.testing.assert_allclose(found.weights.k_rows, [-g.sum(axis=1) for g in grams], atol=1e-11)
    for mean, z in zip(found.mean, x, strict=True):
        np.testing.assert_allclose(mean, z.mean(axis=0), rtol=1e-13)


def test_means_of_both_sides() -> None:
    x = layers(6, 4)
    found = cluster_rows(make_stack(x[:1]), make_stack(x[1:]), tile_rows=4).means()
    for mean, z in zip(found, x, strict=True):
        np.testing.assert_allclose(mean, z.mean(axis=0), rtol=1e-13)


@pytest.mark.parametrize("strip", [1, 2, 3])
def test_large_clusters_are_read_in_strips(strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = make_stack(layers(6, 4))

    def terms(products: int) -> list[torch.Tensor]:
        outcome = cluster_terms(cluster_rows(stack, products=products))
        return [outcome.within, outcome.weights.uk]

    whole = terms(clustered.MOST_PRODUCTS)
    monkeypatch.setattr(clustered, "STRIP_ROWS", strip)
    for most in (1, 20, 60, clustered.MOST_PRODUCTS):
        for strips, expected in zip(terms(most), whole, strict=True):
            torch.testing.assert_close(strips, expected)
