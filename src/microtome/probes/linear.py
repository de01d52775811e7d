"""Linear probes of every layer: ridge and logistic regression with cross-validated penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..checks import whole_number
from ..errors import InputError, must
from ..measures.regression import assign_folds
from ..randomness import generator
from .logistic.fitting import Fitted, Held, Scale, as_layers, best, chunks, scale_of

RIDGE: tuple[float, ...] = tuple(10.0**power for power in np.arange(-2, 6.5, 0.5))
RANK = 1e-12  # directions below this share of the largest eigenvalue are rounding error
SAMPLE = 10_000  # rows that suffice to choose a penalty
LOGISTIC: tuple[float, ...] = tuple(10.0**power for power in range(-1, 6))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear:
    """
    One linear probe per layer, in units of the original features.

    Parameters
    ----------
    answers : {"classes", "numbers"}
    weights : ndarray of shape (layers, outputs, features)
        Outputs are the classes, or the predicted numbers.
    bias : ndarray of shape (layers, outputs)
        Minus infinity for a class without training rows: it is never predicted.
    penalty : ndarray of shape (layers,)
        Chosen penalty.
    penalties : tuple of float
        Candidate penalties, from strong to weak.
    losses : ndarray of shape (layers, penalties)
        Mean loss of held-out rows: squared error, or negative log-likelihood in nats. NaN where there is
        no choice.
    converged : ndarray of bool of shape (layers,)
    """

    answers: Literal["classes", "numbers"]
    weights: np.ndarray
    bias: np.ndarray
    penalty: np.ndarray
    penalties: tuple[float, ...]
    losses: np.ndarray
    converged: np.ndarray

    def decision(self, X: Any) -> np.ndarray:
        """
        Compute the outputs of the probes.

        Parameters
        ----------
        X : ndarray or Tensor of shape (layers, rows, features)

        Returns
        -------
        ndarray of shape (layers, rows, outputs)
        """
        layer_stack = as_layers(X)
        layers, _, features = self.weights.shape
        if (layer_stack.shape[0], layer_stack.shape[2]) != (layers, features):
            raise must("X", f"of {layers} layers of {features} features", layer_stack.shape)
        out = np.empty((*layer_stack.shape[:2], self.weights.shape[1]))
        for index, layer in enumerate(layer_stack):
            for rows, part in chunks(layer):
                out[index, rows] = part @ self.weights[index].T + self.bias[index]
        return out

    def predict(self, X: Any) -> np.ndarray:
        """
        Predict the class or the number of each row.

        Parameters
        ----------
        X : ndarray or Tensor of shape (layers, rows, features)

        Returns
        -------
        ndarray of shape (layers, rows)
            Of int for classes. Numbers have one more dimension where there are several outputs.
        """
        scores = self.decision(X)
        if self.answers == "classes":
            return scores.argmax(-1)
        return scores[..., 0] if scores.shape[-1] == 1 else scores


def fit_ridge(
    X: Any,
    y: Any,
    penalties: Sequence[float] | None = None,
    folds: int = 5,
    groups: Any = None,
    seed: int = 0,
) -> Linear:
    """
    Fit a ridge regression on every layer, in closed form.

    It minimizes the sum of squared errors plus the penalty times the squared norm of the weights of the
    standardized features; the intercept is not penalized. Features are standardized once, over all rows.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
        Of float32 or float64.
    y : array of shape (rows,) or (rows, outputs)
    penalties : sequence of float, optional
        Candidates, chosen for each layer separately; `alpha` of scikit-learn. `RIDGE` when absent.
    folds : int
        Number of cross-validation folds to choose the penalty.
    groups : array of shape (rows,), optional
        Rows of one group stay in one fold.
    seed : int
        Seed of the folds.

    Returns
    -------
    Linear
    """
    layer_stack, tried = as_layers(X), _tried(RIDGE if penalties is None else penalties)
    target = np.asarray(y, dtype=np.float64)
    target = target[:, None] if target.ndim == 1 else target
    if target.ndim != 2 or len(target) != layer_stack.shape[1]:
        raise must("y", f"one number for each of {layer_stack.shape[1]} rows", np.shape(y))
    if not np.isfinite(target).all():
        raise InputError("y must be finite, but it has values that are not numbers.")
    fold = fold_numbers(layer_stack.shape[1], folds if len(tried) > 1 else 0, groups, seed)
    fitted = [ridge_layer(layer, target, tried, fold) for layer in layer_stack]
    return _linear("numbers", fitted, tried)


def fit_logistic(
    X: Any,
    labels: Any,
    classes: int,
    penalties: Sequence[float] | None = None,
    folds: int = 5,
    groups: Any = None,
    seed: int = 0,
    tolerance: float = 1e-5,
    device: Any = None,
    sample: int | None = SAMPLE,
) -> Linear:
    """
    Fit a logistic regression on every layer, to convergence.

    It minimizes the sum of the cross-entropies plus half the penalty times the squared norm of the weights
    of the standardized features: the penalty is 1 / C of scikit-learn. Two classes share one vector of
    weights; more classes have one each. The intercept is not penalized.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
        Of float32 or float64.
    labels : array of int of shape (rows,)
    classes : int
        Number of classes, at least 2; a class without rows is never predicted.
    penalties : sequence of float, optional
        Candidates, chosen for each layer separately by the likelihood of held-out rows. `LOGISTIC` when
        absent.
    folds, groups, seed
        As in `fit_ridge`.
    tolerance : float
        A layer has converged when no absolute entry of the gradient of its mean loss is larger. Products are
        computed in the type of X, sums in float64.
    device : str or torch.device, optional
        Device to compute on; that of X when absent.
    sample : int, optional
        With at least a quarter more rows than this, the penalty is chosen by a single split instead of folds:
        this many rows, of whole groups, are fitted and as many others are predicted. The loss is a sum over
        rows, so a penalty chosen on a sample is nearly optimal for all rows. The final fit uses all rows.
        Always folds when None.

    Returns
    -------
    Linear
    """
    from .logistic.fitting import fit_layers

    layer_stack, tried = as_layers(X), _tried(LOGISTIC if penalties is None else penalties)
    if not tolerance > 0:
        raise must("tolerance", "above 0", tolerance)
    if sample is not None:
        whole_number("sample", sample, least=2)
    label_array = check_labels(labels, layer_stack.shape[1], classes)
    held = held_rows(layer_stack.shape[1], folds if len(tried) > 1 else 0, groups, seed, sample)
    compute_device = device if device is not None else getattr(X, "device", "cpu")
    fitted = fit_layers(
        layer_stack, label_array, classes, tried, held, tolerance=tolerance, device=compute_device
    )
    return _linear("classes", fitted, tried)


def check_labels(labels: Any, rows: int, classes: int) -> np.ndarray:
    """Check that there is a class for each row, and return the labels as an array of shape (rows,)."""
    whole_number("classes", classes, least=2)
    label_array = np.asarray(labels)
    if label_array.shape != (rows,) or not np.issubdtype(label_array.dtype, np.integer):
        raise must(
            "labels", f"one whole number for each of {rows} rows", f"{label_array.dtype} {label_array.shape}"
        )
    if label_array.min() < 0 or label_array.max() >= classes:
        raise must(
            "labels",
            f"between 0 and {classes - 1}",
            int(label_array.max() if label_array.min() >= 0 else label_array.min()),
        )
    return label_array


def fold_numbers(rows: int, folds: int, groups: Any, seed: int) -> np.ndarray | None:
    """
    Assign rows to folds, with groups kept together; None for 0 folds.

    There are never more folds than groups, nor fewer than 2.
    """
    if folds == 0:
        return None
    whole_number("folds", folds, least=2)
    group_codes = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    units = rows if group_codes is None else len(np.unique(group_codes))
    if units < 2:
        raise InputError("rows must be of at least 2 groups for a penalty to be chosen, but got 1.")
    return assign_folds(rows, min(folds, units), seed, group_codes)


def held_rows(rows: int, folds: int, groups: Any, seed: int, sample: int | None) -> Held | None:
    """
    Select the rows that a penalty is chosen with; None for 0 folds.

    With at least a quarter more rows than the sample, the sample is fitted and as many other rows are
    predicted, both of whole groups. Otherwise all rows are divided into folds.
    """
    fold = fold_numbers(rows, folds, groups, seed)
    if fold is None:
        return None
    unit = np.arange(rows) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    sizes = np.bincount(unit)
    order = generator(seed, "probes", "sample").permutation(len(sizes))
    total = np.cumsum(sizes[order])
    # The group that reaches the sample size still belongs to the sample.
    first = 0 if sample is None else int(np.searchsorted(total, sample)) + 1
    if sample is None or 4 * (rows - total[min(first, len(total)) - 1]) < sample:
        return Held(learn=np.arange(rows), fold=fold)
    position = np.argsort(order)[unit]
    second = int(np.searchsorted(total, total[first - 1] + sample)) + 1
    return Held(
        learn=np.flatnonzero(position < first),
        judge=np.flatnonzero((position >= first) & (position < second)),
    )


def _tried(penalties: Sequence[float]) -> tuple[float, ...]:
    """Sort penalties from strong to weak, so that each fit is warm-started near its solution."""
    descending = sorted({float(penalty) for penalty in penalties}, reverse=True)
    if not descending or not all(np.isfinite(descending)) or descending[-1] <= 0:
        raise must("penalties", "numbers above 0", list(penalties))
    return tuple(descending)


def _linear(
    answers: Literal["classes", "numbers"], layers: Sequence[Fitted], tried: tuple[float, ...]
) -> Linear:
    weights = [layer.weights / layer.scale.spread for layer in layers]
    bias = [
        layer.bias - layer_weights @ layer.scale.mean
        for layer, layer_weights in zip(layers, weights, strict=True)
    ]
    return Linear(
        answers=answers,
        weights=np.stack(weights),
        bias=np.stack(bias),
        penalty=np.array([layer.penalty for layer in layers]),
        penalties=tried,
        losses=np.stack([layer.losses for layer in layers]),
        converged=np.array([layer.converged for layer in layers]),
    )


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
    size = 1 + layer.shape[1] + y.shape[1] if basis is None else 1 + basis.shape[1] + y.shape[1]
    sums = np.zeros((int(fold_of_row.max()) + 1, size, size))
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
