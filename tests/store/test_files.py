"""A file is whole or not there, for whoever looks at any moment."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from microtome.errors import WorkError
from microtome.store.address import digest_file
from microtome.store.files import disk, mark_file, write_whole


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
