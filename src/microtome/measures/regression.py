"""Least-squares regression of one layer on another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import must
from ..lazy import torch
from ..moments.nuclear import eigh
from ..moments.strip import Cells, Strip, undefined
from ..randomness import generator
from .cca import full
from .cka import CONSTANT
from .declare import Measure, MeasureOption, Undefined, invariant
from .neurons import average
from .rsa import recenter


def _explained(strip: Strip) -> torch.Tensor:
    """Norm of the projection of each left neuron onto each right layer, shape (b, p)."""
    return torch.linalg.vector_norm(strip.on_right("full"), dim=2).double()


def _explained_back(strip: Strip) -> torch.Tensor:
    """Norm of the projection of each right neuron onto the left layer, shape (b, q)."""
    return torch.linalg.vector_norm(strip.on_left("full"), dim=1).double()


def mixed_regression(strip: Strip, options: Mapping[str, Any]) -> Cells:
    """
    Average, over the neurons of one layer, their multiple correlation with the whole other layer.

    Parameters
    ----------
    strip : Strip
    options : mapping
        `top`: the share of best predicted neurons that is averaged.

    Returns
    -------
    Cells
        Forward: left neurons predicted from the right layer, in sample.

    References
    ----------
    Bau et al. 2019; Wu et al. 2020.
    """
    share = options["top"]
    explained, alive = _explained(strip) * strip.left.scale[strip.row], strip.left.alive[strip.row]
    counts = [strip.left.known["alive"][strip.row]] * len(strip)
    forward = average(explained, alive.expand(len(strip), -1), counts, share)
    backward = None
    if strip.both:
        explained, alive = _explained_back(strip) * strip.right.scale[strip.columns], strip.right.alive
        counts = strip.right.known["alive"][strip.columns]
        backward = average(explained, alive[strip.columns], counts, share)
    return Cells(forward=forward, backward=backward, reasons=undefined(*strip.kept("full"), CONSTANT))


def linear_regression(strip: Strip, options: Mapping[str, Any]) -> Cells:
    """
    Share of the left layer's variance that least squares on the right layer explains, in sample.

    Parameters
    ----------
    strip : Strip
    options : mapping
        Those of `LINEAR_REGRESSION`; here `estimator` is "in_sample".

    Returns
    -------
    Cells

    References
    ----------
    Kornblith et al. 2019.
    """
    if options["ridge"] > 0:
        raise must("option ridge", "0 unless estimator is cross_validated", options["ridge"])
    forward = _explained(strip).square().sum(1) / strip.left.trace[strip.row]
    backward = None
    if strip.both:
        backward = _explained_back(strip).square().sum(1) / strip.right.trace[strip.columns]
    return Cells(forward=forward, backward=backward, reasons=undefined(*strip.kept("full"), CONSTANT))


def _out_of_sample(options: Mapping[str, Any]) -> bool:
    return options["estimator"] == "cross_validated"


MIXED_REGRESSION = Measure(
    name="mixed_regression",
    title="mixed regression",
    summary="Mean over the left layer's neurons of their multiple correlation with the right layer.",
    formula="mean over k of |P_Y x_k| / |x_k|, P_Y the projection on the centered right layer",
    citations=("bau2019", "wu2020"),
    range=(0.0, 1.0),
    symmetric=False,
    invariances=invariant(
        *("isotropic_scale", "translation", "neuron_permutation", "neuron_scale"),
        right=("orthogonal", "invertible_linear"),
    ),
    needs="moments",
    compute=mixed_regression,
    options={
        "top": MeasureOption(
            default=1.0, low=0.001, high=1.0, meaning="share of best predicted neurons to average"
        )
    },
    subspace=full,
    null="multiple_correlation",
    varying={"null": lambda o: "multiple_correlation" if o["top"] >= 1 else None},
)

LINEAR_REGRESSION = Measure(
    name="linear_regression",
    title="linear regression R2",
    summary="Share of the left layer's variance explained by the right layer, in sample or out of it.",
    formula="|P_Y X|_F^2 / |X|_F^2 of centered layers; cross-validated: 1 - squared error / variance",
    citations=("kornblith2019",),
    range=(0.0, 1.0),
    symmetric=False,
    invariances=invariant(
        *("orthogonal", "isotropic_scale", "translation", "neuron_permutation"),
        right=("invertible_linear", "neuron_scale"),
    ),
    needs="moments",
    compute=linear_regression,
    options={
        "estimator": MeasureOption(
            default="in_sample",
            choices=("in_sample", "cross_validated"),
            meaning="on the rows it was fitted on, or on rows left out",
        ),
        "folds": MeasureOption(default=5, low=2, high=100, meaning="parts for cross-validation"),
        "ridge": MeasureOption(
            default=0.0, low=0.0, meaning="penalty for cross-validation, in mean eigenvalues"
        ),
        "seed": MeasureOption(default=0, low=0, meaning="seed of the folds"),
    },
    subspace=full,
    null="share_explained",
    varying={
        "needs": lambda o: "rows" if _out_of_sample(o) else "moments",
        "compute": lambda o: compute_cv if _out_of_sample(o) else linear_regression,
        "prepare": lambda o: prepare_folds if _out_of_sample(o) else None,
        "subspace": lambda o: None if _out_of_sample(o) else full,
        "null": lambda o: None if _out_of_sample(o) else "share_explained",
        # With a penalty, even a layer itself is not predicted exactly.
        "self_value": lambda o: float("nan") if _out_of_sample(o) and o["ridge"] > 0 else 1.0,
        "range": lambda o: (float("-inf"), 1.0) if _out_of_sample(o) else (0.0, 1.0),
        # A ridge penalty depends on the scale of each predictor.
        "invariances": lambda o: (
            invariant("orthogonal", "isotropic_scale", "translation", "neuron_permutation")
            if _out_of_sample(o) and o["ridge"] > 0
            else LINEAR_REGRESSION.invariances
        ),
    },
)


RANK_TOLERANCE = 1e-6  # eigenvalues of the correlation matrix below this share of the largest count as zero
DEAD = 1e-12  # a neuron with less than this share of its variance in training rows is constant there


@dataclass(frozen=True, slots=True, kw_only=True)
class Folds:
    """
    A layer split into folds, prepared both as the target and as the predictor of a regression.

    Parameters
    ----------
    rows : tuple of Tensor of shape (n_f, d)
        The rows of each fold, recentered.
    sums : tuple of Tensor of shape (d,)
        The sum of the rows of each fold.
    means : tuple of Tensor of shape (d,)
        The mean of the rows outside each fold.
    total : float
        Squared distance of all rows to the mean of the rows outside their fold.
    solvers : tuple of Tensor of shape (d, r_f)
        W with W W' the (ridge or pseudo-) inverse of the scatter of the rows outside each fold.
    held_out : tuple of Tensor of shape (r_f, r_f)
        W' S W, S the scatter of the fold's rows about that mean.
    """

    rows: tuple[torch.Tensor, ...]
    sums: tuple[torch.Tensor, ...]
    means: tuple[torch.Tensor, ...]
    total: float
    solvers: tuple[torch.Tensor, ...]
    held_out: tuple[torch.Tensor, ...]


def assign_folds(n: int, folds: int, seed: int, clusters: np.ndarray | None = None) -> np.ndarray:
    """
    Assign rows to folds at random, with all rows of a cluster in one fold.

    Parameters
    ----------
    n : int
        The number of rows.
    folds : int
    seed : int
    clusters : ndarray of shape (n,), optional
        The cluster of each row; each row is its own cluster when absent.

    Returns
    -------
    ndarray of shape (n,), int
        The fold of each row. The numbers of clusters per fold differ by at most one.
    """
    units, unit_of_row = np.arange(n), np.arange(n)
    if clusters is not None:
        if np.shape(clusters) != (n,):
            raise must("clusters", f"one number for each of the {n} rows", np.shape(clusters))
        units, unit_of_row = np.unique(clusters, return_inverse=True)
    if len(units) < folds:
        raise must("folds", f"at most the number of rows or clusters, {len(units)}", folds)
    shuffled = generator(seed, "folds").permutation(len(units))
    fold_of_unit = np.empty(len(units), dtype=np.int64)
    for fold, members in enumerate(np.array_split(shuffled, folds)):
        fold_of_unit[members] = fold
    return fold_of_unit[unit_of_row]


def _solver(scatter: torch.Tensor, variances: torch.Tensor, ridge: float) -> torch.Tensor:
    """W of shape (d, r) with W W' the inverse of the scatter, at the rank tolerance or with a ridge."""
    if scatter.diagonal().sum() <= DEAD * variances.sum():
        return scatter[:, :0]
    if ridge > 0:
        values, vectors = eigh(scatter)
        mean = values.sum() / (scatter.diagonal() > DEAD * variances).sum()
        return vectors * (values.clamp_min(0) + ridge * mean).rsqrt()
    live = scatter.diagonal() > DEAD * variances
    scale = torch.where(live, scatter.diagonal(), 1.0).rsqrt() * live
    values, vectors = eigh(scatter * scale[:, None] * scale)
    mask = values > RANK_TOLERANCE * values[-1]
    return scale[:, None] * vectors[:, mask] * values[mask].rsqrt()


