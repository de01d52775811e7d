from __future__ import annotations

import numpy as np
import pytest
import torch

import cluster_grams
from microtome.moments import influence
from microtome.moments.clustered import ClusterRows, cluster_terms
from microtome.moments.crossing import Crossing, cross
from microtome.moments.gram import gram_products
from microtome.moments.influence import along_weights, left_out_norms, unit_codes, unit_scores
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


def compared(right: Stack | None) -> list[tuple[int, int]]:
    """Every pair of layers that is compared, and every layer with itself."""
    if right is None:
        return [(i, j) for i in range(3) for j in range(i, 3)]
    return [(0, 1), (0, 2), *((k, k) for k in range(3))]


@pytest.mark.parametrize("tile", [7, 1000])
@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("held", [True, False])
def test_scores_are_shares_of_the_projected_products(tile: int, sides: int, held: bool) -> None:
    x = layers(6, 4, 3)
    left, right = (make_stack(x), None) if sides == 1 else (make_stack(x[:1]), make_stack(x[1:]))
    rows = cluster_rows(*([left] if right is None else [left, right]), tile_rows=tile)
    terms = cluster_terms(rows, units=np.arange(10), held=held)
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
    outcome = unit_scores(rows, crossing, terms, along, np.arange(10))
    grams = [centered(z) @ centered(z).T for z in x]
    projected = [cluster_grams.projected(gram, CODES) for gram in grams]

    def shares(a: int, b: int) -> np.ndarray:
        return cluster_grams.cluster_scores(projected[a], projected[b], CODES)

    def moves(a: int, b: int) -> np.ndarray:
        """What the biased norm loses without a cluster: twice its terms, less those within it."""
        terms = grams[a] * grams[b]
        return np.bincount(CODES, (2 * terms - np.where(same, terms, 0)).sum(axis=1))

    for i, j in compared(right):
        for table, brute in ((outcome["debiased"], shares(i, j)), (outcome["biased"], moves(i, j))):
            np.testing.assert_allclose(table[i, j], brute, atol=1e-9 * float(np.abs(brute).max()))


def test_scores_of_many_clusters_are_summed_in_random_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unit_codes(LAYOUT, generator(0, "units")).tolist() == list(range(10))
    monkeypatch.setattr(influence, "MOST_UNITS", 4)
    codes = unit_codes(LAYOUT, generator(0, "units"))
    assert sorted(np.bincount(codes).tolist()) == [2, 2, 3, 3]


def sources(*stacks: Stack) -> list[Crossing | torch.Tensor]:
    """The cross-scatters, and the same divided among the clusters by Gram matrices."""
    divided = gram_products(stacks, units=CODES, **WHERE).unit_products
    assert divided is not None
    return [cross(stacks[0], stacks[1] if len(stacks) > 1 else None, **WHERE), divided]


@pytest.mark.parametrize("sides", [1, 2])
def test_gram_matrices_give_the_scores_of_the_moments(sides: int) -> None:
    x = layers(6, 4, 3)
    stacks = [make_stack(x)] if sides == 1 else [make_stack(x[:1]), make_stack(x[1:])]
    rows = cluster_rows(*stacks)
    terms = cluster_terms(rows, units=np.arange(10))
    along = along_weights(rows, terms)
    moments, gram = (unit_scores(rows, source, terms, along, np.arange(10)) for source in sources(*stacks))
    for i, j in compared(stacks[1] if sides == 2 else None):
        np.testing.assert_allclose(gram["debiased"][i, j], moments["debiased"][i, j], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(gram["biased"][i, j], moments["biased"][i, j], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("numbers", [1, 2**22])
def test_left_out_norms_are_those_of_the_other_rows(
    sides: int, source: int, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(influence, "MOST_NUMBERS", numbers)
    x = layers(6, 4, 3)
    stacks = [make_stack(x)] if sides == 1 else [make_stack(x[:1]), make_stack(x[1:])]
    rows = cluster_rows(*stacks, tile_rows=9)
    norms = left_out_norms(rows, sources(*stacks)[source], cluster_terms(rows, units=np.arange(10)))
    for cluster in range(10):
        rest = cluster != CODES
        grams = [centered(z[rest]) @ centered(z[rest]).T for z in x]
        for i, j in compared(stacks[1] if sides == 2 else None):
            left, right = (cluster_grams.projected(grams[k], CODES[rest]) for k in (i, j))
            brute = (left * right).sum()
            np.testing.assert_allclose(norms[i, j, cluster], brute, rtol=1e-9)


def test_too_few_rows_of_other_clusters_leave_nothing_defined() -> None:
    z = layers(6)[0][:9]
    sizes = np.array([4, 3, 2])
    layout = Layout(starts=np.cumsum(sizes) - sizes, sizes=sizes)
    rows = ClusterRows(stacks=[make_stack([z])], layout=layout, **WHERE)
    norms = left_out_norms(
        rows, cross(make_stack([z]), None, **WHERE), cluster_terms(rows, units=np.arange(3))
    )
    # Without any of the three, one of the other two holds at least half of the rows that remain.
    assert torch.isnan(norms).all()


def test_scores_do_not_depend_on_strips_within_clusters() -> None:
    stack = make_stack(layers(6, 4))
    crossing = cross(stack, None, **WHERE)

    def scores(products: int) -> list[torch.Tensor]:
        rows = cluster_rows(stack, products=products)
        units = unit_codes(LAYOUT, generator(0))
        terms = cluster_terms(rows, units=units)
        outcome = unit_scores(rows, crossing, terms, along_weights(rows, terms), units)
        return [outcome["debiased"], outcome["biased"]]

    whole = scores(2**24)
    for most in (1, 20, 60):
        for strips, expected in zip(scores(most), whole, strict=True):
            torch.testing.assert_close(strips, expected)
