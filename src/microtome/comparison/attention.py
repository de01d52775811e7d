"""How alike do two models attend? Maps of attention measures, read sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError, must
from ..findings.maps import Map, Maps
from ..findings.paired import Resamples
from ..inference.clusters import Clusters
from ..inference.estimate import Sides
from ..inference.halves import half_interval, half_plan
from ..measures.attention import AttentionCells
from ..measures.attention_pass import AttentionPass
from ..measures.declare import Chosen, Measure
from ..measures.table import chosen_all
from .inputs import row_digest, using_threads


def attention_similarity_matrix(
    left: Iterable[Any],
    right: Iterable[Any] | None = None,
    measures: str | Measure | Chosen | Iterable[str | Measure | Chosen] = "attention_js",
    *,
    causal: bool = False,
    certainty: bool = False,
    clusters: Any = None,
    halves: int = 40,
    level: float = 0.95,
    seed: int = 0,
    threads: int | None = None,
    names: Sequence[str] | None = None,
    right_names: Sequence[str] | None = None,
) -> Maps:
    """
    Compare the attention of every layer of one model with every layer of another, or of itself.

    Parameters
    ----------
    left : iterable of arrays of shape (layers, heads, words, words)
        Word-level attention of one sentence after the other; rows sum to 1, padding is gone.
    right : the same sentences through another model, optional
        None compares the left with itself.
    measures : str or sequence
        Attention measures of `microtome ls measures`.
    causal : bool
        Cut every model's attention to the lower triangle and renormalize it, so that causal and
        bidirectional models can be compared.
    certainty : bool
        Whether to give half-sampling intervals over sentences; both sides must then be lists.
    clusters : array_like of shape (sentences,), optional
        Which sentences belong together, such as those of one document: intervals then go by cluster.
    halves : int
        Half-samples.
    level : float
    seed : int
    threads : int, optional
    names, right_names : sequence of str, optional
        Names of the layers.

    Returns
    -------
    Maps
    """
    choices = chosen_all(measures)
    for choice in choices:
        if choice.declared("needs") != "attention":
            raise InputError(f"{choice.label} must be given rows, not attention maps; use similarity_matrix.")
    if certainty and not (isinstance(left, Sequence) and (right is None or isinstance(right, Sequence))):
        raise InputError("certainty must be asked of lists of sentences, which can be read again.")
    with using_threads(threads):
        whole = _read(left, right, choices, causal)
        maps = {
            label: as_attention_map(cells, right is None, names, right_names, seed)
            for label, cells in whole.items()
        }
        if certainty:
            told: dict[str, Any] = {"clusters": clusters, "halves": halves, "level": level, "seed": seed}
            maps = _with_intervals(maps, left, right, choices, causal, **told)
    return Maps(list(maps.values()))


def _read(
    left: Iterable[Any], right: Iterable[Any] | None, choices: Sequence[Chosen], causal: bool
) -> dict[str, AttentionCells]:
    reading = AttentionPass(choices, causal=causal)
    if right is None:
        for one in left:
            reading.add(one)
        return reading.finish()
    others = iter(right)
    count = 0
    for one in left:
        other = next(others, None)
        if other is None:
            raise InputError(f"both sides must have the same sentences, but the right ends after {count}.")
        reading.add(one, other)
        count += 1
    if next(others, None) is not None:
        raise InputError(f"both sides must have the same sentences, but the left ends after {count}.")
    return reading.finish()


def _names(given: Sequence[str] | None, count: int, side: str) -> tuple[str, ...]:
    if given is None:
        return tuple(str(k + 1) for k in range(count))
    if len(given) != count:
        raise must(f"names of the {side} layers", f"{count}, one a layer", len(given))
    return tuple(given)


def as_attention_map(
    cells: AttentionCells,
    symmetric: bool,
    names: Sequence[str] | None,
    right_names: Sequence[str] | None,
    seed: int,
) -> Map:
    """
    Put the cells of a measure of attention together with all that a reader must know of them.

    Parameters
    ----------
    cells : AttentionCells
    symmetric : bool
        Whether a model was compared with itself.
    names, right_names : sequence of str, optional
        Names of the layers.
    seed : int
        For the record.
    """
    blank = np.full(cells.forward.shape, np.nan)
    left = _names(names, cells.forward.shape[0], "left")
    right = left if symmetric else _names(right_names, cells.forward.shape[1], "right")
    dropped = []
    if cells.dropped_sentences or cells.dropped_words:
        dropped.append(f"{cells.dropped_sentences} sentences and {cells.dropped_words} words were left out")
    return Map(
        measure=cells.label,
        left=left,
        right=right,
        values=cells.forward,
        reasons=cells.reasons,
        n=cells.words,
        estimator=f"{cells.estimator}; {cells.sentences} sentences, {cells.words} words",
        null_mean=blank,
        z=blank,
        p=blank,
        null_note="no formula is known for attention measures",
        unit="sentence",
        rank=Sides(*cells.rank) if cells.rank is not None else Sides(None, None),
        kept=Sides(*cells.kept) if cells.kept is not None else Sides(None, None),
        precision="exact",
        warnings=tuple(dropped),
        details=MappingProxyType({"backward": cells.backward}),
        symmetric=symmetric,
        provenance=MappingProxyType({"sentences": cells.sentences, "seed": seed}),
    )


def _with_intervals(
    maps: dict[str, Map],
    left: Any,
    right: Any,
    choices: Sequence[Chosen],
    causal: bool,
    *,
    clusters: Any,
    halves: int,
    level: float,
    seed: int,
) -> dict[str, Map]:
    units = (
        Clusters.singletons(len(left))
        if clusters is None
        else Clusters.from_ids(clusters, len(left), balanced=False)
    )
    unit = "sentence" if units.single else "cluster"
    digest = f"attention/{seed}/{len(left)}"
    if not units.single:
        digest += f"/{row_digest(len(left), None, units)}"
    plan = half_plan(units, halves, seed)
    found: dict[str, list[np.ndarray]] = {label: [] for label in maps}
    for chosen in plan:
        part = _read(
            [left[i] for i in chosen], None if right is None else [right[i] for i in chosen], choices, causal
        )
        for label, values in found.items():
            values.append(part[label].forward)
    out = {}
    for label, one in maps.items():
        replicates = np.stack(found[label])
        band = half_interval(one.values, replicates, level, units=len(units), unit=unit)
        out[label] = replace(
            one,
            low=band.low,
            high=band.high,
            level=level,
            method=band.method,
            unit=unit,
            target=band.target,
            resamples=Resamples(kind="halves", array=replicates, units=len(units), digest=digest),
        )
    return out