def prepare_folds(
    x: torch.Tensor, options: Mapping[str, Any], *, clusters: np.ndarray | None = None
) -> Folds | Undefined:
    """
    Split a layer into folds and solve the regression on it for each fold.

    Parameters
    ----------
    x : Tensor of shape (n, d), float64
    options : mapping
        `folds`, `ridge` and `seed`.
    clusters : ndarray of shape (n,), optional
        Rows of one cluster stay in one fold, since they are not independent.
    """
    folds, ridge = options["folds"], options["ridge"]
    units, kind = (x.shape[0], "rows") if clusters is None else (len(np.unique(clusters)), "clusters")
    if units < folds:
        return Undefined(f"needs at least {folds} {kind} for {folds} folds, has {units}")
    assignment = assign_folds(x.shape[0], folds, options["seed"], clusters)
    centered = recenter(x)
    rows = tuple(
        centered[torch.from_numpy(np.flatnonzero(assignment == fold)).to(x.device)] for fold in range(folds)
    )
    sums = tuple(part.sum(0) for part in rows)
    scatters = torch.stack([part.T @ part for part in rows])
    all_sums, all_scatter = torch.stack(sums).sum(0), scatters.sum(0)
    variances = all_scatter.diagonal()
    means, solvers, held_out, total = [], [], [], 0.0
    for part, part_sum, part_scatter in zip(rows, sums, scatters, strict=True):
        n_train = x.shape[0] - len(part)
        mean = (all_sums - part_sum) / n_train
        solver = _solver(all_scatter - part_scatter - n_train * torch.outer(mean, mean), variances, ridge)
        scatter = about(part_scatter, part_sum, part_sum, mean, mean, len(part))
        means.append(mean)
        solvers.append(solver)
        held_out.append(solver.T @ scatter @ solver)
        total += float(scatter.diagonal().sum())
    return Folds(
        rows=rows,
        sums=sums,
        means=tuple(means),
        total=total,
        solvers=tuple(solvers),
        held_out=tuple(held_out),
    )


