"""Hessian approximations of the logistic loss: Kronecker-factored, block-diagonal and subsampled.

The Kronecker estimate is the curvature among the classes times that among the features. It is rough near the
solution, where most rows are classified with confidence and contribute little to the Hessian. There, Newton's
equation is solved with a subsample of some thousands of uncertain rows.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from ...lazy import torch
from .parallel import in_parts

ROUNDING = 1e-9  # relative threshold: shifting all classes together changes no prediction
JITTER = 1e-5  # added to the diagonal, relative to its largest entry
EVEN = 0.1  # share of the subsample that is uniform over all rows
LEFT = 0.2  # relative residual at which conjugate gradients stop
BLOCK_ROWS = 8192  # rows used for the block-diagonal Hessian
BLOCK_FEATURES = 256  # features up to which it is used; its cost grows with their square
PRODUCTS = 40  # maximum number of Hessian-vector products per Newton equation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guess:
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
class Blocks:
    """
    Block-diagonal Hessian: the curvature of each class with the others held fixed.

    Parameters
    ----------
    inverse : Tensor of shape (layers, problems, columns, features + 1, features + 1)
        Inverse Hessian of each class, intercepts last.
    """

    inverse: torch.Tensor

    def solve(self, gradient: torch.Tensor) -> torch.Tensor:
        """Divide a gradient, shape (layers, features + 1, problems, columns), by the curvature."""
        return (self.inverse @ gradient.permute(0, 2, 3, 1)[..., None])[..., 0].permute(0, 3, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
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
    guess : Guess
        Preconditioner.
    blocks : Blocks, optional
        Second preconditioner, added to the first.
    pool : Executor, optional
        Threads that process chunks of rows.
    """

    rows: torch.Tensor
    shares: torch.Tensor
    weight: torch.Tensor
    strong: torch.Tensor
    guess: Guess
    blocks: Blocks | None
    pool: Executor | None

    def product(self, at: torch.Tensor) -> torch.Tensor:
        """Hessian-vector product with a direction of shape (layers, features + 1, problems, columns)."""

        def work(part: slice) -> tuple[torch.Tensor, torch.Tensor]:
            rows = self.rows[:, part]
            out = _bent(outputs_of(rows, at), self.shares[:, part]) * self.weight[:, part, :, None]
            return (out.flatten(2).mT @ rows).double(), out.sum(1, dtype=torch.float64)

        sums = zip(*in_parts(self.pool, self.rows, work), strict=True)
        inner, ends = (torch.stack(part_sums).sum(0) for part_sums in sums)
        inner = inner.mT.reshape_as(at[:, :-1]) + self.strong[:, None, :, None] * at[:, :-1]
        return torch.cat([inner, ends[:, None]], dim=1)

    def solve(self, gradient: torch.Tensor) -> torch.Tensor:
        """Divide a gradient by the curvature, by preconditioned conjugate gradients."""
        solution, residual = torch.zeros_like(gradient), gradient.clone()
        step = self._near(residual)
        length = dot(residual, step)
        first = length.clone()
        for _ in range(PRODUCTS):
            if bool((length <= LEFT**2 * first).all()):
                break
            turned = self.product(step)
            share = _ratio(length, dot(step, turned))[:, None, :, None]
            solution += share * step
            residual -= share * turned
            preconditioned = self._near(residual)
            new = dot(residual, preconditioned)
            step = preconditioned + _ratio(new, length)[:, None, :, None] * step
            length = new
        return solution

    def _near(self, gradient: torch.Tensor) -> torch.Tensor:
        preconditioned = self.guess.solve(gradient)
        return preconditioned if self.blocks is None else preconditioned + self.blocks.solve(gradient)


