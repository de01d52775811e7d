"""Does the table beside a recorded stack say what each row is, and whose rows err together?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from microtome.extraction.rowtable import ROWS, read_grouping, write_rows
from microtome.rows.options import row_options
from microtome.rows.planning import Rows


def planned(groups: tuple[str, ...] = (), kind: str = "word", each: int = 2) -> Rows:
    """Rows of 24 sentences, the first of which has none."""
    options: Any = row_options(kind)
    return Rows(
        options=options,
        examples=np.repeat(np.arange(1, 25), each),
        units=np.tile(np.arange(each), 24),
        ids=tuple(f"s{k}" for k in range(25)),
        lost={},
        truncated={},
        candidates=24 * each,
        groups=groups,
    )


def test_documents_are_kept_and_read_as_rows_have_them(tmp_path: Path) -> None:
    rows = planned(tuple(f"d{k // 2}" for k in range(25)))
    write_rows(rows, tmp_path / ROWS)
    assert pq.read_table(tmp_path / ROWS).column("group").to_pylist()[:4] == ["d0", "d0", "d1", "d1"]
    found = read_grouping(tmp_path)
    assert found is not None
    assert found.codes is not None
    assert (found.unit, found.few) == (rows.unit, rows.few) == ("document", "")
    assert found.codes.tolist() == rows.clusters.tolist()


def test_few_documents_leave_sentences_and_it_is_said(tmp_path: Path) -> None:
    rows = planned(tuple(f"d{k // 12}" for k in range(25)))
    write_rows(rows, tmp_path / ROWS)
    found = read_grouping(tmp_path)
    assert found is not None
    assert found.codes is not None
    assert (found.unit, found.few) == (rows.unit, rows.few)
    assert found.few.startswith("Only 3 documents are read")
    assert found.codes.tolist() == rows.clusters.tolist()


def test_a_corpus_without_documents_and_a_stack_without_a_table(tmp_path: Path) -> None:
    assert read_grouping(tmp_path) is None
    write_rows(planned(), tmp_path / ROWS)
    assert pq.read_table(tmp_path / ROWS).column_names == ["id", "example", "unit"]
    found = read_grouping(tmp_path)
    assert found is not None
    assert found.codes is not None
    assert (found.unit, len(np.unique(found.codes))) == ("sentence", 24)
    write_rows(planned(kind="cls", each=1), tmp_path / ROWS)
    found = read_grouping(tmp_path)
    assert found is not None
    assert (found.codes, found.unit) == (None, "example")
