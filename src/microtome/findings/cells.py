"""How is a map written as a table, one row a cell?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .maps import Map

TEXT = ("measure", "left", "right", "reason")
WHOLE = ("left_layer", "right_layer", "n", "rank_left", "rank_right", "kept_left", "kept_right")
COLUMNS = (
    *("measure", "left", "right", "left_layer", "right_layer", "value", "low", "high", "null_mean"),
    *("z", "p", "p_map", "n", "rank_left", "rank_right", "kept_left", "kept_right", "reason"),
)


def cell_records(one: Map) -> list[dict[str, Any]]:
    """
    List everything known of each cell; what is undefined or unknown is None.

    Parameters
    ----------
    one : Map

    Returns
    -------
    list of dict
        With the keys of `COLUMNS`.
    """
    records = []
    for i, left in enumerate(one.left):
        for j, right in enumerate(one.right):
            cell = one[i, j]
            records.append(
                {
                    "measure": one.measure,
                    "left": left,
                    "right": right,
                    "left_layer": i,
                    "right_layer": j,
                    "value": None if cell.reason else cell.value,
                    "low": _or_none(cell.low),
                    "high": _or_none(cell.high),
                    "null_mean": _or_none(cell.null_mean),
                    "z": _or_none(cell.z),
                    "p": _or_none(cell.p),
                    "p_map": None if one.p_map is None else _or_none(float(one.p_map[i, j])),
                    "n": one.n,
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
