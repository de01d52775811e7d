from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from microtome.errors import InputError
from microtome.moments.crossing import Crossing, cross
from microtome.moments.stack import Stack, make_stack
from microtome.moments.tiles import ScaleError, block_sum, squared_norms, tiles
from microtome.randomness import generator

CPU = torch.device("cpu")


def layers(n: int, *widths: int, mean: float = 0.0) -> list[np.ndarray]:
    rng = generator(0, "test_crossing", n)
    shared = rng.standard_normal((n, 3))
    return [
        shared @ rng.standard_normal((3, w)) + rng.standard_normal((n, w)) + mean * rng.standard_normal(w)
        for w in widths
    ]


def centered(x: np.ndarray) -> np.ndarray:
    z = np.asarray(x, np.float64) - np.asarray(x, np.float64).mean(axis=0)
    return z - z.mean(axis=0)


def exact(left: Stack, right: Stack | None = None, **more: Any) -> Crossing:
    return cross(left, right, dtype=torch.float64, device=CPU, **more)


def agree(found: Crossing, left: list[np.ndarray], right: list[np.ndarray] | None, within: float) -> None:
    """Compare every moment with its definition, relative to the size of what was summed."""
    sides = [centered(x) for x in [*left, *(right or [])]]
    squares = np.array([(z**2).sum(axis=1) for z in sides])
    columns = [*range(len(left), len(sides))] if right else [*range(len(left))]
    for i in range(len(left)):
        held = columns[found.first[i] :]
        expected = sides[i].T @ np.hstack([sides[j] for j in held])
        size = np.linalg.norm(sides[i]) * np.linalg.norm(np.hstack([sides[j] for j in held]))
        assert np.abs(found.strips[i].numpy() - expected).max() <= within * size
    for z, block, mean, x in zip(sides, found.diagonal, found.mean, [*left, *(right or [])], strict=True):
        if block is not None:
            assert np.abs(block.numpy() - z.T @ z).max() <= within * np.linalg.norm(z) ** 2
        np.testing.assert_allclose(mean, np.asarray(x, np.float64).mean(axis=0), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.norms, squares.sum(axis=1), rtol=max(within, 1e-13))
    products = squares @ squares.T
    known = np.isfinite(found.products.numpy())
    assert known[:, columns][: len(left)].all()
    np.testing.assert_allclose(found.products.numpy()[known], products[known], rtol=max(within, 1e-12))


@pytest.mark.parametrize("n", [4, 37, 500])
@pytest.mark.parametrize("tile", [3, 100, 5000])
@pytest.mark.parametrize("mean", [0.0, 3000.0])
def test_moments_are_those_of_the_definition(n: int, tile: int, mean: float) -> None:
    left, right = layers(n, 8, 5, mean=mean), layers(n, 5, 5, 11, mean=mean)
    within = 1e-14 if mean == 0 else 1e-11
    agree(exact(make_stack(left), make_stack(right), tile_rows=tile), left, right, within)
    agree(exact(make_stack(left), None, tile_rows=tile), left, None, within)


@pytest.mark.parametrize("shift", [0.0, 2.0, -30.0])
def test_the_shift_does_not_matter(shift: float) -> None:
    # The row-norm terms are moved from the shift to the mean by formula: try shifts that are off.
    x = layers(37, 8, 5)
    off = [torch.full((z.shape[1],), shift, dtype=torch.float64) for z in x]
    for tile in (37, 10):
        agree(exact(make_stack(x), None, shift=off, tile_rows=tile), x, None, 1e-9)


@pytest.mark.parametrize("mean", [0.0, 3000.0])
def test_float32_products_lose_little(mean: float) -> None:
    x = [z.astype(np.float32) for z in layers(6000, 16, 9, mean=mean)]
    for tile in (6000, 1000):
        found = cross(make_stack(x), None, dtype=torch.float32, device=CPU, tile_rows=tile)
        agree(found, x, None, 3e-7 if mean == 0 else 1e-6)


def test_float64_input_keeps_its_digits_until_the_shift() -> None:
    x = [1e9 + 1e-3 * z for z in layers(200, 6)]
    found = cross(make_stack(x), None, dtype=torch.float32, device=CPU)
    agree(found, x, None, 3e-6)  # the input itself is good to 1e-7 of its spread


