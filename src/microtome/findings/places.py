"""Where do layers stand of which nothing can be computed? In their places, empty, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..inference.estimate import Sides
from .maps import Map

SAME_TOKEN = "layer 0 of the first token is the same in every example"


def with_places(one: Map, names: Sequence[str], empty: Mapping[str, int]) -> Map:
    """
    Keep the places of layers that were not compared, so that no other layer takes their number.

    Parameters
    ----------
    one : Map
        Of a stack with itself, without those layers.
    names : sequence of str
        Of all layers, in their order.
    empty : mapping of str to int
        Features of each layer that the map is without.

    Returns
    -------
    Map
        Over all layers. Cells of the empty ones are undefined, `SAME_TOKEN` is their reason, and all other
        numbers stay as they are.
    """
    if not empty:
        return one
    at = [place for place, name in enumerate(names) if name not in empty]
    widths = {place: empty[name] for place, name in enumerate(names) if name in empty}
    reasons = np.full((len(names), len(names)), SAME_TOKEN, dtype=object)
    reasons[np.ix_(at, at)] = np.array(one.reasons, dtype=object)

    def table(found: Any, axis: int = 0) -> Any:
        return None if found is None else _spread(found, (axis, axis + 1), at, len(names))

    def known(facts: Mapping[str, np.ndarray] | None) -> Mapping[str, np.ndarray] | None:
        if facts is None:
            return None
        out = {name: _spread(each, (0,), at, len(names)) for name, each in facts.items()}
        for name in {"width", "constant"} & set(out):
            out[name][list(widths)] = list(widths.values())
        return MappingProxyType(out)

    kept = one.resamples
    if kept is not None:
        # Scores have their units behind the layers, replicates stand before them.
        kept = replace(kept, array=table(kept.array, 0 if kept.kind == "scores" else 1))
    return replace(
        one,
        left=tuple(names),
        right=tuple(names),
        reasons=tuple(tuple(row) for row in reasons.tolist()),
        **{name: table(getattr(one, name)) for name in ("values", "null_mean", "z", "p")},
        **{name: table(getattr(one, name)) for name in ("low", "high", "p_map")},
        **{
            name: Sides(*(None if side is None else _spread(side, (0,), at, len(names)) for side in sides))
            for name, sides in (("rank", one.rank), ("kept", one.kept), ("lost", one.lost))
        },
        layers=Sides(*(known(side) for side in one.layers)),
        details=MappingProxyType({name: table(each) for name, each in one.details.items()}),
        resamples=kept,
    )


def empty_places(one: Map, side: str = "left") -> frozenset[int]:
    """
    Find the layers of a map that only have a place, of which nothing is to be said.

    Parameters
    ----------
    one : Map
    side : {"left", "right"}

    Returns
    -------
    frozenset of int
    """
    every = one.reasons if side == "left" else zip(*one.reasons, strict=True)
    return frozenset(place for place, why in enumerate(every) if set(why) == {SAME_TOKEN})


def _spread(found: np.ndarray, axes: tuple[int, ...], at: Sequence[int], count: int) -> np.ndarray:
    """Put the layers of some axes where they belong among all: NaN, or 0 for whole numbers, between them."""
    shape = [count if axis in axes else size for axis, size in enumerate(found.shape)]
    out = np.full(shape, np.nan if found.dtype.kind == "f" else 0, dtype=found.dtype)
    index = [np.asarray(at) if axis in axes else np.arange(n) for axis, n in enumerate(found.shape)]
    out[np.ix_(*index)] = found
    return out
