"""Hessian approximations of the logistic loss: Kronecker-factored and subsampled.

The Kronecker estimate is the curvature among the classes times that among the features. It is rough near the
solution, where most rows are classified with confidence and contribute little to the Hessian. There, Newton's
equation is solved with a subsample of some thousands of uncertain rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ...lazy import torch

Part = TypeVar("Part")

PART = 4096  # rows per chunk, so that intermediate results fit in the cache
FAR = 1 << 18  # the same on other devices than the CPU
EVEN = 0.1  # share of the subsample that is uniform over all rows
LEFT = 0.2  # relative residual at which conjugate gradients stop
PRODUCTS = 40  # maximum number of Hessian-vector products per Newton equation
ROUNDING = 1e2  # times the precision: shifting all classes together changes no prediction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kronecker:
    """
    Kronecker-factored Hessian: curvature among the classes times that among the features.

    Parameters
    ----------
    center : Tensor of shape (layers, features, 1)
        Mean of the rows, weighted by their curvature: around it, weights and intercepts decouple.
    axes : Tensor of shape (layers, features, features)
        Principal axes around the center, as columns.
    mixed : Tensor of shape (layers, problems, columns, columns)
        Eigenvectors among the classes.
    inverse : Tensor of shape (layers, features + 1, problems, columns)
        Inverse curvature along each pair of axes, intercepts last.
    """

    center: torch.Tensor
    axes: torch.Tensor
    mixed: torch.Tensor
    inverse: torch.Tensor

    def solve(self, gradient: torch.Tensor) -> torch.Tensor:
        """Divide a gradient, shape (layers, features + 1, problems, columns), by the curvature."""
        flat = gradient.flatten(2)
        inner = self.axes.mT @ (flat[:, :-1] - self.center * flat[:, -1:])
        turned = torch.cat([inner, flat[:, -1:]], dim=1).view_as(gradient)
        along = (turned.transpose(1, 2) @ self.mixed) * self.inverse.transpose(1, 2)
        back = (along @ self.mixed.mT).transpose(1, 2).flatten(2)
        inner = self.axes @ back[:, :-1]
        ends = back[:, -1:] - self.center.mT @ inner
        return torch.cat([inner, ends], dim=1).view_as(gradient)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampled:
    """
    Hessian of a weighted subsample of rows.

    Parameters
    ----------
    rows : Tensor of shape (layers, m, features)
    shares : Tensor of shape (layers, m, problems, columns)
        Probability of each class.
    weight : Tensor of shape (layers, m, problems)
        Importance weight of each row.
    strong : Tensor of shape (layers, problems)
        Penalty on the scale of the mean loss.
    preconditioner : Kronecker
    """

    rows: torch.Tensor
    shares: torch.Tensor
    weight: torch.Tensor
    strong: torch.Tensor
    preconditioner: Kronecker

    def product(self, at: torch.Tensor) -> torch.Tensor:
        """Hessian-vector product with a direction of shape (layers, features + 1, problems, columns)."""

        def work(part: slice) -> tuple[torch.Tensor, torch.Tensor]:
            rows = self.rows[:, part]
            out = _bent(outputs_of(rows, at), self.shares[:, part]) * self.weight[:, part, :, None]
            return (out.flatten(2).mT @ rows).double(), out.sum(1, dtype=torch.float64)

        sums = zip(*in_parts(self.rows, work), strict=True)
        inner, ends = (torch.stack(part_sums).sum(0) for part_sums in sums)
        inner = inner.mT.reshape_as(at[:, :-1]) + self.strong[:, None, :, None] * at[:, :-1]
        return torch.cat([inner, ends[:, None]], dim=1)

    def solve(self, gradient: torch.Tensor) -> torch.Tensor:
        """Divide a gradient by the curvature, by preconditioned conjugate gradients."""
        solution, residual = torch.zeros_like(gradient), gradient.clone()
        step = self.preconditioner.solve(residual)
        length = dot(residual, step)
        first = length.clone()
        for _ in range(PRODUCTS):
            if bool((length <= LEFT**2 * first).all()):
                break
            turned = self.product(step)
            share = _ratio(length, dot(step, turned))[:, None, :, None]
            solution += share * step
            residual -= share * turned
            preconditioned = self.preconditioner.solve(residual)
            new = dot(residual, preconditioned)
            step = preconditioned + _ratio(new, length)[:, None, :, None] * step
            length = new
        return solution


def kronecker(
    rows: torch.Tensor, shares: torch.Tensor, weight: torch.Tensor, strong: torch.Tensor
) -> Kronecker:
    """
    Estimate the Kronecker-factored Hessian, with rows weighted by their curvature.

    Parameters
    ----------
    rows : Tensor of shape (layers, rows, features)
    shares : Tensor of shape (layers, rows, problems, columns)
        Probability of each class.
    weight : Tensor of shape (rows, problems) or (layers, rows, problems)
    strong : Tensor of shape (layers, problems)
        Penalty on the scale of the mean loss.

    Returns
    -------
    Kronecker
    """
    weighted = (shares * weight[..., None]).transpose(1, 2)
    classes = torch.diag_embed(weighted.sum(2)) - weighted.mT @ shares.transpose(1, 2)
    heavy = (_unsure(shares) * weight).sum(-1, keepdim=True)
    heavy = heavy / heavy.sum(1, keepdim=True)
    center = rows.mT @ heavy
    features = rows.mT @ (rows * heavy) - center @ center.mT
    values, mixed = torch.linalg.eigh(classes.double())
    spread, axes = torch.linalg.eigh(features.double())
    values = values.clamp_min(0)[:, None]
    inner = 1 / (spread.clamp_min(0)[:, :, None, None] * values + strong[:, None, :, None])
    # A common shift of all classes has no curvature, and its gradient is rounding error.
    alive = values > ROUNDING * torch.finfo(rows.dtype).eps * values[..., -1:]
    inverse = torch.where(alive, torch.cat([inner, 1 / values], dim=1), 0.0)
    return Kronecker(center=center.double(), axes=axes, mixed=mixed, inverse=inverse)


def sampled(
    rows: torch.Tensor,
    shares: torch.Tensor,
    weight: torch.Tensor,
    strong: torch.Tensor,
    count: int,
) -> Sampled:
    """
    Subsample rows by their curvature, with importance weights.

    Parameters
    ----------
    rows : Tensor of shape (layers, rows, features)
    shares : Tensor of shape (layers, rows, problems, columns)
    weight : Tensor of shape (rows, problems)
    strong : Tensor of shape (layers, problems)
    count : int
        Size of the subsample.

    Returns
    -------
    Sampled
    """
    unsure = (_unsure(shares) * weight).sum(-1).sqrt()
    chance = (1 - EVEN) * unsure / unsure.sum(1, keepdim=True) + EVEN / rows.shape[1]
    # Systematic sampling along the cumulative probabilities: deterministic, with the same expectation.
    ends = chance.cumsum(1, dtype=torch.float64)
    marks = (torch.arange(count, device=rows.device, dtype=torch.float64) + 0.5) / count
    indices = torch.searchsorted(ends, ends[:, -1:] * marks).clamp_max_(rows.shape[1] - 1)
    layers = torch.arange(len(rows), device=rows.device)[:, None]
    rows, shares = rows[layers, indices], shares[layers, indices]
    weight = weight[indices] / (count * chance.gather(1, indices))[..., None]
    preconditioner = kronecker(rows, shares, weight, strong)
    return Sampled(rows=rows, shares=shares, weight=weight, strong=strong, preconditioner=preconditioner)


def in_parts(rows: torch.Tensor, work: Callable[[slice], Part]) -> list[Part]:
    """Apply a function to chunks of rows, shape (layers, rows, ...), in their order."""
    step = PART if rows.device.type == "cpu" else FAR
    return [work(slice(begin, begin + step)) for begin in range(0, rows.shape[1], step)]


def outputs_of(rows: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Multiply rows with weights and intercepts, shape (layers, rows, problems, columns)."""
    flat = at.to(rows.dtype).flatten(2)
    outputs = torch.baddbmm(flat[:, -1:], rows, flat[:, :-1])
    return outputs.view(*outputs.shape[:2], *at.shape[2:])


def dot(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Inner products of directions, one per layer and problem."""
    return (one * other).sum((1, 3))


def _bent(out: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Derivative of the probabilities along a change of the outputs."""
    moved = out * shares
    if shares.shape[-1] == 1:
        return moved * (1 - shares)
    return moved - shares * moved.sum(-1, keepdim=True)


def _unsure(shares: torch.Tensor) -> torch.Tensor:
    return (shares * (1 - shares)).sum(-1)


def _ratio(numerator: torch.Tensor, denominator: torch.Tensor) -> torch.Tensor:
    """Divide, with 0 where the denominator is not positive."""
    return torch.where(denominator > 0, numerator / denominator, 0.0)
