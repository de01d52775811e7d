"""Canonical correlation analysis: mean CCA, SVCCA and PWCCA."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..lazy import torch
from ..moments.strip import Cells, Strip, Subspace, basis, undefined
from ..moments.whitened import QuadraticForm
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
# Largest variance of the square of a correlation rho over n rows, in units of rho^2 / n.
NOISE = 4.0
NO_DIRECTION = "no direction is kept: a layer is constant, or its first component alone passes the threshold"


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
    return Cells(forward=total / count, reasons=undefined(*strip.kept("full"), NO_DIRECTION))


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
    return Cells(forward=total / count.clamp_min(1), reasons=undefined(*strip.kept(subspace), NO_DIRECTION))


def svcca_influence(strip: Strip, options: Mapping[str, Any]) -> list[QuadraticForm]:
    """
    What each row adds to the mean of the correlations, the kept directions held fixed.

    A row moves a correlation rho by uv - rho (u^2 + v^2) / 2, with u and v its variates.
    """
    subspace, share, skip = svcca_subspace(options), options["top"], int(strip.same)
    if share >= 1:
        cross, count = strip.polar(subspace), strip.count(subspace)[skip:]
    else:
        rho, U, V = strip.canonical(subspace)
        largest = _largest(strip.count(subspace)[skip:], rho.shape[1], share)
        cross, count = (U * largest[:, None, :]) @ V.mT, largest.sum(1)
    cross = cross / count.clamp_min(1)[:, None, None]
    T = strip.whitened(subspace)[skip:].to(cross.dtype)
    parts = (T @ cross.mT / -2, cross, cross.mT @ T / -2)
    return [QuadraticForm(*(part.to(strip.left.dtype) for part in parts))]


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
    reasons = list(undefined(left_rank, right_ranks, NO_DIRECTION))
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


def pwcca_influence(strip: Strip, options: Mapping[str, Any]) -> list[QuadraticForm]:
    """What each row adds to the weighted mean, by the weights of the left layer and by those of the right."""
    subspace = pwcca_subspace(options)
    rho, U, V = strip.canonical(subspace)
    skip = int(strip.same)
    if options["top"] < 1:
        largest = _largest(strip.count(subspace)[skip:], rho.shape[1], options["top"])
        U, V = U * largest[:, None, :], V * largest[:, None, :]
    load_left = basis(strip.left, subspace).load()[strip.row, :, : U.shape[1]]
    sides = list(zip(rho, U, V, strict=True))
    forms = [[_weighted_form(*pair, load_left, strip.n) for pair in sides]]
    if strip.both:
        load_right = basis(strip.right, subspace).load()[strip.columns, :, : V.shape[1]][skip:]
        forms.append(
            [
                _weighted_form(r, v, u, load, strip.n).swapped
                for (r, u, v), load in zip(sides, load_right, strict=True)
            ]
        )
    return [QuadraticForm(*map(torch.stack, zip(*form, strict=True))) for form in forms]


def _weighted_form(
    rho: torch.Tensor, U: torch.Tensor, V: torch.Tensor, load: torch.Tensor, n: int
) -> QuadraticForm:
    """
    The form of one pair's mean of rho, with weights from the products of neurons and variates of one side.

    A row moves the correlations, as in `svcca_influence`, and the variates, hence their weights: variate j
    turns towards variate l, the more the closer their correlations.

    Parameters
    ----------
    rho : Tensor of shape (m,)
    U, V : Tensor of shape (k, m) and (l, m)
        As in `nuclear.canonical`; U of the side whose weights are taken.
    load : Tensor of shape (features, k)
        Product of each neuron of that side with each whitened direction.
    n : int
        Number of rows.
    """
    signs = (load @ U).sign()
    # Of variate l, or whitened direction l, (rows) to the weight of variate j (columns).
    signed = load.mT @ signs
    towards = U.mT @ signed
    weights, square = towards.diagonal().double(), rho.square()
    total = weights.sum()
    weights = weights / total
    mean = weights @ rho
    excess = (rho - mean) / total
    share = towards.double() * excess
    gap = square - square[:, None]
    # Correlations that differ by no more than sampling moves them do not tell their variates apart.
    turn = share * gap / (gap.square() + NOISE / n * (square + square[:, None])).clamp_min(1e-300)
    left = share - turn * square
    left.diagonal().copy_(-weights * mean / 2)
    cross = (turn + turn.T) * rho + weights.diag()
    right = -turn * rho * rho[:, None] - (weights * rho / 2).diag()
    form = QuadraticForm(
        left=U @ left.to(U.dtype) @ U.T, cross=U @ cross.to(U.dtype) @ V.T, right=V @ right.to(U.dtype) @ V.T
    )
    if U.shape[0] == U.shape[1]:
        return form
    # Towards directions of the wider side that are correlated with nothing.
    outside, damped = signed - U @ towards, (square + NOISE / n).clamp_min(1e-300)
    form.left.add_((outside * (excess * NOISE / n / damped).to(U.dtype)) @ U.T)
    form.cross.add_((outside * (excess * rho / damped).to(U.dtype)) @ V.T)
    return form


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
    influence=svcca_influence,
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
    influence=pwcca_influence,
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
