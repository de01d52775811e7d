"""Placeholder rows and columns for layers that are constant over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..inference.estimate import Sides
from .maps import Map

SAME_TOKEN = "layer 0 of the first token is the same in every example"


def with_places(similarity_map: Map, names: Sequence[str], empty: Mapping[str, int]) -> Map:
    """
    Insert undefined rows and columns for layers that were not compared, so that layer numbers are kept.

    Parameters
    ----------
    similarity_map : Map
        Of a stack with itself, without those layers.
    names : sequence of str
        Of all layers, in their order.
    empty : mapping of str to int
        Number of features of each layer that the map lacks.

    Returns
    -------
    Map
        Over all layers. Cells of the inserted ones are undefined with the reason `SAME_TOKEN`, and all other
        numbers are unchanged.
    """
    if not empty:
        return similarity_map
    indices = [index for index, name in enumerate(names) if name not in empty]
    widths = {index: empty[name] for index, name in enumerate(names) if name in empty}
    reasons = np.full((len(names), len(names)), SAME_TOKEN, dtype=object)
    reasons[np.ix_(indices, indices)] = np.array(similarity_map.reasons, dtype=object)

    def table(array: Any, axis: int = 0) -> Any:
        return None if array is None else _spread(array, (axis, axis + 1), indices, len(names))

    def place_facts(facts: Mapping[str, np.ndarray] | None) -> Mapping[str, np.ndarray] | None:
        if facts is None:
            return None
        out = {name: _spread(array, (0,), indices, len(names)) for name, array in facts.items()}
        for name in {"width", "constant"} & set(out):
            out[name][list(widths)] = list(widths.values())
        return MappingProxyType(out)

    resamples = similarity_map.resamples
    if resamples is not None:
        # Scores have their units on the last axis, replicates on the first.
        resamples = replace(resamples, array=table(resamples.array, 0 if resamples.kind == "scores" else 1))
    return replace(
        similarity_map,
        left=tuple(names),
        right=tuple(names),
        reasons=tuple(tuple(row) for row in reasons.tolist()),
        **{name: table(getattr(similarity_map, name)) for name in ("values", "null_mean", "z", "p")},
        **{name: table(getattr(similarity_map, name)) for name in ("low", "high", "p_map")},
        **{
            name: Sides(
                *(None if side is None else _spread(side, (0,), indices, len(names)) for side in sides)
            )
            for name, sides in (
                ("rank", similarity_map.rank),
                ("kept", similarity_map.kept),
                ("lost", similarity_map.lost),
            )
        },
        layers=Sides(*(place_facts(side) for side in similarity_map.layers)),
        details=MappingProxyType({name: table(array) for name, array in similarity_map.details.items()}),
        resamples=resamples,
    )


def empty_places(similarity_map: Map, side: str = "left") -> frozenset[int]:
    """
    Find the placeholder layers of a map.

    Parameters
    ----------
    similarity_map : Map
    side : {"left", "right"}

    Returns
    -------
    frozenset of int
    """
    layer_reasons = similarity_map.reasons if side == "left" else zip(*similarity_map.reasons, strict=True)
    return frozenset(index for index, reasons in enumerate(layer_reasons) if set(reasons) == {SAME_TOKEN})


def _spread(array: np.ndarray, axes: tuple[int, ...], positions: Sequence[int], count: int) -> np.ndarray:
    """Scatter the layers of some axes to their positions; NaN, or 0 for integers, fills the others."""
    shape = [count if axis in axes else size for axis, size in enumerate(array.shape)]
    out = np.full(shape, np.nan if array.dtype.kind == "f" else 0, dtype=array.dtype)
    index = [np.asarray(positions) if axis in axes else np.arange(n) for axis, n in enumerate(array.shape)]
    out[np.ix_(*index)] = array
    return out
