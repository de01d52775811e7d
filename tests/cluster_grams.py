"""Cluster-debiased HSIC from Gram matrices and from moments, by its definition: an oracle."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from microtome.inference.clusters import cluster_sums


def off_cluster_weights(k_rows: ArrayLike, codes: ArrayLike) -> NDArray[np.float64]:
    """
    Solve for the terms u_i + u_j that make the off-cluster row sums of a Gram matrix zero.

    Parameters
    ----------
    k_rows : array_like, shape (..., n)
        Sum of each row over the columns outside its own cluster. For K = X X' with centered columns this
        is minus the sum over the columns inside the cluster.
    codes : array_like of int, shape (n,)
        Cluster of each row. No cluster may hold half of the rows or more.

    Returns
    -------
    ndarray, shape (..., n)

    Notes
    -----
    With m the size and k the total of a cluster: U = [sum k/(n-2m)] / [1 + sum m/(n-2m)],
    U_c = (k - m U)/(n - 2m), u_i = (k_i - U + U_c)/(n - m).
    """
    k_rows, codes = np.asarray(k_rows, dtype=np.float64), np.asarray(codes)
    n, sizes = len(codes), np.bincount(codes)
    room = n - 2 * sizes
    totals = cluster_sums(k_rows, codes)
    overall = ((totals / room).sum(-1) / (1 + (sizes / room).sum()))[..., None]
    per_cluster = (totals - sizes * overall) / room
    return (k_rows - overall + per_cluster[..., codes]) / (n - sizes[codes])


def cluster_h(frob2: ArrayLike, within: ArrayLike, u: ArrayLike, l_rows: ArrayLike) -> NDArray[np.float64]:
    """
    Cluster-debiased HSIC (times a constant of n) from moments of centered rows.

    With one row per cluster this is the unbiased HSIC of Song et al. times n(n-3).

    Parameters
    ----------
    frob2 : array_like, shape (...)
        Squared Frobenius norm of X'Y.
    within : array_like, shape (...)
        Sum over the pairs of rows inside clusters, each row with itself included, of K_ij L_ij.
    u : array_like, shape (..., n)
        `off_cluster_weights` of X.
    l_rows : array_like, shape (..., n)
        Off-cluster row sums of L = Y Y'.

    Returns
    -------
    ndarray, shape (...)
    """
    u, l_rows = np.asarray(u, dtype=np.float64), np.asarray(l_rows, dtype=np.float64)
    correction = 2 * np.einsum("...i,...i->...", u, l_rows)
    return np.asarray(frob2, dtype=np.float64) - np.asarray(within, dtype=np.float64) - correction


def projected(K: ArrayLike, codes: ArrayLike) -> NDArray[np.float64]:
    """
    Zero the pairs inside clusters, and subtract a_i + a_j from the others so that every row sums to 0.

    This is U-centering when every row is its own cluster. The elementwise product of two such matrices
    sums to the cluster-debiased HSIC: it has mean 0 for independent sides, however unequal the clusters.

    Parameters
    ----------
    K : array_like, shape (n, n)
        A symmetric Gram matrix, centered or not.
    codes : array_like of int, shape (n,)

    Returns
    -------
    ndarray, shape (n, n)
    """
    K, codes = np.asarray(K, dtype=np.float64), np.asarray(codes)
    # Centering subtracts terms of the same form, so it changes nothing but the rounding error.
    means = K.mean(axis=0)
    off = codes[:, None] != codes[None, :]
    K = np.where(off, K - means[:, None] - means[None, :] + means.mean(), 0.0)
    u = off_cluster_weights(K.sum(axis=1), codes)
    return np.where(off, K - u[:, None] - u[None, :], 0.0)


def cluster_scores(K: ArrayLike, L: ArrayLike, codes: ArrayLike) -> NDArray[np.float64]:
    """
    Share of each cluster in the cluster-debiased HSIC of two projected Gram matrices.

    Parameters
    ----------
    K, L : array_like, shape (n, n)
        From `projected`.
    codes : array_like of int, shape (n,)

    Returns
    -------
    ndarray, shape (S,)
        The scores g; their sum is H(x, y).

    Notes
    -----
    Without n by n matrices, for centered rows, with u and v the `off_cluster_weights` of both sides and
    sums over the rows j outside the cluster of row i, g is the sum over the rows i of the cluster of
    sum K_ij L_ij - v_i sum K_ij - sum K_ij v_j - sum L_ij u_j + v_i sum u_j + sum u_j v_j.
    """
    return cluster_sums((np.asarray(K) * np.asarray(L)).sum(axis=1), codes)
