"""Tables of map cells, one row per cell, and lookup of layers by name or number."""

from __future__ import annotations

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
    records = []
    left_numbers, right_numbers = layer_numbers(similarity_map.left), layer_numbers(similarity_map.right)
    for i, left_name in enumerate(similarity_map.left):
        for j, right_name in enumerate(similarity_map.right):
            cell = similarity_map.cell(i, j)
            records.append(
                {
                    "measure": similarity_map.measure,
                    "left": left_name,
                    "right": right_name,
                    "left_model": layer_of(left_name)[0] or None,
                    "left_layer": left_numbers[i],
                    "right_model": layer_of(right_name)[0] or None,
                    "right_layer": right_numbers[j],
                    "value": None if cell.reason else cell.value,
                    "low": _or_none(cell.low),
                    "high": _or_none(cell.high),
                    "null_mean": _or_none(cell.null_mean),
                    "z": _or_none(cell.z),
                    "p": _or_none(cell.p),
                    "p_map": None
                    if similarity_map.p_map is None
                    else _or_none(float(similarity_map.p_map[i, j])),
                    "n": similarity_map.n,
                    "rank_left": cell.rank.left,
                    "rank_right": cell.rank.right,
                    "kept_left": cell.kept.left,
                    "kept_right": cell.kept.right,
                    "reason": cell.reason,
                }
            )
    return records


def _or_none(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def arrow_schema() -> Any:
    """Column types of the table of cells."""
    import pyarrow as pa

    return pa.schema(
        [(c, pa.string() if c in TEXT else pa.int64() if c in WHOLE else pa.float64()) for c in COLUMNS]
    )
