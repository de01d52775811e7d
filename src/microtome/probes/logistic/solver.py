"""L-BFGS solver for the logistic regressions of many layers and folds.

Each layer has one problem per fold. The rows of a layer are multiplied with the directions of all its
problems at once. The outputs are linear in the step length, so the line search needs no further product with
the direction. Everything else is computed in chunks of rows that fit in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...lazy import torch
from .hessian import Kronecker, Sampled, dot, in_parts, kronecker, outputs_of, sampled

MEMORY = 20  # steps in the L-BFGS history
STEPS = 500  # maximum number of iterations
LENGTHS = 25  # maximum number of step lengths tried in a line search
MANY = 16_384  # rows from which on the Hessian is subsampled; smaller problems use the Kronecker estimate
FEWER = 5  # one row in so many is subsampled
UNSURE = 32_768  # maximum number of subsampled rows
REFRESHED = 8  # steps between two subsamples
ASKED = 6  # steps between two checks whether a fit is hopeless
SHUT = -1e30  # output of a class absent from the training rows of a problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Point:
    """
    Current iterate of all problems.

    Parameters
    ----------
    at : Tensor of shape (layers, features + 1, problems, columns), float64
        Weights and intercept.
    outputs : Tensor of shape (layers, rows, problems, columns)
    value : Tensor of shape (layers, problems), float64
    gradient : Tensor, as `at`
    """

    at: torch.Tensor
    outputs: torch.Tensor
    value: torch.Tensor
    gradient: torch.Tensor


class Problems:
    """
    Logistic regressions on the same rows, one per layer and fold, with the tensors they share.

    Parameters
    ----------
    rows : Tensor of shape (layers, rows, features)
        Standardized features, or their coordinates along axes that span the rows.
    labels : Tensor of int of shape (rows,)
    classes : int
        Two classes share one column of weights; more classes have one column each.
    fold : Tensor of int of shape (rows,), optional
        One problem per fold, fitted on the rows of the other folds; a single one on all rows when absent.
    """

    def __init__(
        self,
        rows: torch.Tensor,
        labels: torch.Tensor,
        classes: int,
        fold: torch.Tensor | None,
    ) -> None:
        self.rows, self.labels = rows, labels
        self.classes, self.columns = classes, 1 if classes == 2 else classes
        count = 1 if fold is None else int(fold.max()) + 1
        fold_numbers = torch.arange(count, device=rows.device)
        self.held = (
            fold[:, None] == fold_numbers if fold is not None else torch.zeros_like(labels[:, None]) > 0
        )
        self.sizes = (~self.held).sum(0).double()
        self.share = ((~self.held).double() / self.sizes).to(rows.dtype)
        one_hot = torch.nn.functional.one_hot(labels, classes)
        # A class without training rows is left out of a problem.
        self.seen = (~self.held).T.double() @ one_hot.double() > 0
        self.right = (one_hot[:, 1:] if classes == 2 else one_hot).to(rows.dtype)[:, None]

    def start(self) -> torch.Tensor:
        """Zero weights, with intercepts that give the class frequencies."""
        initial = torch.zeros(
            (len(self.rows), self.rows.shape[2] + 1, len(self.sizes), self.columns),
            dtype=torch.float64,
            device=self.rows.device,
        )
        shares = self.share.T.double() @ self.right[:, 0].double()
        if self.columns == 1:
            # If one of two classes is missing, the intercept of the other stays finite.
            initial[:, -1] = torch.logit(shares.clamp(1e-6, 1 - 1e-6))
        else:
            initial[:, -1] = torch.where(self.seen, shares.clamp_min(1e-12).log(), 0.0)
        return initial

    def shown(self, at: torch.Tensor) -> torch.Tensor:
        """Return the weights with the intercepts of unseen classes at minus infinity."""
        if self.columns == 1:
            return at
        out = at.clone()
        out[:, -1] = torch.where(self.seen, out[:, -1], -torch.inf)
        return out

    def _balanced(self, at: torch.Tensor) -> torch.Tensor:
        """Center the weights over the classes: predictions stay the same, and a solution has this form."""
        if self.columns == 1:
            return at
        share = self.seen / self.seen.sum(-1, keepdim=True).double()
        inner = at[:, :-1] - (at[:, :-1] * share).sum(-1, keepdim=True)
        return torch.cat([torch.where(self.seen, inner, 0.0), at[:, -1:]], dim=1)

    def _loss(self, outputs: torch.Tensor, part: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Cross-entropy of a chunk of rows, shape (layers, rows, problems), and the class probabilities."""
        if self.columns == 1:
            ahead = outputs[..., 0]
            loss = torch.nn.functional.softplus(ahead) - ahead * self.right[part, ..., 0]
            return loss, outputs.sigmoid()
        log = outputs.log_softmax(-1)
        index = self.labels[None, part, None, None].expand(*log.shape[:3], 1)
        return -log.gather(-1, index)[..., 0], log.exp_()

    def held_out_loss(self, at: torch.Tensor, learned: Problems) -> torch.Tensor:
        """
        Mean held-out loss over rows whose class is in the training rows, shape (layers,).

        Parameters
        ----------
        at : Tensor of shape (layers, features + 1, problems, columns), float64
        learned : Problems
            The problems that the weights solve. Where they are these problems, each is evaluated on the rows
            of its own fold.
        """
        loss, _ = self._loss(_opened(outputs_of(self.rows, at), learned.seen), slice(None))
        counted = learned.seen[:, self.labels].T
        if learned is self:
            counted = counted & self.held
        total = torch.where(counted, loss, 0.0).sum((1, 2), dtype=torch.float64)
        return total / counted.sum().clamp(min=1)

    def _look(
        self,
        at: torch.Tensor,
        outputs: torch.Tensor,
        strong: torch.Tensor,
        change: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute value and gradient; `change` holds the outputs of a direction and the step lengths."""

        def work(part: slice) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            part_outputs = outputs[:, part]
            if change is not None:
                part_outputs = torch.addcmul(part_outputs, change[0][:, part], _wide(change[1], part_outputs))
            loss, residuals = self._loss(part_outputs, part)
            residuals -= self.right[part]
            residuals *= self.share[part, :, None]
            loss *= self.share[part]
            inner = (residuals.flatten(2).mT @ self.rows[:, part]).double()
            return loss.sum(1, dtype=torch.float64), inner, residuals.sum(1, dtype=torch.float64)

        sums = zip(*in_parts(self.rows, work), strict=True)
        value, inner, ends = (torch.stack(part_sums).sum(0) for part_sums in sums)
        value += strong / 2 * at[:, :-1].square().sum((1, 3))
        inner = inner.mT.reshape_as(at[:, :-1]) + strong[:, None, :, None] * at[:, :-1]
        return value, torch.cat([inner, ends[:, None]], dim=1)

    def point(self, at: torch.Tensor, strong: torch.Tensor) -> _Point:
        """Compute outputs, value and gradient from the weights."""
        outputs = _opened(outputs_of(self.rows, at), self.seen)
        value, gradient = self._look(at, outputs, strong)
        return _Point(at=at, outputs=outputs, value=value, gradient=gradient)

    def _strong(self, penalties: list[float]) -> torch.Tensor:
        """Penalties on the scale of the mean loss, shape (layers, problems)."""
        return torch.tensor(penalties, dtype=torch.float64, device=self.rows.device)[:, None] / self.sizes

    def solve(
        self,
        at: torch.Tensor,
        penalties: list[float],
        tolerance: float,
        near: float = 0.0,
        hopeless: Callable[[torch.Tensor], bool] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Iterate from a starting point until every problem converges.

        Parameters
        ----------
        at : Tensor of shape (layers, features + 1, problems, columns), float64
        penalties : list of float
            One per layer.
        tolerance : float
            Largest absolute entry of the gradient of the mean loss at convergence.
        near : float
            Relative tolerance, as a share of the largest gradient entry of the penalty; the larger one holds.
        hopeless : callable, optional
            Called at intervals with the weights; the fit stops when it returns True.

        Returns
        -------
        at : Tensor
        done : Tensor of bool of shape (layers,)
            Whether all problems of a layer converged.
        """
        strong = self._strong(penalties)
        point = self.point(self._balanced(at), strong)
        subsampled = min(UNSURE, self.rows.shape[1] // FEWER) if self.rows.shape[1] >= MANY else 0
        curvature: Kronecker | Sampled | None = None
        past: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

        def flat() -> torch.Tensor:
            pull = strong * point.at[:, :-1].abs().amax((1, 3))
            return point.gradient.abs().amax((1, 3)) <= (near * pull).clamp_min(tolerance)

        done, exact = flat(), True
        stuck = torch.zeros_like(done)
        for step in range(STEPS):
            if bool((done | stuck).all()):
                if exact:
                    break
                # Incrementally updated outputs accumulate rounding errors: check convergence on exact ones.
                point, exact = self.point(point.at, strong), True
                done = flat()
                continue
            if hopeless is not None and step % ASKED == ASKED - 1 and hopeless(point.at):
                break
            if curvature is None or (subsampled and step % REFRESHED == 0):
                shares = point.outputs.sigmoid() if self.columns == 1 else point.outputs.softmax(-1)
                curvature = (
                    sampled(self.rows, shares, self.share, strong, subsampled)
                    if subsampled
                    else kronecker(self.rows, shares, self.share, strong)
                )
            direction = _direction(point.gradient, past, curvature)
            moving = ~(done | stuck)
            direction *= moving[:, None, :, None]
            next_point, failed = self._step(point, direction, strong, moving)
            moved, turned = next_point.at - point.at, next_point.gradient - point.gradient
            curve = dot(moved, turned)
            if bool(failed.any()) and past:
                # The history may be the cause: reset it.
                past, curvature = [], None
            else:
                stuck = stuck | failed
                past.append((moved, turned, torch.where(curve > 0, 1 / curve, 0.0)))
                del past[:-MEMORY]
            point, exact = next_point, False
            done = flat()
        return point.at, done.all(1)

    def _step(
        self, point: _Point, direction: torch.Tensor, strong: torch.Tensor, moving: torch.Tensor
    ) -> tuple[_Point, torch.Tensor]:
        """
        Search the step length along a direction, for each problem separately.

        The loss is convex, so the sign of its slope along the direction brackets the optimal length.
        """
        change = outputs_of(self.rows, direction)
        slope0 = dot(point.gradient, direction)
        length = torch.ones_like(slope0)
        low, low_slope = torch.zeros_like(slope0), slope0.clone()
        high, high_slope = torch.full_like(slope0, torch.inf), torch.zeros_like(slope0)
        noise = torch.finfo(self.rows.dtype).eps * point.value.abs()
        at, value, gradient, fine = point.at, point.value, point.gradient, ~moving
        for _ in range(LENGTHS):
            at = point.at + length[:, None, :, None] * direction
            value, gradient = self._look(at, point.outputs, strong, (change, length))
            slope = dot(gradient, direction)
            lower = value <= point.value + 1e-4 * length * slope0 + noise
            fine = ~moving | (lower & (slope.abs() <= 0.9 * slope0.abs()))
            if bool(fine.all()):
                break
            left = slope < 0
            low, low_slope = torch.where(left, length, low), torch.where(left, slope, low_slope)
            high, high_slope = torch.where(left, high, length), torch.where(left, high_slope, slope)
            share = (low_slope / (low_slope - high_slope)).nan_to_num(0.5).clamp(0.1, 0.9)
            inside = low + share * (high - low)
            length = torch.where(fine, length, torch.where(high.isinf(), 4 * length, inside))
        # Problems whose loss does not decrease keep their point.
        worse = moving & ~fine & ~(value < point.value)
        length = torch.where(worse | ~moving, 0.0, length)
        keep = worse[:, None, :, None]
        # The outputs of the last point are overwritten.
        outputs = point.outputs.addcmul_(change, _wide(length, change))
        next_point = _Point(
            at=torch.where(keep, point.at, at),
            outputs=outputs,
            value=torch.where(worse, point.value, value),
            gradient=torch.where(keep, point.gradient, gradient),
        )
        return next_point, worse


def _opened(outputs: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Mask the classes that are absent from a problem, in place."""
    if outputs.shape[-1] > 1 and not bool(seen.all()):
        outputs.masked_fill_(~seen, SHUT)
    return outputs


def _wide(factor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Expand a factor for each layer and problem to the dimensions of outputs."""
    return factor[:, None, :, None].to(like.dtype)


def _direction(
    gradient: torch.Tensor,
    past: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    curvature: Kronecker | Sampled,
) -> torch.Tensor:
    """Compute the L-BFGS search direction with a preconditioner (two-loop recursion)."""
    direction, shares = gradient.clone(), []
    for moved, turned, inverse_curve in reversed(past):
        share = inverse_curve * dot(moved, direction)
        direction -= share[:, None, :, None] * turned
        shares.append(share)
    direction = curvature.solve(direction)
    for (moved, turned, inverse_curve), share in zip(past, reversed(shares), strict=True):
        back = inverse_curve * dot(turned, direction)
        direction = direction + (share - back)[:, None, :, None] * moved
    return -direction
