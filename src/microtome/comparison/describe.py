"""Assembly of maps: null values, estimator description, warnings and provenance."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from ..encoders.versions import provenance
from ..errors import SmallSampleWarning
from ..findings.maps import Map
from ..findings.record import Maps
from ..findings.words import at_most
from ..inference.estimate import Sides
from ..inference.permutation import Null, gamma_p, z_score
from ..measures.declare import Chosen
from .inputs import row_digest
from .request import Request
from .tables import Outcome, Table


def as_map(request: Request, outcome: Outcome, choice: Chosen) -> Map:
    """
    Build a map from a table of values, with its null, estimator, warnings and provenance.

    Parameters
    ----------
    request : Request
    outcome : Outcome
    choice : Chosen
        Which measure.
    """
    table = outcome.tables[choice.label]
    blank = np.full(table.values.shape, np.nan)
    z, p = blank, blank.copy()
    explanation = "no formula is known for its spread; ask for permutations"
    if choice.declared("null") in ("cka", "debiased"):
        if request.clusters is not None:
            explanation = (
                "rows come in clusters, so the formula for independent rows does not hold; "
                "ask for permutations"
            )
        else:
            explanation = ""
            null = Null(mean=table.null_mean, sd=table.null_sd)
            z = z_score(table.values, null)
            shape = null
            if "biased_null_mean" in table.details:
                shape = Null(mean=table.details["biased_null_mean"], sd=table.details["biased_null_sd"])
            p = gamma_p(table.values, null, like=shape)
    if not np.isfinite(table.null_mean).any():
        explanation = "no formula is known for what unrelated rows would give; ask for permutations"
    elif request.clusters is not None and choice.declared("null") not in ("debiased", "zero"):
        # The mean over permutations of single rows does not hold for unrelated clusters.
        explanation += "; the null mean is that of single rows, and too low for clusters"
    messages = _warnings(request, outcome, choice, table)
    return Map(
        measure=choice.label,
        left=request.left.names,
        right=request.sides[-1].names,
        values=table.values,
        reasons=tuple(tuple(row) for row in table.reasons.tolist()),
        n=request.n,
        estimator=_estimator(choice, request),
        null_mean=table.null_mean,
        z=z,
        p=p,
        null_note=explanation,
        unit="row" if request.clusters is None else "cluster",
        rank=table.rank,
        kept=table.kept,
        lost=table.lost,
        layers=Sides(MappingProxyType(outcome.left), MappingProxyType(outcome.right)),
        precision="exact" if choice.declared("needs") == "rows" else outcome.precision,
        warnings=messages,
        details=MappingProxyType(table.details),
        symmetric=request.right is None,
        provenance=MappingProxyType(
            provenance(
                {
                    "device": str(request.device),
                    "seed": request.options.seed,
                    "rows_digest": row_digest(request.n, request.left.index, request.clusters),
                }
            )
        ),
    )


def _estimator(choice: Chosen, request: Request) -> str:
    name = choice.declared("title")
    unused = ("folds", "ridge", "seed") if choice.options.get("estimator") == "in_sample" else ()
    parts = [f"{key} {value}" for key, value in choice.options.items() if key not in unused]
    if choice.measure.name == "debiased_cka":
        name = "debiased CKA" if request.clusters is None else "cluster-debiased CKA"
        parts.append(
            "rows taken as independent"
            if request.clusters is None
            else f"pairs within {len(request.clusters)} clusters left out"
        )
    if choice.measure.name == "linear_cka":
        parts.append("biased")
    if choice.declared("subspace") is not None:
        parts.append("rank tolerance 1e-6")
    if request.note:
        parts.append(request.note)
    return f"{name} ({', '.join(parts)})" if parts else str(name)


def _warnings(request: Request, outcome: Outcome, choice: Chosen, table: Table) -> tuple[str, ...]:
    messages = []
    n = request.n
    if table.kept.left is not None:
        most = int(max(side.max() for side in table.kept))
        if n < 5 * most:
            text = (
                f"{choice.label} compares up to {most} dimensions on {n} rows; "
                f"below {5 * most} rows it is inflated"
                + (", and at so few rows it is near 1 whatever the data" if n < 2 * most else "")
            )
            messages.append(text)
            warnings.warn(text, SmallSampleWarning, stacklevel=4)
    elif choice.measure.name == "linear_cka":
        mean = float(np.nanmax(table.null_mean)) if np.isfinite(table.null_mean).any() else 0.0
        if mean > 0.1:
            messages.append(
                f"linear_cka of unrelated rows would be up to {at_most(mean)} here; debiased_cka has no such "
                "floor"
            )
    flagged = [
        name
        for stack, facts in ((request.left, outcome.left), (request.sides[-1], outcome.right))
        for name, outlier in zip(stack.names, facts["outlier"], strict=True)
        if outlier
    ]
    if flagged:
        names = ", ".join(dict.fromkeys(flagged))
        messages.append(
            f"three neurons hold more than half of the variance of layer {names}; see zscore and remove_top"
        )
    return tuple(messages)


def timed(maps: Iterable[Map], started: float) -> Maps:
    """Collect the maps of a comparison that started at a time of `time.perf_counter`."""
    seconds = round(time.perf_counter() - started, 3)
    return Maps([replace(m, provenance=MappingProxyType({**m.provenance, "seconds": seconds})) for m in maps])