def about(
    product: torch.Tensor,
    left_sum: torch.Tensor,
    right_sum: torch.Tensor,
    left_mean: torch.Tensor,
    right_mean: torch.Tensor,
    n: int,
) -> torch.Tensor:
    """
    Center the products X'Y of n rows at given points: (X - 1 a')'(Y - 1 b').

    Parameters
    ----------
    product : Tensor of shape (p, q)
        X'Y.
    left_sum, right_sum : Tensor of shape (p,), (q,)
        Column sums of X and of Y.
    left_mean, right_mean : Tensor of shape (p,), (q,)
        a and b.
    n : int
        The number of rows.
    """
    # Two outer products instead of three: the last term is merged into the second.
    moved = torch.addr(product, left_sum, right_mean, alpha=-1)
    return moved.addr_(left_mean, right_sum - n * right_mean, alpha=-1)


def compute_cv(left: Folds, right: Folds, options: Mapping[str, Any]) -> tuple[float, str | None]:
    """
    Predict the left layer from the right one out of sample.

    Parameters
    ----------
    left, right : Folds
        Prepared with the same options and clusters.
    options : mapping
        Unused: the folds already depend on the options.

    Returns
    -------
    value : float
        R2 = 1 - (squared errors) / (squared distances to the mean of the training rows), both summed over
        folds and neurons of the left layer; below 0 where the regression is worse than that mean. NaN where
        undefined.
    reason : str or None
        Why it is undefined.
    """
    if left.total == 0:
        return float("nan"), "the left layer has equal rows, so there is nothing to predict"
    if right.total == 0:
        return float("nan"), "the right layer has equal rows, so it predicts nothing"
    n = sum(len(part) for part in left.rows)
    products = [b.T @ a for a, b in zip(left.rows, right.rows, strict=True)]
    all_products = products[0].clone()
    for product in products[1:]:
        all_products += product
    left_all, right_all = sum(left.sums[1:], left.sums[0]), sum(right.sums[1:], right.sums[0])
    gain = 0.0
    for fold, product in enumerate(products):
        size = len(left.rows[fold])
        a, b, solver = left.means[fold], right.means[fold], right.solvers[fold]
        held_out_cross = about(product, right.sums[fold], left.sums[fold], b, a, size)
        training_product = all_products - product
        training_cross = about(
            training_product, right_all - right.sums[fold], left_all - left.sums[fold], b, a, n - size
        )
        coefficients = solver.T @ training_cross
        # |L - P|^2 = |L|^2 - 2 <L, P> + |P|^2, with P the predictions of the held-out rows.
        gain += float(2 * (coefficients * (solver.T @ held_out_cross)).sum())
        gain -= float((coefficients * (right.held_out[fold] @ coefficients)).sum())
    return gain / left.total, None
