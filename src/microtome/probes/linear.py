"""What does a linear readout of each layer say? Fitted to convergence, the penalty chosen by the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import InputError, must
from ..measures.crossvalidation import assign_folds
from ..randomness import generator
from .ridge import ridge_layer
from .standard import Fitted, Held, as_layers, chunks

RIDGE: tuple[float, ...] = tuple(10.0**power for power in np.arange(-2, 6.5, 0.5))
SAMPLE = 10_000  # rows to fit that are enough to choose a penalty
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
    sample: int | None = SAMPLE,
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
        A layer is done when no entry of the gradient of its mean loss is larger. The layer of more than
        `logistic.PRECISE` numbers is computed in float32, with sums in float64.
    device : str or torch.device, optional
        Where to compute; that of X when absent.
    sample : int, optional
        Where there are a quarter more rows than that, the penalty is chosen without folds: by fitting so many
        rows, of whole groups, and foretelling as many others. It stands against a sum over rows, so what is
        right for some is nearly right for many. The readout itself is fitted on all rows. Always folds when
        None.

    Returns
    -------
    Linear
    """
    from .logistic import fit_layers

    found, tried = as_layers(X), _tried(LOGISTIC if penalties is None else penalties)
    if not tolerance > 0:
        raise must("tolerance", "above 0", tolerance)
    if sample is not None and (isinstance(sample, bool) or not isinstance(sample, int) or sample < 2):
        raise must("sample", "a whole number of at least 2", sample)
    right = check_labels(labels, found.shape[1], classes)
    held = held_rows(found.shape[1], folds if len(tried) > 1 else 0, groups, seed, sample)
    place = device if device is not None else getattr(X, "device", "cpu")
    layers = fit_layers(found, right, classes, tried, held, tolerance=tolerance, device=place)
    return _linear("classes", layers, tried)


def check_labels(labels: Any, rows: int, classes: int) -> np.ndarray:
    """Check that there is a class for each row, and return them as an array of shape (rows,)."""
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 2:
        raise must("classes", "a whole number of at least 2", classes)
    right = np.asarray(labels)
    if right.shape != (rows,) or not np.issubdtype(right.dtype, np.integer):
        raise must("labels", f"one whole number for each of {rows} rows", f"{right.dtype} {right.shape}")
    if right.min() < 0 or right.max() >= classes:
        raise must(
            "labels", f"between 0 and {classes - 1}", int(right.max() if right.min() >= 0 else right.min())
        )
    return right


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


def held_rows(rows: int, folds: int, groups: Any, seed: int, sample: int | None) -> Held | None:
    """
    Take the rows that a penalty is chosen with; None where there is nothing to choose.

    Where there are a quarter more rows than the sample, it is fitted and as many others are foretold, both of
    whole groups. Otherwise all rows are divided into folds.
    """
    fold = fold_numbers(rows, folds, groups, seed)
    if fold is None:
        return None
    unit = np.arange(rows) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    sizes = np.bincount(unit)
    order = generator(seed, "probes", "sample").permutation(len(sizes))
    total = np.cumsum(sizes[order])
    # The group that reaches the number still belongs to the sample.
    first = 0 if sample is None else int(np.searchsorted(total, sample)) + 1
    if sample is None or 4 * (rows - total[min(first, len(total)) - 1]) < sample:
        return Held(learn=np.arange(rows), fold=fold)
    place = np.argsort(order)[unit]
    second = int(np.searchsorted(total, total[first - 1] + sample)) + 1
    return Held(
        learn=np.flatnonzero(place < first), judge=np.flatnonzero((place >= first) & (place < second))
    )


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
