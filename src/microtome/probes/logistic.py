"""How are the logistic regressions of many layers fitted? The penalty is chosen first, then all rows count.

Small layers are solved together. Large ones follow each other from the middle outward, in two chains that
share the threads: a layer begins where its neighbor ended, as far as its own features can say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .converging import Problems
from .standard import Fitted, Held, Scale, best, chunks, on_scale, scale_of
from .threads import workers

if TYPE_CHECKING:
    import torch

BYTES = 1 << 26  # of layers that are solved together on the CPU; elsewhere 64 times as many
PRECISE = 1 << 19  # numbers of a layer up to which all is computed in float64
NEAR = 0.1  # of the penalty's pull may be left in a fit that is only compared, or begun from
RISE = 1.02  # times the smallest loss of held-out rows: penalties that are weaker still are not tried
SPACED = 8192  # rows that lead to the others where there are twice as many
STRONGER = (1000.0, 100.0, 10.0, 1.0)  # than the only penalty: those that lead to it
RANK = 1e-12  # axes below this share of the longest are rounding
ALIKE = 1e-3  # of the rows, as a penalty on what a layer takes from its neighbor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Work:
    """What is the same for all layers."""

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
    """Where the neighbor of a layer ended, and some of its rows."""

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
    Fit every layer.

    Parameters
    ----------
    X : ndarray of shape (layers, rows, features)
    labels : ndarray of int of shape (rows,)
    classes : int
    penalties : tuple of float
        From strong to weak.
    held : Held, optional
        Rows to choose with; the first penalty is taken when absent.
    tolerance : float
    device : str or torch.device

    Returns
    -------
    list of Fitted
        The same for any number of threads.
    """
    import torch

    layers, rows, features = X.shape
    place = torch.device(device)
    with workers(place) as pool:
        work = _Work(
            labels=np.ascontiguousarray(labels, dtype=np.int64),
            classes=classes,
            penalties=penalties,
            held=held,
            tolerance=tolerance,
            kind=torch.float64 if rows * features <= PRECISE else torch.float32,
            device=place,
            pool=pool,
        )
        if place.type == "cpu" and work.kind == torch.float32 and rows >= features:
            return _chained(work, X)
        count = _at_once(work, rows, features)
        groups = [X[begin : begin + count] for begin in range(0, layers, count)]
        return [one for group in groups for one in _together(work, group)[0]]


