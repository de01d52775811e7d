"""How does the loss of a logistic regression bend? Guessed from all rows, or told by those that are unsure.

The guess is the curvature among the classes times that among the features. Near the answer it is rough: most
rows are sure of their class there and hardly bend the loss. Some thousands of the others tell what the
curvature is, and Newton's equation is solved with them alone.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .threads import in_parts

if TYPE_CHECKING:
    import torch

ROUNDING = 1e-9  # of the curvature among classes: moving all of them together changes no answer
JITTER = 1e-5  # of the largest curvature of a class
EVEN = 0.1  # of the rows that tell the curvature are taken whether they are sure or not
LEFT = 0.2  # of an equation's error may stay
BLOCK_ROWS = 8192  # that tell the curvature of each class on its own
BLOCK_FEATURES = 256  # up to which that is worth its cost, which grows with their square
PRODUCTS = 40  # that are spent on one equation at most


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guess:
    """
    Curvature as that among the classes times that among the features.

    Parameters
    ----------
    center : Tensor of shape (layers, features, 1)
        Of the rows that bend the loss: around it, weights and intercepts do not depend on each other.
    axes : Tensor of shape (layers, features, features)
        Principal ones around it, as columns.
    mixed : Tensor of shape (layers, problems, columns, columns)
        Axes among the classes.
    inverse : Tensor of shape (layers, features + 1, problems, columns)
        One over the curvature along each pair of axes, intercepts last.
    """

    center: torch.Tensor
    axes: torch.Tensor
    mixed: torch.Tensor
    inverse: torch.Tensor

    def solve(self, gradient: torch.Tensor) -> torch.Tensor:
        """Divide a gradient, shape (layers, features + 1, problems, columns), by the curvature."""
        import torch

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
    Curvature of each class on its own, as if the others did not move.

    Parameters
    ----------
    inverse : Tensor of shape (layers, problems, columns, features + 1, features + 1)
        One over it, intercepts last.
    """

    inverse: torch.Tensor

    def solve(self, gradient: torch.Tensor) -> torch.Tensor:
        """Divide a gradient, shape (layers, features + 1, problems, columns), by the curvature."""
        return (self.inverse @ gradient.permute(0, 2, 3, 1)[..., None])[..., 0].permute(0, 3, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """
    Curvature as some rows tell it.

    Parameters
    ----------
    rows : Tensor of shape (layers, m, features)
    shares : Tensor of shape (layers, m, problems, columns)
        Probability of each class.
    weight : Tensor of shape (layers, m, problems)
        How much each row stands for.
    strong : Tensor of shape (layers, problems)
        Penalty of the mean loss.
    guess : Guess
        That the equations are solved with.
    blocks : Blocks, optional
        Likewise: what one of both misses, the other has.
    pool : Executor, optional
        Threads to share the rows.
    """

    rows: torch.Tensor
    shares: torch.Tensor
    weight: torch.Tensor
    strong: torch.Tensor
    guess: Guess
    blocks: Blocks | None
    pool: Executor | None

    def product(self, at: torch.Tensor) -> torch.Tensor:
        """Multiply the curvature with a direction, shape (layers, features + 1, problems, columns)."""
        import torch

        def work(part: slice) -> tuple[torch.Tensor, torch.Tensor]:
            rows = self.rows[:, part]
            out = _bent(outputs_of(rows, at), self.shares[:, part]) * self.weight[:, part, :, None]
            return (out.flatten(2).mT @ rows).double(), out.sum(1, dtype=torch.float64)

        sums = zip(*in_parts(self.pool, self.rows, work), strict=True)
        inner, ends = (torch.stack(each).sum(0) for each in sums)
        inner = inner.mT.reshape_as(at[:, :-1]) + self.strong[:, None, :, None] * at[:, :-1]
        return torch.cat([inner, ends[:, None]], dim=1)

    def solve(self, gradient: torch.Tensor) -> torch.Tensor:
        """Divide a gradient by the curvature, by conjugate gradients."""
        import torch

        found, left = torch.zeros_like(gradient), gradient.clone()
        step = self._near(left)
        length = dot(left, step)
        first = length.clone()
        for _ in range(PRODUCTS):
            if bool((length <= LEFT**2 * first).all()):
                break
            turned = self.product(step)
            share = _ratio(length, dot(step, turned))[:, None, :, None]
            found += share * step
            left -= share * turned
            near = self._near(left)
            new = dot(left, near)
            step = near + _ratio(new, length)[:, None, :, None] * step
            length = new
        return found

    def _near(self, gradient: torch.Tensor) -> torch.Tensor:
        found = self.guess.solve(gradient)
        return found if self.blocks is None else found + self.blocks.solve(gradient)


def guessed(rows: torch.Tensor, shares: torch.Tensor, weight: torch.Tensor, strong: torch.Tensor) -> Guess:
    """
    Guess the curvature, each row of features counted as much as it bends the loss.

    Parameters
    ----------
    rows : Tensor of shape (layers, m, features)
    shares : Tensor of shape (layers, m, problems, columns)
        Probability of each class.
    weight : Tensor of shape (m, problems) or (layers, m, problems)
    strong : Tensor of shape (layers, problems)
        Penalty of the mean loss.

    Returns
    -------
    Guess
    """
    import torch

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
    # Classes that move together have no curvature, and a gradient by rounding alone.
    alive = values > ROUNDING * values[..., -1:]
    inverse = torch.where(alive, torch.cat([inner, 1 / values], dim=1), 0.0)
    return Guess(center=center.double(), axes=axes, mixed=mixed, inverse=inverse)


def class_blocks(
    rows: torch.Tensor, shares: torch.Tensor, weight: torch.Tensor, strong: torch.Tensor
) -> Blocks:
    """
    Measure the curvature of each class on its own.

    Parameters
    ----------
    rows, shares, weight, strong
        As in `guessed`, the weight for each layer.

    Returns
    -------
    Blocks
    """
    import torch

    bend = shares * (1 - shares) * weight[..., None]
    wide = torch.nn.functional.pad(rows, (0, 1), value=1.0)
    size = wide.shape[-1]
    found = torch.empty(
        (*strong.shape, shares.shape[-1], size, size), dtype=torch.float64, device=rows.device
    )
    for problem in range(shares.shape[2]):
        for column in range(shares.shape[3]):
            found[:, problem, column] = (wide * bend[:, :, problem, column, None]).mT @ wide
    along = found.diagonal(dim1=-2, dim2=-1)
    along[..., :-1] += strong[..., None, None]
    # What products in float32 round off may be below 0, and a class that no row is unsure of bends nothing.
    along += JITTER * along.amax(-1, keepdim=True).clamp_min(ROUNDING)
    return Blocks(inverse=torch.cholesky_inverse(torch.linalg.cholesky(found)))


def told(
    rows: torch.Tensor,
    shares: torch.Tensor,
    weight: torch.Tensor,
    strong: torch.Tensor,
    count: int,
    pool: Executor | None = None,
) -> Told:
    """
    Take the rows that bend the loss most, each for those that it stands for; all where there are no more.

    Parameters
    ----------
    rows : Tensor of shape (layers, rows, features)
    shares : Tensor of shape (layers, rows, problems, columns)
    weight : Tensor of shape (rows, problems)
    strong : Tensor of shape (layers, problems)
    count : int
        How many are taken.
    pool : Executor, optional

    Returns
    -------
    Told
    """
    import torch

    if rows.shape[1] <= count:
        return _asked(rows, shares, weight.expand(len(rows), -1, -1), strong, pool)
    unsure = (_unsure(shares) * weight).sum(-1).sqrt()
    chance = (1 - EVEN) * unsure / unsure.sum(1, keepdim=True) + EVEN / rows.shape[1]
    # Evenly spaced along the summed chances: as good as drawn, and the same every time.
    ends = chance.cumsum(1, dtype=torch.float64)
    marks = (torch.arange(count, device=rows.device, dtype=torch.float64) + 0.5) / count
    place = torch.searchsorted(ends, ends[:, -1:] * marks).clamp_max_(rows.shape[1] - 1)
    picked = torch.stack([layer[own] for layer, own in zip(rows, place, strict=True)])
    near = torch.stack([layer[own] for layer, own in zip(shares, place, strict=True)])
    stands = weight[place] / (count * chance.gather(1, place))[..., None]
    return _asked(picked, near, stands, strong, pool)


def _asked(
    rows: torch.Tensor,
    shares: torch.Tensor,
    weight: torch.Tensor,
    strong: torch.Tensor,
    pool: Executor | None,
) -> Told:
    blocks, every = None, max(1, rows.shape[1] // BLOCK_ROWS)
    if rows.shape[2] <= BLOCK_FEATURES:
        blocks = class_blocks(rows[:, ::every], shares[:, ::every], every * weight[:, ::every], strong)
    guess = guessed(rows, shares, weight, strong)
    return Told(rows=rows, shares=shares, weight=weight, strong=strong, guess=guess, blocks=blocks, pool=pool)


def outputs_of(rows: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Multiply rows with weights and intercepts, shape (layers, rows, problems, columns)."""
    import torch

    flat = at.to(rows.dtype).flatten(2)
    found = torch.baddbmm(flat[:, -1:], rows, flat[:, :-1])
    return found.view(*found.shape[:2], *at.shape[2:])


def dot(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Inner product of directions, one a layer and problem."""
    return (one * other).sum((1, 3))


def _bent(out: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """How probabilities change when the outputs do."""
    moved = out * shares
    if shares.shape[-1] == 1:
        return moved * (1 - shares)
    return moved - shares * moved.sum(-1, keepdim=True)


def _unsure(shares: torch.Tensor) -> torch.Tensor:
    return (shares * (1 - shares)).sum(-1)


def _ratio(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Nothing where nothing is left to divide by."""
    import torch

    return torch.where(other > 0, one / other, 0.0)
