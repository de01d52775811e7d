"""Table of the rows of a recorded stack, with the document or sentence that clusters them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..rows.documents import document_codes
from ..rows.planning import Rows
from ..store.reading import as_written, read_columns

ROWS = "rows.parquet"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grouping:
    """
    The clusters of the rows of a recorded stack: documents or sentences.

    Parameters
    ----------
    codes : ndarray of int of shape (rows,), or None
        The cluster of each row; None where every row is independent.
    unit : str
        The independent unit: "document", "sentence" or "example".
    few : str
        Why the documents of the corpus are not used as clusters; empty where they are, or it has none.
    """

    codes: np.ndarray | None
    unit: str
    few: str


def write_rows(rows: Rows, path: Path) -> None:
    """
    Write a table with the example and the word or token of each row.

    Where the corpus names documents, the column `group` is the document of the row.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def of_rows(values: tuple[str, ...]) -> pa.Array:
        return pa.array(np.array(values, dtype=object)[rows.examples], pa.string())

    columns = {"id": of_rows(rows.ids), "example": rows.examples, "unit": rows.units}
    if rows.groups:
        columns["group"] = of_rows(rows.groups)
    pq.write_table(pa.table(columns), path)


def read_grouping(folder: Path) -> Grouping | None:
    """
    Read the clusters of the rows, as `compare` uses them.

    Parameters
    ----------
    folder : Path
        The folder of a recorded stack.

    Returns
    -------
    Grouping or None
        None where the stack has no table of its rows.
    """
    path = folder / ROWS
    if not path.is_file():
        return None
    table = read_columns(path)
    with as_written(path):
        return _grouping(table)


def _grouping(table: Mapping[str, Any]) -> Grouping:
    examples = np.asarray(table["example"], dtype=np.int64)
    # With rows of whole examples, each example has one row; with words or tokens, a sentence has several.
    one_row_each = len(np.unique(examples)) == len(examples)
    noun = "example" if one_row_each else "sentence"
    few = ""
    if "group" in table:
        _, first, indices = np.unique(examples, return_index=True, return_inverse=True)
        ids, groups = ([table[name][int(row)] for row in first] for name in ("id", "group"))
        codes, few = document_codes(indices, ids, groups, noun)
        if codes is not None:
            return Grouping(codes=codes, unit="document", few=few)
    return Grouping(codes=None if one_row_each else examples, unit=noun, few=few)
