"""What is each row of a recorded stack? A table beside it, which also says whose rows err together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..rows.documents import document_codes
from ..rows.planning import Rows

ROWS = "rows.parquet"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grouping:
    """
    Which rows of a recorded stack are of one document or sentence.

    Parameters
    ----------
    codes : ndarray of int of shape (rows,), or None
        None where every row is independent.
    unit : str
        What is independent: "document", "sentence" or "example".
    few : str
        Why documents that there are were not taken; empty where there is nothing to say.
    """

    codes: np.ndarray | None
    unit: str
    few: str


def write_rows(rows: Rows, path: Path) -> None:
    """
    Write which example and which word or token each row is, as a table.

    Where the corpus tells of documents, `group` is that of the row.
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
    Read whose rows err together, as `compare` would take them.

    Parameters
    ----------
    folder : Path
        Of a recorded stack.

    Returns
    -------
    Grouping or None
        None where the stack does not say what its rows are.
    """
    import pyarrow.parquet as pq

    path = folder / ROWS
    if not path.is_file():
        return None
    table = pq.read_table(path).to_pydict()
    examples = np.asarray(table["example"], dtype=np.int64)
    # A row of a whole example is the only one of its own; words and tokens of a sentence are several.
    alone = len(np.unique(examples)) == len(examples)
    noun = "example" if alone else "sentence"
    few = ""
    if "group" in table:
        _, first, places = np.unique(examples, return_index=True, return_inverse=True)
        ids, groups = ([table[name][int(row)] for row in first] for name in ("id", "group"))
        codes, few = document_codes(places, ids, groups, noun)
        if codes is not None:
            return Grouping(codes=codes, unit="document", few=few)
    return Grouping(codes=None if alone else examples, unit=noun, few=few)
