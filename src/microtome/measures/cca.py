"""Canonical correlation analysis: mean CCA, SVCCA and PWCCA."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..lazy import torch
from ..moments.strip import Cells, Strip, Subspace, basis
from .declare import Measure, MeasureOption, invariant
from .neurons import count_of_top

ALL = (
    "orthogonal",
    "isotropic_scale",
    "invertible_linear",
    "translation",
    "neuron_permutation",
    "neuron_scale",
)
TOP = MeasureOption(default=1.0, low=0.001, high=1.0, meaning="share of largest correlations to average")
NO_DIRECTION = "no direction is kept: a layer is constant, or its first component alone passes the threshold"


def _reasons(strip: Strip, subspace: Subspace) -> tuple[str | None, ...]:
    left_rank, right_ranks = strip.kept(subspace)
    return tuple(None if left_rank and right_rank else NO_DIRECTION for right_rank in right_ranks)


def full(options: Mapping[str, Any]) -> Subspace:
    """All directions within the numerical rank."""
    return "full"


def cca(strip: Strip, options: Mapping[str, Any]) -> Cells:
    """
    Average the canonical correlations, or their squares, over the smaller rank.

    Parameters
    ----------
    strip : Strip
    options : mapping
        `statistic`: "mean_rho" or "mean_rho2".

    Returns
    -------
    Cells

    References
    ----------
    Hotelling 1936.
    """
    count = strip.count("full").clamp_min(1)
    if options["statistic"] == "mean_rho2":
        total = strip.whitened("full").double().square().sum((1, 2))
    else:
        total = strip.correlation_sum("full")
    return Cells(forward=total / count, reasons=_reasons(strip, "full"))


def svcca_subspace(options: Mapping[str, Any]) -> Subspace:
    """The leading principal directions."""
    return options["scaling"], options["threshold"], options["inclusive"]


def svcca(strip: Strip, options: Mapping[str, Any]) -> Cells:
    """
    Average the canonical correlations of the leading principal directions.

    Parameters
    ----------
    strip : Strip
    options : mapping
        `scaling`: "center" as in the papers, "standardize" as in the code of Wu et al.; `threshold`: the
        share of variance to keep; `inclusive`: whether the component that crosses the threshold is kept;
        `top`: the share of largest correlations that is averaged.

    Returns
    -------
    Cells

    References
    ----------
    Raghu et al. 2017; Wu et al. 2020.
    """
    subspace, share = svcca_subspace(options), options["top"]
    if share >= 1:
        total, count = strip.correlation_sum(subspace), strip.count(subspace)
    else:
        rho = strip.correlations(subspace)
        largest = _largest(strip.count(subspace), rho.shape[1], share)
        total, count = (rho * largest).sum(1), largest.sum(1)
    return Cells(forward=total / count.clamp_min(1), reasons=_reasons(strip, subspace))


def _largest(counts: torch.Tensor, most: int, share: float) -> torch.Tensor:
    """Mask of each pair's descending correlations that are in the largest share, bool of shape (b, most)."""
    top_counts = [count_of_top(count, share) for count in counts.tolist()]
    return torch.arange(most, device=counts.device) < torch.tensor(top_counts, device=counts.device)[:, None]


PWCCA_SUBSPACES: Mapping[str, Subspace] = MappingProxyType(
    {"morcos": "full", "svcca": ("center", 0.99, True), "wu": ("standardize", 0.99, False)}
)


def pwcca_subspace(options: Mapping[str, Any]) -> Subspace:
    """All directions, or those of SVCCA."""
    return PWCCA_SUBSPACES[options["variant"]]


def pwcca(strip: Strip, options: Mapping[str, Any]) -> Cells:
    """
    Average the canonical correlations, weighted by how much of a layer each variate accounts for.

    Parameters
    ----------
    strip : Strip
    options : mapping
        `variant`: "morcos" at full rank; "svcca" on the subspaces of SVCCA; "wu" as in the code of Wu et
        al. (standardized, one component fewer, weights from unstandardized neurons). `top`: the share of
        largest correlations that is averaged, with their weights.

    Returns
    -------
    Cells
        Forward weights by the left layer, backward by the right one. Undefined when the ranks add up to
        more than n - 1: some correlations are then always 1, and their variates arbitrary.

    References
    ----------
    Morcos et al. 2018; Wu et al. 2020.
    """
    subspace = pwcca_subspace(options)
    rho, U, V = strip.canonical(subspace)
    left_rank, right_ranks = strip.kept(subspace)
    reasons = list(_reasons(strip, subspace))
    for j, right_rank in enumerate(right_ranks):
        if reasons[j] is None and left_rank + right_rank > strip.n - 1:
            reasons[j] = f"the ranks {left_rank} and {right_rank} add up to more than n - 1 = {strip.n - 1}"
    load_left = basis(strip.left, subspace).load()[strip.row, :, : U.shape[1]]
    load_right = basis(strip.right, subspace).load()[strip.columns, :, : V.shape[1]]
    if options["top"] < 1:
        largest = _largest(strip.count(subspace)[int(strip.same) :], rho.shape[1], options["top"])
        U, V = U * largest[:, None, :], V * largest[:, None, :]
    # Expanded, since a matrix times a batch would be transposed and copied.
    forward = _weighted(rho, load_left.expand(len(U), -1, -1) @ U, strip.same)
    backward = _weighted(rho, load_right[int(strip.same) :] @ V, strip.same) if strip.both else None
    return Cells(forward=forward, backward=backward, reasons=tuple(reasons))


