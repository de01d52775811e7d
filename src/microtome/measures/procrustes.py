"""Procrustes similarity (normalized Bures similarity)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..lazy import torch
from ..moments.strip import Cells, Strip
from .cka import constant_layers
from .declare import Measure, MeasureOption, invariant


def procrustes(strip: Strip, options: Mapping[str, Any]) -> Cells:
    """
    Compare two centered layers after the best rotation and scaling.

    Parameters
    ----------
    strip : Strip
    options : mapping
        `statistic`: "nbs", the normalized Bures similarity, a cosine; "angular", 1 - 2/pi times its angle.

    Returns
    -------
    Cells

    References
    ----------
    Williams et al. 2021.
    """
    norms = (strip.left.trace[strip.row] * strip.right.trace[strip.columns]).sqrt()
    nuclear = strip.once("nuclear", lambda: torch.stack([_nuclear(c) for c in strip.cross]))
    nbs = nuclear / norms
    if options["statistic"] == "angular":
        nbs = 1 - (2 / torch.pi) * torch.arccos(nbs.clamp_max(1.0))
    return Cells(forward=nbs, reasons=constant_layers(strip))


def _nuclear(matrix: Any) -> Any:
    """Sum of singular values; square roots of eigenvalues would lose half the digits of small ones."""
    return torch.linalg.svdvals(matrix).sum()


PROCRUSTES = Measure(
    name="procrustes",
    title="Procrustes",
    summary="Cosine between two centered layers after the best rotation (or its angle as a similarity).",
    formula="|X'Y|_* / (|X|_F |Y|_F), the nuclear norm over the Frobenius norms",
    citations=("williams2021",),
    range=(0.0, 1.0),
    symmetric=True,
    invariances=invariant("orthogonal", "isotropic_scale", "translation", "neuron_permutation"),
    needs="moments",
    compute=procrustes,
    options={
        "statistic": MeasureOption(
            default="nbs", choices=("nbs", "angular"), meaning="cosine, or 1 - 2/pi times its angle"
        )
    },
    varying={"title": lambda o: "NBS" if o["statistic"] == "nbs" else "angular Procrustes"},
)
