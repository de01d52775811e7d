"""What is the true value? Every measure a second time: plain numpy, float64, from its definition, by SVD.

Written for clarity, not for speed; nothing here is shared with the package. Arrays are rows by features.
A value that is not defined is NaN. `VALUES` lists every measure as a function of two arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

TAU = 1e-6


# One layer


def live(x: np.ndarray) -> np.ndarray:
    """Drop the columns whose values are all the same, in float64."""
    x = np.asarray(x, dtype=np.float64)
    return x[:, (x != x[:1]).any(axis=0)]


def centered(x: np.ndarray) -> np.ndarray:
    """Columns that vary, with mean 0."""
    x = live(x)
    x = x - x.mean(axis=0)
    return x - x.mean(axis=0)  # once more: the first mean was rounded


def standardized(x: np.ndarray) -> np.ndarray:
    """Columns that vary, with mean 0 and length 1."""
    x = centered(x)
    return x / np.linalg.norm(x, axis=0)


def basis(x: np.ndarray, tau: float = TAU) -> np.ndarray:
    """
    Orthonormal basis of the columns.

    A direction counts when the correlation matrix has an eigenvalue above `tau` times its largest one there.
    """
    return _directions(standardized(x), tau)[0]


def rank(x: np.ndarray, tau: float = TAU) -> int:
    return basis(x, tau).shape[1]


def principal(
    x: np.ndarray, scaling: str = "center", threshold: float = 0.99, inclusive: bool = True
) -> np.ndarray:
    """
    Left singular vectors that hold `threshold` of the variance.

    Inclusive: with the one that crosses the threshold; otherwise only those before it.
    """
    z = {"center": centered, "standardize": standardized}[scaling](x)
    u, s = _directions(z, TAU)
    share = np.cumsum(s**2) / np.sum(z**2)
    return u[:, : int(np.sum(share < threshold)) + inclusive]


def _directions(z: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray]:
    if z.shape[1] == 0:
        return np.zeros((len(z), 0)), np.zeros(0)
    u, s, _ = np.linalg.svd(z, full_matrices=False)
    r = min(int(np.sum(s**2 > tau * s[0] ** 2)), len(z) - 1)
    return u[:, :r], s[:r]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def _over(top: Any, *below: Any) -> float:
    return float(top / np.prod(below)) if all(b > 0 for b in below) else math.nan


# Kernels


def linear_cka(x: np.ndarray, y: np.ndarray) -> float:
    x, y = centered(x), centered(y)
    if x.shape[0] < max(x.shape[1], y.shape[1]):
        return _over(np.sum((x @ x.T) * (y @ y.T)), np.linalg.norm(x @ x.T), np.linalg.norm(y @ y.T))
    return _over(np.linalg.norm(x.T @ y) ** 2, np.linalg.norm(x.T @ x), np.linalg.norm(y.T @ y))


def debiased_cka(x: np.ndarray, y: np.ndarray, clusters: Sequence[int] | None = None) -> float:
    """
    Cosine of the U-centered Gram matrices.

    With clusters, pairs of rows inside a cluster are left out, and centering means: take away the best
    approximation by a_i + a_j over the pairs that stay, found by least squares (for some tens of rows).
    """
    center = (
        _u_centered if clusters is None else partial(_off_cluster_centered, clusters=np.asarray(clusters))
    )
    x, y = centered(x), centered(y)
    k, m = center(x @ x.T), center(y @ y.T)
    # Debiased self-similarities are rounding when they should be 0: compare them with the Gram's own size.
    kk, mm = np.sum(k * k), np.sum(m * m)
    if len(x) < 4 or kk <= 1e-20 * np.sum((x @ x.T) ** 2) or mm <= 1e-20 * np.sum((y @ y.T) ** 2):
        return math.nan
    return float(np.sum(k * m) / math.sqrt(kk * mm))


def _u_centered(gram: np.ndarray) -> np.ndarray:
    n = len(gram)
    k = gram - np.diag(np.diag(gram))
    sums = k.sum(axis=0)
    u = k - (sums[:, None] + sums[None, :]) / (n - 2) + sums.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(u, 0)
    return u


def _off_cluster_centered(gram: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    first, second = np.nonzero(np.triu(clusters[:, None] != clusters[None, :]))
    design = np.zeros((len(first), len(gram)))
    pairs = np.arange(len(first))
    design[pairs, first] = design[pairs, second] = 1
    values = gram[first, second]
    rest = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    u = np.zeros_like(gram)
    u[first, second] = u[second, first] = rest
    return u


def squared_distances(x: np.ndarray) -> np.ndarray:
    gram = x @ x.T
    r = np.diag(gram)
    d = np.maximum(r[:, None] + r[None, :] - 2 * gram, 0)
    np.fill_diagonal(d, 0)
    return d


def rbf_cka(x: np.ndarray, y: np.ndarray, bandwidth: float = 1.0) -> float:
    """Gaussian kernels as wide as `bandwidth` times the root of the median over the whole distance matrix."""

    def kernel(z: np.ndarray) -> np.ndarray:
        d = squared_distances(centered(z))
        middle = np.median(d)
        if middle == 0:
            return np.zeros_like(d)
        k = np.exp(-d / (2 * bandwidth**2 * middle))
        return k - k.mean(axis=0) - k.mean(axis=1, keepdims=True) + k.mean()

    k, m = kernel(x), kernel(y)
    return _over(np.sum(k * m), np.linalg.norm(k), np.linalg.norm(m))


# Subspaces


def cca(x: np.ndarray, y: np.ndarray, tau: float = TAU) -> np.ndarray:
    """Canonical correlations, the largest first, as many as the smaller rank."""
    return _correlations(basis(x, tau), basis(y, tau))[1]


def _correlations(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Canonical variates of both sides as unit columns, and their correlations."""
    left, rho, right = np.linalg.svd(u.T @ v, full_matrices=False)
    return u @ left, np.minimum(rho, 1), v @ right.T


