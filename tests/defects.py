"""Which mistakes must a check of measures notice? Broken measures, as they are found in the wild.

`DEFECTS` maps what is wrong to the measure it pretends to be (a key of `reference.VALUES`) and to the broken
function of two arrays of rows by features. Each is a mistake that a published program made, written anew
here. Most agree with the truth on easy input; some raise or give NaN on hard input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

BATCH = 256

Measure = Callable[[np.ndarray, np.ndarray], float]


# Kernels


def _gram(x: np.ndarray, dtype: Any) -> np.ndarray:
    x = np.asarray(x, dtype=dtype)
    return x @ x.T


def _unbiased_hsic(k: np.ndarray, m: np.ndarray) -> Any:
    """Song's estimator from its three sums, in whatever precision came in."""
    n = len(k)
    k, m = k.copy(), m.copy()
    np.fill_diagonal(k, 0)
    np.fill_diagonal(m, 0)
    one = k.dtype.type
    total = (k * m).sum() + k.sum() * m.sum() / one((n - 1) * (n - 2) or math.nan)
    return (total - one(2) / one(n - 2 or math.nan) * (k.sum(axis=0) @ m.sum(axis=0))) / one(
        n * (n - 3) or math.nan
    )


def _biased_hsic(k: np.ndarray, m: np.ndarray) -> Any:
    def center(g: np.ndarray) -> np.ndarray:
        return g - g.mean(axis=0) - g.mean(axis=1, keepdims=True) + g.mean()

    return (center(k) * center(m)).sum()


def _ratio(hsic: Callable[[np.ndarray, np.ndarray], Any], k: np.ndarray, m: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return float(hsic(k, m) / np.sqrt(hsic(k, k) * hsic(m, m)))


def _uncentered_float32_gram(x: np.ndarray, y: np.ndarray) -> float:
    return _ratio(_unbiased_hsic, _gram(x, np.float32), _gram(y, np.float32))


def _clamped(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.clip(_uncentered_float32_gram(x, y), 0, 1))


def _uncentered_float32_gram_biased(x: np.ndarray, y: np.ndarray) -> float:
    return _ratio(_biased_hsic, _gram(x, np.float32), _gram(y, np.float32))


def _raw_moments(x: np.ndarray, y: np.ndarray) -> float:
    x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)

    def cross(a: np.ndarray, b: np.ndarray) -> Any:
        return np.linalg.norm(a.T @ b - np.float32(len(a)) * np.outer(a.mean(axis=0), b.mean(axis=0)))

    return float(cross(x, y) ** 2 / (cross(x, x) * cross(y, y)))


def _uncentered(x: np.ndarray, y: np.ndarray) -> float:
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(x.T @ y) ** 2 / np.linalg.norm(x.T @ x) / np.linalg.norm(y.T @ y))


