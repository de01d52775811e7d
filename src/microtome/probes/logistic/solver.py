"""L-BFGS solver for the logistic regressions of many layers and folds.

Each layer has one problem per fold. The rows of a layer are multiplied with the weights of all its problems
at once, in chunks of rows that fit in the cache. Weights and directions have the shape (layers, problems,
columns, features + 1), intercepts last, and are float64 whatever the rows are.
"""

from __future__ import annotations

from collections.abc import Callable

from ...lazy import torch
from .hessian import Kronecker, kronecker

PART = 1 << 20  # numbers per chunk of rows
FAR = 1 << 27  # the same on other devices than the CPU
MEMORY = 40  # steps in the L-BFGS history
STEPS = 1000  # maximum number of iterations
LENGTHS = 25  # maximum number of step lengths tried in a line search
ASKED = 6  # steps between two checks whether a fit is hopeless
SHUT = -1e30  # output of a class absent from the training rows of a problem


class Problems:
    """
    Logistic regressions on the same rows, one per layer and fold, with the tensors they share.

    Parameters
    ----------
    rows : Tensor of shape (layers, rows, features)
        Standardized features.
    labels : Tensor of int of shape (rows,)
    classes : int
        Two classes share one column of weights; more classes have one column each.
    fold : Tensor of int of shape (rows,), optional
        One problem per fold, fitted on the rows of the other folds; a single one on all rows when absent.
    axes : tuple of Tensor, optional
        Of `principal_axes`: steps are preconditioned with them.
    """

    def __init__(
        self,
        rows: torch.Tensor,
        labels: torch.Tensor,
        classes: int,
        fold: torch.Tensor | None = None,
        axes: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        self.rows, self.labels, self.axes = rows, labels, axes
        self.classes, self.columns = classes, 1 if classes == 2 else classes
        count = 1 if fold is None else int(fold.max()) + 1
        fold_numbers = torch.arange(count, device=rows.device)
        self.held = (
            fold[:, None] == fold_numbers if fold is not None else torch.zeros_like(labels[:, None]) > 0
        )
        self.sizes = (~self.held).sum(0).double()
        self.share = ((~self.held).double() / self.sizes).T.to(rows.dtype).contiguous()
        one_hot = torch.nn.functional.one_hot(labels, classes)
        # A class without training rows is left out of a problem.
        self.seen = (~self.held).T.double() @ one_hot.double() > 0
        self.right = (one_hot[:, 1:] if classes == 2 else one_hot).T.to(rows.dtype).contiguous()

    def start(self) -> torch.Tensor:
        """Zero weights, with intercepts that give the class frequencies."""
        initial = torch.zeros(
            (len(self.rows), len(self.sizes), self.columns, self.rows.shape[2] + 1),
            dtype=torch.float64,
            device=self.rows.device,
        )
        shares = self.share.double() @ self.right.T.double()
        if self.columns == 1:
            # If one of two classes is missing, the intercept of the other stays finite.
            initial[..., -1] = torch.logit(shares.clamp(1e-6, 1 - 1e-6))
        else:
            initial[..., -1] = torch.where(self.seen, shares.clamp_min(1e-12).log(), 0.0)
        return initial

    def shown(self, at: torch.Tensor) -> torch.Tensor:
        """Return the weights with the intercepts of unseen classes at minus infinity."""
        if self.columns == 1:
            return at
        out = at.clone()
        out[..., -1] = torch.where(self.seen, out[..., -1], -torch.inf)
        return out

    def _balanced(self, at: torch.Tensor) -> torch.Tensor:
        """Center the weights over the classes: predictions stay the same, and a solution has this form."""
        if self.columns == 1:
            return at
        seen = self.seen[..., None]
        inner = torch.where(seen, at[..., :-1], 0.0)
        inner = torch.where(seen, inner - inner.sum(2, keepdim=True) / seen.sum(1, keepdim=True), 0.0)
        return torch.cat([inner, at[..., -1:]], dim=-1)

    def _outputs(self, rows: torch.Tensor, at: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Outputs of some rows, with classes that are absent from a problem masked."""
        outputs = _outputs_of(rows, at)
        if self.columns > 1 and not bool(seen.all()):
            outputs.masked_fill_(~seen[..., None], SHUT)
        return outputs

    def _loss(self, outputs: torch.Tensor, part: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Cross-entropy of a chunk of rows, shape (layers, problems, rows), and the class probabilities."""
        if self.columns == 1:
            ahead = outputs[:, :, 0]
            loss = torch.nn.functional.softplus(ahead) - ahead * self.right[0, part]
            return loss, outputs.sigmoid()
        log = outputs.log_softmax(2)
        index = self.labels[part].expand(*log.shape[:2], 1, -1)
        return -log.gather(2, index)[:, :, 0], log.exp_()

    def held_out_loss(self, at: torch.Tensor, learned: Problems) -> torch.Tensor:
        """
        Mean held-out loss over rows whose class is in the training rows, shape (layers,).

        Parameters
        ----------
        at : Tensor of shape (layers, problems, columns, features + 1), float64
        learned : Problems
            The problems that the weights solve. Where they are these problems, each is evaluated on the rows
            of its own fold.
        """
        everything = slice(None)
        loss, _ = self._loss(self._outputs(self.rows, at, learned.seen), everything)
        counted = learned.seen[:, self.labels]
        if learned is self:
            counted = counted & self.held.T
        total = torch.where(counted, loss, 0.0).sum((1, 2), dtype=torch.float64)
        return total / counted.sum().clamp(min=1)

    def _evaluate(
        self, at: torch.Tensor, strong: torch.Tensor, layers: list[int] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Compute the mean loss with its penalty, shape (layers, problems), and its gradient.

        On the CPU, layers that are not listed are left out: their values are those of the penalty alone.
        """
        value = strong / 2 * at[..., :-1].square().sum((2, 3))
        gradient = strong[..., None, None] * at
        gradient[..., -1] = 0
        count, rows, features = self.rows.shape
        if self.rows.device.type == "cpu":
            blocks = [slice(layer, layer + 1) for layer in (range(count) if layers is None else layers)]
            step = max(256, PART // features)
        else:
            blocks, step = [slice(None)], FAR // (count * features)
        for block in blocks:
            for begin in range(0, rows, step):
                part = slice(begin, begin + step)
                some = self.rows[block, part]
                loss, residuals = self._loss(self._outputs(some, at[block], self.seen), part)
                residuals -= self.right[:, part]
                residuals *= self.share[:, None, part]
                value[block] += (loss * self.share[:, part]).sum(-1, dtype=torch.float64)
                gradient[block] += _with_rows(some, residuals)
        return value, gradient

    def _curvature(self, at: torch.Tensor, strong: torch.Tensor) -> Kronecker | None:
        """Estimate the Hessian at a point; None without axes."""
        if self.axes is None:
            return None
        outputs = self._outputs(self.rows, at, self.seen)
        shares = outputs.sigmoid() if self.columns == 1 else outputs.softmax(2)
        return kronecker(self.axes, shares, self.share, strong)

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
        at : Tensor of shape (layers, problems, columns, features + 1), float64
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
        strong = torch.tensor(penalties, dtype=torch.float64, device=self.rows.device)[:, None] / self.sizes
        at = self._balanced(at)
        value, gradient = self._evaluate(at, strong)
        history, curvature = _History(), self._curvature(at, strong)
        stuck = torch.zeros_like(value, dtype=torch.bool)

        def flat() -> torch.Tensor:
            pull = strong * at[..., :-1].abs().amax((2, 3))
            return gradient.abs().amax((2, 3)) <= (near * pull).clamp_min(tolerance)

        for step in range(STEPS):
            moving = ~(flat() | stuck)
            if not bool(moving.any()):
                break
            if hopeless is not None and step % ASKED == ASKED - 1 and hopeless(at):
                break
            direction = -history.solve(gradient, curvature) * moving[..., None, None]
            moved, next_value, next_gradient = self._step(at, value, gradient, direction, strong)
            failed = moving & (moved == 0).all(-1).all(-1)
            if bool(failed.any()) and history.count:
                # The history may be the cause: reset it.
                history, curvature = _History(), self._curvature(at + moved, strong)
            else:
                stuck = stuck | failed
                history.add(moved, next_gradient - gradient)
            at, value, gradient = at + moved, next_value, next_gradient
        return at, flat().all(1)

    def _step(
        self,
        at: torch.Tensor,
        value: torch.Tensor,
        gradient: torch.Tensor,
        direction: torch.Tensor,
        strong: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        Search the step length along a direction, for each problem separately.

        The loss is convex, so the sign of its slope along the direction brackets the optimal length. Problems
        whose loss does not decrease keep their point.
        """
        slope0 = _dot(gradient, direction)
        moving = slope0 != 0
        length = torch.ones_like(slope0)
        low, low_slope = torch.zeros_like(slope0), slope0.clone()
        high, high_slope = torch.full_like(slope0, torch.inf), torch.zeros_like(slope0)
        noise = torch.finfo(self.rows.dtype).eps * value.abs()
        moved, new_value, new_gradient, fine = direction, value, gradient, ~moving
        for _ in range(LENGTHS):
            moved = length[..., None, None] * direction
            layers = (~fine).any(1)
            found = self._evaluate(at + moved, strong, layers.nonzero()[:, 0].tolist())
            new_value = torch.where(layers[:, None], found[0], new_value)
            new_gradient = torch.where(layers[:, None, None, None], found[1], new_gradient)
            slope = _dot(new_gradient, direction)
            lower = new_value <= value + 1e-4 * length * slope0 + noise
            fine = ~moving | (lower & (slope.abs() <= 0.9 * slope0.abs()))
            if bool(fine.all()):
                break
            left = slope < 0
            low, low_slope = torch.where(left, length, low), torch.where(left, slope, low_slope)
            high, high_slope = torch.where(left, high, length), torch.where(left, high_slope, slope)
            share = (low_slope / (low_slope - high_slope)).nan_to_num(0.5).clamp(0.1, 0.9)
            inside = low + share * (high - low)
            length = torch.where(fine, length, torch.where(high.isinf(), 4 * length, inside))
        stay = ~moving | (~fine & ~(new_value < value))
        keep = stay[..., None, None]
        return (
            torch.where(keep, 0.0, moved),
            torch.where(stay, value, new_value),
            torch.where(keep, gradient, new_gradient),
        )


def _outputs_of(rows: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Multiply rows with weights and intercepts, shape (layers, problems, columns, rows)."""
    flat = at.to(rows.dtype).flatten(1, 2)
    outputs = torch.baddbmm(flat[..., -1:], flat[..., :-1], rows.mT)
    return outputs.view(*at.shape[:3], rows.shape[1])


def _with_rows(rows: torch.Tensor, residuals: torch.Tensor) -> torch.Tensor:
    """Sum residuals times rows, and residuals: shape (layers, problems, columns, features + 1), float64."""
    inner = (residuals.flatten(1, 2) @ rows).double().view(*residuals.shape[:3], -1)
    return torch.cat([inner, residuals.sum(-1, keepdim=True, dtype=torch.float64)], dim=-1)


def _dot(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Inner products of directions, one per layer and problem."""
    return (one * other).sum((2, 3))


class _History:
    """The last steps of L-BFGS and the changes of the gradient along them, of all problems."""

    def __init__(self) -> None:
        self.count, self.end = 0, 0

    def add(self, moved: torch.Tensor, turned: torch.Tensor) -> None:
        """Add a step; one without positive curvature counts for nothing."""
        pair = torch.stack([moved, turned]).flatten(3)
        length = (pair[0] * pair[1]).sum(-1)
        pair = torch.where(length[..., None] > 0, pair, 0.0)
        if self.end == 0:
            # Twice the room that is needed, so that steps are seldom moved to its beginning.
            self._room = pair.new_empty(*pair.shape[:3], 2 * MEMORY, pair.shape[-1])
            self._curves = pair.new_zeros(*length.shape, 2 * MEMORY, 2 * MEMORY)
        elif self.end == 2 * MEMORY:
            self._room[..., :MEMORY, :] = self._room[..., MEMORY:, :].clone()
            self._curves[..., :MEMORY, :MEMORY] = self._curves[..., MEMORY:, MEMORY:].clone()
            self.end = MEMORY
        self._room[..., self.end, :] = pair
        self.end, self.count = self.end + 1, min(self.count + 1, MEMORY)
        kept = slice(self.end - self.count, self.end)
        self.moved, self.turned = self._room[..., kept, :]
        self._curves[..., kept, self.end - 1] = (self.moved @ pair[1][..., None])[..., 0]
        self._curves[..., self.end - 1, self.end - 1] = torch.where(length > 0, length, 1.0)
        self.curve = self._curves[..., kept, kept]

    def solve(self, gradient: torch.Tensor, curvature: Kronecker | None) -> torch.Tensor:
        """Divide a gradient by the curvature and its corrections (two-loop recursion, in matrix form)."""
        if self.count == 0:
            return gradient * (8 / gradient.shape[3]) if curvature is None else curvature.solve(gradient)
        curve, flat = self.curve.triu(), gradient.flatten(2)[..., None]
        first = torch.linalg.solve_triangular(curve, self.moved @ flat, upper=True)
        rest = (flat - self.turned.mT @ first).view_as(gradient)
        if curvature is None:
            length = self.turned[..., -1, :].square().sum(-1)
            scale = torch.where(length > 0, curve[..., -1, -1] / length, 8 / gradient.shape[3])
            rest = rest * scale[..., None, None]
        else:
            rest = curvature.solve(rest)
        out = rest.flatten(2)[..., None]
        diagonal = curve.diagonal(dim1=-2, dim2=-1)[..., None]
        second = torch.linalg.solve_triangular(curve.mT, diagonal * first - self.turned @ out, upper=False)
        return (out + self.moved.mT @ second).view_as(gradient)