def test_how_the_rows_are_cut_changes_nothing() -> None:
    left, right = layers(500, 8, 5, mean=10.0), layers(500, 7)
    whole = exact(make_stack(left), make_stack(right), tile_rows=500)
    for tile in (1, 7, 499):
        found = exact(make_stack(left), make_stack(right), tile_rows=tile)
        for a, b in zip(whole.strips, found.strips, strict=True):
            assert float((a - b).norm() / a.norm()) < 1e-13
        np.testing.assert_allclose(found.products, whole.products, rtol=1e-12)


def test_tiles_cover_all_rows_in_nearly_equal_parts() -> None:
    for n, size in ((10, 3), (5001, 5000), (5000, 5000), (1, 5), (17, 4)):
        ranges = list(tiles(n, size))
        assert [r for start, stop in ranges for r in range(start, stop)] == list(range(n))
        lengths = [stop - start for start, stop in ranges]
        assert max(lengths) <= size
        assert max(lengths) - min(lengths) <= 1


def test_only_the_wanted_scatter_matrices_are_made() -> None:
    left, right = make_stack(layers(30, 4, 4)), make_stack(layers(30, 3))
    found = exact(left, right, own_sides=frozenset({"right"}))
    assert [block is not None for block in found.diagonal] == [False, False, True]
    assert [block is not None for block in exact(left).diagonal] == [True, True]


def test_half_precision_input() -> None:
    x = [torch.from_numpy(z).to(torch.bfloat16) for z in layers(300, 6, 4)]
    found = cross(make_stack(x), None, dtype=torch.float32, device=CPU)
    agree(found, [z.double().numpy() for z in x], None, 1e-6)


@pytest.mark.parametrize("value, word", [(float("nan"), "NaN"), (float("inf"), "infinite")])
@pytest.mark.parametrize("tile", [10, 100])
def test_a_value_that_is_not_finite_is_named(value: float, word: str, tile: int) -> None:
    x = layers(40, 6, 5)
    x[1][33, 2] = value
    stack = make_stack(x, names=["a/0", "a/1"])
    with pytest.raises(InputError) as caught:
        exact(stack, tile_rows=tile)
    assert str(caught.value) == f"every value must be finite, but layer a/1 is {word} at row 33, feature 2."
    with pytest.raises(InputError, match="at row 33, feature 2"):
        exact(stack.take(np.arange(40)[::-1].copy()), tile_rows=tile)


def test_numbers_whose_squares_do_not_fit() -> None:
    big = [np.full((20, 3), 1e25, dtype=np.float32) * layers(20, 3)[0].astype(np.float32)]
    with pytest.raises(ScaleError, match="must have values that fit float32 products, but they deviate by"):
        cross(make_stack(big), None, dtype=torch.float32, device=CPU)
    assert torch.isfinite(exact(make_stack(big)).products).all()
    huge = [np.full((20, 3), 1e200) * layers(20, 3)[0]]
    with pytest.raises(InputError, match="squares fit the number format"):
        exact(make_stack(huge))


def test_progress_counts_every_row_once() -> None:
    done: list[int] = []
    exact(make_stack(layers(45, 3)), tile_rows=10, progress=done.append)
    assert sum(done) == 45
    assert len(done) == 5


def test_sums_in_float64_of_float32_rows() -> None:
    rows = torch.from_numpy(generator(0, "sums").standard_normal((10_007, 3)).astype(np.float32)) + 1000
    np.testing.assert_allclose(block_sum(rows), rows.double().sum(0), rtol=1e-7)
    assert block_sum(rows).dtype == torch.float64


def test_squared_row_norms_of_each_layer() -> None:
    Z = torch.from_numpy(generator(0, "norms").standard_normal((9, 10)))
    for widths in ((5, 5), (2, 8), (10,)):
        parts = [p.square().sum(1) for p in Z.split(list(widths), 1)]
        np.testing.assert_allclose(squared_norms(Z, widths), torch.stack(parts), rtol=1e-13)