def _weighted(rho: torch.Tensor, products: torch.Tensor, same: bool) -> torch.Tensor:
    """
    Mean of rho (b, m) with weights from the products of neurons and variates (b, features, m).

    A layer with itself, which comes first, has the mean 1 for any weights.
    """
    weights = torch.linalg.vector_norm(products, ord=1, dim=1).double()
    mean = (weights * rho).sum(1) / weights.sum(1)
    return torch.cat([mean.new_ones(1), mean]) if same else mean


CCA = Measure(
    name="cca",
    title="mean CCA",
    summary="Mean canonical correlation over the smaller rank (or mean of the squares).",
    formula="mean of rho_i (or rho_i^2), rho = singular values of U_x' U_y, U orthonormal bases of the "
    "centered layers; directions below 1e-6 of the largest eigenvalue of the correlation matrix left out",
    citations=("hotelling1936", "kornblith2019"),
    range=(0.0, 1.0),
    symmetric=True,
    invariances=invariant(*ALL),
    needs="moments",
    compute=cca,
    options={
        "statistic": MeasureOption(
            default="mean_rho", choices=("mean_rho", "mean_rho2"), meaning="average rho, or its square"
        )
    },
    subspace=full,
    null="wachter",
    varying={"null": lambda o: "mean_square" if o["statistic"] == "mean_rho2" else "wachter"},
)

SVCCA = Measure(
    name="svcca",
    title="SVCCA",
    summary="Mean canonical correlation of the principal directions that hold 99 % of the variance.",
    formula="CCA after keeping the leading principal components up to the threshold",
    citations=("raghu2017", "wu2020"),
    range=(0.0, 1.0),
    symmetric=True,
    invariances=invariant("orthogonal", "isotropic_scale", "translation", "neuron_permutation"),
    needs="moments",
    compute=svcca,
    options={
        "scaling": MeasureOption(
            default="center",
            choices=("center", "standardize"),
            meaning="center as published, or standardize neurons as the code of Wu et al.",
        ),
        "threshold": MeasureOption(default=0.99, low=0.01, high=1.0, meaning="share of variance to keep"),
        "inclusive": MeasureOption(
            default=True,
            choices=(True, False),
            meaning="keep the component that crosses the threshold (the code of Wu et al. does not)",
        ),
        "top": TOP,
    },
    subspace=svcca_subspace,
    null="wachter",
    varying={
        "null": lambda o: "wachter" if o["top"] >= 1 else None,
        "invariances": lambda o: invariant(
            *("isotropic_scale", "translation", "neuron_permutation"),
            *(("neuron_scale",) if o["scaling"] == "standardize" else ("orthogonal",)),
        ),
    },
)

PWCCA = Measure(
    name="pwcca",
    title="PWCCA",
    summary="Canonical correlations weighted by how much of the left layer each variate accounts for.",
    formula="sum a_i rho_i, a_i proportional to sum_j |<h_i, x_j>|, h_i the left layer's i-th variate",
    citations=("morcos2018", "wu2020"),
    range=(0.0, 1.0),
    symmetric=False,
    invariances=invariant(
        *("isotropic_scale", "translation", "neuron_permutation"),
        right=("orthogonal", "invertible_linear", "neuron_scale"),
    ),
    needs="moments",
    compute=pwcca,
    options={
        "variant": MeasureOption(
            default="morcos",
            choices=("morcos", "svcca", "wu"),
            meaning="full rank, on the SVCCA subspaces, or as the code of Wu et al.",
        ),
        "top": TOP,
    },
    subspace=pwcca_subspace,
    null="wachter",
    varying={
        "null": lambda o: "wachter" if o["top"] >= 1 else None,
        "invariances": lambda o: {
            "morcos": PWCCA.invariances,
            "svcca": invariant("isotropic_scale", "translation", "neuron_permutation", right=("orthogonal",)),
            "wu": invariant("isotropic_scale", "translation", "neuron_permutation", right=("neuron_scale",)),
        }[o["variant"]],
    },
)
