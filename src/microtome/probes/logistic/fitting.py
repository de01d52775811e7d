"""Logistic regression on many layers: choice of the penalty, then a fit on all rows.

Small layers are solved together. Large layers are solved in turn from the middle outward, in two chains that
share the threads: each layer is warm-started from the solution of its neighbor, mapped to its own features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...lazy import torch
from .parallel import workers
from .scaling import Fitted, Held, Scale, best, chunks, on_scale, scale_of
from .solver import Problems

BYTES = 1 << 26  # of layers that are solved together on the CPU; 64 times as many on other devices
PRECISE = 1 << 19  # numbers of a layer up to which all is computed in float64
NEAR = 0.1  # relative tolerance of fits used only for model selection or as a warm start
RISE = 1.02  # times the smallest held-out loss, above which weaker penalties are not tried
SPACED = 8192  # rows of the subset used for a warm start where there are at least twice as many
STRONGER = (1000.0, 100.0, 10.0, 1.0)  # factors of the continuation path to a single penalty
RANK = 1e-12  # axes below this share of the largest eigenvalue are rounding error
ALIKE = 1e-3  # ridge penalty per row of the map from a layer to its neighbor


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
    pool: Executor | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Before:
    """Solution of the neighboring layer, and a subset of its rows."""

    at: torch.Tensor
    rows: torch.Tensor


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
    with workers(compute_device) as pool:
        work = _Work(
            labels=np.ascontiguousarray(labels, dtype=np.int64),
            classes=classes,
            penalties=penalties,
            held=held,
            tolerance=tolerance,
            kind=torch.float64 if rows * features <= PRECISE else torch.float32,
            device=compute_device,
            pool=pool,
        )
        if compute_device.type == "cpu" and work.kind == torch.float32 and rows >= features:
            return _chained(work, X)
        count = _at_once(work, rows, features)
        groups = [X[begin : begin + count] for begin in range(0, layers, count)]
        return [fitted for group in groups for fitted in _together(work, group)[0]]


def _at_once(work: _Work, rows: int, features: int) -> int:
    """Number of layers that are solved together."""
    selection_rows = 0
    if work.held is not None:
        fold = work.held.fold
        selection_rows = len(work.held.learn) * (1 if fold is None else int(fold.max()) + 1)
    # Beside the rows there are about four tables of outputs, for all rows and for model selection.
    layer_bytes = (rows * features + 4 * (rows + selection_rows) * work.classes) * work.kind.itemsize
    return max(1, (BYTES if work.device.type == "cpu" else 64 * BYTES) // layer_bytes)


def _chained(work: _Work, X: np.ndarray) -> list[Fitted]:
    """Fit the middle layer, then outward in both directions."""
    fitted: dict[int, Fitted] = {}

    def follow(layers: Iterable[int], before: _Before | None) -> _Before | None:
        for layer in layers:
            (fitted[layer],), before = _together(work, X[layer : layer + 1], before)
        return before

    middle = len(X) // 2
    first = follow([middle], None)
    directions = [range(middle + 1, len(X)), range(middle - 1, -1, -1)]
    if work.pool is None:
        for layers in directions:
            follow(layers, first)
    else:
        with ThreadPoolExecutor(len(directions), initializer=_alone) as pool:
            list(pool.map(lambda layers: follow(layers, first), directions))
    return [fitted[layer] for layer in range(len(X))]


def _alone() -> None:
    torch.set_num_threads(1)


def _together(
    work: _Work, X: np.ndarray, before: _Before | None = None
) -> tuple[list[Fitted], _Before | None]:
    """Fit several layers together; a single layer may be warm-started from its neighbor."""
    if work.device.type == "cpu":
        scales = [scale_of(layer) for layer in X]
        rows = torch.stack([_scaled(layer, scale, work.kind) for layer, scale in zip(X, scales, strict=True)])
    else:
        # On the CPU this would take longer than the rest of the fit on the device.
        scaled = [on_scale(layer, work.device, work.kind) for layer in X]
        scales, rows = [scale for scale, _ in scaled], torch.stack([layer for _, layer in scaled])
    turn = _span(rows) if rows.shape[1] < rows.shape[2] else None
    rows = rows if turn is None else rows @ turn
    labels = torch.from_numpy(work.labels).to(work.device)
    everything = Problems(rows, labels, work.classes, None, work.pool)
    penalty_indices, losses, start = _begun(work, everything)
    penalties = [work.penalties[index] for index in penalty_indices]
    subset = _spaced(len(labels))
    subset_rows = rows[:, subset] if len(subset) < len(labels) else rows
    if before is not None:
        subset_problems = Problems(subset_rows, labels[subset], work.classes, None, work.pool)
        start = subset_problems.better(
            start,
            _carried(before, subset_rows),
            [penalty * len(subset) / len(labels) for penalty in penalties],
        )
    state, done = everything.solve(start, penalties, work.tolerance)
    inner = state[:, :-1, 0]
    weights = (inner if turn is None else turn.double() @ inner).cpu().numpy()
    bias = everything.shown(state)[:, -1, 0].cpu().numpy()
    fitted = [
        Fitted(
            weights=_both(weights[g].T, work.classes),
            bias=_both(bias[g], work.classes),
            penalty=penalties[g],
            losses=losses[g],
            converged=bool(done[g]),
            scale=scales[g],
        )
        for g in range(len(X))
    ]
    return fitted, _Before(at=state, rows=subset_rows) if len(X) == 1 and turn is None else None


def _begun(work: _Work, everything: Problems) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """
    Choose a penalty for each layer, and a starting point.

    Returns
    -------
    penalty_indices : ndarray of int of shape (layers,)
    losses : ndarray of shape (layers, penalties)
    start : Tensor of shape (layers, features + 1, 1, columns)
    """
    rows, labels, held = everything.rows, everything.labels, work.held
    start = everything.start()
    penalty_indices = np.zeros(len(rows), dtype=np.int64)
    losses = np.full((len(rows), len(work.penalties)), np.nan)
    if held is None and work.kind == torch.float64:
        return penalty_indices, losses, start

    def part(indices: np.ndarray, fold: np.ndarray | None = None) -> Problems:
        at = torch.from_numpy(indices).to(rows.device)
        part_rows = rows if len(indices) == len(labels) else rows[:, at]
        parts = None if fold is None else torch.from_numpy(fold).to(rows.device)
        return Problems(part_rows, labels[at], work.classes, parts, everything.pool)

    problems = part(_spaced(len(labels))) if held is None else part(held.learn, held.fold)
    if held is None:
        state = problems.start()
        for times in STRONGER:
            state, _ = problems.solve(state, [times * work.penalties[0]] * len(rows), work.tolerance, NEAR)
        path = [state]
    else:
        judge_problems = None if held.judge is None else part(held.judge)

        def judged(at: torch.Tensor) -> np.ndarray:
            loss = (
                problems.held_out_loss(at)
                if judge_problems is None
                else judge_problems.held_out_loss(at, problems)
            )
            return loss.cpu().numpy()

        path, losses = _path(work, problems, judged)
        penalty_indices = np.array([best(layer_losses) for layer_losses in losses])
    # The mean of the folds' solutions is near that of all rows; classes unseen in a fold are re-initialized.
    near = torch.stack([path[p][g] for g, p in enumerate(penalty_indices)]).mean(2, keepdim=True)
    return (
        penalty_indices,
        losses,
        torch.where(problems.seen.all(0), near, start) if work.classes > 2 else near,
    )


def _path(
    work: _Work, problems: Problems, judged: Callable[[torch.Tensor], np.ndarray]
) -> tuple[list[torch.Tensor], np.ndarray]:
    """Solve for one penalty after the other, until the held-out loss rises."""
    layers = len(problems.rows)
    losses = np.full((layers, len(work.penalties)), np.nan)
    state, path, on = problems.start(), [], np.ones(layers, dtype=bool)

    def worse(at: torch.Tensor) -> bool:
        # On its way to a weaker penalty, a fit passes through the solutions in between.
        return not (on & (judged(at) <= RISE * np.nanmin(losses, axis=1))).any()

    for number, penalty in enumerate(work.penalties):
        state, _ = problems.solve(
            state, [penalty] * layers, work.tolerance, NEAR, hopeless=worse if number else None
        )
        path.append(state)
        losses[on, number] = judged(state)[on]
        on &= losses[:, number] <= RISE * np.nanmin(losses, axis=1)
        if not on.any():
            break
    return path, losses


def _spaced(rows: int) -> np.ndarray:
    """Evenly spaced rows where there are very many, all rows otherwise."""
    return np.arange(0, rows, max(1, rows // SPACED))


def _carried(before: _Before, rows: torch.Tensor) -> torch.Tensor:
    """Map the weights of the neighboring layer to the features of this layer by ridge regression."""
    gram, shared = (rows.mT @ rows).double(), (rows.mT @ before.rows).double()
    gram.diagonal(dim1=1, dim2=2).add_(ALIKE * rows.shape[1])
    turned = torch.linalg.solve(gram, shared) @ before.at[:, :-1, 0]
    return torch.cat([turned[:, :, None], before.at[:, -1:]], dim=1)


def _both(weights: np.ndarray, classes: int) -> np.ndarray:
    """Split the shared weight vector of two classes into two opposite halves."""
    return np.stack([-weights[0] / 2, weights[0] / 2]) if classes == 2 else weights


def _scaled(layer: np.ndarray, scale: Scale, kind: torch.dtype) -> torch.Tensor:
    out = torch.empty(layer.shape, dtype=kind)
    for rows, part in chunks(layer, scale):
        out[rows] = torch.from_numpy(part).to(kind)
    return out


def _span(rows: torch.Tensor) -> torch.Tensor:
    """Find axes that span the rows, shape (layers, features, rows): weights outside their span are 0."""
    values, vectors = torch.linalg.eigh((rows @ rows.mT).double())
    # All layers have the same number of axes; null axes are zeroed.
    inverse = torch.where(values > RANK * values[:, -1:], values, torch.inf).rsqrt()
    return rows.mT @ (vectors * inverse[:, None]).to(rows.dtype)