def guessed(rows: torch.Tensor, shares: torch.Tensor, weight: torch.Tensor, strong: torch.Tensor) -> Guess:
    """
    Estimate the Kronecker-factored Hessian, with rows weighted by their curvature.

    Parameters
    ----------
    rows : Tensor of shape (layers, m, features)
    shares : Tensor of shape (layers, m, problems, columns)
        Probability of each class.
    weight : Tensor of shape (m, problems) or (layers, m, problems)
    strong : Tensor of shape (layers, problems)
        Penalty on the scale of the mean loss.

    Returns
    -------
    Guess
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
    alive = values > ROUNDING * values[..., -1:]
    inverse = torch.where(alive, torch.cat([inner, 1 / values], dim=1), 0.0)
    return Guess(center=center.double(), axes=axes, mixed=mixed, inverse=inverse)


def class_blocks(
    rows: torch.Tensor, shares: torch.Tensor, weight: torch.Tensor, strong: torch.Tensor
) -> Blocks:
    """
    Compute the block-diagonal Hessian, one block per class.

    Parameters
    ----------
    rows, shares, weight, strong
        As in `guessed`, with weights of shape (layers, m, problems).

    Returns
    -------
    Blocks
    """
    bend = shares * (1 - shares) * weight[..., None]
    wide = torch.nn.functional.pad(rows, (0, 1), value=1.0)
    size = wide.shape[-1]
    hessians = torch.empty(
        (*strong.shape, shares.shape[-1], size, size), dtype=torch.float64, device=rows.device
    )
    for problem in range(shares.shape[2]):
        for column in range(shares.shape[3]):
            hessians[:, problem, column] = (wide * bend[:, :, problem, column, None]).mT @ wide
    along = hessians.diagonal(dim1=-2, dim2=-1)
    along[..., :-1] += strong[..., None, None]
    # Rounding in float32 may give negative eigenvalues, and a class without uncertain rows has no curvature.
    along += JITTER * along.amax(-1, keepdim=True).clamp_min(ROUNDING)
    return Blocks(inverse=torch.cholesky_inverse(torch.linalg.cholesky(hessians)))


def told(
    rows: torch.Tensor,
    shares: torch.Tensor,
    weight: torch.Tensor,
    strong: torch.Tensor,
    count: int,
    pool: Executor | None = None,
) -> Told:
    """
    Subsample rows by their curvature, with importance weights; all rows where there are at most `count`.

    Parameters
    ----------
    rows : Tensor of shape (layers, rows, features)
    shares : Tensor of shape (layers, rows, problems, columns)
    weight : Tensor of shape (rows, problems)
    strong : Tensor of shape (layers, problems)
    count : int
        Size of the subsample.
    pool : Executor, optional

    Returns
    -------
    Told
    """
    if rows.shape[1] <= count:
        return _asked(rows, shares, weight.expand(len(rows), -1, -1), strong, pool)
    unsure = (_unsure(shares) * weight).sum(-1).sqrt()
    chance = (1 - EVEN) * unsure / unsure.sum(1, keepdim=True) + EVEN / rows.shape[1]
    # Systematic sampling along the cumulative probabilities: deterministic, with the same expectation.
    ends = chance.cumsum(1, dtype=torch.float64)
    marks = (torch.arange(count, device=rows.device, dtype=torch.float64) + 0.5) / count
    indices = torch.searchsorted(ends, ends[:, -1:] * marks).clamp_max_(rows.shape[1] - 1)
    picked = torch.stack([layer[layer_indices] for layer, layer_indices in zip(rows, indices, strict=True)])
    picked_shares = torch.stack(
        [layer_shares[layer_indices] for layer_shares, layer_indices in zip(shares, indices, strict=True)]
    )
    picked_weight = weight[indices] / (count * chance.gather(1, indices))[..., None]
    return _asked(picked, picked_shares, picked_weight, strong, pool)


def _asked(
    rows: torch.Tensor,
    shares: torch.Tensor,
    weight: torch.Tensor,
    strong: torch.Tensor,
    pool: Executor | None,
) -> Told:
    blocks, stride = None, max(1, rows.shape[1] // BLOCK_ROWS)
    if rows.shape[2] <= BLOCK_FEATURES:
        blocks = class_blocks(rows[:, ::stride], shares[:, ::stride], stride * weight[:, ::stride], strong)
    guess = guessed(rows, shares, weight, strong)
    return Told(rows=rows, shares=shares, weight=weight, strong=strong, guess=guess, blocks=blocks, pool=pool)


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