def mean_cca(x: np.ndarray, y: np.ndarray, tau: float = TAU) -> float:
    return _mean(cca(x, y, tau))


def mean_squared_cca(x: np.ndarray, y: np.ndarray, tau: float = TAU) -> float:
    return _mean(cca(x, y, tau) ** 2)


def svcca(
    x: np.ndarray,
    y: np.ndarray,
    scaling: str = "center",
    threshold: float = 0.99,
    inclusive: bool = True,
    top: float = 1.0,
) -> float:
    """Mean over the largest `top` of the canonical correlations (that many, rounded up)."""
    u, v = (principal(side, scaling, threshold, inclusive) for side in (x, y))
    rho = _correlations(u, v)[1]
    return _mean(rho[: math.ceil(round(top * rho.size, 9))])


def pwcca(
    x: np.ndarray, y: np.ndarray, variant: str = "morcos", threshold: float = 0.99, top: float = 1.0
) -> tuple[float, float]:
    """
    Projection-weighted CCA, weighted by the left side, then by the right side.

    Parameters
    ----------
    variant : {"morcos", "svcca", "wu"}
        Canonical variates of the whole layers; of the principal components that hold `threshold` of the
        variance; of those of the standardized layers, without the one that crosses it. Weights come from
        the centered columns in their own scale each time.
    top : float
        Share of the largest correlations (that many, rounded up), with their own weights.
    """
    if variant == "morcos":
        u, v = basis(x), basis(y)
    elif variant == "svcca":
        u, v = principal(x, "center", threshold, True), principal(y, "center", threshold, True)
    else:
        u, v = principal(x, "standardize", threshold, False), principal(y, "standardize", threshold, False)
    if u.shape[1] + v.shape[1] > len(x) - 1 or min(u.shape[1], v.shape[1]) == 0:
        return math.nan, math.nan  # several correlations are exactly 1, and their variates are arbitrary
    h, rho, g = _correlations(u, v)
    largest = slice(math.ceil(round(top * rho.size, 9)))
    h, rho, g = h[:, largest], rho[largest], g[:, largest]
    alpha, beta = np.abs(h.T @ centered(x)).sum(axis=1), np.abs(g.T @ centered(y)).sum(axis=1)
    return float(alpha @ rho / alpha.sum()), float(beta @ rho / beta.sum())


# Neurons


def neuron_correlations(x: np.ndarray, y: np.ndarray, matching: str = "max") -> np.ndarray:
    """Absolute correlation of each neuron of x with its best neuron of y, or with its one-to-one partner."""
    r = np.minimum(np.abs(standardized(x).T @ standardized(y)), 1)
    if r.size == 0:
        return np.zeros(0)
    if matching == "max":
        return r.max(axis=1)
    from scipy.optimize import linear_sum_assignment

    return r[linear_sum_assignment(r, maximize=True)]


def neuron_correlation(x: np.ndarray, y: np.ndarray, matching: str = "max", top: float = 1.0) -> float:
    """Mean over the best `top` of the neurons of x (that many, rounded up)."""
    r = np.sort(neuron_correlations(x, y, matching))[::-1]
    return _mean(r[: math.ceil(round(top * r.size, 9))])


def multiple_correlations(x: np.ndarray, y: np.ndarray, tau: float = TAU) -> np.ndarray:
    """Multiple correlation of each neuron of x with all neurons of y."""
    if live(y).shape[1] == 0:
        return np.zeros(0)
    return np.minimum(np.linalg.norm(basis(y, tau).T @ standardized(x), axis=0), 1)


def mixed_regression(x: np.ndarray, y: np.ndarray, tau: float = TAU, top: float = 1.0) -> float:
    """Mean over the best predicted `top` of the neurons of x (that many, rounded up)."""
    r = np.sort(multiple_correlations(x, y, tau))[::-1]
    return _mean(r[: math.ceil(round(top * r.size, 9))])


