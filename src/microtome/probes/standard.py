"""How do the features of a layer come to one scale? By their mean and spread over the rows given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must

if TYPE_CHECKING:
    import torch

CHUNK = 1 << 18  # numbers of a layer that are converted at once: they stay in memory that is near


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scale:
    """
    Mean and spread of the features of one layer.

    Parameters
    ----------
    mean, spread : ndarray of shape (features,)
        The spread of a constant feature is 1: it becomes 0, and its weight too.
    """

    mean: np.ndarray
    spread: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """
    Rows that a penalty is chosen with: either every fold is foretold from the others, or some from others.

    Parameters
    ----------
    learn : ndarray of int of shape (m,)
        Rows to fit.
    fold : ndarray of int of shape (m,), optional
        The fold of each.
    judge : ndarray of int, optional
        Other rows to foretell, where there are no folds.
    """

    learn: np.ndarray
    fold: np.ndarray | None = None
    judge: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """
    The readout of one layer, on features of mean 0 and variance 1.

    Parameters
    ----------
    weights : ndarray of shape (outputs, features)
    bias : ndarray of shape (outputs,)
    penalty : float
    losses : ndarray of shape (penalties,)
    converged : bool
    scale : Scale
    """

    weights: np.ndarray
    bias: np.ndarray
    penalty: float
    losses: np.ndarray
    converged: bool
    scale: Scale


def as_layers(X: Any) -> np.ndarray:
    """
    Check what is to be read.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)

    Returns
    -------
    ndarray
        The same numbers, not copied where they are in the memory of the CPU.
    """
    found = np.asarray(X.detach().cpu() if hasattr(X, "detach") else X)
    if found.ndim != 3 or 0 in found.shape:
        raise must("X", "of the shape (layers, rows, features)", found.shape)
    if found.dtype not in (np.float32, np.float64):
        raise must("X", "of float32 or float64", str(found.dtype))
    return found


def scale_of(layer: np.ndarray) -> Scale:
    """
    Measure the features of one layer, shape (rows, features); it refuses what is not finite.

    Returns
    -------
    Scale
    """
    rows = len(layer)
    mean = sum(part.sum(0) for _, part in chunks(layer)) / rows
    squares = sum(((part - mean) ** 2).sum(0) for _, part in chunks(layer))
    return _scale(np.asarray(mean), np.asarray(squares), rows)


def on_scale(layer: np.ndarray, device: Any, kind: torch.dtype) -> tuple[Scale, torch.Tensor]:
    """
    Measure the features of one layer on a device, and bring them to one scale there.

    Parameters
    ----------
    layer : ndarray of shape (rows, features)
    device : torch.device
    kind : torch.dtype
        Of the result; all is computed in float64.

    Returns
    -------
    scale : Scale
    scaled : Tensor of shape (rows, features)
    """
    import torch

    whole = torch.from_numpy(np.ascontiguousarray(layer)).to(device).double()
    mean = whole.mean(0)
    whole -= mean
    found = _scale(mean.cpu().numpy(), whole.square().sum(0).cpu().numpy(), len(layer))
    return found, (whole / torch.from_numpy(found.spread).to(device)).to(kind)


def _scale(mean: np.ndarray, squares: np.ndarray, rows: int) -> Scale:
    if not (np.isfinite(mean).all() and np.isfinite(squares).all()):
        raise InputError("X must be finite, but it has values that are not numbers.")
    spread = np.sqrt(squares / rows)
    # Rounding of a constant is no spread.
    constant = spread <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
    return Scale(mean=mean, spread=np.where(constant, 1.0, spread))


def chunks(layer: np.ndarray, scale: Scale | None = None) -> Iterator[tuple[slice, np.ndarray]]:
    """Give the rows of a layer part by part, as float64, on one scale where one is given."""
    step = max(1, CHUNK // layer.shape[1])
    for begin in range(0, len(layer), step):
        rows = slice(begin, min(begin + step, len(layer)))
        part = layer[rows].astype(np.float64)
        if scale is not None:
            part -= scale.mean
            part /= scale.spread
        yield rows, part


def best(losses: np.ndarray) -> int:
    """The penalty with the smallest loss, the strongest of equals; the only one where none was held out."""
    return 0 if np.isnan(losses).all() else int(np.nanargmin(losses))
