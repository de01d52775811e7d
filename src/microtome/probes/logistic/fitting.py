"""Logistic regression on many layers: choice of the penalty, then a fit on all rows.

Small layers are solved together, as many as fit into the cache; large ones in turn, one per thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ...lazy import torch
from .scaling import Fitted, Held, best, by_chunks, on_scale
from .solver import Problems

BYTES = 1 << 26  # of layers that are solved together on the CPU; 64 times as many on other devices
MEMORY = 1 << 32  # of layers that are solved at the same time by several threads
PRECISE = 1 << 19  # numbers of a layer up to which all is computed in float64
NEAR = 0.1  # relative tolerance of fits used only for model selection or as a warm start
RISE = 1.02  # times the smallest held-out loss, above which weaker penalties are not tried
STRONGER = (1000.0, 100.0, 10.0)  # factors of the penalties before a single one, for many rows
RANK = 1e-12  # axes below this share of the largest eigenvalue are rounding error


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
        kind=torch.float64 if rows * features <= PRECISE else torch.float32,
        device=compute_device,
    )
    on_cpu, threads = compute_device.type == "cpu", torch.get_num_threads()
    layer_bytes = _layer_bytes(work, rows, features)
    count = max(1, (BYTES if on_cpu else 64 * BYTES) // layer_bytes)
    if on_cpu and work.kind == torch.float32:
        count = 1
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
    selection_rows = 0
    if work.held is not None:
        fold = work.held.fold
        selection_rows = len(work.held.learn) * (1 if fold is None else int(fold.max()) + 1)
    return (rows * features + 4 * (rows + selection_rows) * work.classes) * work.kind.itemsize


def _fit_group(work: _Work, X: np.ndarray) -> list[Fitted]:
    """Fit several layers together."""
    standardize = by_chunks if work.device.type == "cpu" else on_scale
    scales, scaled = zip(*(standardize(layer, work.device, work.kind) for layer in X), strict=True)
    rows = torch.stack(scaled)
    turn = _span(rows) if rows.shape[1] < rows.shape[2] else None
    rows = rows if turn is None else rows @ turn
    labels = torch.from_numpy(work.labels).to(work.device)
    problems = Problems(rows, labels, work.classes, None)
    indices, losses, start = _choose_penalties(work, problems)
    penalties = [work.penalties[index] for index in indices]
    state, done = problems.solve(start, penalties, work.tolerance)
    inner = state[:, :-1, 0]
    weights = (inner if turn is None else turn.double() @ inner).mT.cpu().numpy()
    bias = problems.shown(state)[:, -1, 0].cpu().numpy()
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
    if held is None:
        for times in STRONGER if work.kind == torch.float32 else ():
            start, _ = problems.solve(start, [times * work.penalties[0]] * layers, work.tolerance, NEAR)
        return np.zeros(layers, dtype=int), np.full((layers, len(work.penalties)), np.nan), start

    def part(indices: np.ndarray, fold: np.ndarray | None = None) -> Problems:
        at = torch.from_numpy(indices).to(work.device)
        rows = problems.rows if len(at) == len(problems.labels) else problems.rows[:, at]
        parts = None if fold is None else torch.from_numpy(fold).to(work.device)
        return Problems(rows, problems.labels[at], work.classes, parts)

    learned = part(held.learn, held.fold)
    judged = learned if held.judge is None else part(held.judge)
    path, losses = _path(work, learned, lambda at: judged.held_out_loss(at, learned).cpu().numpy())
    indices = np.array([best(layer_losses) for layer_losses in losses])
    # The mean of the folds' solutions is near that of all rows; classes unseen in a fold are re-initialized.
    near = torch.stack([path[index][layer] for layer, index in enumerate(indices)]).mean(2, keepdim=True)
    return indices, losses, torch.where(learned.seen.all(0), near, start) if work.classes > 2 else near


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


def _span(rows: torch.Tensor) -> torch.Tensor:
    """Find axes that span the rows, shape (layers, features, rows): weights outside their span are 0."""
    values, vectors = torch.linalg.eigh((rows @ rows.mT).double())
    # All layers have the same number of axes; null axes are zeroed.
    inverse = torch.where(values > RANK * values[:, -1:], values, torch.inf).rsqrt()
    return rows.mT @ (vectors * inverse[:, None]).to(rows.dtype)
