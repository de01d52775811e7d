from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from microtome.moments.bank import RANK_TOLERANCE, Bank
from microtome.moments.crossing import cross
from microtome.moments.stack import make_stack
from microtome.randomness import generator

EPS32, EPS64 = (float(np.finfo(kind).eps) for kind in (np.float32, np.float64))


def rng(name: str) -> np.random.Generator:
    return generator(0, "test_bank", name)


def bank(layers: list[np.ndarray], dtype: torch.dtype = torch.float64, **more: Any) -> Bank:
    """A bank as the engine makes it."""
    found = cross(make_stack(layers), None, dtype=dtype, device=torch.device("cpu"))
    return Bank(
        n=found.n,
        names=found.names,
        mean=torch.stack(found.mean),
        scatter=torch.stack([block for block in found.diagonal if block is not None]),
        norms2=found.products.diagonal(),
        dtype=dtype,
        **{"input_eps": EPS64 if dtype == torch.float64 else EPS32, **more},
    )


def spread(n: int, sd: np.ndarray, name: str = "spread") -> np.ndarray:
    """Columns at right angles with the given standard deviations, rotated."""
    r = rng(name)
    u = np.linalg.qr(np.column_stack([np.ones(n), r.normal(size=(n, len(sd)))]))[0][:, 1:]
    return (u * sd * np.sqrt(n)) @ np.linalg.qr(r.normal(size=(len(sd), len(sd))))[0]


