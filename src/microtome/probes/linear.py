"""What does a linear readout of each layer say? Fitted to convergence, the penalty chosen by the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import InputError, must
from ..measures.crossvalidation import assign_folds
from .ridge import ridge_layer
from .standard import Fitted, as_layers, chunks

RIDGE: tuple[float, ...] = tuple(10.0**power for power in np.arange(-2, 6.5, 0.5))
LOGISTIC: tuple[float, ...] = tuple(10.0**power for power in range(-1, 6))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear:
    """
    One linear readout a layer, in units of the features as they came.

    Parameters
    ----------
    answers : {"classes", "numbers"}
    weights : ndarray of shape (layers, outputs, features)
        Outputs are the classes, or the numbers that are foretold.
    bias : ndarray of shape (layers, outputs)
        Minus infinity for a class that no row has: it is never predicted.
    penalty : ndarray of shape (layers,)
        That was chosen.
    penalties : tuple of float
        To choose among, from strong to weak.
    losses : ndarray of shape (layers, penalties)
        Mean loss of rows that were held out: squared error, or minus the log-likelihood in nats. NaN where
        there was nothing to choose.
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
        Apply the readouts.

        Parameters
        ----------
        X : ndarray or Tensor of shape (layers, rows, features)

        Returns
        -------
        ndarray of shape (layers, rows, outputs)
        """
        found = as_layers(X)
        layers, _, features = self.weights.shape
        if (found.shape[0], found.shape[2]) != (layers, features):
            raise must("X", f"of {layers} layers of {features} features", found.shape)
        out = np.empty((*found.shape[:2], self.weights.shape[1]))
        for place, layer in enumerate(found):
            for rows, part in chunks(layer):
                out[place, rows] = part @ self.weights[place].T + self.bias[place]
        return out

    def predict(self, X: Any) -> np.ndarray:
        """
        Say the class of each row, or its number.

        Parameters
        ----------
        X : ndarray or Tensor of shape (layers, rows, features)

        Returns
        -------
        ndarray of shape (layers, rows)
            Of int for classes. Numbers have one more dimension where several are foretold.
        """
        found = self.decision(X)
        if self.answers == "classes":
            return found.argmax(-1)
        return found[..., 0] if found.shape[-1] == 1 else found


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

    It minimizes the sum of squared errors plus the penalty times the squared length of the weights, which
    are those of features of mean 0 and variance 1; the intercept goes unpenalized. Features are brought to
    that scale once, over all rows.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
        Of float32 or float64.
    y : array of shape (rows,) or (rows, outputs)
    penalties : sequence of float, optional
        To choose among, for each layer on its own; `alpha` of scikit-learn. `RIDGE` when absent.
    folds : int
        Parts of the rows, each foretold from the others to choose the penalty.
    groups : array of shape (rows,), optional
        Rows of one group stay in one fold.
    seed : int
        Of the folds.

    Returns
    -------
    Linear
    """
    found, tried = as_layers(X), _tried(RIDGE if penalties is None else penalties)
    target = np.asarray(y, dtype=np.float64)
    target = target[:, None] if target.ndim == 1 else target
    if target.ndim != 2 or len(target) != found.shape[1]:
        raise must("y", f"one number for each of {found.shape[1]} rows", np.shape(y))
    if not np.isfinite(target).all():
        raise InputError("y must be finite, but it has values that are not numbers.")
    fold = fold_numbers(found.shape[1], folds if len(tried) > 1 else 0, groups, seed)
    layers = [ridge_layer(layer, target, tried, fold) for layer in found]
    return _linear("numbers", layers, tried)


def fit_logistic(
    X: Any,
    labels: Any,
    classes: int,
    penalties: Sequence[float] | None = None,
    folds: int = 5,
    groups: Any = None,
    seed: int = 0,
    tolerance: float = 1e-6,
    device: Any = None,
) -> Linear:
    """
    Fit a logistic regression on every layer, all of them together, until nothing is left to gain.

    It minimizes the sum of the cross-entropies plus half the penalty times the squared length of the
    weights, which are those of features of mean 0 and variance 1: the penalty is 1 / C of scikit-learn. Two
    classes have one vector of weights, more have one each. The intercept goes unpenalized.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
        Of float32 or float64.
    labels : array of int of shape (rows,)
    classes : int
        How many there are, at least 2; one that no row has is never predicted.
    penalties : sequence of float, optional
        To choose among, for each layer on its own, by the likelihood of held-out rows. `LOGISTIC` when
        absent.
    folds, groups, seed
        As in `fit_ridge`.
    tolerance : float
        A layer is done when no entry of the gradient of its mean loss is larger.
    device : str or torch.device, optional
        Where to compute; that of X when absent.

    Returns
    -------
    Linear
    """
    from .logistic import fit_layers

    found, tried = as_layers(X), _tried(LOGISTIC if penalties is None else penalties)
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 2:
        raise must("classes", "a whole number of at least 2", classes)
    if not tolerance > 0:
        raise must("tolerance", "above 0", tolerance)
    right = np.asarray(labels)
    if right.shape != (found.shape[1],) or not np.issubdtype(right.dtype, np.integer):
        raise must(
            "labels", f"one whole number for each of {found.shape[1]} rows", f"{right.dtype} {right.shape}"
        )
    if right.min() < 0 or right.max() >= classes:
        raise must(
            "labels", f"between 0 and {classes - 1}", int(right.max() if right.min() >= 0 else right.min())
        )
    fold = fold_numbers(found.shape[1], folds if len(tried) > 1 else 0, groups, seed)
    place = device if device is not None else getattr(X, "device", "cpu")
    layers = fit_layers(found, right, classes, tried, fold, tolerance=tolerance, device=place)
    return _linear("classes", layers, tried)


def fold_numbers(rows: int, folds: int, groups: Any, seed: int) -> np.ndarray | None:
    """
    Assign rows to folds, groups kept together; None where there is nothing to choose.

    There are never more folds than groups, nor fewer than 2.
    """
    if folds == 0:
        return None
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise must("folds", "a whole number of at least 2", folds)
    known = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    units = rows if known is None else len(np.unique(known))
    if units < 2:
        raise InputError("rows must be of at least 2 groups for a penalty to be chosen, but got 1.")
    return assign_folds(rows, min(folds, units), seed, known)


def _tried(penalties: Sequence[float]) -> tuple[float, ...]:
    """From strong to weak, so that each fit begins near its end."""
    found = sorted({float(each) for each in penalties}, reverse=True)
    if not found or not all(np.isfinite(found)) or found[-1] <= 0:
        raise must("penalties", "numbers above 0", list(penalties))
    return tuple(found)


def _linear(
    answers: Literal["classes", "numbers"], layers: Sequence[Fitted], tried: tuple[float, ...]
) -> Linear:
    weights = [one.weights / one.scale.spread for one in layers]
    bias = [one.bias - each @ one.scale.mean for one, each in zip(layers, weights, strict=True)]
    return Linear(
        answers=answers,
        weights=np.stack(weights),
        bias=np.stack(bias),
        penalty=np.array([one.penalty for one in layers]),
        penalties=tried,
        losses=np.stack([one.losses for one in layers]),
        converged=np.array([one.converged for one in layers]),
    )
