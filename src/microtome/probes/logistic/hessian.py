"""Kronecker-factored curvature of the logistic loss, to precondition its minimization."""

from __future__ import annotations

from dataclasses import dataclass

from ...lazy import torch

AXES = 16_384  # maximum number of rows that principal axes are computed from
ROUNDING = 1e2  # times the precision: shifting all classes together changes no prediction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kronecker:
    """
    Kronecker-factored Hessian: curvature among the classes times that among the features.

    Parameters
    ----------
    axes : Tensor of shape (layers, features, features)
        Principal axes of the features, as columns.
    mixed : Tensor of shape (layers, problems, columns, columns)
        Eigenvectors among the classes.
    inverse : Tensor of shape (layers, problems, columns, features + 1)
        Inverse curvature along each pair of axes, intercepts last.
    """

    axes: torch.Tensor
    mixed: torch.Tensor
    inverse: torch.Tensor

    def solve(self, gradient: torch.Tensor) -> torch.Tensor:
        """Divide a gradient, shape (layers, problems, columns, features + 1), by the curvature."""
        along = self.mixed.mT @ _turned(gradient, self.axes) * self.inverse
        return self.mixed @ _turned(along, self.axes.mT)


def principal_axes(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Variances, shape (layers, features), and axes, as columns, of standardized rows, in float64."""
    some = rows[:, :: -(-rows.shape[1] // AXES)]
    variances, axes = torch.linalg.eigh((some.mT @ some).double() / some.shape[1])
    return variances.clamp_min(0), axes


def kronecker(
    axes: tuple[torch.Tensor, torch.Tensor], shares: torch.Tensor, weight: torch.Tensor, strong: torch.Tensor
) -> Kronecker:
    """
    Estimate the Kronecker-factored Hessian.

    Parameters
    ----------
    axes
        As `principal_axes` returns them.
    shares : Tensor of shape (layers, problems, columns, rows)
        Probability of each class.
    weight : Tensor of shape (problems, rows)
    strong : Tensor of shape (layers, problems)
        Penalty on the scale of the mean loss.

    Returns
    -------
    Kronecker
    """
    weighted = shares * weight[..., None, :]
    classes = torch.diag_embed(weighted.sum(-1)) - weighted @ shares.mT
    values, mixed = torch.linalg.eigh(classes.double())
    values = values.clamp_min(0)[..., None]
    inner = 1 / (axes[0][:, None, None] * values + strong[..., None, None])
    # A common shift of all classes has no curvature, and its gradient is rounding error.
    alive = values > ROUNDING * torch.finfo(shares.dtype).eps * values[:, :, -1:]
    inverse = torch.where(alive, torch.cat([inner, 1 / values], dim=-1), 0.0)
    return Kronecker(axes=axes[1], mixed=mixed, inverse=inverse)


def _turned(at: torch.Tensor, axes: torch.Tensor) -> torch.Tensor:
    """Multiply the weights, but not the intercepts, with axes of shape (layers, features, features)."""
    inner = (at[..., :-1].flatten(1, 2) @ axes).view(*at.shape[:3], -1)
    return torch.cat([inner, at[..., -1:]], dim=-1)
