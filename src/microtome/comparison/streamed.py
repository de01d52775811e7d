"""How do moments that were added up on the way become maps?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..encoders.encoder import Encoder
from ..errors import InputError
from ..extraction.streaming import Window, constant_layers
from ..findings.maps import Map, Maps
from ..measures.declare import Chosen
from ..measures.table import chosen_all
from ..moments.streamed import StreamedMoments
from ..rows.planning import Rows
from .describe import as_map
from .engine import run as run_engine
from .inputs import using_threads
from .plan import Settings, make_plan
from .request import Request
from .routes import Raw

CLUSTERED = (
    "rows come in clusters, and formulas for independent rows do not hold; keep the rows to permute them"
)

# There is only one pass, so its moments must fit as they are.
UNBOUNDED = 2**62


def needs_rows(measures: Any) -> list[Chosen]:
    """Those of some measures that cannot be computed from moments."""
    return [choice for choice in chosen_all(measures) if choice.declared("needs") != "moments"]


def streamed_maps(
    moments: StreamedMoments, measures: Any, *, note: str = "", seed: int = 0, spectra: bool = False
) -> Maps:
    """
    Compute measures from moments alone.

    Parameters
    ----------
    moments : StreamedMoments
        Nothing can be added to them afterwards.
    measures : str or sequence
        Names of measures that need moments only.
    note : str
        What was done to the rows first.
    seed : int
        For the record.
    spectra : bool
        As in `similarity_matrix`.

    Returns
    -------
    Maps
    """
    started = time.perf_counter()
    choices: Sequence[Chosen] = tuple(chosen_all(measures))
    if missing := needs_rows(list(choices)):
        raise InputError(
            f"{missing[0].label} must see the rows again, but they were not kept; record them, and ask again."
        )
    crossing = moments.finish()
    left, right = moments.stack()
    n = crossing.n
    if n < 4 and any(c.measure.name == "debiased_cka" for c in choices):
        raise InputError(f"debiased_cka must have at least 4 rows, but got {n}.")
    exact = moments.tile.dtype.itemsize == 8
    settings = Settings(exact=exact, device=moments.device, memory=UNBOUNDED, progress=None)
    request = Request(
        left=left, right=right, measures=tuple(choices), clusters=None, settings=settings, seed=seed
    )
    plan = make_plan(left, right, choices, memory=UNBOUNDED, itemsize=8 if exact else 4)
    outcome = run_engine(
        left,
        right,
        choices,
        plan,
        settings,
        seed=seed,
        source=lambda *_, **__: crossing,
        spectra=spectra,
    )
    precision = "exact" if exact else "fast"
    if outcome.near_tolerance and not exact:
        precision = "fast; an eigenvalue lies near the rank tolerance, and the rows are gone"
    raw = Raw(
        tables=dict(outcome.tables),
        left=outcome.left,
        right=outcome.right,
        scores=outcome.scores,
        precision=precision,
    )
    seconds = round(time.perf_counter() - started, 3)
    maps = [as_map(request, raw, choice, note) for choice in choices]
    return Maps([replace(m, provenance=MappingProxyType({**m.provenance, "seconds": seconds})) for m in maps])


def streamed_windows(
    encoders: Sequence[Encoder],
    rows: Rows,
    run: Callable[[], Iterable[Window]],
    measures: Sequence[Chosen],
    *,
    grouped: bool,
    precision: str = "fast",
    device: Any = "cpu",
    seed: int = 0,
    threads: int | None = None,
    **options: Any,
) -> Maps:
    """
    Compare the layers of several models on rows that go straight into the moments.

    Parameters
    ----------
    encoders : sequence of Encoder
    rows : Rows
    run : callable
        Hands out the windows of rows of all encoders.
    measures : sequence of Chosen
    grouped : bool
        Whether rows come in clusters, of which debiasing would have to know.
    precision, device, seed, threads
        As in `similarity_matrix`; measures on subspaces are computed exactly, since the rows cannot be read
        again where float32 does not suffice.
    **options
        Refused: all others need the rows.

    Returns
    -------
    Maps
        Without the layers that are the same in every row.
    """
    import torch

    # These say how intervals would be, and how much of the rows may be held.
    idle = ("level", "halves", "memory")
    asked = [name for name, value in options.items() if value and name not in idle]
    if asked:
        raise InputError(f"{asked[0]} must have the rows again, but keep=False lets them go.")
    debiased = [choice.label for choice in measures if choice.measure.interval == "debiased"]
    if grouped and debiased:
        raise InputError(
            f"{debiased[0]} must know the {rows.unit} of each row, but keep=False lets them go; use "
            "linear_cka, or keep the rows."
        )
    exact = precision == "exact" or any(c.declared("subspace") is not None for c in measures)
    constant = [constant_layers(encoder, rows) for encoder in encoders]
    kept = [
        (side, k)
        for side, encoder in enumerate(encoders)
        for k in range(len(encoder.layers))
        if k not in constant[side]
    ]
    moments = StreamedMoments(
        [f"{encoders[side].name}/{encoders[side].layers[k]}" for side, k in kept],
        [encoders[side].widths[k] for side, k in kept],
        left=None,
        dtype=torch.float64 if exact else torch.float32,
        device=torch.device(device),
    )
    with using_threads(threads):
        for window in run():
            if window.stop > window.start:
                moments.add([window.layers[side][k].to(moments.device) for side, k in kept])
        found = streamed_maps(moments, list(measures), seed=seed, spectra=True)
    return Maps([_of_clusters(one) for one in found.values()]) if grouped else found


def _of_clusters(one: Map) -> Map:
    """Take back what only holds for independent rows."""
    blank = np.full(one.values.shape, np.nan)
    return replace(one, z=blank, p=blank, null_note=CLUSTERED)
