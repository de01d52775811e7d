"""Ridge regression for many penalties and folds, from the cross-product matrix of each fold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .logistic.scaling import Fitted, Scale, best, chunks, scale_of

RANK = 1e-12  # directions below this share of the largest eigenvalue are rounding error


def ridge_layer(
    layer: np.ndarray, y: np.ndarray, penalties: tuple[float, ...], fold: np.ndarray | None
) -> Fitted:
    """
    Fit a ridge regression on one layer.

    Parameters
    ----------
    layer : ndarray of shape (rows, features)
    y : ndarray of shape (rows, outputs)
    penalties : tuple of float
        From strong to weak.
    fold : ndarray of int of shape (rows,), optional
        The fold of each row; the first penalty is used when absent.

    Returns
    -------
    Fitted
    """
    scale = scale_of(layer)
    basis, parts = None, chunks(layer, scale)
    if layer.shape[0] < layer.shape[1]:
        # The weights lie in the span of the rows, which has fewer dimensions than the features.
        basis, projected = _span(layer, scale)
        parts = iter([(slice(0, len(layer)), projected)])
    fold_of_row = np.zeros(len(layer), dtype=np.int64) if fold is None else fold
    sums = np.zeros((int(fold_of_row.max()) + 1, *(1 + _width(layer, basis) + y.shape[1],) * 2))
    for rows, part in parts:
        for fold_number in np.unique(fold_of_row[rows]):
            selected = fold_of_row[rows] == fold_number
            table = np.column_stack([np.ones(int(selected.sum())), part[selected], y[rows][selected]])
            sums[fold_number] += table.T @ table
    total: np.ndarray = sums.sum(0)
    losses = np.full(len(penalties), np.nan)
    if fold is not None:
        held = [
            _losses(total - sums[fold_number], sums[fold_number], penalties, y.shape[1])
            for fold_number in range(len(sums))
        ]
        losses = np.sum(held, axis=0) / y.size
    selected = penalties[best(losses)]
    coefficients = _solved(total, (selected,), y.shape[1])[0]
    weights = coefficients[1:] if basis is None else basis @ coefficients[1:]
    return Fitted(
        weights=weights.T, bias=coefficients[0], penalty=selected, losses=losses, converged=True, scale=scale
    )


def _width(layer: np.ndarray, basis: np.ndarray | None) -> int:
    return layer.shape[1] if basis is None else basis.shape[1]


def _span(layer: np.ndarray, scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    """Directions that span the rows, shape (features, rank), and the rows along them, (rows, rank)."""
    rows = np.concatenate([part for _, part in chunks(layer, scale)])
    values, vectors = np.linalg.eigh(rows @ rows.T)
    significant = values > RANK * max(float(values[-1]), 1e-300)
    lengths = np.sqrt(values[significant])
    return rows.T @ (vectors[:, significant] / lengths), vectors[:, significant] * lengths


def _solved(sums: np.ndarray, penalties: Sequence[float], outputs: int) -> list[np.ndarray]:
    """
    Solve the normal equations for each penalty.

    Parameters
    ----------
    sums : ndarray
        Cross products T'T, where T has the columns 1, x and y.

    Returns
    -------
    list of ndarray of shape (1 + features, outputs)
        Intercept and weights.
    """
    n, end = sums[0, 0], len(sums) - outputs
    x, y = sums[0, 1:end] / n, sums[0, end:] / n
    values, vectors = np.linalg.eigh(sums[1:end, 1:end] - n * np.outer(x, x))
    along = vectors.T @ (sums[1:end, end:] - n * np.outer(x, y))
    solutions = []
    for penalty in penalties:
        weights = vectors @ (along / (np.maximum(values, 0) + penalty)[:, None])
        solutions.append(np.vstack([y - x @ weights, weights]))
    return solutions


def _losses(seen: np.ndarray, held: np.ndarray, penalties: Sequence[float], outputs: int) -> np.ndarray:
    """Sum of squared errors of held-out rows, for each penalty."""
    out = []
    for weights in _solved(seen, penalties, outputs):
        error = np.vstack([-weights, np.eye(outputs)])
        out.append(float(np.einsum("ij,ij->", error, held @ error)))
    return np.array(out)
