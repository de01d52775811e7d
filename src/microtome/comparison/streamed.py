"""How do moments that were added up on the way become maps?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ..errors import InputError
from ..findings.maps import Maps
from ..measures.declare import Chosen
from ..measures.table import chosen_all
from ..moments.streamed import StreamedMoments
from .describe import as_map
from .engine import run
from .plan import Settings, make_plan
from .request import Request
from .routes import Raw

# There is only one pass, so its moments must fit as they are.
UNBOUNDED = 2**62


def needs_rows(measures: Any) -> list[Chosen]:
    """Those of some measures that cannot be computed from moments."""
    return [choice for choice in chosen_all(measures) if choice.declared("needs") != "moments"]


def streamed_maps(moments: StreamedMoments, measures: Any, *, note: str = "", seed: int = 0) -> Maps:
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
    outcome = run(left, right, choices, plan, settings, seed=seed, source=lambda *_, **__: crossing)
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
