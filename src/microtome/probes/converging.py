"""How do logistic regressions of many layers converge together? Quasi-Newton steps that share every product.

Each layer has one problem a fold. The rows of a layer are multiplied with the directions of all its problems
at once. What a step changes in the outputs is linear in its length, so the length is found without any
further product. Directions begin from the inverse curvature along the principal axes of the features, which
makes badly scaled layers as easy as others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

MEMORY = 10  # steps that a direction remembers
STEPS = 500
LENGTHS = 25  # that are tried for a step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Point:
    """
    Where all problems stand.

    Parameters
    ----------
    at : Tensor of shape (layers, rank + 1, problems, columns), float64
        Weights along the axes, and the intercept.
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
    Logistic regressions on the same rows, one a layer and fold: owns the tensors they share.

    Parameters
    ----------
    rows : Tensor of shape (layers, rows, features)
        Features of mean 0 and variance 1.
    turn : Tensor of shape (layers, features, rank)
        Axes that weights are counted along.
    spread : Tensor of shape (layers, rank)
        Variance of the rows along them.
    labels : Tensor of int of shape (rows,)
    classes : int
        Two have one column of weights, more have one each.
    fold : Tensor of int of shape (rows,), optional
        One problem for each fold, fitted on the rows of the others; a single one on all rows when absent.
    """

    def __init__(
        self,
        rows: torch.Tensor,
        turn: torch.Tensor,
        spread: torch.Tensor,
        labels: torch.Tensor,
        classes: int,
        fold: torch.Tensor | None,
    ) -> None:
        import torch

        self.rows, self.turn, self.spread, self.labels = rows, turn, spread, labels
        self.classes, self.columns = classes, 1 if classes == 2 else classes
        count = 1 if fold is None else int(fold.max()) + 1
        places = torch.arange(count, device=rows.device)
        self.held = fold[:, None] == places if fold is not None else torch.zeros_like(labels[:, None]) > 0
        self.sizes = (~self.held).sum(0).double()
        self.share = ((~self.held).double() / self.sizes).to(rows.dtype)
        known = torch.nn.functional.one_hot(labels, classes)
        # A class that a problem never sees has no say in it.
        self.seen = (known[:, None] * (~self.held)[..., None]).sum(0) > 0
        self.right = (known[:, 1:] if classes == 2 else known).to(rows.dtype)[:, None]

    def start(self) -> torch.Tensor:
        """No weights, and intercepts that say how frequent each class is."""
        import torch

        found = torch.zeros(
            (len(self.rows), self.turn.shape[2] + 1, len(self.sizes), self.columns),
            dtype=torch.float64,
            device=self.rows.device,
        )
        shares = (self.share.double()[..., None] * self.right.double()).sum(0)
        if self.columns == 1:
            # Where one of two classes is missing the other one is certain, at a finite distance.
            found[:, -1] = torch.logit(shares.clamp(1e-6, 1 - 1e-6))
        else:
            found[:, -1] = torch.where(self.seen, shares.clamp_min(1e-12).log(), 0.0)
        return found

    def shown(self, at: torch.Tensor) -> torch.Tensor:
        """The same with the intercepts of unseen classes at minus infinity."""
        import torch

        if self.columns == 1:
            return at
        out = at.clone()
        out[:, -1] = torch.where(self.seen, out[:, -1], -torch.inf)
        return out

    def outputs(self, at: torch.Tensor) -> torch.Tensor:
        """Multiply the rows with weights, shape (layers, rows, problems, columns)."""
        flat = at.to(self.rows.dtype).flatten(2)
        found = self.rows @ (self.turn @ flat[:, :-1]) + flat[:, -1:]
        return found.view(*found.shape[:2], *at.shape[2:])

    def _said(self, outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cross-entropy of each row, shape (layers, rows, problems), and what each output should change."""
        import torch

        if self.columns == 1:
            ahead = outputs[..., 0]
            loss = torch.nn.functional.softplus(ahead) - ahead * self.right[..., 0]
            return loss, outputs.sigmoid() - self.right
        masked = outputs.masked_fill(~self.seen, -torch.inf)
        log = masked.log_softmax(-1)
        index = self.labels[None, :, None, None].expand(*log.shape[:3], 1)
        return -log.gather(-1, index)[..., 0], log.exp() - self.right

    def held_out(self, at: torch.Tensor) -> torch.Tensor:
        """Mean loss of the rows outside each problem whose class it has seen, shape (layers,)."""
        import torch

        loss, _ = self._said(self.outputs(at))
        counted = self.held & self.seen[:, self.labels].T
        total = torch.where(counted, loss, 0.0).sum((1, 2), dtype=torch.float64)
        return total / counted.sum().clamp(min=1)

    def _value(self, at: torch.Tensor, loss: torch.Tensor, penalty: torch.Tensor) -> torch.Tensor:
        import torch

        mean = torch.where(self.held, 0.0, loss).mul_(self.share).sum(1, dtype=torch.float64)
        return mean + penalty / 2 * at[:, :-1].square().sum((1, 3))

    def _gradient(self, at: torch.Tensor, residual: torch.Tensor, penalty: torch.Tensor) -> torch.Tensor:
        import torch

        wrong = (residual * self.share[..., None]).flatten(2)
        inner = (self.turn.mT @ (self.rows.mT @ wrong)).double().view_as(at[:, :-1])
        inner += penalty[:, None, :, None] * at[:, :-1]
        ends = wrong.sum(1, dtype=torch.float64).view_as(at[:, -1])
        return torch.cat([inner, ends[:, None]], dim=1)

    def point(self, at: torch.Tensor, penalty: torch.Tensor) -> _Point:
        """Look at everything anew."""
        outputs = self.outputs(at)
        loss, residual = self._said(outputs)
        return _Point(
            at=at,
            outputs=outputs,
            value=self._value(at, loss, penalty),
            gradient=self._gradient(at, residual, penalty),
        )

    def solve(
        self, at: torch.Tensor, penalties: list[float], tolerance: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Go on from a point until every problem is solved.

        Parameters
        ----------
        at : Tensor of shape (layers, rank + 1, problems, columns), float64
        penalties : list of float
            One a layer.
        tolerance : float

        Returns
        -------
        at : Tensor
        done : Tensor of bool of shape (layers,)
            Whether all problems of a layer got there.
        """
        import torch

        strong = torch.tensor(penalties, dtype=torch.float64, device=at.device)[:, None] / self.sizes
        here = self.point(at, strong)
        curvature = self._curvature(here.outputs, strong)
        past: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        done = self._flat(here, tolerance)
        stuck = torch.zeros_like(done)
        for _ in range(STEPS):
            if bool((done | stuck).all()):
                break
            direction = _direction(here.gradient, past, *curvature)
            moving = ~(done | stuck)
            direction *= moving[:, None, :, None]
            there, failed = self._step(here, direction, strong, moving)
            moved, turned = there.at - here.at, there.gradient - here.gradient
            curve = (moved * turned).sum((1, 3))
            past.append((moved, turned, torch.where(curve > 0, 1 / curve, 0.0)))
            del past[:-MEMORY]
            here, stuck = there, stuck | failed
            done = self._flat(here, tolerance)
        return here.at, done.all(1)

    def _flat(self, here: _Point, tolerance: float) -> torch.Tensor:
        return here.gradient.abs().amax((1, 3)) <= tolerance

    def _curvature(self, outputs: torch.Tensor, strong: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Guess the curvature: that of the loss among the classes, times the variance along each axis.

        Returns
        -------
        mixed : Tensor of shape (layers, problems, columns, columns)
            Axes among the classes: moving all of them together changes no answer.
        inverse : Tensor of shape (layers, rank + 1, problems, columns)
            One over the curvature along each pair of axes.
        """
        import torch

        _, residual = self._said(outputs)
        shares = (residual + self.right).transpose(1, 2)
        weighted = shares * self.share.T[..., None]
        bend = torch.diag_embed(weighted.sum(2)) - weighted.mT @ shares
        values, mixed = torch.linalg.eigh(bend.double())
        values = values.clamp_min(0)
        inner = self.spread.double()[:, :, None, None] * values[:, None] + strong[:, None, :, None]
        ends = torch.where(values > 1e-9, 1 / values, 0.0)
        return mixed, torch.cat([1 / inner, ends[:, None]], dim=1)

    def _step(
        self, here: _Point, direction: torch.Tensor, strong: torch.Tensor, moving: torch.Tensor
    ) -> tuple[_Point, torch.Tensor]:
        """
        Go as far along a direction as it pays, each problem on its own.

        The loss is convex, so its slope along the direction says on which side the best length lies.
        """
        import torch

        change = self.outputs(direction)
        slope0 = (here.gradient * direction).sum((1, 3))
        length = torch.ones_like(slope0)
        low, low_slope = torch.zeros_like(slope0), slope0.clone()
        high, high_slope = torch.full_like(slope0, torch.inf), torch.zeros_like(slope0)
        fine, residual, value = ~moving, torch.zeros_like(here.outputs), here.value
        noise = torch.finfo(self.rows.dtype).eps * here.value.abs()
        at, outputs = here.at, here.outputs
        for _ in range(LENGTHS):
            at = here.at + length[:, None, :, None] * direction
            outputs = here.outputs + (length[:, None, :, None] * change).to(here.outputs.dtype)
            loss, residual = self._said(outputs)
            value = self._value(at, loss, strong)
            slope = (residual * change * self.share[..., None]).sum((1, 3), dtype=torch.float64)
            slope += strong * (at[:, :-1] * direction[:, :-1]).sum((1, 3))
            lower = value <= here.value + 1e-4 * length * slope0 + noise
            fine = ~moving | (lower & (slope.abs() <= 0.5 * slope0.abs()))
            if bool(fine.all()):
                break
            left = slope < 0
            low, low_slope = torch.where(left, length, low), torch.where(left, slope, low_slope)
            high, high_slope = torch.where(left, high, length), torch.where(left, high_slope, slope)
            share = (low_slope / (low_slope - high_slope)).nan_to_num(0.5).clamp(0.1, 0.9)
            inside = low + share * (high - low)
            length = torch.where(fine, length, torch.where(high.isinf(), 4 * length, inside))
        # What is no better than before stays where it was.
        worse = moving & ~fine & ~(value < here.value)
        keep = worse[:, None, :, None]
        at = torch.where(keep, here.at, at)
        outputs = torch.where(keep, here.outputs, outputs)
        found = self._gradient(at, residual, strong)
        gradient = torch.where(keep, here.gradient, found)
        there = _Point(at=at, outputs=outputs, value=torch.where(worse, here.value, value), gradient=gradient)
        return there, worse


def _direction(
    gradient: torch.Tensor, past: list[Any], mixed: torch.Tensor, inverse: torch.Tensor
) -> torch.Tensor:
    """Where to go: minus the gradient, bent by what the last steps told of the curvature (L-BFGS)."""
    found, shares = gradient.clone(), []
    for moved, turned, inverse_curve in reversed(past):
        share = inverse_curve * (moved * found).sum((1, 3))
        found -= share[:, None, :, None] * turned
        shares.append(share)
    along = (found.transpose(1, 2) @ mixed) * inverse.transpose(1, 2)
    found = (along @ mixed.mT).transpose(1, 2)
    for (moved, turned, inverse_curve), share in zip(past, reversed(shares), strict=True):
        back = inverse_curve * (turned * found).sum((1, 3))
        found = found + (share - back)[:, None, :, None] * moved
    return -found
