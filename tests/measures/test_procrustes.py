from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.spatial import procrustes as scipy_procrustes

import microtome as mt
from microtome.randomness import generator


def related(n: int = 60, p: int = 7, q: int = 5) -> tuple[np.ndarray, np.ndarray]:
    r = generator(0, "test_procrustes")
    x = r.normal(size=(n, p)) + 2
    return x, x @ r.normal(size=(p, q)) + 2 * r.normal(size=(n, q))


def value(x: np.ndarray, y: np.ndarray, **options: str) -> float:
    return mt.similarity(x, y, "procrustes", **options).value  # pyright: ignore[reportArgumentType]


def unit(x: np.ndarray, width: int) -> np.ndarray:
    """Centered, of length 1, zeros appended."""
    z = x - x.mean(axis=0)
    return np.pad(z / np.linalg.norm(z), ((0, 0), (0, width - x.shape[1])))


def test_agrees_with_scipy() -> None:
    x, y = related()
    a, b = unit(x, 7), unit(y, 7)
    turn, total = orthogonal_procrustes(a, b)
    assert value(x, y) == pytest.approx(total, abs=1e-12)
    assert value(y, x) == pytest.approx(total, abs=1e-12)
    assert np.linalg.norm(a @ turn - b) ** 2 == pytest.approx(2 - 2 * value(x, y), abs=1e-12)
    # Scipy's own disparity also chooses a scale.
    assert scipy_procrustes(a, b)[2] == pytest.approx(1 - value(x, y) ** 2, abs=1e-12)


def test_is_the_fidelity_of_the_gram_matrices() -> None:
    x, y = related(n=12)
    grams = [unit(z, 7) @ unit(z, 7).T for z in (x, y)]
    values, vectors = np.linalg.eigh(grams[0])
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    fidelity = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ grams[1] @ root), 0)).sum()
    assert value(x, y) == pytest.approx(fidelity, abs=1e-6)


def test_angular_form() -> None:
    x, y = related()
    assert value(x, y, statistic="angular") == pytest.approx(
        1 - 2 / math.pi * math.acos(value(x, y)), abs=1e-12
    )
    assert value(x, x, statistic="angular") == pytest.approx(1, abs=1e-7)


def test_small_singular_values_keep_their_digits() -> None:
    # Squaring a cross-product of this spectrum would lose everything below 1e-8 of the largest.
    r = generator(1, "test_procrustes")
    u, v = (np.linalg.qr(r.normal(size=(200, 30)))[0] for _ in range(2))
    x, y = u * np.geomspace(1, 1e-7, 30), u * np.geomspace(1, 1e-7, 30) + 1e-9 * v
    a, b = unit(x, 30), unit(y, 30)
    assert value(x, y) == pytest.approx(np.linalg.svd(a.T @ b, compute_uv=False).sum(), abs=1e-13)


def test_fewer_rows_than_features() -> None:
    x, y = related(n=6, p=30, q=20)
    total = np.linalg.svd(unit(x, 30).T @ unit(y, 20), compute_uv=False).sum()
    assert value(x, y) == pytest.approx(total, abs=1e-10)


def test_a_constant_layer() -> None:
    x, _ = related()
    found = mt.similarity(x, np.full((60, 3), 0.37), "procrustes")
    assert math.isnan(found.value)
    assert found.reason == "a layer is constant over the rows"
