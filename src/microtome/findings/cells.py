"""Tables of map cells, one row per cell, and lookup of layers by name or number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must, unknown

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
