"""A file is whole or not there, for whoever looks at any moment."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tiny
from microtome.encoders.loading import load
from microtome.errors import InputError, WorkError
from microtome.experiments.change.checkpoints import find_checkpoints
from microtome.experiments.similarity.extraction import extract
from microtome.extraction.recording import ROWS, read_grouping
from microtome.store.address import digest_file
from microtome.store.files import as_written, disk, mark_file, read_columns, read_record, write_whole
from microtome.training.evaluating import WINDOWS, read_windows


def test_a_file_is_known_by_its_size_and_content(tmp_path: Path) -> None:
    mark = write_whole(tmp_path / "a", [b"12", memoryview(b"345"), b""])
    assert (tmp_path / "a").read_bytes() == b"12345"
    assert (mark.bytes, mark.blake2b) == (5, digest_file(tmp_path / "a"))
    assert mark_file(tmp_path / "a") == mark
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    path, size, done = tmp_path / "a", 3_000_000, threading.Event()
    write_whole(path, [b"0" * size])

    def write() -> None:
        for n in range(30):
            write_whole(path, [str(n % 10).encode() * 1000] * (size // 1000))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = 0
    while not done.is_set():
        content = path.read_bytes()
        seen += 1
        assert content == content[:1] * size
    thread.join()
    assert seen > 1


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", [b"old"])

    def broken() -> Iterator[bytes]:
        yield b"new"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_whole(tmp_path / "a", broken())
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_is_told_apart_from_no_permission(number: int) -> None:
    with pytest.raises(WorkError) as full, disk(Path("/a")):
        raise OSError(number, "no room")
    assert str(full.value) == "/a must have room for what is written, but got: no room."
    with pytest.raises(WorkError) as caught, disk(Path("/a"), note="all is kept"):
        raise PermissionError(errno.EACCES, "Permission denied", "/a/b")
    assert str(caught.value) == (
        "/a must be readable and writable, but got: [Errno 13] Permission denied: '/a/b'; all is kept."
    )


def test_a_place_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match=r"must be readable and writable, but got: .*No such file"):
        write_whole(tmp_path / "nowhere" / "a", [b""])
    with pytest.raises(WorkError, match=r"must be readable and writable, but got: .*No such file"):
        mark_file(tmp_path / "a")


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
