"""Least-squares regression of one layer on another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import must
from ..lazy import torch
from ..moments.strip import Cells, Strip
from .cca import full
from .crossvalidation import compute_cv, prepare_folds
from .declare import Measure, MeasureOption, invariant
from .neurons import average

CONSTANT = "a layer is constant over the rows"


def _explained(strip: Strip) -> torch.Tensor:
    """Norm of the projection of each left neuron onto each right layer, shape (b, p)."""
    return torch.linalg.vector_norm(strip.on_right("full"), dim=2).double()


def _explained_back(strip: Strip) -> torch.Tensor:
    """Norm of the projection of each right neuron onto the left layer, shape (b, q)."""
    return torch.linalg.vector_norm(strip.on_left("full"), dim=1).double()


def _reasons(strip: Strip) -> tuple[str | None, ...]:
    left_rank, right_ranks = strip.kept("full")
    return tuple(None if left_rank and right_rank else CONSTANT for right_rank in right_ranks)


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
    return Cells(forward=forward, backward=backward, reasons=_reasons(strip))


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
    return Cells(forward=forward, backward=backward, reasons=_reasons(strip))


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
