"""Logistic regression on many layers: choice of the penalty, then a fit on all rows.

Small layers are solved together, as many as fit into the cache; large ones in turn, one per thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ...errors import InputError, must
from ...lazy import torch
from .hessian import principal_axes
from .solver import Problems

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


BYTES = 1 << 26  # of layers that are solved together on the CPU; 64 times as many on other devices
MEMORY = 1 << 32  # of layers that are solved at the same time by several threads
NEAR = 0.1  # relative tolerance of fits used only for model selection
RISE = 1.02  # times the smallest held-out loss, above which weaker penalties are not tried
WORTH = 0.25  # outputs per entry of the covariance of features, above which its axes are worth their cost


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """Settings shared by all layers."""

    labels: np.ndarray
    classes: int
    penalties: tuple[float, ...]
    held: Held | None
    tolerance: float
    kind: torch.dtype
    device: torch.device


def fit_layers(
    X: np.ndarray,
    labels: np.ndarray,
    classes: int,
    penalties: tuple[float, ...],
    held: Held | None,
    *,
    tolerance: float,
    device: Any,
) -> list[Fitted]:
    """
    Fit a logistic regression on every layer.

    Parameters
    ----------
    X : ndarray of shape (layers, rows, features)
    labels : ndarray of int of shape (rows,)
    classes : int
    penalties : tuple of float
        From strong to weak.
    held : Held, optional
        Rows to choose the penalty with; the first penalty is used when absent.
    tolerance : float
    device : str or torch.device

    Returns
    -------
    list of Fitted
        Independent of the number of threads.
    """
    layers, rows, features = X.shape
    compute_device = torch.device(device)
    work = _Work(
        labels=np.ascontiguousarray(labels, dtype=np.int64),
        classes=classes,
        penalties=penalties,
        held=held,
        tolerance=tolerance,
        kind=torch.float64 if X.dtype == np.float64 else torch.float32,
        device=compute_device,
    )
    on_cpu, threads = compute_device.type == "cpu", torch.get_num_threads()
    layer_bytes = _layer_bytes(work, rows, features)
    count = max(1, (BYTES if on_cpu else 64 * BYTES) // layer_bytes)
    groups = [X[begin : begin + count] for begin in range(0, layers, count)]
    fit = partial(_fit_group, work)
    if not on_cpu or threads == 1:
        return list(chain.from_iterable(map(fit, groups)))
    most = min(threads, max(1, MEMORY // (count * layer_bytes)))
    try:
        # Operations on a chunk of rows are too small for several threads: each group of layers has one.
        with ThreadPoolExecutor(most, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(chain.from_iterable(pool.map(fit, groups)))
    finally:
        torch.set_num_threads(threads)


def _layer_bytes(work: _Work, rows: int, features: int) -> int:
    """Size of the rows of a layer and of about four tables of outputs, for all rows and model selection."""
    return (rows * features + 4 * (rows + _selection_rows(work)) * work.classes) * work.kind.itemsize


def _selection_rows(work: _Work) -> int:
    """Rows that are fitted for one penalty, those of all folds together."""
    if work.held is None:
        return 0
    fold = work.held.fold
    return len(work.held.learn) * (1 if fold is None else int(fold.max()) + 1)


def _fit_group(work: _Work, X: np.ndarray) -> list[Fitted]:
    """Fit several layers together."""
    standardize = by_chunks if work.device.type == "cpu" else on_scale
    scales, scaled = zip(*(standardize(layer, work.device, work.kind) for layer in X), strict=True)
    rows = torch.stack(scaled)
    outputs = _selection_rows(work) * len(work.penalties) + len(work.labels)
    outputs *= 1 if work.classes == 2 else work.classes
    axes = principal_axes(rows) if outputs > WORTH * rows.shape[2] ** 2 else None
    labels = torch.from_numpy(work.labels).to(work.device)
    problems = Problems(rows, labels, work.classes, axes=axes)
    indices, losses, start = _choose_penalties(work, problems)
    penalties = [work.penalties[index] for index in indices]
    state, done = problems.solve(start, penalties, work.tolerance)
    weights = state[:, 0, :, :-1].cpu().numpy()
    bias = problems.shown(state)[:, 0, :, -1].cpu().numpy()
    if work.classes == 2:
        # The shared vector of two classes is split into two opposite halves.
        weights, bias = (np.concatenate([-half, half], axis=1) / 2 for half in (weights, bias))
    return [
        Fitted(
            weights=weights[layer],
            bias=bias[layer],
            penalty=penalties[layer],
            losses=losses[layer],
            converged=bool(done[layer]),
            scale=scales[layer],
        )
        for layer in range(len(X))
    ]


def _choose_penalties(work: _Work, problems: Problems) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """
    Choose a penalty for each layer, and a starting point.

    Returns
    -------
    indices : ndarray of int of shape (layers,)
    losses : ndarray of shape (layers, penalties)
    start : Tensor of shape (layers, features + 1, 1, columns)
    """
    start, held, layers = problems.start(), work.held, len(problems.rows)

    def part(indices: torch.Tensor, fold: np.ndarray | None = None) -> Problems:
        rows = problems.rows if len(indices) == len(problems.labels) else problems.rows[:, indices]
        parts = None if fold is None else torch.from_numpy(fold).to(work.device)
        return Problems(rows, problems.labels[indices], work.classes, parts, problems.axes)

    if held is None:
        return np.zeros(layers, dtype=int), np.full((layers, len(work.penalties)), np.nan), start

    learned = part(torch.from_numpy(held.learn).to(work.device), held.fold)
    judged = learned if held.judge is None else part(torch.from_numpy(held.judge).to(work.device))
    path, losses = _path(work, learned, lambda at: judged.held_out_loss(at, learned).cpu().numpy())
    indices = np.array([best(layer_losses) for layer_losses in losses])
    # The mean of the folds' solutions is near that of all rows; classes unseen in a fold are re-initialized.
    near = torch.stack([path[index][layer] for layer, index in enumerate(indices)]).mean(1, keepdim=True)
    start = torch.where(learned.seen.all(0)[:, None], near, start) if work.classes > 2 else near
    return indices, losses, start


def _path(
    work: _Work, problems: Problems, judge: Callable[[torch.Tensor], np.ndarray]
) -> tuple[list[torch.Tensor], np.ndarray]:
    """Solve for one penalty after the other, until the held-out loss rises."""
    layers = len(problems.rows)
    losses = np.full((layers, len(work.penalties)), np.nan)
    state, path, on = problems.start(), [], np.ones(layers, dtype=bool)

    def worse(at: torch.Tensor) -> bool:
        # On its way to a weaker penalty, a fit passes through the solutions in between.
        return not (on & (judge(at) <= RISE * np.nanmin(losses, axis=1))).any()

    for number, penalty in enumerate(work.penalties):
        state, _ = problems.solve(
            state, [penalty] * layers, work.tolerance, NEAR, hopeless=worse if number else None
        )
        path.append(state)
        losses[on, number] = judge(state)[on]
        on &= losses[:, number] <= RISE * np.nanmin(losses, axis=1)
        if not on.any():
            break
    return path, losses
