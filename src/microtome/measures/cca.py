"""How well can linear combinations of two layers be matched? CCA, and its cut and weighted relatives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..moments.cells import Cells
from ..moments.strip import Strip, Subspace, basis
from .declare import Measure, Option, invariant

if TYPE_CHECKING:
    import torch

ALL = (
    "orthogonal",
    "isotropic_scale",
    "invertible_linear",
    "translation",
    "neuron_permutation",
    "neuron_scale",
)
NO_DIRECTION = "no direction is kept: a layer is constant, or its first component alone passes the threshold"


def _reasons(strip: Strip, subspace: Subspace) -> tuple[str | None, ...]:
    left, right = strip.kept(subspace)
    return tuple(None if left and r else NO_DIRECTION for r in right)


def full(options: Mapping[str, Any]) -> Subspace:
    """All directions that the rank rule keeps."""
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
        `scaling`: "center" as in the papers, "standardize" as in the code of Wu et al.; `threshold`;
        `inclusive`: whether the component that crosses the threshold is kept.

    Returns
    -------
    Cells

    References
    ----------
    Raghu et al. 2017; Wu et al. 2020.
    """
    subspace = svcca_subspace(options)
    total = strip.correlation_sum(subspace)
    return Cells(forward=total / strip.count(subspace).clamp_min(1), reasons=_reasons(strip, subspace))


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
        `variant`: "morcos" at full rank; "svcca" on the subspaces of SVCCA; "wu" as the code of Wu et
        al. has it (standardized, one component fewer, weights from unstandardized neurons).

    Returns
    -------
    Cells
        Forward weights by the left layer, backward by the right one. Undefined when the ranks add up to
        more than n - 1: some correlations are then 1 whatever the data, and their variates arbitrary.

    References
    ----------
    Morcos et al. 2018; Wu et al. 2020.
    """
    subspace = pwcca_subspace(options)
    rho, U, V = strip.canonical(subspace)
    left, right = strip.kept(subspace)
    reasons = list(_reasons(strip, subspace))
    for j, r in enumerate(right):
        if reasons[j] is None and left + r > strip.n - 1:
            reasons[j] = f"the ranks {left} and {r} add up to more than n - 1 = {strip.n - 1}"
    load_left = basis(strip.left, subspace).load()[strip.row, :, : U.shape[1]]
    load_right = basis(strip.right, subspace).load()[strip.columns, :, : V.shape[1]]
    # Expanded, since a matrix times a batch would be turned around and copied.
    forward = _weighted(rho, load_left.expand(len(U), -1, -1) @ U, strip.same)
    backward = _weighted(rho, load_right[int(strip.same) :] @ V, strip.same) if strip.both else None
    return Cells(forward=forward, backward=backward, reasons=tuple(reasons))


def _weighted(rho: torch.Tensor, products: torch.Tensor, same: bool) -> torch.Tensor:
    """
    Mean of rho (b, m) with weights from the products of neurons and variates (b, features, m).

    A layer with itself, which goes before the others, has the mean 1 whatever the weights.
    """
    import torch

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
    options=MappingProxyType(
        {
            "statistic": Option(
                default="mean_rho", choices=("mean_rho", "mean_rho2"), meaning="average rho, or its square"
            )
        }
    ),
    subspace=full,
    null="wachter",
    varying=MappingProxyType(
        {"null": lambda o: "mean_square" if o["statistic"] == "mean_rho2" else "wachter"}
    ),
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
    options=MappingProxyType(
        {
            "scaling": Option(
                default="center",
                choices=("center", "standardize"),
                meaning="center as published, or standardize neurons as the code of Wu et al.",
            ),
            "threshold": Option(default=0.99, low=0.01, high=1.0, meaning="share of variance to keep"),
            "inclusive": Option(
                default=True,
                choices=(True, False),
                meaning="keep the component that crosses the threshold (the code of Wu et al. does not)",
            ),
        }
    ),
    subspace=svcca_subspace,
    null="wachter",
    varying=MappingProxyType(
        {
            "invariances": lambda o: invariant(
                *("isotropic_scale", "translation", "neuron_permutation"),
                *(("neuron_scale",) if o["scaling"] == "standardize" else ("orthogonal",)),
            )
        }
    ),
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
    options=MappingProxyType(
        {
            "variant": Option(
                default="morcos",
                choices=("morcos", "svcca", "wu"),
                meaning="full rank, on the SVCCA subspaces, or as the code of Wu et al.",
            )
        }
    ),
    subspace=pwcca_subspace,
    null="wachter",
    varying=MappingProxyType(
        {
            "invariances": lambda o: {
                "morcos": PWCCA.invariances,
                "svcca": invariant(
                    "isotropic_scale", "translation", "neuron_permutation", right=("orthogonal",)
                ),
                "wu": invariant(
                    "isotropic_scale", "translation", "neuron_permutation", right=("neuron_scale",)
                ),
            }[o["variant"]]
        }
    ),
)
