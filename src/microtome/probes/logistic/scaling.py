"""Standardization of the features of a layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, must
from ...lazy import torch

CHUNK = 1 << 18  # numbers of a layer that are converted at once, so that they fit in the cache


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scale:
    """
    Mean and standard deviation of the features of one layer.

    Parameters
    ----------
    mean, spread : ndarray of shape (features,)
        The spread of a constant feature is 1: the feature becomes 0, and so does its weight.
    """

    mean: np.ndarray
    spread: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """
    Rows that a penalty is chosen with, by cross-validation or by a single split.

    Parameters
    ----------
    learn : ndarray of int of shape (m,)
        Training rows.
    fold : ndarray of int of shape (m,), optional
        The fold of each training row.
    judge : ndarray of int, optional
        Held-out rows, where there are no folds.
    """

    learn: np.ndarray
    fold: np.ndarray | None = None
    judge: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """
    The linear probe of one layer, on standardized features.

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
    Check the representations of all layers.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)

    Returns
    -------
    ndarray
        The same numbers, not copied where they are on the CPU.
    """
    layers = np.asarray(X.detach().cpu() if hasattr(X, "detach") else X)
    if layers.ndim != 3 or 0 in layers.shape:
        raise must("X", "of the shape (layers, rows, features)", layers.shape)
    if layers.dtype not in (np.float32, np.float64):
        raise must("X", "of float32 or float64", str(layers.dtype))
    return layers


def scale_of(layer: np.ndarray) -> Scale:
    """
    Compute the mean and spread of the features of one layer, shape (rows, features), which must be finite.

    Returns
    -------
    Scale
    """
    rows = len(layer)
    mean = sum(part.sum(0) for _, part in chunks(layer)) / rows
    squares = sum(((part - mean) ** 2).sum(0) for _, part in chunks(layer))
    return _scale(np.asarray(mean), np.asarray(squares), rows)


def by_chunks(layer: np.ndarray, device: torch.device, kind: torch.dtype) -> tuple[Scale, torch.Tensor]:
    """
    Standardize the features of one layer on the CPU, where float64 is only held for a chunk of rows.

    Parameters
    ----------
    layer, device, kind
        As in `on_scale`.

    Returns
    -------
    scale : Scale
    scaled : Tensor of shape (rows, features)
    """
    scale, scaled = scale_of(layer), torch.empty(layer.shape, dtype=kind, device=device)
    for rows, part in chunks(layer, scale):
        scaled[rows] = torch.from_numpy(part).to(kind)
    return scale, scaled


def on_scale(layer: np.ndarray, device: Any, kind: torch.dtype) -> tuple[Scale, torch.Tensor]:
    """
    Standardize the features of one layer on a device.

    Parameters
    ----------
    layer : ndarray of shape (rows, features)
    device : torch.device
    kind : torch.dtype
        Type of the result; computation is in float64.

    Returns
    -------
    scale : Scale
    scaled : Tensor of shape (rows, features)
    """
    values = torch.from_numpy(np.ascontiguousarray(layer)).to(device).double()
    mean = values.mean(0)
    values -= mean
    scale = _scale(mean.cpu().numpy(), values.square().sum(0).cpu().numpy(), len(layer))
    return scale, (values / torch.from_numpy(scale.spread).to(device)).to(kind)


def _scale(mean: np.ndarray, squares: np.ndarray, rows: int) -> Scale:
    if not (np.isfinite(mean).all() and np.isfinite(squares).all()):
        raise InputError("X must be finite, but it has values that are not numbers.")
    spread = np.sqrt(squares / rows)
    # The spread of a constant feature is rounding error.
    constant = spread <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
    return Scale(mean=mean, spread=np.where(constant, 1.0, spread))


def chunks(layer: np.ndarray, scale: Scale | None = None) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the rows of a layer in chunks, as float64, standardized where a scale is given."""
    step = max(1, CHUNK // layer.shape[1])
    for begin in range(0, len(layer), step):
        rows = slice(begin, min(begin + step, len(layer)))
        part = layer[rows].astype(np.float64)
        if scale is not None:
            part -= scale.mean
            part /= scale.spread
        yield rows, part


def best(losses: np.ndarray) -> int:
    """Index of the penalty with the smallest loss, the strongest in a tie; 0 where all losses are NaN."""
    return 0 if np.isnan(losses).all() else int(np.nanargmin(losses))
