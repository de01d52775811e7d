from __future__ import annotations

import numpy as np
import pytest
import torch

from microtome.moments.nuclear import canonical, polar, singular_sums, singular_values
from microtome.randomness import generator

SPECTRA = {
    "uniform": np.linspace(0.02, 0.98, 24),
    "log-uniform": np.geomspace(1, 1e-8, 24),
    "log-uniform, far down": np.geomspace(0.9, 1e-14, 24),
    "all one": np.ones(24),
    "equal and small": np.full(24, 1e-3),
    "half of them zero": np.r_[np.linspace(0.9, 0.1, 12), np.zeros(12)],
    "zero": np.zeros(24),
    "nearly one": 1 - np.geomspace(1e-12, 1e-2, 24),
}


def matrix(spectrum: np.ndarray, rows: int = 24, columns: int = 30, name: str = "T") -> torch.Tensor:
    rng = generator(0, "test_nuclear", name)
    u, v = (np.linalg.qr(rng.normal(size=(size, size)))[0] for size in (rows, columns))
    m = len(spectrum)
    return torch.from_numpy((u[:, :m] * spectrum) @ v[:, :m].T)


def all_of(T: torch.Tensor) -> torch.Tensor:
    return torch.full((len(T),), min(T.shape[1:]))


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("tall", [False, True])
def test_singular_values(name: str, tall: bool) -> None:
    T = matrix(SPECTRA[name])[None]
    T = T.mT if tall else T
    expected = torch.linalg.svdvals(T)
    found = singular_values(T, all_of(T))
    # Through the square, a value of 1e-9 is rounding; the mean is what counts.
    np.testing.assert_allclose(found, expected, atol=3e-8)
    np.testing.assert_allclose(singular_sums(T, all_of(T)), expected.sum(1), atol=1e-7)
    assert found.dtype == torch.float64


@pytest.mark.parametrize("name", SPECTRA)
def test_means_of_float32_matrices(name: str) -> None:
    T = torch.stack([matrix(SPECTRA[name], name=str(k)) for k in range(3)])
    found = singular_values(T.float(), all_of(T)).mean(1)
    np.testing.assert_allclose(found, torch.linalg.svdvals(T).mean(1), atol=1e-6)


def test_small_values_are_done_again_in_float64() -> None:
    # Rounding of T T' in float32 would make values of 1e-6 to ones of 3e-4.
    T = matrix(np.r_[1.0, np.full(23, 1e-6)])[None].float()
    expected = torch.linalg.svdvals(T.double())
    np.testing.assert_allclose(singular_values(T, all_of(T)), expected, atol=1e-7)


def test_padding_is_not_counted() -> None:
    T = torch.zeros((2, 24, 30), dtype=torch.float64)
    T[0, :20, :10] = matrix(np.linspace(0.9, 0.1, 10), 20, 10)
    T[1] = matrix(SPECTRA["uniform"])
    count = torch.tensor([10, 24])
    found = singular_values(T, count)
    np.testing.assert_allclose(found[0, :10], np.linspace(0.9, 0.1, 10), atol=1e-10)
    assert float(found[0, 10:].abs().max()) == 0
    np.testing.assert_allclose(singular_sums(T, count), [5.0, SPECTRA["uniform"].sum()], atol=1e-9)


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("tall", [False, True])
def test_sums_by_products_alone(name: str, tall: bool) -> None:
    T = torch.stack([matrix(SPECTRA[name], name=str(k)) for k in range(3)])
    T = T.mT.contiguous() if tall else T
    np.testing.assert_allclose((T * polar(T)).sum((1, 2)), torch.linalg.svdvals(T).sum(1), atol=1e-10 * 24)


@pytest.mark.parametrize("shape", [(2, 20, 24), (70, 9, 7)])
def test_polar_factors(shape: tuple[int, int, int]) -> None:
    T = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / shape[1]
    T = torch.nn.functional.pad(T, (0, 3, 0, 2))
    U, S, V = torch.linalg.svd(T, full_matrices=False)
    np.testing.assert_allclose(polar(T), (U * (S > 1e-9)[:, None, :]) @ V, atol=1e-8)


def test_sums_by_products_of_a_batch_of_different_kinds() -> None:
    T = torch.stack([matrix(spectrum, name=name) for name, spectrum in SPECTRA.items()])
    np.testing.assert_allclose((T * polar(T)).sum((1, 2)), torch.linalg.svdvals(T).sum(1), atol=1e-10 * 24)


@pytest.mark.parametrize("tall", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_directions_of_both_sides(tall: bool, dtype: torch.dtype) -> None:
    T = matrix(np.linspace(0.95, 0.05, 24))[None]
    T = T.mT if tall else T
    rho, U, V = canonical(T.to(dtype), T.shape[1], [T.shape[2]])
    within = 1e-10 if dtype == torch.float64 else 1e-5
    np.testing.assert_allclose(rho[0], np.linspace(0.95, 0.05, 24), atol=within)
    np.testing.assert_allclose((U * rho[:, None]) @ V.double().mT, T, atol=within)
    for side in (U, V):
        np.testing.assert_allclose(side[0].double().norm(dim=0), np.ones(24), atol=within)
    assert U.shape == (1, T.shape[1], 24)
    assert V.shape == (1, T.shape[2], 24)


def test_directions_of_padding_are_zero() -> None:
    T = torch.zeros((1, 8, 9), dtype=torch.float64)
    T[0, :5, :3] = matrix(np.array([0.9, 0.5, 0.2]), 5, 3)
    rho, U, V = canonical(T, 5, [3])
    np.testing.assert_allclose(rho[0, :3], [0.9, 0.5, 0.2], atol=1e-12)
    assert (
        float(rho[0, 3:].abs().max()) == float(U[0, :, 3:].abs().max()) == float(V[0, :, 3:].abs().max()) == 0
    )


def test_directions_of_pairs_of_different_sizes_in_one_batch() -> None:
    sizes = [(5, 3), (5, 7), (5, 5)]
    T = torch.zeros((3, 8, 9), dtype=torch.float64)
    for j, (k, m) in enumerate(sizes):
        T[j, :k, :m] = matrix(np.linspace(0.9, 0.3, min(k, m)), k, m, name=str(j))
    for turned in (T, T.mT.contiguous()):
        for j, (k, m) in enumerate(sizes):
            left, right = (k, m) if turned is T else (m, k)
            rho, U, V = canonical(turned[j : j + 1], left, [right])
            np.testing.assert_allclose(rho[0, : min(k, m)], np.linspace(0.9, 0.3, min(k, m)), atol=1e-12)
            np.testing.assert_allclose((U * rho[:, None]) @ V.mT, turned[j : j + 1], atol=1e-12)
    rho, U, V = canonical(T, 5, [r for _, r in sizes])
    np.testing.assert_allclose((U * rho[:, None]) @ V.mT, T, atol=1e-12)
