"""Correlations of single neurons between two layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..lazy import torch
from ..moments.strip import Cells, Strip, undefined
from .declare import Measure, MeasureOption, invariant


def correlations(strip: Strip) -> torch.Tensor:
    """Absolute correlation of every left with every right neuron, shape (b, p, q); 0 if one is constant."""

    def make() -> torch.Tensor:
        dtype = strip.left.dtype
        table = strip.small * strip.left.scale[strip.row].to(dtype)[:, None]
        table *= strip.right.scale[strip.columns].to(dtype)[:, None, :]
        return table.abs_()

    return strip.once("neuron correlations", make)


def neuron_correlation(strip: Strip, options: Mapping[str, Any]) -> Cells:
    """
    Average, over the neurons of one layer, their correlation with the best match in the other.

    Parameters
    ----------
    strip : Strip
    options : mapping
        `match`: "max" takes the best match of each neuron, "one_to_one" the assignment that pairs each
        neuron with at most one other; `top`: the share of best matched neurons that is averaged.

    Returns
    -------
    Cells
        Forward: left neurons matched in the right layer. Constant neurons are left out.

    References
    ----------
    Bau et al. 2019; Wu et al. 2020; Li et al. 2015 for one-to-one matches.
    """
    table = correlations(strip)
    left_count = strip.left.known["alive"][strip.row]
    right_counts = strip.right.known["alive"][strip.columns]
    reasons = undefined(left_count, right_counts, "every neuron of a layer is constant")
    left_alive, right_alive = strip.left.alive[strip.row], strip.right.alive[strip.columns]
    share = options["top"]
    if options["match"] == "one_to_one":
        matched = [_assigned(table[j][left_alive][:, right_alive[j]]) for j in range(len(strip))]
        best = torch.stack([top_mean(m, share) for m in matched])
        return Cells(forward=best, backward=best if strip.both else None, reasons=reasons)
    forward = average(
        table.amax(2).double(), left_alive.expand(len(strip), -1), [left_count] * len(strip), share
    )
    if not strip.both:
        return Cells(forward=forward, reasons=reasons)
    return Cells(
        forward=forward,
        backward=average(table.amax(1).double(), right_alive, right_counts, share),
        reasons=reasons,
    )


def average(best: torch.Tensor, alive: torch.Tensor, counts: list[int], share: float) -> torch.Tensor:
    """Mean of the best correlations of each pair's non-constant neurons (b, features), or of a top share."""
    if share < 1:
        return torch.stack([top_mean(values[mask], share) for values, mask in zip(best, alive, strict=True)])
    # A constant neuron's correlations are 0, so it adds nothing to the sum.
    return best.sum(1) / torch.tensor(counts, device=best.device).clamp_min(1)


def top_mean(values: torch.Tensor, share: float) -> torch.Tensor:
    """Mean of the largest share of the values, at least one; NaN when there are none."""
    if not len(values):
        return values.new_full((), float("nan"))
    if share >= 1:
        return values.mean()
    return values.topk(count_of_top(len(values), share)).values.mean()


def count_of_top(count: int, share: float) -> int:
    """
    Number of values in a share of a count, rounded up.

    Examples
    --------
    >>> count_of_top(10, 0.3), count_of_top(10, 0.31), count_of_top(3, 0.001)
    (3, 4, 1)
    """
    return math.ceil(round(share * count, 9))


def _assigned(table: torch.Tensor) -> torch.Tensor:
    """Correlations of the best one-to-one assignment of a (p, q) table, shape (min(p, q),)."""
    from scipy.optimize import linear_sum_assignment

    if not table.numel():
        return table.new_empty(0, dtype=torch.float64)
    dense = table.double().cpu().numpy()
    rows, columns = linear_sum_assignment(dense, maximize=True)
    return torch.as_tensor(np.ascontiguousarray(dense[rows, columns]), device=table.device)


NEURON_CORRELATION = Measure(
    name="neuron_correlation",
    title="neuron correlation",
    summary="Mean over the left layer's neurons of the largest absolute correlation in the right layer.",
    formula="mean over k of max_j |corr(x_k, y_j)|",
    citations=("bau2019", "wu2020", "li2015"),
    range=(0.0, 1.0),
    symmetric=False,
    invariances=invariant("isotropic_scale", "translation", "neuron_permutation", "neuron_scale"),
    needs="moments",
    compute=neuron_correlation,
    options={
        "match": MeasureOption(
            default="max",
            choices=("max", "one_to_one"),
            meaning="best match of each neuron, or the best one-to-one assignment",
        ),
        "top": MeasureOption(
            default=1.0, low=0.001, high=1.0, meaning="share of best matched neurons to average"
        ),
    },
    null="largest_correlation",
    varying={
        "symmetric": lambda o: o["match"] == "one_to_one",
        "null": lambda o: "largest_correlation" if o["match"] == "max" and o["top"] >= 1 else None,
    },
)
