"""How do logistic regressions of many layers converge together? Quasi-Newton steps that share every product.

Each layer has one problem a fold. The rows of a layer are multiplied with the directions of all its problems
at once. What a step changes in the outputs is linear in its length, so another length needs no product with
the direction again. Everything else is done part by part, in memory that is near.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .curvature import Guess, Told, dot, guessed, outputs_of, told
from .threads import in_parts

if TYPE_CHECKING:
    import torch

MEMORY = 20  # steps that a direction remembers
STEPS = 500
LENGTHS = 25  # that are tried for a step
MANY = 16_384  # rows from which on the curvature is asked for; problems with less guess it
FEWER = 5  # times as few rows tell it
UNSURE = 32_768  # at most
REFRESHED = 8  # steps after which they are asked anew
ASKED = 6  # steps after which a fit is judged that may be given up
SHUT = -1e30  # output of a class that is never seen, which no weight changes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Point:
    """
    Where all problems stand.

    Parameters
    ----------
    at : Tensor of shape (layers, features + 1, problems, columns), float64
        Weights and the intercept.
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
        Features of mean 0 and variance 1, or rows along axes that span them.
    labels : Tensor of int of shape (rows,)
    classes : int
        Two have one column of weights, more have one each.
    fold : Tensor of int of shape (rows,), optional
        One problem for each fold, fitted on the rows of the others; a single one on all rows when absent.
    pool : Executor, optional
        Threads to share the rows.
    """

    def __init__(
        self,
        rows: torch.Tensor,
        labels: torch.Tensor,
        classes: int,
        fold: torch.Tensor | None,
        pool: Executor | None = None,
    ) -> None:
        import torch

        self.rows, self.labels = rows, labels
        self.classes, self.columns = classes, 1 if classes == 2 else classes
        count = 1 if fold is None else int(fold.max()) + 1
        places = torch.arange(count, device=rows.device)
        self.held = fold[:, None] == places if fold is not None else torch.zeros_like(labels[:, None]) > 0
        self.sizes = (~self.held).sum(0).double()
        self.share = ((~self.held).double() / self.sizes).to(rows.dtype)
        known = torch.nn.functional.one_hot(labels, classes)
        # A class that a problem never sees has no say in it.
        self.seen = (~self.held).T.double() @ known.double() > 0
        self.right = (known[:, 1:] if classes == 2 else known).to(rows.dtype)[:, None]
        self.pool = pool

    def start(self) -> torch.Tensor:
        """No weights, and intercepts that say how frequent each class is."""
        import torch

        found = torch.zeros(
            (len(self.rows), self.rows.shape[2] + 1, len(self.sizes), self.columns),
            dtype=torch.float64,
            device=self.rows.device,
        )
        shares = self.share.T.double() @ self.right[:, 0].double()
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

    def _balanced(self, at: torch.Tensor) -> torch.Tensor:
        """The same answers with weights that add up to 0 over the classes, as those of a solution do."""
        import torch

        if self.columns == 1:
            return at
        share = self.seen / self.seen.sum(-1, keepdim=True).double()
        inner = at[:, :-1] - (at[:, :-1] * share).sum(-1, keepdim=True)
        return torch.cat([torch.where(self.seen, inner, 0.0), at[:, -1:]], dim=1)

    def outputs(self, at: torch.Tensor) -> torch.Tensor:
        """Multiply the rows with weights, shape (layers, rows, problems, columns)."""
        import torch

        shape = (*self.rows.shape[:2], *at.shape[2:])
        found = torch.empty(shape, dtype=self.rows.dtype, device=self.rows.device)

        def work(part: slice) -> None:
            found[:, part] = outputs_of(self.rows[:, part], at)

        in_parts(self.pool, self.rows, work)
        return found

    def _said(self, outputs: torch.Tensor, part: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Cross-entropy of some rows, shape (layers, rows, problems), and the probability of each class."""
        import torch

        if self.columns == 1:
            ahead = outputs[..., 0]
            loss = torch.nn.functional.softplus(ahead) - ahead * self.right[part, ..., 0]
            return loss, outputs.sigmoid()
        log = outputs.log_softmax(-1)
        index = self.labels[None, part, None, None].expand(*log.shape[:3], 1)
        return -log.gather(-1, index)[..., 0], log.exp_()

    def foretold(self, at: torch.Tensor, of: Problems | None = None) -> torch.Tensor:
        """
        Mean loss of rows that problems have not seen, of classes that they have, shape (layers,).

        Parameters
        ----------
        at : Tensor of shape (layers, features + 1, problems, columns), float64
        of : Problems, optional
            Whose weights these are, fitted on other rows; our own, and the rows of each fold, when absent.
        """
        import torch

        seen = self.seen if of is None else of.seen
        loss, _ = self._said(_opened(self.outputs(at), seen), slice(None))
        counted = seen[:, self.labels].T
        counted = counted & self.held if of is None else counted
        total = torch.where(counted, loss, 0.0).sum((1, 2), dtype=torch.float64)
        return total / counted.sum().clamp(min=1)

    def _look(
        self,
        at: torch.Tensor,
        outputs: torch.Tensor,
        strong: torch.Tensor,
        change: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Find value and gradient, with the outputs changed: by what a direction does, times its length."""
        import torch

        def work(part: slice) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            here = outputs[:, part]
            if change is not None:
                here = torch.addcmul(here, change[0][:, part], _wide(change[1], here))
            loss, wrong = self._said(here, part)
            wrong -= self.right[part]
            wrong *= self.share[part, :, None]
            loss *= self.share[part]
            inner = (wrong.flatten(2).mT @ self.rows[:, part]).double()
            return loss.sum(1, dtype=torch.float64), inner, wrong.sum(1, dtype=torch.float64)

        sums = zip(*in_parts(self.pool, self.rows, work), strict=True)
        value, inner, ends = (torch.stack(each).sum(0) for each in sums)
        value += strong / 2 * at[:, :-1].square().sum((1, 3))
        inner = inner.mT.reshape_as(at[:, :-1]) + strong[:, None, :, None] * at[:, :-1]
        return value, torch.cat([inner, ends[:, None]], dim=1)

    def point(self, at: torch.Tensor, strong: torch.Tensor) -> _Point:
        """Look at everything anew."""
        outputs = _opened(self.outputs(at), self.seen)
        value, gradient = self._look(at, outputs, strong)
        return _Point(at=at, outputs=outputs, value=value, gradient=gradient)

    def better(self, one: torch.Tensor, other: torch.Tensor, penalties: list[float]) -> torch.Tensor:
        """Of two points the one with the smaller loss, for each layer and problem."""
        import torch

        strong = self._strong(penalties)
        first, second = (self.point(self._balanced(at), strong).value for at in (one, other))
        return torch.where((first <= second)[:, None, :, None], one, other)

    def _strong(self, penalties: list[float]) -> torch.Tensor:
        """Penalties of the mean loss, shape (layers, problems)."""
        import torch

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
        Go on from a point until every problem is solved.

        Parameters
        ----------
        at : Tensor of shape (layers, features + 1, problems, columns), float64
        penalties : list of float
            One a layer.
        tolerance : float
            Largest entry of the gradient of the mean loss that is left.
        near : float
            Or the share of the largest pull of the penalty, where that is more.
        hopeless : callable, optional
            Asked now and then whether to give up.

        Returns
        -------
        at : Tensor
        done : Tensor of bool of shape (layers,)
            Whether all problems of a layer got there.
        """
        import torch

        strong = self._strong(penalties)
        here = self.point(self._balanced(at), strong)
        asked = min(UNSURE, self.rows.shape[1] // FEWER) if self.rows.shape[1] >= MANY else 0
        curvature: Guess | Told | None = None
        past: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

        def flat() -> torch.Tensor:
            pull = strong * here.at[:, :-1].abs().amax((1, 3))
            return here.gradient.abs().amax((1, 3)) <= (near * pull).clamp_min(tolerance)

        done, exact = flat(), True
        stuck = torch.zeros_like(done)
        for step in range(STEPS):
            if bool((done | stuck).all()):
                if exact:
                    break
                # Outputs that were changed step by step have rounding in them: the last word is not theirs.
                here, exact = self.point(here.at, strong), True
                done = flat()
                continue
            if hopeless is not None and step % ASKED == ASKED - 1 and hopeless(here.at):
                break
            if curvature is None or (asked and step % REFRESHED == 0):
                curvature = self._curvature(here.outputs, strong, asked)
            direction = _direction(here.gradient, past, curvature)
            moving = ~(done | stuck)
            direction *= moving[:, None, :, None]
            there, failed = self._step(here, direction, strong, moving)
            moved, turned = there.at - here.at, there.gradient - here.gradient
            curve = dot(moved, turned)
            if bool(failed.any()) and past:
                # The memory may be what leads astray.
                past, curvature = [], None
            else:
                stuck = stuck | failed
                past.append((moved, turned, torch.where(curve > 0, 1 / curve, 0.0)))
                del past[:-MEMORY]
            here, exact = there, False
            done = flat()
        return here.at, done.all(1)

    def _curvature(self, outputs: torch.Tensor, strong: torch.Tensor, asked: int) -> Guess | Told:
        shares = outputs.sigmoid() if self.columns == 1 else outputs.softmax(-1)
        if asked:
            return told(self.rows, shares, self.share, strong, asked, self.pool)
        return guessed(self.rows, shares, self.share, strong)

    def _step(
        self, here: _Point, direction: torch.Tensor, strong: torch.Tensor, moving: torch.Tensor
    ) -> tuple[_Point, torch.Tensor]:
        """
        Go as far along a direction as it pays, each problem on its own.

        The loss is convex, so its slope along the direction says on which side the best length lies.
        """
        import torch

        change = self.outputs(direction)
        slope0 = dot(here.gradient, direction)
        length = torch.ones_like(slope0)
        low, low_slope = torch.zeros_like(slope0), slope0.clone()
        high, high_slope = torch.full_like(slope0, torch.inf), torch.zeros_like(slope0)
        noise = torch.finfo(self.rows.dtype).eps * here.value.abs()
        at, value, gradient, fine = here.at, here.value, here.gradient, ~moving
        for _ in range(LENGTHS):
            at = here.at + length[:, None, :, None] * direction
            value, gradient = self._look(at, here.outputs, strong, (change, length))
            slope = dot(gradient, direction)
            lower = value <= here.value + 1e-4 * length * slope0 + noise
            fine = ~moving | (lower & (slope.abs() <= 0.9 * slope0.abs()))
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
        length = torch.where(worse | ~moving, 0.0, length)
        keep = worse[:, None, :, None]
        # The outputs of the last point are needed no more.
        outputs = here.outputs.addcmul_(change, _wide(length, change))
        there = _Point(
            at=torch.where(keep, here.at, at),
            outputs=outputs,
            value=torch.where(worse, here.value, value),
            gradient=torch.where(keep, here.gradient, gradient),
        )
        return there, worse


def _opened(outputs: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Shut the classes that a problem does not see, in place."""
    if outputs.shape[-1] > 1 and not bool(seen.all()):
        outputs.masked_fill_(~seen, SHUT)
    return outputs


def _wide(one: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A number for each layer and problem, as a factor of outputs."""
    return one[:, None, :, None].to(like.dtype)


def _direction(
    gradient: torch.Tensor,
    past: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    curvature: Guess | Told,
) -> torch.Tensor:
    """Where to go: minus the gradient, bent by what the last steps told of the curvature (L-BFGS)."""
    found, shares = gradient.clone(), []
    for moved, turned, inverse_curve in reversed(past):
        share = inverse_curve * dot(moved, found)
        found -= share[:, None, :, None] * turned
        shares.append(share)
    found = curvature.solve(found)
    for (moved, turned, inverse_curve), share in zip(past, reversed(shares), strict=True):
        back = inverse_curve * dot(turned, found)
        found = found + (share - back)[:, None, :, None] * moved
    return -found