def _batches(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    x, y = _center(x), _center(y)
    for start in range(0, len(x), BATCH):
        yield _gram(x[start : start + BATCH], np.float64), _gram(y[start : start + BATCH], np.float64)


def _last_batch_only(x: np.ndarray, y: np.ndarray) -> float:
    value = math.nan
    for k, m in _batches(x, y):
        value = _ratio(_unbiased_hsic, k, m)  # = where += was meant
    return value


def _sum_over_batches(x: np.ndarray, y: np.ndarray) -> float:
    layers = 1
    return sum(_ratio(_biased_hsic, k, m) for k, m in _batches(x, y)) / layers


def _mean_of_batches(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean([_ratio(_biased_hsic, k, m) for k, m in _batches(x, y)]))


def _small_last_batch(x: np.ndarray, y: np.ndarray) -> float:
    pairs = list(_batches(x, y))
    with np.errstate(all="ignore"):
        xy, xx, yy = (
            np.mean([_unbiased_hsic(*take(k, m)) for k, m in pairs])
            for take in (lambda k, m: (k, m), lambda k, m: (k, k), lambda k, m: (m, m))
        )
        return float(xy / np.sqrt(xx * yy))


def _unbiased_ignored(x: np.ndarray, y: np.ndarray) -> float:
    return _ratio(_biased_hsic, _gram(_center(x), np.float64), _gram(_center(y), np.float64))


def _biased_norms(x: np.ndarray, y: np.ndarray) -> float:
    k, m = (_gram(_center(z), np.float64) for z in (x, y))
    n = len(k)
    norms = np.sqrt(_biased_hsic(k, k) * _biased_hsic(m, m)) / (n - 1) ** 2
    with np.errstate(all="ignore"):
        return float(_unbiased_hsic(k, m) / norms)


def _other_rows(x: np.ndarray, y: np.ndarray) -> float:
    # Two iterators over one shuffled loader: the rows of the two sides are different examples.
    return _unbiased_ignored(x, np.roll(y, 1, axis=0))


def _writes_back(x: np.ndarray, y: np.ndarray) -> float:
    for z in (x, y):
        z -= z.mean(axis=0, dtype=np.float64).astype(z.dtype)
    return _uncentered(x, y)


def _fixed_sigma(x: np.ndarray, y: np.ndarray) -> float:
    def kernel(z: np.ndarray) -> np.ndarray:
        g = _gram(_center(z), np.float64)
        return np.exp(-(np.diag(g)[:, None] + np.diag(g)[None, :] - 2 * g) / 2)

    return _ratio(_biased_hsic, kernel(x), kernel(y))


# Subspaces


def _center(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, np.float64)
    return np.where((x == x[0]).all(axis=0), 0, x - x.mean(axis=0))


def _scored(x: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(_center(x), axis=0)
    return _center(x) / np.where(size == 0, 1, size)


def _svd(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    return u[:, s > 0], s[s > 0]


def _alive(x: np.ndarray) -> np.ndarray:
    u, s = _svd(x)
    return u[:, s**2 > 1e-6 * s.max(initial=0) ** 2]


def _rhos(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.linalg.svd(u.T @ v, compute_uv=False)


def _mean(rho: np.ndarray) -> float:
    return float(rho.mean()) if rho.size else math.nan


def _true_rhos(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _rhos(_alive(_scored(x)), _alive(_scored(y)))


def _pillai(x: np.ndarray, y: np.ndarray) -> float:
    return _mean(_true_rhos(x, y))


def _most_of_the_sum(x: np.ndarray, y: np.ndarray) -> float:
    rho = _true_rhos(x, y)
    return _mean(rho[: int(np.sum(np.cumsum(rho) < 0.98 * rho.sum())) + 1])


def _dead_direction(x: np.ndarray, y: np.ndarray) -> float:
    return float(_true_rhos(x, y).sum() / min(x.shape[1], y.shape[1]))


def _no_rank(x: np.ndarray, y: np.ndarray, ridge: float = 0.0, dtype: Any = np.float32) -> float:
    def inverse_root(z: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(z.T @ z / dtype(n) + dtype(ridge) * np.eye(z.shape[1], dtype=dtype))
        return (vectors / np.sqrt(values)) @ vectors.T

    n, x, y = len(x), _center(x).astype(dtype), _center(y).astype(dtype)
    with np.errstate(all="ignore"):
        t = inverse_root(x) @ (x.T @ y / dtype(n)) @ inverse_root(y)
    return float(np.linalg.svd(t, compute_uv=False).mean())


def _ridge(x: np.ndarray, y: np.ndarray) -> float:
    return _no_rank(x, y, ridge=1e-6, dtype=np.float64)


def _rounding_directions(x: np.ndarray, y: np.ndarray) -> float:
    return _mean(_rhos(_svd(_scored(x))[0], _svd(_scored(y))[0]))


def _covariance_rank(x: np.ndarray, y: np.ndarray) -> float:
    return _mean(_rhos(_alive(_center(x)), _alive(_center(y))))


def _zero_sd(x: np.ndarray, y: np.ndarray) -> float:
    constant = any((z == z[0]).all(axis=0).any() for z in (x, y))
    return math.nan if constant else _mean(_true_rhos(x, y))


def _uncentered_cca(x: np.ndarray, y: np.ndarray) -> float:
    def scored(z: np.ndarray) -> np.ndarray:
        size = np.linalg.norm(z, axis=0)
        return np.asarray(z, np.float64) / np.where(size == 0, 1, size)

    return _mean(_rhos(_alive(scored(x)), _alive(scored(y))))


def _cut(u: np.ndarray, share: np.ndarray, inclusive: bool = True) -> np.ndarray:
    return u[:, : int(np.sum(np.cumsum(share) < 0.99 * share.sum())) + inclusive]


def _principal(z: np.ndarray, inclusive: bool = True) -> np.ndarray:
    u, s = _svd(z)
    return _cut(u, s**2, inclusive)


def _orthonormal_first(x: np.ndarray, y: np.ndarray) -> float:
    u, v = (_principal(_center(np.linalg.qr(np.asarray(z, np.float64))[0])) for z in (x, y))
    return float(_rhos(u, v).sum() / min(x.shape[1], y.shape[1]))


def _sum_not_squares(x: np.ndarray, y: np.ndarray) -> float:
    return _mean(_rhos(*(_cut(*_svd(_center(z))) for z in (x, y))))


def _cut_before_centering(x: np.ndarray, y: np.ndarray) -> float:
    return _mean(_rhos(*(_alive(_center(_principal(np.asarray(z, np.float64)))) for z in (x, y))))


def _ten_dimensions(x: np.ndarray, y: np.ndarray) -> float:
    return _mean(_rhos(*(_svd(_center(z))[0][:, :10] for z in (x, y))))


def _one_fewer(x: np.ndarray, y: np.ndarray) -> float:
    return _mean(_rhos(*(_principal(_center(z), inclusive=False) for z in (x, y))))


def _z_scored(x: np.ndarray, y: np.ndarray) -> float:
    return _mean(_rhos(*(_principal(_scored(z)) for z in (x, y))))


# Projection weights


def _variates(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Canonical variates of the left side and their correlations; none where they are not defined."""
    if u.shape[1] + v.shape[1] > len(u) - 1:
        u, v = u[:, :0], v[:, :0]
    p, rho, _ = np.linalg.svd(u.T @ v, full_matrices=False)
    return u @ p, rho


def _weigh(h: np.ndarray, x: np.ndarray, rho: np.ndarray) -> float:
    alpha = np.abs(h.T @ x).sum(axis=1)
    return float(alpha @ rho / alpha.sum()) if rho.size else math.nan


def _true_variates(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return _variates(_alive(_scored(x)), _alive(_scored(y)))


def _no_whitening(x: np.ndarray, y: np.ndarray) -> float:
    h, rho = _true_variates(x, y)
    # With X = U S V', the whitened X is U V'; without the whitening its variates are stretched by S.
    u, s = _svd(_center(x))
    return _weigh(np.linalg.qr((u * s) @ (u.T @ h))[0], _center(x), rho)


def _mean_added_back(x: np.ndarray, y: np.ndarray) -> float:
    h, rho = _true_variates(x, y)
    coefficients = np.linalg.lstsq(_center(x), h, rcond=1e-10)[0]
    raw = np.asarray(x, np.float64)
    return _weigh(np.linalg.qr(raw @ coefficients)[0], raw, rho)


def _mask_of_the_other_side(x: np.ndarray, y: np.ndarray) -> float:
    h, rho = _true_variates(x, y)
    side = x if x.shape[1] <= y.shape[1] else y
    return _weigh(h, _center(x)[:, (side != side[0]).any(axis=0)], rho)


def _orthonormal_coefficients(x: np.ndarray, y: np.ndarray) -> float:
    h, rho = _true_variates(x, y)
    q, _ = np.linalg.qr(np.linalg.lstsq(_center(x), h, rcond=1e-10)[0])
    x = np.asarray(x, np.float64)
    return _weigh(x @ q, x, rho)


def _larger_side(x: np.ndarray, y: np.ndarray) -> float:
    h, rho = _true_variates(x, y)
    if rho.size == 0:
        return math.nan
    u = _alive(_scored(x))
    null, _, _ = np.linalg.svd(u - h @ (h.T @ u), full_matrices=False)
    extra = u.shape[1] - h.shape[1]
    return _weigh(np.hstack([h, null[:, :extra]]), _center(x), np.pad(rho, (0, extra)))


def _released_pwcca(x: np.ndarray, y: np.ndarray) -> float:
    h, rho = _variates(*(_principal(_scored(z), inclusive=False) for z in (x, y)))
    return _weigh(h, np.asarray(x, np.float64), rho)


# Neurons


def _noise_over_little(x: np.ndarray, y: np.ndarray) -> float:
    x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
    c = x.T @ y / np.float32(len(x)) - np.outer(x.mean(axis=0), y.mean(axis=0))
    sd = np.outer(x.std(axis=0) + np.float32(1e-7), y.std(axis=0) + np.float32(1e-7))
    return float(np.abs(c / sd).max(axis=1).mean())


def _noise_regressed(x: np.ndarray, y: np.ndarray) -> float:
    def scored(z: np.ndarray) -> np.ndarray:
        z = np.asarray(z, np.float32)
        z = z - z.mean(axis=0)
        return z / (z.std(axis=0) + np.float32(1e-7))

    x, u = scored(x), _svd(scored(y))[0]
    lengths = np.linalg.norm(x, axis=0)
    return float((np.linalg.norm(u.T @ x, axis=0) / np.where(lengths == 0, 1, lengths)).mean())


def _rounding_regressed(x: np.ndarray, y: np.ndarray) -> float:
    x, u = _scored(x), _svd(_scored(y))[0]
    if u.shape[1] == 0:
        return math.nan
    return _mean(np.linalg.norm(u.T @ x[:, x.any(axis=0)], axis=0))


DEFECTS: Mapping[str, tuple[str, Measure]] = MappingProxyType(
    {
        "Gram matrix of uncentered float32": ("debiased_cka", _uncentered_float32_gram),
        "Gram matrix of uncentered float32, clamped to [0, 1]": ("debiased_cka", _clamped),
        "Gram matrix of uncentered float32, biased": ("linear_cka", _uncentered_float32_gram_biased),
        "raw float32 moments minus the means": ("linear_cka", _raw_moments),
        "not centered": ("linear_cka", _uncentered),
        "only the last batch counts": ("debiased_cka", _last_batch_only),
        "sum over batches, not divided": ("linear_cka", _sum_over_batches),
        "mean of the batches' biased values": ("linear_cka", _mean_of_batches),
        "last batch under four rows": ("debiased_cka", _small_last_batch),
        "unbiased is ignored": ("debiased_cka", _unbiased_ignored),
        "unbiased HSIC over biased norms": ("debiased_cka", _biased_norms),
        "rows of the two sides differ": ("linear_cka", _other_rows),
        "writes the centered data back": ("linear_cka", _writes_back),
        "kernel width fixed at 1": ("rbf_cka", _fixed_sigma),
        "mean correlation called mean square": ("cca_squared", _pillai),
        "mean over 98 % of the sum": ("cca", _most_of_the_sum),
        "dead direction counts as 0": ("cca", _dead_direction),
        "inverse root without a rank": ("cca", _no_rank),
        "inverse root with a fixed ridge": ("cca", _ridge),
        "rounding counts as a direction": ("cca", _rounding_directions),
        "rank from the covariance": ("cca", _covariance_rank),
        "NaN for one constant neuron": ("cca", _zero_sd),
        "CCA not centered": ("cca", _uncentered_cca),
        "orthonormal before the cut": ("svcca", _orthonormal_first),
        "cut on the sum, not on squares": ("svcca", _sum_not_squares),
        "cut before centering": ("svcca", _cut_before_centering),
        "ten dimensions, always": ("svcca", _ten_dimensions),
        "one component fewer": ("svcca", _one_fewer),
        "z-scored without saying so": ("svcca", _z_scored),
        "weights without whitening": ("pwcca", _no_whitening),
        "weights with the mean added back": ("pwcca", _mean_added_back),
        "weights under the other side's mask": ("pwcca", _mask_of_the_other_side),
        "coefficients made orthonormal, not variates": ("pwcca", _orthonormal_coefficients),
        "weights over null directions": ("pwcca", _larger_side),
        "weights after a cut, from other scales": ("pwcca", _released_pwcca),
        "dead neuron is noise over 1e-7": ("neuron_correlation", _noise_over_little),
        "dead neuron is regressed noise": ("mixed_regression", _noise_regressed),
        "regression on rounding": ("mixed_regression", _rounding_regressed),
    }
)