def _at_once(work: _Work, rows: int, features: int) -> int:
    """How many layers are solved together."""
    some = 0
    if work.held is not None:
        fold = work.held.fold
        some = len(work.held.learn) * (1 if fold is None else int(fold.max()) + 1)
    # Beside the rows there are about four tables of outputs, of all rows and of those to choose with.
    each = (rows * features + 4 * (rows + some) * work.classes) * work.kind.itemsize
    return max(1, (BYTES if work.device.type == "cpu" else 64 * BYTES) // each)


def _chained(work: _Work, X: np.ndarray) -> list[Fitted]:
    """Fit the middle layer, and from there on both ways."""
    found: dict[int, Fitted] = {}

    def follow(places: Iterable[int], before: _Before | None) -> _Before | None:
        for place in places:
            (found[place],), before = _together(work, X[place : place + 1], before)
        return before

    middle = len(X) // 2
    first = follow([middle], None)
    ways = [range(middle + 1, len(X)), range(middle - 1, -1, -1)]
    if work.pool is None:
        for way in ways:
            follow(way, first)
    else:
        with ThreadPoolExecutor(len(ways), initializer=_alone) as pool:
            list(pool.map(lambda way: follow(way, first), ways))
    return [found[place] for place in range(len(X))]


def _alone() -> None:
    import torch

    torch.set_num_threads(1)


def _together(
    work: _Work, X: np.ndarray, before: _Before | None = None
) -> tuple[list[Fitted], _Before | None]:
    """Fit some layers at once; a single one may begin where its neighbor ended."""
    import torch

    if work.device.type == "cpu":
        scales = [scale_of(layer) for layer in X]
        rows = torch.stack([_scaled(layer, one, work.kind) for layer, one in zip(X, scales, strict=True)])
    else:
        # A processor would need longer for this than the device for all the rest.
        found = [on_scale(layer, work.device, work.kind) for layer in X]
        scales, rows = [one for one, _ in found], torch.stack([one for _, one in found])
    turn = _span(rows) if rows.shape[1] < rows.shape[2] else None
    rows = rows if turn is None else rows @ turn
    right = torch.from_numpy(work.labels).to(work.device)
    everything = Problems(rows, right, work.classes, None, work.pool)
    chosen, losses, start = _begun(work, everything)
    taken = [work.penalties[place] for place in chosen]
    some = _spaced(len(right))
    few = rows[:, some] if len(some) < len(right) else rows
    if before is not None:
        asked = Problems(few, right[some], work.classes, None, work.pool)
        start = asked.better(start, _carried(before, few), [each * len(some) / len(right) for each in taken])
    state, done = everything.solve(start, taken, work.tolerance)
    inner = state[:, :-1, 0]
    weights = (inner if turn is None else turn.double() @ inner).cpu().numpy()
    bias = everything.shown(state)[:, -1, 0].cpu().numpy()
    fitted = [
        Fitted(
            weights=_both(weights[g].T, work.classes),
            bias=_both(bias[g], work.classes),
            penalty=taken[g],
            losses=losses[g],
            converged=bool(done[g]),
            scale=scales[g],
        )
        for g in range(len(X))
    ]
    return fitted, _Before(at=state, rows=few) if len(X) == 1 and turn is None else None


def _begun(work: _Work, everything: Problems) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """
    Choose a penalty for each layer, and a point to begin with.

    Returns
    -------
    chosen : ndarray of int of shape (layers,)
    losses : ndarray of shape (layers, penalties)
    start : Tensor of shape (layers, features + 1, 1, columns)
    """
    import torch

    rows, right, held = everything.rows, everything.labels, work.held
    start = everything.start()
    chosen = np.zeros(len(rows), dtype=np.int64)
    losses = np.full((len(rows), len(work.penalties)), np.nan)
    if held is None and work.kind == torch.float64:
        return chosen, losses, start

    def part(places: np.ndarray, fold: np.ndarray | None = None) -> Problems:
        at = torch.from_numpy(places).to(rows.device)
        own = rows if len(places) == len(right) else rows[:, at]
        parts = None if fold is None else torch.from_numpy(fold).to(rows.device)
        return Problems(own, right[at], work.classes, parts, everything.pool)

    problems = part(_spaced(len(right))) if held is None else part(held.learn, held.fold)
    if held is None:
        state = problems.start()
        for times in STRONGER:
            state, _ = problems.solve(state, [times * work.penalties[0]] * len(rows), work.tolerance, NEAR)
        path = [state]
    else:
        others = None if held.judge is None else part(held.judge)

        def judged(at: torch.Tensor) -> np.ndarray:
            found = problems.foretold(at) if others is None else others.foretold(at, problems)
            return found.cpu().numpy()

        path, losses = _path(work, problems, judged)
        chosen = np.array([best(each) for each in losses])
    # Between the folds' solutions lies that of all rows, nearly; classes that one did not see begin anew.
    near = torch.stack([path[p][g] for g, p in enumerate(chosen)]).mean(2, keepdim=True)
    return chosen, losses, torch.where(problems.seen.all(0), near, start) if work.classes > 2 else near


def _path(
    work: _Work, problems: Problems, judged: Callable[[torch.Tensor], np.ndarray]
) -> tuple[list[torch.Tensor], np.ndarray]:
    """Solve for one penalty after the other, until held-out rows have had enough."""
    layers = len(problems.rows)
    losses = np.full((layers, len(work.penalties)), np.nan)
    state, path, on = problems.start(), [], np.ones(layers, dtype=bool)

    def worse(at: torch.Tensor) -> bool:
        # On its way to a weaker penalty a fit passes all that lies between.
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
    """Some rows at equal distances where there are very many, all otherwise."""
    return np.arange(0, rows, max(1, rows // SPACED))


def _carried(before: _Before, rows: torch.Tensor) -> torch.Tensor:
    """Say with this layer's features what the neighbor's weights said, as nearly as they can."""
    import torch

    gram, shared = (rows.mT @ rows).double(), (rows.mT @ before.rows).double()
    gram.diagonal(dim1=1, dim2=2).add_(ALIKE * rows.shape[1])
    turned = torch.linalg.solve(gram, shared) @ before.at[:, :-1, 0]
    return torch.cat([turned[:, :, None], before.at[:, -1:]], dim=1)


def _both(found: np.ndarray, classes: int) -> np.ndarray:
    """Two classes share one vector: half of it against the other half is the same."""
    return np.stack([-found[0] / 2, found[0] / 2]) if classes == 2 else found


def _scaled(layer: np.ndarray, scale: Scale, kind: torch.dtype) -> torch.Tensor:
    import torch

    out = torch.empty(layer.shape, dtype=kind)
    for rows, part in chunks(layer, scale):
        out[rows] = torch.from_numpy(part).to(kind)
    return out


def _span(rows: torch.Tensor) -> torch.Tensor:
    """Find axes that span the rows, shape (layers, features, rows): weights along others are never needed."""
    import torch

    values, vectors = torch.linalg.eigh((rows @ rows.mT).double())
    # All layers have the same number of axes; those of no length lead nowhere.
    inverse = torch.where(values > RANK * values[:, -1:], values, torch.inf).rsqrt()
    return rows.mT @ (vectors * inverse[:, None]).to(rows.dtype)
