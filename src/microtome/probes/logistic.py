"""How are the logistic regressions of many layers fitted? By folds first, then with the best penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .converging import Problems
from .standard import Fitted, Scale, best, chunks, scale_of

if TYPE_CHECKING:
    import torch

BYTES = 1 << 30  # of layers that are solved together
PRECISE = 1 << 24  # numbers of a layer up to which all is computed in float64
AXES = 8  # rows a feature that the principal axes are found from
RANK = 1e-12  # axes below this share of the longest are rounding


def fit_layers(
    X: np.ndarray,
    labels: np.ndarray,
    classes: int,
    penalties: tuple[float, ...],
    fold: np.ndarray | None,
    *,
    tolerance: float,
    device: Any,
) -> list[Fitted]:
    """
    Fit every layer.

    Parameters
    ----------
    X : ndarray of shape (layers, rows, features)
    labels : ndarray of int of shape (rows,)
    classes : int
    penalties : tuple of float
        From strong to weak.
    fold : ndarray of int of shape (rows,), optional
        The fold of each row; the first penalty is taken when absent.
    tolerance : float
    device : str or torch.device

    Returns
    -------
    list of Fitted
    """
    import torch

    layers, rows, features = X.shape
    kind = torch.float64 if rows * features <= PRECISE else torch.float32
    problems = 1 if fold is None else int(fold.max()) + 1
    # Beside the rows there are about six tables of outputs.
    each = (rows * features + 6 * rows * problems * classes) * kind.itemsize
    count = max(1, BYTES // each)
    found: list[Fitted] = []
    for begin in range(0, layers, count):
        part = X[begin : begin + count]
        found += _together(part, labels, classes, penalties, fold, tolerance, kind, torch.device(device))
    return found


def _together(
    X: np.ndarray,
    labels: np.ndarray,
    classes: int,
    penalties: tuple[float, ...],
    fold: np.ndarray | None,
    tolerance: float,
    kind: torch.dtype,
    device: torch.device,
) -> list[Fitted]:
    import torch

    scales = [scale_of(layer) for layer in X]
    rows = torch.stack([_scaled(layer, one, kind) for layer, one in zip(X, scales, strict=True)]).to(device)
    turn, spread = _axes(rows)
    right = torch.from_numpy(np.ascontiguousarray(labels, dtype=np.int64)).to(device)
    losses = np.full((len(X), len(penalties)), np.nan)
    chosen = np.zeros(len(X), dtype=np.int64)
    everything = Problems(rows, turn, spread, right, classes, None)
    start = everything.start()
    if fold is not None:
        problems = Problems(rows, turn, spread, right, classes, torch.from_numpy(fold).to(device))
        state, path = problems.start(), []
        for place, penalty in enumerate(penalties):
            state = problems.solve(state, [penalty] * len(X), tolerance)[0]
            losses[:, place] = problems.held_out(state).cpu().numpy()
            path.append(state)
        chosen = np.array([best(each) for each in losses])
        # Between the folds' solutions lies that of all rows, nearly.
        start = torch.stack([path[p][g] for g, p in enumerate(chosen)]).mean(2, keepdim=True)
    taken = [penalties[place] for place in chosen]
    state, done = everything.solve(start, taken, tolerance)
    weights = (turn @ state[:, :-1, 0].to(turn.dtype)).double().cpu().numpy()
    bias = everything.shown(state)[:, -1, 0].double().cpu().numpy()
    return [
        Fitted(
            weights=_both(weights[g].T, classes),
            bias=_both(bias[g], classes),
            penalty=taken[g],
            losses=losses[g],
            converged=bool(done[g]),
            scale=scales[g],
        )
        for g in range(len(X))
    ]


def _both(found: np.ndarray, classes: int) -> np.ndarray:
    """Two classes share one vector: half of it against the other half is the same."""
    return np.stack([-found[0] / 2, found[0] / 2]) if classes == 2 else found


def _scaled(layer: np.ndarray, scale: Scale, kind: torch.dtype) -> torch.Tensor:
    import torch

    out = torch.empty(layer.shape, dtype=kind)
    for rows, part in chunks(layer, scale):
        out[rows] = torch.from_numpy(part).to(kind)
    return out


def _axes(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Find the principal axes of the rows, shape (layers, features, rank), and the variance along each.

    With fewer rows than features the axes span the rows, and so the weights. With many rows a part of them
    is enough: axes only set the scale of the first steps.
    """
    import torch

    count, features = rows.shape[1:]
    if count < features:
        values, vectors = torch.linalg.eigh((rows @ rows.mT).double())
        # All layers have the same number of axes; those of no length lead nowhere.
        inverse = torch.where(values > RANK * values[:, -1:], values, torch.inf).rsqrt()
        turn = rows.mT @ (vectors * inverse[:, None]).to(rows.dtype)
        return turn, (values.clamp_min(0) / count).to(rows.dtype)
    some = rows[:, :: max(1, count // (AXES * features))]
    values, vectors = torch.linalg.eigh((some.mT @ some).double() / some.shape[1])
    return vectors.to(rows.dtype), values.clamp_min(0).to(rows.dtype)
