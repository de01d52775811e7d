"""Cells of similarity maps: their table, lookup of layers, and placeholders for constant layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must, unknown
from ..inference.estimate import Sides

if TYPE_CHECKING:
    from .maps import Map

TEXT = ("measure", "left", "right", "left_model", "right_model", "reason")
WHOLE = ("left_layer", "right_layer", "n", "rank_left", "rank_right", "kept_left", "kept_right")
COLUMNS = (
    *("measure", "left", "right", "left_model", "left_layer", "right_model", "right_layer"),
    *("value", "low", "high", "null_mean", "z", "p", "p_map"),
    *("n", "rank_left", "rank_right", "kept_left", "kept_right", "reason"),
)


def layer_of(name: str) -> tuple[str, int | None]:
    """
    Split the name of a layer into its model and its number.

    Examples
    --------
    >>> layer_of("google/bert/3"), layer_of("bert/norm"), layer_of("3")
    (('google/bert', 3), ('bert', None), ('', 3))
    """
    model, _, layer = name.rpartition("/")
    return model, int(layer) if layer.isdecimal() else None


def layer_numbers(names: Sequence[str]) -> list[int | None]:
    """
    List the numbers of the layers of one side: their indices, where no name has a number.

    Examples
    --------
    >>> layer_numbers(["a/0", "a/1", "a/norm", "b/0"]), layer_numbers(["early", "late"])
    ([0, 1, None, 0], [0, 1])
    """
    numbers = [layer_of(name)[1] for name in names]
    return list(range(len(names))) if all(number is None for number in numbers) else numbers


def find_place(side: str, names: Sequence[str], layer: Any) -> int:
    """
    Find the index of a layer by its name or its number.

    Parameters
    ----------
    side : {"left", "right"}
    names : sequence of str
        Of all layers of that side.
    layer : str or int
        A negative number counts from the last layer.

    Returns
    -------
    int
    """
    if isinstance(layer, str):
        if layer not in names:
            raise unknown(f"{side} layer", layer, names)
        return names.index(layer)
    if not isinstance(layer, int | np.integer):
        raise InputError(
            f"a cell must be a left and a right layer, each by its number or its name, but got {layer!r}; "
            "`values` has all cells as an array."
        )
    numbers = layer_numbers(names)
    defined = [number for number in numbers if number is not None]
    if len(set(defined)) < len(defined):
        first, last = names[0], names[-1]
        raise InputError(
            f"the {side} layer must be named by its model too, since there are several models, but got "
            f"{int(layer)}; write at(model, layer, model, layer), or a name between {first!r} and {last!r}."
        )
    if -len(names) <= layer < 0:
        return len(names) + int(layer)
    if layer not in defined:
        least, most = min(defined), max(defined)
        contiguous = len(defined) == most - least + 1
        allowed = f"between {least} and {most}" if contiguous else f"one of {', '.join(map(str, defined))}"
        raise must(f"the {side} layer", allowed, int(layer))
    return numbers.index(int(layer))


def cell_records(similarity_map: Map) -> list[dict[str, Any]]:
    """
    List all values of each cell; undefined or unknown values are None.

    Parameters
    ----------
    similarity_map : Map

    Returns
    -------
    list of dict
        With the keys of `COLUMNS`.
    """
    i, j = (places.ravel() for places in np.indices(similarity_map.shape))
    columns: dict[str, list[Any]] = {
        "measure": [similarity_map.measure] * len(i),
        "n": [similarity_map.n] * len(i),
        "reason": [reason for row in similarity_map.reasons for reason in row],
    }
    for side, names, places in (("left", similarity_map.left, i), ("right", similarity_map.right, j)):
        numbers = layer_numbers(names)
        columns[side] = [names[k] for k in places]
        columns[f"{side}_model"] = [layer_of(names[k])[0] or None for k in places]
        columns[f"{side}_layer"] = [numbers[k] for k in places]
        for what in ("rank", "kept"):
            dimensions = getattr(getattr(similarity_map, what), side)
            columns[f"{what}_{side}"] = [None if dimensions is None else int(dimensions[k]) for k in places]
    for column in ("value", "low", "high", "null_mean", "z", "p", "p_map"):
        table = getattr(similarity_map, "values" if column == "value" else column)
        table = np.full(similarity_map.shape, np.nan) if table is None else table
        columns[column] = [value if math.isfinite(value) else None for value in table.ravel().tolist()]
    cells = zip(*(columns[column] for column in COLUMNS), strict=True)
    return [dict(zip(COLUMNS, cell, strict=True)) for cell in cells]


def arrow_schema() -> Any:
    """Column types of the table of cells."""
    import pyarrow as pa

    return pa.schema(
        [(c, pa.string() if c in TEXT else pa.int64() if c in WHOLE else pa.float64()) for c in COLUMNS]
    )


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
