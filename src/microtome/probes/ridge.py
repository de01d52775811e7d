"""How is a ridge regression solved for many penalties and folds? From sums over the rows of each fold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .standard import Fitted, Scale, best, chunks, scale_of

RANK = 1e-12  # directions below this share of the largest are rounding


def ridge_layer(
    layer: np.ndarray, y: np.ndarray, penalties: tuple[float, ...], fold: np.ndarray | None
) -> Fitted:
    """
    Fit one layer.

    Parameters
    ----------
    layer : ndarray of shape (rows, features)
    y : ndarray of shape (rows, outputs)
    penalties : tuple of float
        From strong to weak.
    fold : ndarray of int of shape (rows,), optional
        The fold of each row; the first penalty is taken when absent.

    Returns
    -------
    Fitted
    """
    scale = scale_of(layer)
    turn, read = None, chunks(layer, scale)
    if layer.shape[0] < layer.shape[1]:
        # The weights lie in the span of the rows, which has fewer dimensions than there are features.
        turn, turned = _span(layer, scale)
        read = iter([(slice(0, len(layer)), turned)])
    number = np.zeros(len(layer), dtype=np.int64) if fold is None else fold
    sums = np.zeros((int(number.max()) + 1, *(1 + _width(layer, turn) + y.shape[1],) * 2))
    for rows, part in read:
        for each in np.unique(number[rows]):
            chosen = number[rows] == each
            table = np.column_stack([np.ones(int(chosen.sum())), part[chosen], y[rows][chosen]])
            sums[each] += table.T @ table
    total: np.ndarray = sums.sum(0)
    losses = np.full(len(penalties), np.nan)
    if fold is not None:
        held = [_losses(total - sums[each], sums[each], penalties, y.shape[1]) for each in range(len(sums))]
        losses = np.sum(held, axis=0) / y.size
    chosen = penalties[best(losses)]
    found = _solved(total, (chosen,), y.shape[1])[0]
    weights = found[1:] if turn is None else turn @ found[1:]
    return Fitted(
        weights=weights.T, bias=found[0], penalty=chosen, losses=losses, converged=True, scale=scale
    )


def _width(layer: np.ndarray, turn: np.ndarray | None) -> int:
    return layer.shape[1] if turn is None else turn.shape[1]


def _span(layer: np.ndarray, scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    """Directions that span the rows, shape (features, rank), and the rows along them, (rows, rank)."""
    rows = np.concatenate([part for _, part in chunks(layer, scale)])
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = values > RANK * max(float(values[-1]), 1e-300)
    lengths = np.sqrt(values[kept])
    return rows.T @ (vectors[:, kept] / lengths), vectors[:, kept] * lengths


def _solved(sums: np.ndarray, penalties: Sequence[float], outputs: int) -> list[np.ndarray]:
    """
    Solve for each penalty.

    Parameters
    ----------
    sums : ndarray
        T'T, with T the columns 1, x and y.

    Returns
    -------
    list of ndarray of shape (1 + features, outputs)
        Intercept and weights.
    """
    n, end = sums[0, 0], len(sums) - outputs
    x, y = sums[0, 1:end] / n, sums[0, end:] / n
    values, vectors = np.linalg.eigh(sums[1:end, 1:end] - n * np.outer(x, x))
    along = vectors.T @ (sums[1:end, end:] - n * np.outer(x, y))
    found = []
    for penalty in penalties:
        weights = vectors @ (along / (np.maximum(values, 0) + penalty)[:, None])
        found.append(np.vstack([y - x @ weights, weights]))
    return found


def _losses(seen: np.ndarray, held: np.ndarray, penalties: Sequence[float], outputs: int) -> np.ndarray:
    """Squared errors of held-out rows, summed, for each penalty."""
    out = []
    for weights in _solved(seen, penalties, outputs):
        error = np.vstack([-weights, np.eye(outputs)])
        out.append(float(np.einsum("ij,ij->", error, held @ error)))
    return np.array(out)