def linear_regression(x: np.ndarray, y: np.ndarray, tau: float = TAU) -> float:
    """Share of the variance of x that least squares on y explains, in the sample."""
    if live(y).shape[1] == 0:
        return math.nan
    x = centered(x)
    return _over(np.linalg.norm(basis(y, tau).T @ x) ** 2, np.linalg.norm(x) ** 2)


# Shapes


def nbs(x: np.ndarray, y: np.ndarray) -> float:
    """Normalized Bures similarity: nuclear norm of the cross-product over the Frobenius norms."""
    x, y = centered(x), centered(y)
    if min(x.shape[1], y.shape[1]) == 0:
        return math.nan
    nuclear = np.linalg.svd(x.T @ y, compute_uv=False).sum()
    return _over(nuclear, np.linalg.norm(x), np.linalg.norm(y))


def procrustes_angle(x: np.ndarray, y: np.ndarray) -> float:
    """Angle of the best alignment, in radians: 0 for the same shape, pi/2 for none in common."""
    return math.acos(min(nbs(x, y), 1))


def procrustes_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Distance after centering, scaling to length 1 and the best rotation, which is found and applied."""
    x, y = (z / np.linalg.norm(z) for z in (centered(x), centered(y)))
    width = max(x.shape[1], y.shape[1])
    x, y = (np.pad(z, ((0, 0), (0, width - z.shape[1]))) for z in (x, y))
    u, _, vt = np.linalg.svd(x.T @ y)
    return float(np.linalg.norm(x @ (u @ vt) - y))


# Rows


def row_similarities(x: np.ndarray, inner: str = "cosine") -> np.ndarray:
    """Similarity of all rows with one another (negative distances), of the rows as they are."""
    x = np.asarray(x, dtype=np.float64)
    if inner in ("cosine", "correlation"):
        x = x - x.mean(axis=1, keepdims=True) if inner == "correlation" else x
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        return x @ x.T
    d = squared_distances(x - x.mean(axis=0))
    return -d if inner == "squared_euclidean" else -np.sqrt(d)


def rsa(x: np.ndarray, y: np.ndarray, inner: str = "cosine", outer: str = "pearson") -> float:
    """Agreement of the two similarity matrices above the diagonal."""
    if min(live(x).shape[1], live(y).shape[1]) == 0:
        return math.nan
    above = np.triu_indices(len(x), 1)
    a, b = row_similarities(x, inner)[above], row_similarities(y, inner)[above]
    if outer == "kendall":  # tau a, by its definition: for some tens of rows
        later = np.triu_indices(len(a), 1)
        signs = np.sign(a[:, None] - a[None, :]) * np.sign(b[:, None] - b[None, :])
        return float(signs[later].mean())
    if outer == "spearman":
        from scipy.stats import rankdata

        a, b = rankdata(a), rankdata(b)
    if outer != "cosine":
        a, b = a - a.mean(), b - b.mean()
    return _over(a @ b, np.linalg.norm(a), np.linalg.norm(b))


def mutual_knn(
    x: np.ndarray, y: np.ndarray, k: int = 10, metric: str = "cosine", overlap: str = "shared"
) -> float:
    """Mean share of the k nearest rows, without the row itself, that both layers agree on."""
    if min(live(x).shape[1], live(y).shape[1]) == 0 or k > len(x) - 1:
        return math.nan

    def nearest(z: np.ndarray) -> list[set[int]]:
        s = row_similarities(z, metric)
        np.fill_diagonal(s, -np.inf)
        return [set(row[:k]) for row in np.argsort(-s, axis=1, kind="stable").tolist()]

    shared = [len(a & b) for a, b in zip(nearest(x), nearest(y), strict=True)]
    return _mean(np.array([m / k if overlap == "shared" else m / (2 * k - m) for m in shared]))


VALUES: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = MappingProxyType(
    {
        "linear_cka": linear_cka,
        "debiased_cka": debiased_cka,
        "rbf_cka": rbf_cka,
        "cca": mean_cca,
        "cca_squared": mean_squared_cca,
        "svcca": svcca,
        "svcca_wu": lambda x, y: svcca(x, y, "standardize", inclusive=False),
        "pwcca": lambda x, y: pwcca(x, y)[0],
        "pwcca_svcca": lambda x, y: pwcca(x, y, "svcca")[0],
        "pwcca_wu": lambda x, y: pwcca(x, y, "wu")[0],
        "neuron_correlation": neuron_correlation,
        "neuron_matching": lambda x, y: neuron_correlation(x, y, "one_to_one"),
        "mixed_regression": mixed_regression,
        "linear_regression": linear_regression,
        "nbs": nbs,
        "rsa": rsa,
        "mutual_knn": mutual_knn,
    }
)
