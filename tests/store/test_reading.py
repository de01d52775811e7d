"""Files that were changed after they were written are refused in one sentence, whatever is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tiny
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments.change.checkpoints import find_checkpoints
from microtome.experiments.similarity.extraction import extract
from microtome.extraction.rowtable import ROWS, read_grouping
from microtome.store.reading import as_written, read_columns, read_record
from microtome.training.evaluating import WINDOWS, read_windows

BROKEN = [b"", b"[1", b"[]", b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("content", BROKEN)
def test_a_record_that_is_none_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InputError, match=r"run\.json must be as microtome wrote it, but got: "):
        read_record(tmp_path / "run.json")
    assert read_record(tmp_path / "absent.json") == {}


def test_a_missing_name_is_told() -> None:
    with (
        pytest.raises(InputError, match=r"x must be as microtome wrote it, but 'model' is missing\."),
        as_written(Path("x")),
    ):
        json.loads("{}")["model"]


@pytest.mark.parametrize("content", [b"", b"PAR1" + bytes(40) + b"PAR1", b"PAR1PAR1"])
def test_a_table_that_is_none_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(InputError) as told:
        read_columns(tmp_path / "t.parquet")
    assert "t.parquet must be as microtome wrote it, but got: " in str(told.value)
    assert "\n" not in str(told.value)


def _without(table: pa.Table) -> pa.Table:
    return table.drop_columns(["example"])


def _nulls(table: pa.Table) -> pa.Table:
    return table.set_column(0, "example", pa.array([None] * len(table)))


@pytest.mark.parametrize("change", [_without, _nulls])
def test_rows_of_a_recorded_stack(change: Callable[[Any], Any], tmp_path: Path) -> None:
    encoder = load(tiny.save_checkpoint(tmp_path / "m", "bert"))
    (tmp_path / "text.txt").write_text("the cat sleeps\nevery reader knows\n")
    recorded: Any = extract(encoder, str(tmp_path / "text.txt"), store=tmp_path / "store")
    place = tmp_path / "copy"
    place.mkdir()
    pq.write_table(change(pq.read_table(recorded.folder / ROWS)), place / ROWS)
    with pytest.raises(InputError, match=r"rows\.parquet must be as microtome wrote it, but"):
        read_grouping(place)


def test_records_of_a_training(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"run\.json must be as microtome wrote it"):
        find_checkpoints(tmp_path)
    (tmp_path / WINDOWS).write_text('{"longest": "x", "stride": null}')
    with pytest.raises(InputError, match="must be as microtome wrote it, but got: invalid literal"):
        read_windows(tmp_path)
    (tmp_path / WINDOWS).write_text('{"longest": 16, "stride": null}')
    assert read_windows(tmp_path) == (16, None)