@pytest.mark.parametrize("constant", [0.0, 0.37, 3.0, 3000.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_constant_neurons_are_told_from_small_ones(constant: float, dtype: torch.dtype) -> None:
    x = rng("alive").normal(size=(5000, 5)).astype(np.float32)
    x[:, 1] = constant
    x[:, 3] = constant * (1 + 1e-3 * x[:, 3])  # constant only if it is zero
    found = bank([x], dtype, input_eps=EPS32)
    assert found.alive[0].tolist() == [True, False, True, constant != 0, True]
    assert found.known["alive"] == [4 - (constant == 0)]
    assert float(found.scatter[0, 1].abs().max()) == 0
    assert float(found.scale[0, 1]) == 0


def test_one_row_that_differs_is_enough() -> None:
    x = np.full((5000, 2), 0.37, dtype=np.float32)
    x[123, 1] += 1e-3
    assert bank([x], torch.float32).alive[0].tolist() == [False, True]


def test_spectra_are_those_of_numpy() -> None:
    layers = [rng(name).normal(size=(80, 6)) * np.linspace(1, 5, 6) for name in ("a", "b")]
    found = bank(layers)
    for k, x in enumerate(layers):
        z = x - x.mean(axis=0)
        matrices = {"center": z.T @ z, "standardize": np.corrcoef(x.T)}
        for scaling, matrix in matrices.items():
            values, vectors = found.spectrum(scaling)  # pyright: ignore[reportArgumentType]
            np.testing.assert_allclose(values[k], np.linalg.eigvalsh(matrix)[::-1], rtol=1e-10)
            rebuilt = (vectors[k] * values[k]) @ vectors[k].T
            np.testing.assert_allclose(rebuilt, matrix, atol=1e-10 * float(np.linalg.norm(matrix)))
        s2 = np.linalg.svd(z, compute_uv=False) ** 2
        assert float(found.participation[k]) == pytest.approx(s2.sum() ** 2 / (s2**2).sum())
        top = np.sort(z.var(axis=0))[::-1]
        assert float(found.variance_share(3)[k]) == pytest.approx(top[:3].sum() / top.sum())


def test_whitened_directions() -> None:
    layers = [spread(60, np.array([3, 2, 1, 0.5])), spread(60, np.array([3, 2, 0, 0]), "less")]
    found = bank(layers)
    for basis in (found.full(), found.cut("center", 0.9, True), found.cut("standardize", 0.9, False)):
        for k, kept in enumerate(basis.kept):
            W, scatter = basis.whiten[k], found.scatter[k]
            unit = torch.zeros((W.shape[1], W.shape[1]), dtype=torch.float64)
            unit[range(kept), range(kept)] = 1
            np.testing.assert_allclose(W.T @ scatter @ W, unit, atol=1e-12)
            np.testing.assert_allclose(basis.load()[k], scatter @ W, atol=1e-10)
    assert found.full().kept == (4, 2)


@pytest.mark.parametrize(
    "threshold, kept, kept_before", [(0.5, 1, 0), (0.9, 1, 0), (0.91, 2, 1), (0.99, 2, 1), (1.0, 3, 2)]
)
def test_cuts_of_the_variance(threshold: float, kept: int, kept_before: int) -> None:
    found = bank([spread(50, np.sqrt([0.9, 0.09, 0.01]))])
    assert found.cut("center", threshold, True).kept == (kept,)
    before = found.cut("center", threshold, False)
    assert before.kept == (kept_before,)
    assert before.rank == (3,)
    lost = 1 - np.cumsum([0, 0.9, 0.09, 0.01])
    assert before.lost[0] == pytest.approx(lost[kept_before], abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("share, rank", [(1e-4, 3), (3e-6, 3), (3e-7, 2), (1e-9, 2)])
def test_the_rank_rule(share: float, rank: int, dtype: torch.dtype) -> None:
    # The correlation matrix of a, b and a + small c has an eigenvalue near (small / 2)^2 of the largest.
    a, b, c = spread(400, np.ones(3)).T
    x = np.column_stack([a, b, a + np.sqrt(4 * share) * c])
    found = bank([x], dtype)
    values = np.linalg.eigvalsh(np.corrcoef(x.T))
    assert (values[0] / values[-1] > RANK_TOLERANCE) == (rank == 3)
    assert found.full().kept == (rank,)
    assert found.near_tolerance == (1e-7 < values[0] / values[-1] < 1e-5)


def test_ranks_stay_below_the_number_of_rows() -> None:
    found = bank([rng("few").normal(size=(5, 9))])
    assert found.full().kept == (4,)
    assert found.cut("center", 1.0, True).kept == (4,)


CERTAIN = {
    "plain": np.linspace(1, 0.2, 12),
    "uneven": np.geomspace(1, 0.02, 12),
    "rank 9 of 12": np.r_[np.linspace(1, 0.2, 9), 0, 0, 0],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CERTAIN)
def test_one_spectrum_serves_both_where_that_is_certain(name: str, dtype: torch.dtype) -> None:
    layers = [spread(500, CERTAIN[name], each) for each in ("one", "two")]
    quick, slow = bank(layers, dtype), bank(layers, dtype)
    slow.spectrum("standardize")  # once it is known there is nothing to save
    a, b = quick.full(), slow.full()
    assert quick.shares_spectrum or (dtype == torch.float32 and name.startswith("rank"))
    assert not slow.shares_spectrum
    assert a.kept == b.kept == (int((CERTAIN[name] > 0).sum()),) * 2
    for k in range(2):
        # The same space: one basis expressed in the other is a rotation.
        real = slice(a.kept[k])
        turn = a.whiten[k, :, real].double().T @ quick.scatter[k] @ b.whiten[k, :, real].double()
        unit = torch.eye(len(turn), dtype=turn.dtype)
        np.testing.assert_allclose(turn @ turn.T, unit, atol=1e-9 if dtype == torch.float64 else 1e-4)


def test_a_certificate_is_refused_in_doubt() -> None:
    plain = spread(500, np.linspace(1, 0.2, 8))
    steep = spread(500, np.geomspace(1, 1e-3, 8))
    scaled = plain * np.geomspace(1e-4, 1e4, 8)
    assert bank([plain]).full().kept == (8,)
    for layer in (steep, scaled):
        found = bank([plain, layer])
        found.full()
        assert not found.shares_spectrum
    few = bank([spread(12, np.ones(8))[:8]])
    few.full()
    assert not few.shares_spectrum


def test_columns_beyond_the_rank_are_zero() -> None:
    found = bank([spread(500, CERTAIN["rank 9 of 12"])])
    for basis in (found.full(), found.cut("center", 0.6, True)):
        assert not bool(basis.whiten[0, :, basis.kept[0] :].any())
        assert not bool(basis.load()[0, :, basis.kept[0] :].any())
