"""What failed is recorded until it succeeds, or is forgiven."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from microtome.errors import InputError
from microtome.store.address import address
from microtome.store.shelf import Shelf

ADDRESS = address({"n": 1})


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "store")


def write(folder: Path) -> None:
    (folder / "a").write_text("content")


def test_attempts_are_counted(shelf: Shelf) -> None:
    assert shelf.failures() == {}
    first = shelf.fail(ADDRESS, message="It is wrong.", kind="InputError")
    assert (first.message, first.kind, first.attempts) == ("It is wrong.", "InputError", 1)
    assert first.host == socket.gethostname()
    second = shelf.fail(ADDRESS, message="The disk is full.", kind="WorkError")
    assert (second.message, second.attempts) == ("The disk is full.", 2)
    assert Shelf(shelf.root).failures() == {ADDRESS: second}
    document = json.loads((shelf.root / "failures" / f"{ADDRESS}.json").read_text())
    assert set(document) == {"message", "kind", "attempts", "host", "time"}
    assert shelf.verify() == []


@pytest.mark.parametrize("way", ["put", "work"])
def test_an_entry_ends_the_record(shelf: Shelf, way: str) -> None:
    shelf.fail(ADDRESS, message="It is wrong.", kind="InputError")
    if way == "put":
        shelf.put(write, kind="note", specification={"n": 1})
    else:
        with shelf.work(kind="note", specification={"n": 1}) as work:
            assert set(shelf.failures()) == {ADDRESS}
            work.finish()
    assert shelf.failures() == {}
    assert list((shelf.root / "failures").iterdir()) == []


def test_a_record_beside_an_entry_does_not_count(shelf: Shelf) -> None:
    shelf.put(write, kind="note", specification={"n": 1})
    shelf.fail(ADDRESS, message="It is wrong.", kind="InputError")
    assert shelf.failures() == {}


def test_a_record_can_be_forgiven(shelf: Shelf) -> None:
    assert not shelf.forgive(ADDRESS)
    shelf.fail(ADDRESS, message="It is wrong.", kind="InputError")
    assert shelf.forgive(ADDRESS)
    assert shelf.failures() == {}
    assert shelf.fail(ADDRESS, message="It is wrong.", kind="InputError").attempts == 1


def test_old_records_go_with_old_entries(shelf: Shelf) -> None:
    shelf.fail(ADDRESS, message="It is wrong.", kind="InputError")
    young = address({"n": 2})
    shelf.fail(young, message="It is wrong.", kind="InputError")
    then = time.time() - 40 * 86_400
    os.utime(shelf.root / "failures" / f"{ADDRESS}.json", (then, then))
    assert shelf.gc().removed == ()
    would = shelf.gc(older_than_days=30, dry_run=True)
    assert [(removed.what, removed.name) for removed in would.removed] == [("failure", ADDRESS)]
    assert shelf.gc(older_than_days=30).removed == would.removed
    assert set(shelf.failures()) == {young}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"message": 1}', '{"message": "a", "kind": "b"}'])
def test_a_record_that_cannot_be_read(shelf: Shelf, content: str) -> None:
    shelf.fail(ADDRESS, message="It is wrong.", kind="InputError")
    (shelf.root / "failures" / f"{ADDRESS}.json").write_text(content)
    assert shelf.failures() == {}
    (problem,) = shelf.verify()
    assert f"{ADDRESS}.json must be as microtome wrote it, but" in problem
    assert shelf.fail(ADDRESS, message="It is wrong.", kind="InputError").attempts == 1
    assert shelf.verify() == []


def test_a_file_that_is_no_record(shelf: Shelf) -> None:
    shelf.fail(ADDRESS, message="It is wrong.", kind="InputError")
    (shelf.root / "failures" / "notes.txt").write_text("mine")
    (problem,) = shelf.verify()
    assert problem.endswith("notes.txt must be a record of failures, but its name is none.")
    assert set(shelf.failures()) == {ADDRESS}


def test_what_is_no_failure(shelf: Shelf) -> None:
    wrong: Any = 3
    with pytest.raises(InputError, match="address must be 40 hexadecimal digits, but got"):
        shelf.fail("../x", message="It is wrong.", kind="InputError")
    with pytest.raises(InputError, match="address must be 40 hexadecimal digits, but got"):
        shelf.forgive("../x")
    with pytest.raises(InputError, match="the message of a failure must be text, but got 3"):
        shelf.fail(ADDRESS, message=wrong, kind="InputError")
    assert not shelf.root.exists()
